// The compute side itself, as it runs in the compute thread: owns the opened model versions and the
// accelerator, and does what `Compute` asks for. Reading is synchronous here on purpose; scans start
// in the order in which they arrive.

import type { Accelerator } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import type { Clock, TableSpec } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";

import type {
  ComputeMemory,
  LoadedReplica,
  LookupBatch,
  LookupBatchAnswer,
  OpenedTable,
  OpenedVersion,
  ReplicaName,
  TopKBatch,
  TopKBatchAnswer,
  VersionName,
} from "./compute.ts";
import { ExclusionIndexes } from "./exclusion.ts";
import { answerLookups } from "./lookup-batch.ts";
import { loadPartition } from "./partition-load.ts";
import { packProgram } from "./program-package.ts";
import type { ProgressCounter } from "./progress-counter.ts";
import { ResidentTable } from "./resident-table.ts";
import { answerTopK } from "./top-k-batch.ts";

/** What the compute side is made of. */
export interface ComputeHostParts {
  readonly accelerator: Accelerator;
  readonly openModel: (directory: string) => ModelVersion;
  readonly progress: ProgressCounter;
  readonly clock: Clock;
  /** Bytes of id indexes for exclusions, kept at most. */
  readonly exclusionBytesMax: number;
}

interface OpenVersion {
  readonly files: ModelVersion;
  readonly tables: readonly ResidentTable[];
}

/** Opened versions and what is loaded of them. */
export class ComputeHost {
  readonly #parts: ComputeHostParts;
  readonly #indexes: ExclusionIndexes;
  readonly #versions = new Map<string, OpenVersion>();

  constructor(parts: ComputeHostParts) {
    this.#parts = parts;
    this.#indexes = new ExclusionIndexes(parts.exclusionBytesMax);
  }

  get memory(): ComputeMemory {
    const { usedBytes, capacityBytes } = this.#parts.accelerator.memory();
    const tables = [...this.#versions.values()].flatMap((version) => version.tables);
    const hostBytes = tables.reduce((sum, table) => sum + table.hostBytes, this.#indexes.bytes);
    return { usedBytes: usedBytes + hostBytes, capacityBytes };
  }

  open(name: VersionName, directory: string): OpenedVersion {
    const key = keyOf(name);
    if (this.#versions.has(key)) throw new RangeError(`${key} is open already`);
    const files = this.#parts.openModel(directory);
    const { program } = files;
    const tables = program.tables.map((spec) => new ResidentTable(spec, this.#parts.accelerator));
    this.#versions.set(key, { files, tables });
    this.#parts.progress.raise();
    return {
      fingerprint: program.fingerprint,
      tables: program.tables.map((spec, table) => describeTable(files, spec, table)),
    };
  }

  async load(name: ReplicaName): Promise<LoadedReplica> {
    const { files } = this.#versionOf(name);
    const table = this.#tableOf(name);
    const readBefore = files.bytesRead;
    const startedMs = this.#parts.clock.nowMs();
    const loaded = await loadPartition(files, name, this.#parts);
    const { resident, hostBytes } = table.add(name.partition, loaded);
    this.#parts.progress.raise();
    return {
      bytes: resident.bytes + hostBytes,
      bytesRead: files.bytesRead - readBefore,
      elapsedMs: this.#parts.clock.nowMs() - startedMs,
      shares: loaded.reader.checksumShares(),
    };
  }

  async release(name: ReplicaName): Promise<void> {
    const table = this.#tableOf(name);
    if (table.has(name.partition)) this.#indexes.forget(table.at(name.partition));
    await table.release(name.partition);
  }

  async close(name: VersionName): Promise<void> {
    const version = this.#versionOf(name);
    this.#versions.delete(keyOf(name));
    for (const table of version.tables) {
      for (const held of table.held()) {
        this.#indexes.forget(held);
        await table.release(held.partition);
      }
    }
    version.files.close();
  }

  program(name: VersionName, tableBytesMax: number): Uint8Array {
    const bytes = packProgram(this.#versionOf(name).files, tableBytesMax);
    this.#parts.progress.raise();
    return bytes;
  }

  async topK(batch: TopKBatch, signal: AbortSignal): Promise<TopKBatchAnswer> {
    const startedMs = this.#parts.clock.nowMs();
    const table = this.#tableOf(batch.target);
    const { accelerator } = this.#parts;
    const parts = await answerTopK({ accelerator, table, indexes: this.#indexes }, batch, signal);
    return { parts, computeUs: this.#finish(startedMs) };
  }

  async lookup(batch: LookupBatch): Promise<LookupBatchAnswer> {
    const startedMs = this.#parts.clock.nowMs();
    const table = this.#tableOf(batch);
    const parts = await answerLookups({ accelerator: this.#parts.accelerator, table }, batch);
    return { parts, computeUs: this.#finish(startedMs) };
  }

  async shutdown(): Promise<void> {
    for (const { files } of this.#versions.values()) files.close();
    this.#versions.clear();
    await this.#parts.accelerator.close();
  }

  #finish(startedMs: number): number {
    this.#parts.progress.raise();
    return Math.round((this.#parts.clock.nowMs() - startedMs) * 1000);
  }

  #versionOf(name: VersionName): OpenVersion {
    const version = this.#versions.get(keyOf(name));
    if (version !== undefined) return version;
    throw new WinnowError("NOT_FOUND", `Version ${name.version} of "${name.model}" is not open`);
  }

  #tableOf(name: VersionName & { readonly table: number }): ResidentTable {
    const table = this.#versionOf(name).tables[name.table];
    if (table !== undefined) return table;
    const message = `Version ${name.version} of "${name.model}" has no table ${name.table}`;
    throw new WinnowError("NOT_FOUND", message);
  }
}

const keyOf = (name: VersionName): string => `${name.model}/${name.version}`;

function describeTable(files: ModelVersion, spec: TableSpec, table: number): OpenedTable {
  const { name, kind, rows, dim, partitions } = spec;
  const partitionBytes = Array.from({ length: partitions }, (_, partition) =>
    files.partitionBytes(table, partition),
  );
  return { name, kind, rows, dim, partitions, partitionBytes };
}
