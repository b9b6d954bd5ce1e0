// The CPU accelerator: int8 codes filter with a proven bound, survivors are scored canonically, all of
// it native and off the event loop. This side checks shapes, keeps the account of memory, and queues.

import { cpus } from "node:os";
import { WinnowError } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import type {
  Accelerator,
  AcceleratorMemory,
  LoadShape,
  Resident,
  TopKQuery,
} from "../accelerator.ts";
import { resolveAcceleratorOptions } from "../accelerator-options.ts";
import type { AcceleratorOptions, AcceleratorSettings } from "../accelerator-options.ts";
import { nextLoopTurn } from "../loop-turn.ts";
import { MemoryBudget } from "../memory-budget.ts";
import {
  checkChunkShape,
  checkComplete,
  checkLoadShape,
  checkSearched,
  checkTopKQuery,
  notFinite,
} from "../top-k-request.ts";
import type { CheckedTopKQuery } from "../top-k-request.ts";
import { WorkQueue } from "../work-queue.ts";
import type {
  DeviceHandle,
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
  /** Is told what each search cost. */
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

class CpuAccelerator implements Accelerator {
  readonly kind = "cpu";
  readonly device: string;
  readonly lost: Promise<WinnowError> = new Promise(() => undefined);
  readonly #addon: NativeAddon;
  readonly #settings: CpuSettings;
  readonly #handle: DeviceHandle;
  readonly #budget: MemoryBudget;
  readonly #queue = new WorkQueue();
  /** One build at a time: each takes a thread of Node's pool, which files need too. */
  readonly #builds = new WorkQueue();
  readonly #tables = new Map<Resident, TableHandle>();
  /** Those loaded for gathering only. */
  readonly #gathered = new WeakSet<Resident>();
  #closing: Promise<void> | undefined;

  constructor(addon: NativeAddon, settings: CpuSettings) {
    const { handle, kernel } = addon.createDevice(settings.threads, settings.instructionSet);
    const model = cpus()[0]?.model.trim() ?? "CPU";
    const threads = `${settings.threads} thread${settings.threads === 1 ? "" : "s"}`;
    this.device = `${model}, ${threads}, ${kernel}`;
    this.#addon = addon;
    this.#settings = settings;
    this.#handle = handle;
    this.#budget = new MemoryBudget(settings.capacityBytes);
  }

  memory(): AcceleratorMemory {
    return this.#budget.memory();
  }

  async load(
    shape: LoadShape,
    chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>,
    signal?: AbortSignal,
  ): Promise<Resident> {
    this.#checkOpen();
    checkLoadShape(shape);
    signal?.throwIfAborted();
    const { rows, dim, firstRow } = shape;
    const native: NativeTableShape = [rows, dim, firstRow, shape.use === "search"];
    const { occupied, building } = this.#addon.tableBytes(...native);
    this.#budget.reserve(occupied + building);
    let table: TableHandle | undefined;
    try {
      table = this.#addon.createTable(...native);
      await this.#fill(table, { shape, chunks, signal });
      await this.#build(table, signal);
      signal?.throwIfAborted();
      this.#checkOpen();
    } catch (error) {
      if (table !== undefined) this.#addon.releaseTable(table);
      this.#budget.giveBack(occupied + building);
      throw outOfMemory(error) ?? error;
    }
    this.#budget.giveBack(building);
    const resident: Resident = Object.freeze({ rows, dim, firstRow, bytes: occupied });
    this.#tables.set(resident, table);
    if (shape.use === "gather") this.#gathered.add(resident);
    return resident;
  }

  async topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock> {
    this.#checkOpen();
    const checked = checkTopKQuery(query);
    const tables = query.residents.map((resident) => this.#tableOf(resident));
    checkSearched(query.residents, this.#gathered);
    const { queries, room } = checked;
    if (queries === 0 || room === 0) return emptyBlock(queries);
    const native = nativeQuery(checked, tables, this.#settings.boundWeights);
    const { counts, scores, rows } = await this.#queue.run(
      () => this.#search(native, signal),
      signal,
    );
    return { queries, k: room, counts, scores, rows };
  }

  async gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array> {
    this.#checkOpen();
    const table = this.#tableOf(resident);
    for (const row of localRows) {
      if (row >= resident.rows)
        throw new RangeError(`row ${row} of a resident of ${resident.rows}`);
    }
    const gathered = new Float32Array(localRows.length * resident.dim);
    this.#addon.gatherRows(table, localRows, gathered);
    return gathered;
  }

  async release(resident: Resident): Promise<void> {
    const table = this.#tableOf(resident);
    this.#tables.delete(resident);
    await this.#queue.idle();
    this.#addon.releaseTable(table);
    this.#budget.giveBack(resident.bytes);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#queue.idle();
    await Promise.all([...this.#tables.keys()].map((resident) => this.release(resident)));
    this.#addon.releaseDevice(this.#handle);
  }

  async #fill(table: TableHandle, { shape, chunks, signal }: Filling): Promise<void> {
    const progress = { shape, taken: 0 };
    for await (const chunk of chunks) {
      signal?.throwIfAborted();
      checkChunkShape(progress, chunk);
      const finite = this.#addon.appendRows(table, chunk);
      if (finite < chunk.length) throw notFinite(progress, chunk, finite);
      progress.taken += chunk.length;
      await nextLoopTurn();
    }
    signal?.throwIfAborted();
    checkComplete(progress);
  }

  /** Also after an abort, the table stays untouched until its build has ended. */
  async #build(table: TableHandle, signal: AbortSignal | undefined): Promise<void> {
    await this.#builds.run(async () => {
      signal?.throwIfAborted();
      await this.#addon.buildTable(table);
    });
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

  #tableOf(resident: Resident): TableHandle {
    const table = this.#tables.get(resident);
    if (table === undefined) throw new RangeError("the resident is not on this accelerator");
    return table;
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new WinnowError("UNAVAILABLE", "The accelerator is closed");
    }
  }
}

interface Filling {
  readonly shape: LoadShape;
  readonly chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>;
  readonly signal: AbortSignal | undefined;
}

function nativeQuery(
  query: CheckedTopKQuery,
  tables: readonly TableHandle[],
  boundWeights: Float64Array | undefined,
): NativeQuery {
  const { vectors, room, admittedRows, excludedRows } = query;
  if (excludedRows === undefined) {
    return [tables, vectors, room, undefined, undefined, admittedRows, boundWeights];
  }
  const starts = new Uint32Array(excludedRows.length + 1);
  for (const [index, rows] of excludedRows.entries()) {
    starts[index + 1] = starts[index]! + (rows?.length ?? 0);
  }
  const joined = new Uint32Array(starts.at(-1)!);
  for (const [index, rows] of excludedRows.entries()) {
    if (rows !== undefined) joined.set(rows, starts[index]);
  }
  return [tables, vectors, room, joined, starts, admittedRows, boundWeights];
}

function emptyBlock(queries: number): TopKBlock {
  return {
    queries,
    k: 0,
    counts: new Uint32Array(queries),
    scores: new Float32Array(0),
    rows: new Uint32Array(0),
  };
}

/** RESOURCE_EXHAUSTED for the addon's ENOMEM. */
function outOfMemory(error: unknown): WinnowError | undefined {
  const isMemory = error instanceof Error && "code" in error && error.code === "ENOMEM";
  if (!isMemory) return undefined;
  return new WinnowError("RESOURCE_EXHAUSTED", `Cannot continue: ${error.message}`, {
    cause: error,
  });
}
