// A compute side made of a plan: directories with their tables, loads that take virtual time, and
// failures on demand. For tests of the control logic, which must not care what a device is.

import { WinnowError, fingerprint, sleep } from "@winnow/core";
import type { Clock, Fingerprint } from "@winnow/core";

import type {
  Compute,
  ComputeFailure,
  ContentHandle,
  LoadedReplica,
  LookupBatch,
  LookupBatchAnswer,
  OpenedTable,
  OpenedVersion,
  ReplicaName,
  TopKBatch,
  TopKBatchAnswer,
  VersionDirectory,
} from "../compute.ts";

/** What rows take of the memory of a replica; the rest are ids and attributes. */
const ROWS_RATIO = 0.8;

/** A table of `partitions` partitions of `bytes` each. */
export function fakeTable(name: string, partitions: number, bytes = 100): OpenedTable {
  const partitionBytes = Array.from({ length: partitions }, () => bytes);
  const checksum = partitionBytes.reduce((sum, _, partition) => sum ^ partition, 0);
  const sources = [{ tensor: name, file: "variables.data-00000-of-00001", checksum }];
  return {
    name,
    kind: "candidate",
    rows: partitions * 10,
    dim: 2,
    partitions,
    partitionBytes,
    sources,
  };
}

/** What a test may set. */
export interface FakePlan {
  /** Tables by directory. */
  readonly directories: Map<string, readonly OpenedTable[]>;
  /** Contents of replaced directories: `/m/1` may hold `/m/1b`. Others hold one of their name. */
  readonly contents: Map<string, string>;
  /** Contents that differ from another one, by its name, in the attributes of their items alone. */
  readonly describedAnew: Map<string, string>;
  /** Thrown by open of a content, or by load of `content#table/partition`. */
  readonly failures: Map<string, WinnowError>;
  /** `content#table/partition` that are read otherwise than they were written. */
  readonly corrupt: Set<string>;
  loadMs: number;
  /** Bytes that a replica occupies ÷ bytes that its table states. */
  overheadRatio: number;
  /** Bytes that a replica occupies at least. */
  leastBytes: number;
  capacityBytes: number;
}

/** A new plan with nothing in it. */
export function fakePlan(): FakePlan {
  return {
    directories: new Map(),
    contents: new Map(),
    describedAnew: new Map(),
    failures: new Map(),
    corrupt: new Set(),
    loadMs: 10,
    overheadRatio: 1,
    leastBytes: 0,
    capacityBytes: 1e9,
  };
}

/** The checksum share of a partition; those of added items have none. */
function shareOf({ table, partition }: ReplicaName, tables: readonly OpenedTable[]): number {
  const own = tables[table]?.original?.partitions ?? Infinity;
  return partition < own ? partition : 0;
}

/** Counts the memory of what it holds, and records every request. */
export class FakeCompute implements Compute {
  readonly device = { accelerator: "fake", device: "a plan" };
  readonly plan: FakePlan;
  /** Every request in order: `open content`, `load content#table/partition`, … */
  readonly requests: string[] = [];
  /** Answers to scans; a test may hold them back. */
  scan: (batch: TopKBatch) => Promise<TopKBatchAnswer> = () => Promise.reject(new Error("no scan"));
  /** Answers to look-ups. */
  gather: (batch: LookupBatch) => Promise<LookupBatchAnswer> = () =>
    Promise.resolve({ answers: [], computeUs: 0 });
  progress = 0;
  pending = 0;
  readonly #clock: Clock;
  readonly #contents = new Map<ContentHandle, FakeContent>();
  #lastHandle = 0;
  readonly #held = new Map<string, number>();
  #failureListener: ((failure: ComputeFailure) => void) | undefined;

  constructor(plan: FakePlan, clock: Clock) {
    this.plan = plan;
    this.#clock = clock;
  }

  get memory() {
    const usedBytes = [...this.#held.values()].reduce((sum, bytes) => sum + bytes, 0);
    return { usedBytes, capacityBytes: this.plan.capacityBytes };
  }

  /** `content#table/partition` of everything that is loaded. */
  get held(): string[] {
    return [...this.#held.keys()].toSorted();
  }

  /** Names of the open contents. */
  get openContents(): string[] {
    return [...this.#contents.values()].map(({ content }) => content).toSorted();
  }

  async open(
    { directory }: VersionDirectory,
    siblings: readonly ContentHandle[],
  ): Promise<OpenedVersion> {
    const content = this.plan.contents.get(directory) ?? directory;
    await this.#work(`open ${content}`, content);
    const tables = this.plan.directories.get(directory) ?? [];
    const print = contentPrint(content);
    const twin = siblings.find((handle) => this.#contents.get(handle)?.content === content);
    const rowsFingerprint = contentPrint(this.plan.describedAnew.get(content) ?? content);
    if (twin !== undefined) return { handle: twin, fingerprint: print, rowsFingerprint, tables };
    this.#lastHandle += 1;
    const handle = this.#lastHandle as ContentHandle;
    this.#contents.set(handle, { content, tables });
    return { handle, fingerprint: print, rowsFingerprint, tables };
  }

  async load(name: ReplicaName, rowsOf?: ContentHandle): Promise<LoadedReplica> {
    const replica = this.#replicaOf(name);
    const rows = rowsOf === undefined ? undefined : this.#contents.get(rowsOf)?.content;
    await this.#work(
      rows === undefined ? `load ${replica}` : `load ${replica} as ${rows}`,
      replica,
    );
    const tables = this.#contents.get(name.handle)?.tables ?? [];
    const statedBytes = tables[name.table]?.partitionBytes[name.partition] ?? 0;
    const bytes = Math.max(this.plan.leastBytes, statedBytes * this.plan.overheadRatio);
    const rowBytes = Math.floor(bytes * ROWS_RATIO);
    this.#held.set(replica, rows === undefined ? bytes : bytes - rowBytes);
    const shares = [shareOf(name, tables) ^ Number(this.plan.corrupt.has(replica))];
    return { bytes, rowBytes, bytesRead: bytes, elapsedMs: this.plan.loadMs, shares };
  }

  async release(name: ReplicaName): Promise<void> {
    this.requests.push(`release ${this.#replicaOf(name)}`);
    this.#held.delete(this.#replicaOf(name));
  }

  async close(handle: ContentHandle): Promise<void> {
    const content = this.#contents.get(handle)?.content;
    this.requests.push(`close ${content}`);
    this.#contents.delete(handle);
    for (const key of this.#held.keys()) if (key.startsWith(`${content}#`)) this.#held.delete(key);
  }

  async program(): Promise<Uint8Array> {
    return new Uint8Array();
  }

  topK(batch: TopKBatch): Promise<TopKBatchAnswer> {
    return this.scan(batch);
  }

  async prepareFilters(): Promise<void> {}

  lookup(batch: LookupBatch): Promise<LookupBatchAnswer> {
    return this.gather(batch);
  }

  onFailure(listener: (failure: ComputeFailure) => void): void {
    this.#failureListener = listener;
  }

  /** Pretends that the thread died. */
  crash(): void {
    const error = new WinnowError("UNAVAILABLE", "The compute thread ended");
    this.#failureListener?.({ lost: "thread", error });
  }

  async shutdown(): Promise<void> {
    this.#held.clear();
  }

  #replicaOf(name: ReplicaName): string {
    return `${this.#contents.get(name.handle)?.content}#${name.table}/${name.partition}`;
  }

  async #work(request: string, target: string): Promise<void> {
    this.requests.push(request);
    this.pending += 1;
    await sleep(this.#clock, this.plan.loadMs);
    this.pending -= 1;
    this.progress += 1;
    const failure = this.plan.failures.get(target);
    if (failure !== undefined) throw failure;
  }
}

/** The fingerprint of a content by its name. */
export function contentPrint(content: string): Fingerprint {
  return fingerprint(`content of ${content}`);
}

/** The content that a handle stands for. */
interface FakeContent {
  readonly content: string;
  readonly tables: readonly OpenedTable[];
}
