// The compute side itself, as it runs in the compute thread: owns the accelerator and what is loaded
// onto it, and does what `Compute` asks for. Scans start in the order in which they arrive; files are
// read by a thread beside this one.

import type { Accelerator } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";

import type {
  ComputeMemory,
  LoadedReplica,
  LookupBatch,
  LookupBatchAnswer,
  OpenedVersion,
  ReplicaName,
  TopKBatch,
  TopKScan,
  VersionName,
} from "./compute.ts";
import { ExclusionIndexes } from "./exclusion.ts";
import { answerLookups } from "./lookup-batch.ts";
import type { ModelReader } from "./model-reader.ts";
import { loadPartition } from "./partition-load.ts";
import type { ProgressCounter } from "./progress-counter.ts";
import { ResidentTable } from "./resident-table.ts";
import { answerTopK } from "./top-k-batch.ts";

/** What the compute side is made of. */
export interface ComputeHostParts {
  readonly accelerator: Accelerator;
  readonly reader: ModelReader;
  readonly progress: ProgressCounter;
  readonly clock: Clock;
  /** Bytes of id indexes for exclusions, kept at most. */
  readonly exclusionBytesMax: number;
}

/** Opened versions and what is loaded of them. */
export class ComputeHost {
  readonly #parts: ComputeHostParts;
  readonly #indexes: ExclusionIndexes;
  readonly #versions = new Map<string, readonly ResidentTable[]>();
  #scanEndedMs = 0;

  constructor(parts: ComputeHostParts) {
    this.#parts = parts;
    this.#indexes = new ExclusionIndexes(parts.exclusionBytesMax);
  }

  /** Resolves if the device is gone for good. */
  get lost(): Promise<WinnowError> {
    return this.#parts.accelerator.lost;
  }

  get memory(): ComputeMemory {
    const { usedBytes, capacityBytes } = this.#parts.accelerator.memory();
    const tables = [...this.#versions.values()].flat();
    const hostBytes = tables.reduce((sum, table) => sum + table.hostBytes, this.#indexes.bytes);
    return { usedBytes: usedBytes + hostBytes, capacityBytes };
  }

  async open(name: VersionName, directory: string): Promise<OpenedVersion> {
    const { reader, accelerator, progress } = this.#parts;
    const opened = await reader.open(name, directory);
    const tables = opened.tables.map((spec) => new ResidentTable(spec, accelerator));
    this.#versions.set(keyOf(name), tables);
    progress.raise();
    return {
      fingerprint: opened.fingerprint,
      tables: opened.tables.map(({ name: table, kind, rows, dim, partitions, sources }, at) => {
        const partitionBytes = opened.partitionBytes[at] ?? [];
        return { name: table, kind, rows, dim, partitions, partitionBytes, sources };
      }),
    };
  }

  async load(name: ReplicaName): Promise<LoadedReplica> {
    const table = this.#tableOf(name);
    const startedMs = this.#parts.clock.nowMs();
    const source = await this.#parts.reader.openPartition(name);
    const resident = await loadPartition(source, table.spec.kind, this.#parts);
    if (this.#versions.get(keyOf(name))?.[name.table] !== table) {
      await this.#parts.accelerator.release(resident);
      throw new WinnowError("NOT_FOUND", `Version ${name.version} was closed while it was loaded`);
    }
    const { hostBytes } = table.add(name.partition, { resident, source });
    this.#parts.progress.raise();
    const { shares, bytesRead } = source.end();
    return {
      bytes: resident.bytes + hostBytes,
      bytesRead,
      elapsedMs: this.#parts.clock.nowMs() - startedMs,
      shares,
    };
  }

  async release(name: ReplicaName): Promise<void> {
    const table = this.#tableOf(name);
    if (table.has(name.partition)) this.#indexes.forget(table.at(name.partition));
    await table.release(name.partition);
  }

  async close(name: VersionName): Promise<void> {
    const tables = this.#tablesOf(name);
    this.#versions.delete(keyOf(name));
    for (const table of tables) {
      for (const held of table.held()) {
        this.#indexes.forget(held);
        await table.release(held.partition);
      }
    }
    await this.#parts.reader.close(name);
  }

  program(name: VersionName, tableBytesMax: number): Promise<Uint8Array> {
    return this.#parts.reader.program(name, tableBytesMax);
  }

  async topK(batch: TopKBatch, signal: AbortSignal): Promise<TopKScan> {
    const { accelerator, clock } = this.#parts;
    const arrivedMs = clock.nowMs();
    const table = this.#tableOf(batch.target);
    const found = await answerTopK({ accelerator, table, indexes: this.#indexes }, batch, signal);
    // Scans run one after the other: one that came during another began when that one ended.
    const startedMs = Math.max(arrivedMs, this.#scanEndedMs);
    this.#scanEndedMs = clock.nowMs();
    const waitUs = Math.round((startedMs - arrivedMs) * 1000);
    return { ...found, waitUs, computeUs: this.#finish(startedMs) };
  }

  async lookup(batch: LookupBatch): Promise<LookupBatchAnswer> {
    const startedMs = this.#parts.clock.nowMs();
    const table = this.#tableOf(batch);
    const parts = await answerLookups({ accelerator: this.#parts.accelerator, table }, batch);
    return { parts, computeUs: this.#finish(startedMs) };
  }

  async shutdown(): Promise<void> {
    this.#versions.clear();
    await this.#parts.reader.shutdown();
    await this.#parts.accelerator.close();
  }

  #finish(startedMs: number): number {
    this.#parts.progress.raise();
    return Math.round((this.#parts.clock.nowMs() - startedMs) * 1000);
  }

  #tablesOf(name: VersionName): readonly ResidentTable[] {
    const tables = this.#versions.get(keyOf(name));
    if (tables !== undefined) return tables;
    throw new WinnowError("NOT_FOUND", `Version ${name.version} of "${name.model}" is not open`);
  }

  #tableOf(name: VersionName & { readonly table: number }): ResidentTable {
    const table = this.#tablesOf(name)[name.table];
    if (table !== undefined) return table;
    const message = `Version ${name.version} of "${name.model}" has no table ${name.table}`;
    throw new WinnowError("NOT_FOUND", message);
  }
}

const keyOf = (name: VersionName): string => `${name.model}/${name.version}`;
