// A version's program as bytes for routers, together with its small keyed tables: the router looks keys up in
// these itself, which saves a round trip. Each table is put together from its partitions, so one reader
// serves workers and packages; rows that stand in every partition (OOV, mask) are taken once. No other worker
// reads all of such a table, so this one verifies the stored checksum (S7).

import { StringColumn, WinnowError, encodeProgramPackage } from "@winnow/core";
import type { InlineTable, KeyedPartition, KeyedTable, Tensor } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";

const FLOAT_BYTES = 4;

/**
 * Packs the program of a version, with the keyed tables whose rows take at most `tableBytesMax` bytes.
 * @throws WinnowError DATA_LOSS for rows that do not give the stored checksum; what reading throws
 */
export function packProgram(version: ModelVersion, tableBytesMax: number): Uint8Array {
  const inlineTables = new Map<number, InlineTable>();
  for (const [table, spec] of version.program.tables.entries()) {
    if (spec.kind !== "keyed" || spec.rows * spec.dim * FLOAT_BYTES > tableBytesMax) continue;
    inlineTables.set(table, readWhole(version, table, spec));
  }
  const { program, warmUp = [] } = version;
  return encodeProgramPackage({ program, inlineTables, warmUp });
}

function readWhole(version: ModelVersion, table: number, spec: KeyedTable): InlineTable {
  const values = new Float32Array(spec.rows * spec.dim);
  const parts: KeyedPartition[] = [];
  const sums = spec.sources.map(() => 0);
  for (let partition = 0; partition < spec.partitions; partition += 1) {
    const reader = version.openPartition(table, partition);
    if (reader.keyed === undefined) throw new RangeError(`table "${spec.name}" has no keys`);
    parts.push(reader.keyed);
    let localRow = 0;
    for (const chunk of reader.chunks()) {
      for (let at = 0; at < chunk.length; at += spec.dim, localRow += 1) {
        const row = reader.keyed.globalRows[localRow]!;
        values.set(chunk.subarray(at, at + spec.dim), row * spec.dim);
      }
    }
    for (const [source, share] of reader.checksumShares().entries()) sums[source]! ^= share;
  }
  checkSums(spec, sums);
  const globalRows = Uint32Array.from({ length: spec.rows }, (_, row) => row);
  return { partition: { globalRows, ...joinKeys(parts) }, values };
}

/** The shares of all partitions must add up to what is stored. */
function checkSums({ name, sources }: KeyedTable, sums: readonly number[]): void {
  for (const [source, { tensor, file, checksum }] of sources.entries()) {
    if (checksum === undefined || sums[source]! >>> 0 === checksum >>> 0) continue;
    throw new WinnowError(
      "DATA_LOSS",
      `Cannot send table "${name}" with the program: what was read of "${tensor}" does not give the ` +
        `checksum stored for it in ${file}; copy the file to this worker again`,
    );
  }
}

function joinKeys(parts: readonly KeyedPartition[]): Pick<KeyedPartition, "keys" | "keyRows"> {
  const keyRows = Uint32Array.from(parts.flatMap((part) => [...part.keyRows]));
  const columns = parts.map(({ keys }) => keys).filter((keys) => keys !== undefined);
  if (columns.length === 0) return { keys: undefined, keyRows };
  return { keys: joinTensors(columns), keyRows };
}

function joinTensors(columns: readonly Tensor[]): Tensor {
  if (columns[0]?.dtype === "string") {
    const strings = columns.flatMap(({ data }) => {
      const column = data as StringColumn;
      return Array.from({ length: column.length }, (_, index) => column.at(index));
    });
    return { dtype: "string", shape: [strings.length], data: StringColumn.fromBytes(strings) };
  }
  const values = columns.flatMap(({ data }) => [...(data as BigInt64Array)]);
  return { dtype: "int64", shape: [values.length], data: BigInt64Array.from(values) };
}
