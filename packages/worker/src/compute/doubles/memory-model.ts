// Model versions that live in memory: the `ModelVersion` seam without files, for tests of
// everything above it. Chunks are small, so that loads take several steps.

import {
  ColumnBuilder,
  crc32c,
  fingerprint,
  partitionOfBytes,
  partitionOfInteger,
  rowRangeOf,
} from "@winnow/core";
import type {
  AttributeColumn,
  KeyedPartition,
  ModelProgram,
  StringColumn,
  TableSpec,
  Tensor,
} from "@winnow/core";
import type { ChunkGenerator, ModelVersion, PartitionReader } from "@winnow/model";

/** Rows of a table, and how it is asked. */
export type MemoryTable = {
  readonly rows: number;
  readonly dim: number;
  readonly values: Float32Array;
  /** Default: `PARTITIONS`. */
  readonly partitions?: number;
} & (
  | {
      readonly kind: "candidate";
      readonly ids: Tensor | undefined;
      readonly added?: number;
      /** The one attribute of its items, an integer named `group`. */
      readonly groupOf?: (row: number) => number;
    }
  | { readonly kind: "row" }
  /** Row 0 answers unknown keys; key i is row i + 1. */
  | { readonly kind: "strings"; readonly keys: StringColumn }
);

const CHUNK_ROWS = 4;
/** Of long partitions chunks are longer. */
const CHUNKS_MAX = 1000;
/** Partitions of a table, at most; one for each row of smaller ones. */
const PARTITIONS = 16;

/** An opened version over tables in memory. */
export class MemoryModel implements ModelVersion {
  readonly directory = "memory";
  readonly program: ModelProgram;
  bytesRead = 0;
  isClosed = false;
  readonly #tables: readonly MemoryTable[];

  constructor(tables: readonly MemoryTable[]) {
    this.#tables = tables;
    this.program = {
      fingerprint: fingerprint("f00d"),
      tables: tables.map(specOf),
      vocabularies: [],
      denseModels: [],
      signatures: [],
    };
  }

  partitionBytes(table: number, partition: number): number {
    const { dim } = this.#at(table);
    return this.#globalRows(table, partition).length * dim * 4;
  }

  openPartition(table: number, partition: number): PartitionReader {
    const source = this.#at(table);
    const rows = this.#globalRows(table, partition);
    const isCandidate = source.kind === "candidate";
    const firstRow = isCandidate ? (rows[0] ?? 0) : 0;
    const chunks = this.#chunks(source, rows);
    const groupOf = source.kind === "candidate" ? source.groupOf : undefined;
    return {
      ...(groupOf && { attributes: [groupsOf(rows, groupOf)] }),
      rows: rows.length,
      dim: source.dim,
      firstRow,
      ids: isCandidate ? sliceIds(source.ids, firstRow, firstRow + rows.length) : undefined,
      keyed: isCandidate ? undefined : keyedOf(source, rows, partition),
      chunks: () => chunks,
      checksumShares: () => [crc32c(new Uint8Array(rows.buffer))],
    };
  }

  close(): void {
    this.isClosed = true;
  }

  *#chunks(source: MemoryTable, rows: Uint32Array): ChunkGenerator {
    let spent: Float32Array | undefined;
    const chunkRows = Math.max(CHUNK_ROWS, Math.ceil(rows.length / CHUNKS_MAX));
    for (let from = 0; from < rows.length; from += chunkRows) {
      const { values, dim } = source;
      const taken = rows.subarray(from, from + chunkRows);
      const length = taken.length * dim;
      this.bytesRead += length * 4;
      const chunk = spent?.length === length ? spent : new Float32Array(length);
      for (const [at, row] of taken.entries()) {
        chunk.set(values.subarray(row * dim, (row + 1) * dim), at * dim);
      }
      spent = yield chunk;
    }
  }

  #at(table: number): MemoryTable {
    const found = this.#tables[table];
    if (found === undefined) throw new RangeError(`no table ${table}`);
    return found;
  }

  #globalRows(table: number, partition: number): Uint32Array {
    const source = this.#at(table);
    const partitions = partitionsOf(source);
    const all = Array.from({ length: source.rows }, (_, row) => row);
    if (source.kind === "candidate") {
      const { firstRow, endRow } = rowRangeOf(partition, { rows: source.rows, partitions });
      return Uint32Array.from(all.slice(firstRow, endRow));
    }
    return Uint32Array.from(all.filter((row) => isIn(source, row, partition)));
  }
}

const partitionsOf = ({ rows, partitions = PARTITIONS }: MemoryTable): number =>
  Math.min(rows, partitions);

function specOf(source: MemoryTable, table: number): TableSpec {
  const { rows, dim } = source;
  const shape = {
    name: `table${table}`,
    rows,
    dim,
    partitions: partitionsOf(source),
    sources: [],
  };
  if (source.kind === "candidate") {
    const idDtype = source.ids?.dtype as "string" | "int64" | "int32" | undefined;
    const attributes = source.groupOf && [GROUP];
    return { ...shape, kind: "candidate", idDtype, added: source.added, attributes };
  }
  if (source.kind === "row") return { ...shape, kind: "keyed", keys: { kind: "row" } };
  const fixed = { keys: { dtype: "string", shape: [0], data: source.keys.slice(0, 0) }, rows: [] };
  const missing = { kind: "row", row: 0 } as const;
  return {
    ...shape,
    kind: "keyed",
    keys: { kind: "vocabulary", keyDtype: "string", missing, fixed: fixed as never },
  };
}

const GROUP = { name: "group", type: "integer", isList: false } as const;

function groupsOf(rows: Uint32Array, groupOf: (row: number) => number): AttributeColumn {
  const builder = new ColumnBuilder();
  for (const row of rows) builder.add(groupOf(row));
  return builder.finish(GROUP);
}

function isIn(source: MemoryTable, row: number, partition: number): boolean {
  const partitions = partitionsOf(source);
  if (source.kind !== "strings") return partitionOfInteger(BigInt(row), partitions) === partition;
  return row === 0 || partitionOfBytes(source.keys.at(row - 1), partitions) === partition;
}

function keyedOf(source: MemoryTable, rows: Uint32Array, partition: number): KeyedPartition {
  if (source.kind !== "strings") {
    return { globalRows: rows, keys: undefined, keyRows: new Uint32Array() };
  }
  const keyRows = rows.filter((row) => row > 0 && isIn(source, row, partition));
  const data = source.keys.take(keyRows.map((row) => row - 1));
  return { globalRows: rows, keys: { dtype: "string", shape: [data.length], data }, keyRows };
}

function sliceIds(ids: Tensor | undefined, from: number, to: number): Tensor | undefined {
  if (ids === undefined) return undefined;
  return { ...ids, shape: [to - from], data: ids.data.slice(from, to) } as Tensor;
}
