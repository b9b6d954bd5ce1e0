// Descriptions of stored tables for tests, as the graph part would make them, and whole readings.

import {
  type CandidateTable,
  type KeyedTable,
  type TableKeys,
  partitionCountOf,
  stringTensor,
} from "@winnow/core";
import type { PartitionReader } from "../model-version.ts";
import type { StoredTable } from "./stored-table.ts";
import type { VersionFiles } from "./version-files.ts";

/** The table of `candidates` and `identifiers` in a version. */
export function candidateTable(files: VersionFiles, partitions?: number): StoredTable {
  const rows = { kind: "bundle", key: keyLike(files, "candidates") } as const;
  const ids = { kind: "bundle", key: keyLike(files, "identifiers") } as const;
  const [count = 0, dim = 0] = files.entryOf(rows.key)?.shape ?? [];
  const spec: CandidateTable = {
    kind: "candidate",
    name: rows.key,
    rows: count,
    dim,
    partitions: partitions ?? partitionCountOf(count),
    sources: [files.sourceOf(rows), files.sourceOf(ids)],
    idDtype: files.entryOf(ids.key)?.dtype as "string" | "int64",
  };
  return { spec, rows, ids, vocabulary: undefined };
}

/** The table of `embedding`, keyed by this vocabulary or by row. */
export function keyedTable(
  files: VersionFiles,
  vocabulary: StoredTable["vocabulary"],
  partitions?: number,
): StoredTable {
  const rows = { kind: "bundle", key: keyLike(files, "embedding") } as const;
  const [count = 0, dim = 0] = files.entryOf(rows.key)?.shape ?? [];
  const keys: TableKeys =
    vocabulary === undefined
      ? { kind: "row" }
      : {
          kind: "vocabulary",
          keyDtype: "string",
          missing: { kind: "row", row: 0 },
          fixed: { keys: stringTensor([]), rows: [] },
        };
  const spec: KeyedTable = {
    kind: "keyed",
    name: rows.key,
    rows: count,
    dim,
    partitions: partitions ?? partitionCountOf(count),
    sources: [files.sourceOf(rows)],
    keys,
  };
  return { spec, rows, ids: undefined, vocabulary };
}

function keyLike(files: VersionFiles, part: string): string {
  return files.keys().find((key) => key.startsWith(part)) ?? part;
}

/** All rows of a partition; checks that chunks are bounded and complete. */
export function valuesOf(reader: PartitionReader): Float32Array {
  const chunks = [...reader.chunks()];
  if (chunks.some((chunk) => chunk.byteLength > 4 * 2 ** 20)) throw new RangeError("a large chunk");
  const values = new Float32Array(reader.rows * reader.dim);
  let at = 0;
  for (const chunk of chunks) {
    values.set(chunk, at);
    at += chunk.length;
  }
  if (at !== values.length) throw new RangeError(`${at} of ${values.length} values`);
  return values;
}

/** XOR of the shares of all partitions, per source. */
export function sumOfShares(files: VersionFiles, table: StoredTable): number[] {
  const sums = table.spec.sources.map(() => 0);
  for (let partition = 0; partition < table.spec.partitions; partition += 1) {
    const reader = files.openPartition(table, partition);
    valuesOf(reader);
    for (const [source, share] of reader.checksumShares().entries()) sums[source]! ^= share;
  }
  return sums.map((sum) => sum >>> 0);
}

/** The checksums that the shares must add up to. */
export function checksumsOf(table: StoredTable): (number | undefined)[] {
  return table.spec.sources.map((source) => source.checksum);
}

/** A partition's string identifiers as text. */
export function idsOf(reader: PartitionReader): string[] {
  if (reader.ids?.dtype !== "string") throw new RangeError("no string identifiers");
  return reader.ids.data.toText();
}
