// A compute side made of a plan: directories with their tables, loads that take virtual time, and
// failures on demand. For tests of the control logic, which must not care what a device is.

import { WinnowError, fingerprint, sleep } from "@winnow/core";
import type { Clock } from "@winnow/core";

import type {
  Compute,
  ComputeFailure,
  LoadedReplica,
  LookupBatchAnswer,
  OpenedTable,
  OpenedVersion,
  ReplicaName,
  TopKBatch,
  TopKBatchAnswer,
  VersionName,
} from "./compute/compute.ts";

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
  /** Thrown by open of a directory, or by load of `directory#table/partition`. */
  readonly failures: Map<string, WinnowError>;
  /** `directory#table/partition` that are read as something else than was written. */
  readonly corrupt: Set<string>;
  loadMs: number;
  /** What a replica occupies ÷ what its table says. */
  overheadRatio: number;
  /** What a replica occupies at least. */
  leastBytes: number;
  capacityBytes: number;
}

/** A new plan with nothing in it. */
export function fakePlan(): FakePlan {
  return {
    directories: new Map(),
    failures: new Map(),
    corrupt: new Set(),
    loadMs: 10,
    overheadRatio: 1,
    leastBytes: 0,
    capacityBytes: 1e9,
  };
}

/** Counts what it holds and tells what it was asked for. */
export class FakeCompute implements Compute {
  readonly device = { accelerator: "fake", device: "a plan" };
  readonly plan: FakePlan;
  /** Every request in order: `open dir`, `load dir#table/partition`, … */
  readonly requests: string[] = [];
  /** Answers to scans; a test may hold them back. */
  scan: (batch: TopKBatch) => Promise<TopKBatchAnswer> = () => Promise.reject(new Error("no scan"));
  progress = 0;
  pending = 0;
  readonly #clock: Clock;
  readonly #directories = new Map<string, string>();
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

  /** `directory#table/partition` of everything that is loaded. */
  get held(): string[] {
    return [...this.#held.keys()].toSorted();
  }

  async open(name: VersionName, directory: string): Promise<OpenedVersion> {
    this.#directories.set(keyOf(name), directory);
    await this.#work(`open ${directory}`, directory);
    const tables = this.plan.directories.get(directory) ?? [];
    return { fingerprint: fingerprint(`content of ${directory}`), tables };
  }

  async load(name: ReplicaName): Promise<LoadedReplica> {
    const replica = this.#replicaOf(name);
    await this.#work(`load ${replica}`, replica);
    const tables = this.plan.directories.get(this.#directories.get(keyOf(name)) ?? "") ?? [];
    const statedBytes = tables[name.table]?.partitionBytes[name.partition] ?? 0;
    const bytes = Math.max(this.plan.leastBytes, statedBytes * this.plan.overheadRatio);
    this.#held.set(replica, bytes);
    const shares = [name.partition ^ Number(this.plan.corrupt.has(replica))];
    return { bytes, bytesRead: bytes, elapsedMs: this.plan.loadMs, shares };
  }

  async release(name: ReplicaName): Promise<void> {
    this.requests.push(`release ${this.#replicaOf(name)}`);
    this.#held.delete(this.#replicaOf(name));
  }

  async close(name: VersionName): Promise<void> {
    const directory = this.#directories.get(keyOf(name));
    this.requests.push(`close ${directory}`);
    for (const key of this.#held.keys())
      if (key.startsWith(`${directory}#`)) this.#held.delete(key);
  }

  async program(): Promise<Uint8Array> {
    return new Uint8Array();
  }

  topK(batch: TopKBatch): Promise<TopKBatchAnswer> {
    return this.scan(batch);
  }

  async lookup(): Promise<LookupBatchAnswer> {
    return { parts: [], computeUs: 0 };
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
    return `${this.#directories.get(keyOf(name))}#${name.table}/${name.partition}`;
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

const keyOf = (name: VersionName): string => `${name.model}/${name.version}`;
