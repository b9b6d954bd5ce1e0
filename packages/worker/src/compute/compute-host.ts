// The compute side itself, as it runs in the compute thread. It owns the accelerator and everything loaded
// onto it, and does what `Compute` asks for. Scans start in the order in which they arrive; files are read by
// another thread.

import type { Accelerator, Resident } from "@winnow/accelerator";
import { WinnowError, assertFreeMemory, vectorDimOf } from "@winnow/core";
import type { Clock, Fingerprint } from "@winnow/core";

import type {
  ComputeMemory,
  ContentHandle,
  LoadedReplica,
  LookupBatch,
  LookupBatchAnswer,
  OpenedVersion,
  ReplicaName,
  TableTarget,
  TopKBatch,
  TopKScan,
  VersionDirectory,
} from "./compute.ts";
import { ExclusionIndexes } from "./filters/exclusion.ts";
import { FilterCache } from "./filters/filter-cache.ts";
import { AdmittedSharing } from "./inline/admitted-sharing.ts";
import { SHARED_VALUES_MAX } from "./inline/shared-rows.ts";
import { inSharedMemory, sharedOf } from "./inline/partition-sharing.ts";
import type { AdmittedNews, SharedRows } from "./inline/shared-rows.ts";
import { answerLookups } from "./lookup-batch.ts";
import type {
  ModelReader,
  OpenedModel,
  PartitionSource,
  ReaderHandle,
} from "./reader/model-reader.ts";
import { areSameKeys } from "./packed-keys.ts";
import { loadPartition } from "./partition-load.ts";
import type { ProgressCounter } from "./progress-counter.ts";
import { ResidentTable } from "./resident-table.ts";
import type { ResidentPartition } from "./resident-table.ts";
import { answerTopK } from "./search/top-k-batch.ts";

/** What the compute side needs. */
export interface ComputeHostParts {
  readonly accelerator: Accelerator;
  readonly reader: ModelReader;
  readonly progress: ProgressCounter;
  readonly clock: Clock;
  /** Bytes that the id indexes for exclusions may take together. */
  readonly exclusionBytesMax: number;
  /** Bytes that filters kept on the device for later queries may take together. */
  readonly filterBytesMax: number;
  /** Called when a version has been closed. */
  readonly onClosed?: () => void;
}

const FLOAT_BYTES = 4;

/** Rows on the device, and what their checksums cover besides. */
interface HeldRows extends Pick<PartitionSource, "ids" | "keyed"> {
  /** How many contents hold them. */
  readonly holders: number;
  /** The shares of checksums that were found when they were read. */
  readonly shares: readonly number[];
}

/** An opened content and its loaded partitions. */
interface Content {
  readonly fingerprint: Fingerprint;
  readonly tables: readonly ResidentTable[];
  /** Reads the content's files; replaced when the same content is found in other files. */
  reader: ReaderHandle;
}

/** A loaded partition, as the event loop hears of it. */
export interface LoadedPartition extends LoadedReplica, SharedRows {}

/** Rows that are added to a content. */
interface AddedRows {
  readonly name: ReplicaName;
  readonly resident: Resident;
  readonly rows: HeldRows;
  /** The number under which the event loop may read them. */
  readonly share: number | undefined;
}

/** Opened versions and what is loaded of them. */
export class ComputeHost {
  readonly #parts: ComputeHostParts;
  readonly #indexes: ExclusionIndexes;
  readonly #filters: FilterCache;
  readonly #sharing: AdmittedSharing;
  #admittedListener: ((news: AdmittedNews) => void) | undefined;
  readonly #contents = new Map<ContentHandle, Content>();
  /** Rows on the device, each held by one content or more. */
  readonly #rows = new Map<Resident, HeldRows>();
  /** Host memory of all held partitions. */
  #partitionBytes = 0;
  #lastHandle = 0;
  #scanEndedMs = 0;

  constructor(parts: ComputeHostParts) {
    this.#parts = parts;
    this.#indexes = new ExclusionIndexes(parts.exclusionBytesMax);
    const onAdded = (): void => parts.progress.raise();
    this.#sharing = new AdmittedSharing(parts.accelerator, (news) =>
      this.#admittedListener?.(news),
    );
    const options = { onAdded, shares: this.#sharing, clock: parts.clock };
    this.#filters = new FilterCache(parts.accelerator, parts.filterBytesMax, options);
  }

  /** Resolves if the device is gone for good. */
  get lost(): Promise<WinnowError> {
    return this.#parts.accelerator.lost;
  }

  /** `listener` hears of copies that the event loop may search, and of those that are given up. */
  onAdmittedNews(listener: (news: AdmittedNews) => void): void {
    this.#admittedListener = listener;
  }

  /** Told with every answer, so it must not go through all contents. */
  get memory(): ComputeMemory {
    const { usedBytes, capacityBytes } = this.#parts.accelerator.memory();
    const hostBytes = this.#partitionBytes + this.#indexes.bytes + this.#filters.bytes;
    return { usedBytes: usedBytes + hostBytes, capacityBytes };
  }

  async open(
    { directory, updateBytes }: VersionDirectory,
    siblings: readonly ContentHandle[],
  ): Promise<OpenedVersion> {
    const { reader, progress } = this.#parts;
    const opened = await reader.open(directory, updateBytes);
    progress.raise();
    const twin = siblings.find(
      (handle) => this.#contents.get(handle)?.fingerprint === opened.fingerprint,
    );
    if (twin !== undefined) await this.#readFrom(this.#contentOf(twin), opened.handle);
    return openedVersion(twin ?? (await this.#add(opened)), opened);
  }

  async #add({ handle: reader, fingerprint, tables: specs }: OpenedModel): Promise<ContentHandle> {
    try {
      const tables = specs.map(
        (spec) => new ResidentTable(spec, { release: (rows) => this.#releaseRows(rows) }),
      );
      this.#lastHandle += 1;
      const handle = this.#lastHandle as ContentHandle;
      this.#contents.set(handle, { reader, fingerprint, tables });
      return handle;
    } catch (error) {
      await this.#parts.reader.close(reader);
      throw error;
    }
  }

  /** Reads a content from other files that hold the same: the former files may be gone or overwritten. */
  async #readFrom(content: Content, reader: ReaderHandle): Promise<void> {
    const before = content.reader;
    content.reader = reader;
    await this.#parts.reader.close(before);
  }

  async load(name: ReplicaName, rowsOf?: ContentHandle): Promise<LoadedPartition> {
    const { reader, clock } = this.#parts;
    const { handle, table, partition } = name;
    const held = this.#tableOf(name);
    const startedMs = clock.nowMs();
    const version = this.#contentOf(handle).reader;
    const source = await reader.openPartition({ version, table, partition });
    try {
      const loaded =
        this.#takeRows(source, held, { name, rowsOf }) ??
        (await this.#loadFrom(source, held, name));
      this.#parts.progress.raise();
      return { ...loaded, elapsedMs: clock.nowMs() - startedMs };
    } finally {
      await source.abandon();
    }
  }

  /** Loads a partition onto the device. If it cannot be held, nothing of it stays there. */
  async #loadFrom(
    source: PartitionSource,
    table: ResidentTable,
    name: ReplicaName,
  ): Promise<Omit<LoadedPartition, "elapsedMs">> {
    this.#makeRoom(source);
    const resident = await loadPartition(source, table.spec.kind, this.#parts);
    try {
      const { shares, bytesRead } = source.end();
      const share = this.#shareOf(resident, table);
      const { ids, keyed } = share === undefined ? source : inSharedMemory(source);
      const rows = { holders: 1, shares, ids, keyed };
      const added = this.#addPartition(source, table, { name, resident, rows, share });
      return { ...added, bytesRead };
    } catch (error) {
      await this.#parts.accelerator.release(resident);
      throw error;
    }
  }

  /**
   * Adds a partition with the rows, ids and keys that another content has loaded; `undefined` where that is gone. Ids
   * that were read otherwise would have other attributes: such a partition is read whole, and its checksums tell.
   */
  #takeRows(
    source: PartitionSource,
    table: ResidentTable,
    { name, rowsOf }: { readonly name: ReplicaName; readonly rowsOf: ContentHandle | undefined },
  ): Omit<LoadedPartition, "elapsedMs"> | undefined {
    const from = rowsOf && this.#contents.get(rowsOf)?.tables[name.table];
    if (from?.has(name.partition) !== true) return undefined;
    const { resident } = from.at(name.partition);
    const rows = this.#rows.get(resident)!;
    if (!areSameKeys(source.ids, rows.ids)) return undefined;
    const share = this.#shareOf(resident, table);
    const more = { ...rows, holders: rows.holders + 1 };
    return {
      ...this.#addPartition(source, table, { name, resident, rows: more, share }),
      bytesRead: 0,
    };
  }

  /** @throws WinnowError NOT_FOUND for a content that was closed while its rows were loaded */
  #addPartition(
    { attributes }: PartitionSource,
    table: ResidentTable,
    { name, resident, rows, share }: AddedRows,
  ): Omit<LoadedPartition, "elapsedMs" | "bytesRead"> {
    if (!this.#contents.has(name.handle)) {
      throw new WinnowError("NOT_FOUND", "The version was closed while it was loaded");
    }
    const { ids, keyed, shares } = rows;
    const added = table.add(name.partition, { resident, source: { keyed, attributes }, ids });
    this.#partitionBytes += added.hostBytes;
    this.#rows.set(resident, rows);
    const { spec } = table;
    this.#sharing.name(added, { name, vectorDim: vectorDimOf(spec) });
    const rowBytes = resident.bytes;
    const bytes = rowBytes + added.hostBytes;
    return { bytes, rowBytes, shares, ...sharedOf(added, { share, spec, keyed }) };
  }

  /** Frees rows when the last content that holds them releases them. */
  async #releaseRows(resident: Resident): Promise<void> {
    const rows = this.#rows.get(resident)!;
    if (rows.holders > 1) {
      this.#rows.set(resident, { ...rows, holders: rows.holders - 1 });
    } else {
      this.#rows.delete(resident);
      await this.#parts.accelerator.release(resident);
    }
  }

  /**
   * The number under which the event loop may search a partition itself, or look keys up in it; `undefined` for a
   * partition that is searched and takes longer than the event loop may scan.
   */
  #shareOf(resident: Resident, { spec }: ResidentTable): number | undefined {
    const isShort = resident.rows * resident.dim <= SHARED_VALUES_MAX;
    if (spec.kind === "candidate" && !isShort) return undefined;
    return this.#parts.accelerator.share?.(resident);
  }

  prepareFilters(
    target: TableTarget,
    texts: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    return this.#prepareFilters(target, { texts, isSearchNext: false }, signal);
  }

  /** Evaluates the filters that are not known yet. Ends early if a partition is released in the meantime. */
  async #prepareFilters(
    target: TableTarget,
    { texts, isSearchNext }: { readonly texts: readonly string[]; readonly isSearchNext: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    if (texts.length === 0) return;
    const table = this.#tableOf(target);
    const partitions = Array.from(target.partitions, (partition) => table.at(partition));
    await this.#filters.prepare({ texts: new Set(texts), partitions, isSearchNext }, () => {
      this.#parts.progress.raise();
      signal.throwIfAborted();
      return partitions.every((held) => table.holds(held));
    });
  }

  /**
   * Copies of admitted rows only save time, so they give way to a partition that must be loaded. One that the container
   * has no memory for is refused before it is read. @throws WinnowError RESOURCE_EXHAUSTED
   */
  #makeRoom({ rows, dim }: PartitionSource): void {
    const { accelerator } = this.#parts;
    const { usedBytes, capacityBytes } = accelerator.memory();
    const bytes = rows * dim * FLOAT_BYTES;
    if (usedBytes + 2 * bytes > capacityBytes) this.#filters.dropCopies();
    if (accelerator.kind === "cpu") assertFreeMemory(`A partition of ${rows} rows`, bytes);
  }

  async release(name: ReplicaName): Promise<void> {
    const table = this.#tableOf(name);
    if (!table.has(name.partition)) return;
    await this.#releasePartition(table, table.at(name.partition));
  }

  async close(handle: ContentHandle): Promise<void> {
    await this.#close(handle);
    this.#parts.onClosed?.();
  }

  async #close(handle: ContentHandle): Promise<void> {
    const { tables, reader } = this.#contentOf(handle);
    this.#contents.delete(handle);
    for (const table of tables) {
      for (const held of table.held()) await this.#releasePartition(table, held);
    }
    await this.#parts.reader.close(reader);
  }

  /** Releases a held partition, with its indexes and filters. */
  async #releasePartition(table: ResidentTable, held: ResidentPartition): Promise<void> {
    this.#indexes.forget(held);
    this.#filters.forget(held);
    this.#partitionBytes -= held.hostBytes;
    await table.release(held.partition);
  }

  program(handle: ContentHandle, tableBytesMax: number): Promise<Uint8Array> {
    return this.#parts.reader.program(this.#contentOf(handle).reader, tableBytesMax);
  }

  /** Told of searches: reading gives way to them from now on. */
  beginsToServe(): void {
    this.#parts.reader.beginsToServe?.();
  }

  async topK(batch: TopKBatch, signal: AbortSignal): Promise<TopKScan> {
    const { accelerator, clock } = this.#parts;
    this.beginsToServe();
    const arrivedMs = clock.nowMs();
    const table = this.#tableOf(batch.target);
    const onStep = (): void => this.#parts.progress.raise();
    const parts = { accelerator, table, indexes: this.#indexes, filters: this.#filters, onStep };
    const texts = batch.asks.flatMap(({ filters = [] }) => filters);
    let found: Awaited<ReturnType<typeof answerTopK>>;
    try {
      await this.#prepareFilters(batch.target, { texts, isSearchNext: true }, signal);
      found = await answerTopK(parts, batch, signal);
    } finally {
      this.#filters.trim();
    }
    // Scans run one after the other: a scan that arrived during another one began when that one ended.
    const startedMs = Math.max(arrivedMs, this.#scanEndedMs);
    this.#scanEndedMs = clock.nowMs();
    const waitUs = Math.round((startedMs - arrivedMs) * 1000);
    return { ...found, waitUs, computeUs: this.#finish(startedMs) };
  }

  async lookup(batch: LookupBatch): Promise<LookupBatchAnswer> {
    this.beginsToServe();
    const startedMs = this.#parts.clock.nowMs();
    const table = this.#tableOf(batch);
    const answers = await answerLookups({ accelerator: this.#parts.accelerator, table }, batch);
    return { answers, computeUs: this.#finish(startedMs) };
  }

  async shutdown(): Promise<void> {
    this.#contents.clear();
    this.#partitionBytes = 0;
    await this.#parts.reader.shutdown();
    await this.#parts.accelerator.close();
  }

  #finish(startedMs: number): number {
    this.#parts.progress.raise();
    return Math.round((this.#parts.clock.nowMs() - startedMs) * 1000);
  }

  #contentOf(handle: ContentHandle): Content {
    const content = this.#contents.get(handle);
    if (content !== undefined) return content;
    throw new WinnowError("NOT_FOUND", "The version is not open any more");
  }

  #tableOf({ handle, table: number }: Pick<ReplicaName, "handle" | "table">): ResidentTable {
    const table = this.#contentOf(handle).tables[number];
    if (table !== undefined) return table;
    throw new WinnowError("NOT_FOUND", `The version has no table ${number}`);
  }
}

function openedVersion(handle: ContentHandle, opened: OpenedModel): OpenedVersion {
  const { fingerprint, rowsFingerprint, changes } = opened;
  const tables = opened.tables.map((table, at) => {
    const { name, kind, rows, dim, partitions, sources } = table;
    const { attributes: own, masks, original } = table.kind === "candidate" ? table : {};
    const attributes = masks === undefined ? own : [...(own ?? []), ...masks];
    const partitionBytes = opened.partitionBytes[at] ?? [];
    const cut = { rows, dim, partitions, ...(original && { original }) };
    return { name, kind, ...cut, partitionBytes, attributes, sources };
  });
  return { handle, fingerprint, rowsFingerprint, changes, tables };
}
