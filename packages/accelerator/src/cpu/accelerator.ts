// The CPU accelerator: int8 codes filter rows with a proven bound, and the rows left are scored
// canonically, all in native code off the event loop. This file checks shapes, queues calls, and
// passes rows and queries to the addon.

import { cpus } from "node:os";
import type { WinnowError } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import type {
  Accelerator,
  AcceleratorMemory,
  LoadShape,
  Resident,
  RowFilter,
  TopKQuery,
} from "../accelerator.ts";
import { resolveAcceleratorOptions } from "../accelerator-options.ts";
import type { AcceleratorOptions, AcceleratorSettings } from "../accelerator-options.ts";
import { MemoryBudget } from "../residents/memory-budget.ts";
import { ResidentStore } from "../residents/resident-store.ts";
import { takeRows } from "../residents/row-taking.ts";
import type { RowSource } from "../residents/row-taking.ts";
import {
  checkLoadShape,
  checkLocalRows,
  checkTopKQuery,
  emptyBlock,
  notFinite,
} from "../queries/top-k-request.ts";
import type { CheckedTopKQuery } from "../queries/top-k-request.ts";
import { WorkQueue } from "../work-queue.ts";
import { NO_FILTER, isFastKernel, outOfMemory } from "./native-addon.ts";
import { WaitGuard } from "./wait-guard.ts";
import type {
  DeviceHandle,
  FilterHandle,
  NativeAddon,
  NativeAnswer,
  NativeQuery,
  NativeTableShape,
  TableHandle,
} from "./native-addon.ts";

/** Options of `createCpuAccelerator` beyond those of every accelerator; for tests. */
export interface CpuAcceleratorOptions extends AcceleratorOptions {
  /** Weakens parts of the bound, to show that each is needed. */
  readonly boundWeights?: Float64Array | undefined;
  /** Called with the answer and the cost of each search. */
  readonly onSearch?: ((answer: NativeAnswer) => void) | undefined;
}

/** Opens the CPU accelerator on a loaded addon. */
export function createCpuAccelerator(
  addon: NativeAddon,
  options: CpuAcceleratorOptions,
): Accelerator {
  return new CpuAccelerator(addon, { ...options, ...resolveAcceleratorOptions(options) });
}

type CpuSettings = AcceleratorSettings & CpuAcceleratorOptions;

/**
 * A search of at most this many values (rows × dim × queries), which takes a few milliseconds, is run by the
 * thread that asks for it. Handing it to a thread of Node's pool and back wakes two threads, which takes as
 * long as scanning some hundred thousand values.
 */
const WAITED_FOR_VALUES_MAX = 2 ** 27;
/** Values that such a search may score one by one: again a few milliseconds. */
const WAITED_FOR_SCORED_MAX = 2 ** 21;

class CpuAccelerator implements Accelerator {
  readonly kind = "cpu";
  readonly device: string;
  readonly lost: Promise<WinnowError> = new Promise(() => undefined);
  readonly #addon: NativeAddon;
  readonly #settings: CpuSettings;
  readonly #handle: DeviceHandle;
  readonly #waitedForValuesMax: number;
  /** By the first resident of a search. */
  readonly #guards = new WeakMap<Resident, WaitGuard>();
  readonly #residents: ResidentStore<TableHandle>;
  readonly #filters = new WeakMap<RowFilter, FilterHandle>();
  readonly #queue = new WorkQueue();
  /**
   * One build at a time, because each takes a thread of Node's pool, which file access needs too.
   */
  readonly #builds = new WorkQueue();
  #closing: Promise<void> | undefined;

  constructor(addon: NativeAddon, settings: CpuSettings) {
    const { handle, kernel } = addon.createDevice(settings.threads, settings.instructionSet);
    const model = cpus()[0]?.model.trim() ?? "CPU";
    const threads = `${settings.threads} thread${settings.threads === 1 ? "" : "s"}`;
    this.device = `${model}, ${threads}, ${kernel}`;
    this.#addon = addon;
    this.#settings = settings;
    this.#handle = handle;
    this.#waitedForValuesMax = isFastKernel(kernel) ? WAITED_FOR_VALUES_MAX : 0;
    this.#residents = new ResidentStore({
      budget: new MemoryBudget(settings.capacityBytes),
      idle: () => this.#queue.idle(),
      free: (table) => addon.releaseTable(table),
    });
  }

  memory(): AcceleratorMemory {
    return this.#residents.memory();
  }

  async load(
    shape: LoadShape,
    chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>,
    signal?: AbortSignal,
  ): Promise<Resident> {
    this.#residents.checkOpen();
    checkLoadShape(shape);
    signal?.throwIfAborted();
    const native: NativeTableShape = [
      shape.rows,
      shape.dim,
      shape.firstRow,
      shape.use === "search",
    ];
    const bytes = this.#addon.tableBytes(...native);
    return this.#residents.add(shape, bytes, () =>
      this.#makeTable(native, { shape, chunks, signal }),
    );
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#residents.checkOpen();
    const checked = checkTopKQuery(query);
    const tables = query.residents.map((resident) => this.#residents.searchable(resident));
    const { queries, room } = checked;
    if (queries === 0 || room === 0) return emptyBlock(queries);
    const native = nativeQuery(checked, {
      tables,
      filters: this.#nativeFilters(checked),
      boundWeights: this.#settings.boundWeights,
    });
    const guard = this.#guardOf(query.residents[0]!);
    const values = checked.rows * checked.dim;
    // While other searches run, a search is queued, so that their answers do not wait for it.
    const isWaitedFor =
      this.#queue.isIdle && values * queries <= this.#waitedForValuesMax && guard.mayWait();
    const { counts, scores, rows, denseQueries } = await this.#queue.run(
      () => (isWaitedFor ? this.#searchNow(native) : this.#search(native, signal)),
      signal,
    );
    if (isWaitedFor) guard.searched(values * denseQueries);
    return { queries, k: room, counts, scores, rows };
  }

  filter(resident: Resident, admittedRows: Uint8Array): RowFilter {
    const table = this.#residents.searchable(resident);
    try {
      const { handle, admitted, bytes } = this.#addon.createFilter(table, admittedRows);
      const filter: RowFilter = Object.freeze({ resident, admitted, bytes });
      this.#filters.set(filter, handle);
      return filter;
    } catch (error) {
      throw outOfMemory(error) ?? error;
    }
  }

  releaseFilter(filter: RowFilter): void {
    const handle = this.#filters.get(filter);
    if (handle === undefined) return;
    this.#filters.delete(filter);
    // Searches in the queue already have the handle.
    void this.#queue.idle().then(() => this.#addon.releaseFilter(handle));
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#residents.checkOpen();
    const table = this.#residents.held(resident);
    checkLocalRows(resident, localRows);
    const gathered = new Float32Array(localRows.length * resident.dim);
    this.#addon.gatherRows(table, localRows, gathered);
    return gathered;
  }

  share(resident: Resident): number {
    return this.#addon.shareTable(this.#residents.held(resident));
  }

  shareFilter(filter: RowFilter): number {
    return this.#addon.shareFilter(this.#handleOf(filter));
  }

  release(resident: Resident): Promise<void> {
    return this.#residents.release(resident);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#residents.close();
    this.#addon.releaseDevice(this.#handle);
  }

  /** A table with all its rows, ready to be searched. A table that cannot be completed is freed. */
  async #makeTable(native: NativeTableShape, source: RowSource): Promise<TableHandle> {
    let table: TableHandle | undefined;
    try {
      table = this.#addon.createTable(...native);
      await this.#fill(table, source);
      await this.#build(table, source.signal);
      source.signal?.throwIfAborted();
      return table;
    } catch (error) {
      if (table !== undefined) this.#addon.releaseTable(table);
      throw outOfMemory(error) ?? error;
    }
  }

  #fill(table: TableHandle, source: RowSource): Promise<void> {
    return takeRows(source, async (chunk, progress) => {
      const finite = await this.#addon.appendRows(table, chunk);
      if (finite < chunk.length) throw notFinite(progress, chunk, finite);
    });
  }

  /** Waits for the build even after an abort: a table must not be freed while it is being built. */
  async #build(table: TableHandle, signal: AbortSignal | undefined): Promise<void> {
    await this.#builds.run(async () => {
      signal?.throwIfAborted();
      await this.#addon.buildTable(table);
    });
  }

  /** Handles of the distinct lists of filters, and which query has which of them. */
  #nativeFilters({ filters }: CheckedTopKQuery): NativeFilters | undefined {
    if (filters === undefined) return undefined;
    const numbers = new Map<readonly RowFilter[], number>();
    const handles: FilterHandle[] = [];
    const filterOf = Uint32Array.from(filters, (list) => {
      if (list === undefined) return NO_FILTER;
      const known = numbers.get(list);
      if (known !== undefined) return known;
      for (const filter of list) handles.push(this.#handleOf(filter));
      numbers.set(list, numbers.size);
      return numbers.size - 1;
    });
    return { handles, filterOf };
  }

  #handleOf(filter: RowFilter): FilterHandle {
    const handle = this.#filters.get(filter);
    if (handle === undefined) throw new RangeError("the filter is not on this accelerator");
    return handle;
  }

  #guardOf(resident: Resident): WaitGuard {
    const known = this.#guards.get(resident);
    if (known !== undefined) return known;
    const guard = new WaitGuard(WAITED_FOR_SCORED_MAX);
    this.#guards.set(resident, guard);
    return guard;
  }

  /** Searches while this thread waits. */
  async #searchNow(query: NativeQuery): Promise<NativeAnswer> {
    try {
      const found = this.#addon.runSearch(this.#handle, ...query);
      this.#settings.onSearch?.(found);
      return found;
    } catch (error) {
      throw outOfMemory(error) ?? error;
    }
  }

  async #search(query: NativeQuery, signal: AbortSignal | undefined): Promise<NativeAnswer> {
    const { handle, answer } = this.#addon.startSearch(this.#handle, ...query);
    const cancel = (): void => this.#addon.cancelSearch(handle);
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      const found = await answer;
      this.#settings.onSearch?.(found);
      return found;
    } catch (error) {
      signal?.throwIfAborted();
      throw outOfMemory(error) ?? error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }
}

interface NativeFilters {
  readonly handles: readonly FilterHandle[];
  readonly filterOf: Uint32Array;
}

interface NativeParts {
  readonly tables: readonly TableHandle[];
  readonly filters: NativeFilters | undefined;
  readonly boundWeights: Float64Array | undefined;
}

function nativeQuery(
  { vectors, room, excludedRows }: CheckedTopKQuery,
  { tables, filters, boundWeights }: NativeParts,
): NativeQuery {
  const rest = [filters?.handles, filters?.filterOf, boundWeights] as const;
  if (excludedRows === undefined) {
    return [tables, vectors, room, undefined, undefined, ...rest];
  }
  const starts = new Uint32Array(excludedRows.length + 1);
  for (const [index, rows] of excludedRows.entries()) {
    starts[index + 1] = starts[index]! + (rows?.length ?? 0);
  }
  const joined = new Uint32Array(starts.at(-1)!);
  for (const [index, rows] of excludedRows.entries()) {
    if (rows !== undefined) joined.set(rows, starts[index]);
  }
  return [tables, vectors, room, joined, starts, ...rest];
}
