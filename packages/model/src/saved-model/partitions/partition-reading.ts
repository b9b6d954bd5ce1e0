// Partitions of stored tables, ready to be read. A candidate partition is one run of rows with its
// identifiers; a keyed partition is many runs with its keys. What is computed once per table (where
// strings begin, which partition holds which key) is kept while the version is open.

import {
  type AttributeColumn,
  type CandidateTable,
  type KeyedTable,
  type RowChecks,
  type RowRange,
  type TableSpec,
  WinnowError,
  columnBytes,
  rowsOfColumn,
  rowRangeOf,
  takeRows,
} from "@winnow/core";
import type { ChunkGenerator, TableReading } from "../../model-version.ts";
import { isNarrowFloat } from "../bundle/data-type.ts";
import { DerivedRowReading } from "./derived-row-reading.ts";
import type { DerivedRows } from "./derived-row-reading.ts";
import { type IdReading, expectShape, idReading } from "./id-reading.ts";
import { type KeyPlan, planKeys } from "./key-plan.ts";
import { bandsOf } from "./matrix-pieces.ts";
import { RowReading, type RowMatrix, constantShare } from "./row-reading.ts";
import { addedValues, tensorsBeside } from "./stored-table.ts";
import type { RowDerivation, StoredTable } from "./stored-table.ts";
import type { StoredRegion } from "./stored-region.ts";

/** The stored tensors of a table, and the checks that its rows must pass. */
export interface TableRegions {
  readonly rows: StoredRegion;
  /** Stored in a checkpoint, or read by another reader. */
  readonly ids: StoredRegion | IdReading | undefined;
  /** What the table's derivation needs beside its rows (`tensorsBeside`). */
  readonly beside?: readonly StoredRegion[] | undefined;
  readonly checks: RowChecks;
}

/** What is to be known of a table beside its stored tensors. */
export type ReadableTable = Pick<StoredTable, "spec" | "derivation" | "masks" | "vocabulary">;

/** Prepares a table. @throws WinnowError DATA_LOSS when its tensors do not fit its description */
export function readTable(stored: ReadableTable, regions: TableRegions): TableReading {
  const { spec } = stored;
  if (spec.rows < 1 || spec.dim < 1) {
    const text = `its shape is [${spec.rows},${spec.dim}]`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot serve table "${spec.name}": ${text}`);
  }
  const { derivation } = stored;
  const dim = storedDim(spec, derivation);
  const shape =
    derivation?.isByColumn === true
      ? [dim, storedColumns(regions.rows, spec.rows, derivation)]
      : [spec.rows, dim];
  const matrix = matrixOf({ ...spec, dim }, regions.rows, { shape, checks: regions.checks });
  if (spec.kind === "keyed") return keyedReading(spec, matrix, stored.vocabulary);
  const reading =
    derivation === undefined
      ? plainRows(matrix)
      : derivedRows({ matrix, derivation, beside: matricesBeside(spec, derivation, regions) });
  return candidateReading(spec, reading, { ids: regions.ids, masks: stored.masks });
}

/** Values of a row as the table's own matrix stores it. */
export function storedDim({ dim }: TableSpec, derivation: RowDerivation | undefined): number {
  const own = derivation?.computed?.steps.find(
    (step) => step.kind === "stored" && step.matrix === 0,
  );
  return own?.dim ?? dim - addedValues(derivation);
}

/**
 * The columns that a matrix stored by column must have: one for each row of the table. A table of neighbouring
 * columns (`firstColumn`) is read from a matrix that may have more.
 */
function storedColumns(
  { shape }: StoredRegion,
  rows: number,
  { firstColumn }: RowDerivation,
): number {
  return firstColumn === undefined ? rows : Math.max(firstColumn + rows, shape[1] ?? 0);
}

const NUMBERS = ["float32", "half", "bfloat16", "int8", "uint8"];

/** A stored matrix of this shape. @throws WinnowError DATA_LOSS for another one */
function matrixOf(
  { rows, dim, name }: Pick<TableSpec, "rows" | "dim" | "name">,
  stored: StoredRegion,
  { shape, checks }: { readonly shape: readonly number[]; readonly checks: RowChecks },
): RowMatrix {
  expectShape(stored, { dtypes: NUMBERS, shape });
  const { dtype = "float32", size } = stored;
  const isOfBytes = dtype === "int8" || dtype === "uint8";
  const format = isNarrowFloat(dtype) || isOfBytes ? dtype : "float32";
  return { bands: bandsOf(stored), format, size, rows, dim, table: name, checks };
}

/** Reads the rows of one partition. */
interface RangeReading {
  chunks(range: RowRange): ChunkGenerator;
  /** Shares in the checksums of the matrix and of each tensor beside it; after all chunks. */
  shares(partition: number): readonly number[];
}

/** Rows that are searched as they are stored. */
function plainRows(matrix: RowMatrix): () => RangeReading {
  return () => {
    const reading = new RowReading(matrix);
    return {
      chunks({ firstRow, endRow }) {
        const count = endRow - firstRow;
        return reading.chunks([{ firstRow, count, accounted: true, copies: [] }], count);
      },
      shares: (partition) => [rowShare(reading, matrix, partition)],
    };
  };
}

/** Rows that are made of several tensors. */
function derivedRows(rows: DerivedRows): () => RangeReading {
  const sizes = [rows.matrix, ...rows.beside].map(({ size }) => size);
  return () => {
    const reading = new DerivedRowReading(rows);
    return {
      chunks: (range) => reading.chunks(range),
      shares(partition) {
        const { shares } = reading;
        if (shares === undefined) throw new RangeError("a share before all rows were read");
        return shares.map((share, at) => (share ^ constantShare(partition, sizes[at]!)) >>> 0);
      },
    };
  };
}

/** Tensors beside the rows as matrices, vectors as those of one column each. @throws WinnowError DATA_LOSS */
function matricesBeside(
  table: CandidateTable,
  derivation: RowDerivation,
  { beside = [], checks }: TableRegions,
): RowMatrix[] {
  const dims = tensorsBeside(derivation).map(({ dim }) => dim);
  return beside.map((stored, at) => {
    const dim = dims[at]!;
    const whole = dim === 1 ? asColumn(stored) : stored;
    return matrixOf({ ...table, dim }, whole, { shape: [table.rows, dim], checks });
  });
}

/** A bias is stored as [rows], [1, rows] or [rows, 1]: the same bytes. */
function asColumn(stored: StoredRegion): StoredRegion {
  const axis = Math.max(
    0,
    stored.shape.findIndex((size) => size !== 1),
  );
  const isVector = stored.shape.every((size, at) => size === 1 || at === axis);
  if (!isVector) return stored;
  const pieces = stored.pieces.map((piece) => ({
    ...piece,
    start: [piece.start[axis] ?? 0, 0],
    shape: [piece.shape[axis] ?? 1, 1],
  }));
  return { ...stored, shape: [stored.shape[axis] ?? 1, 1], pieces };
}

function candidateReading(
  table: CandidateTable,
  readingOf: () => RangeReading,
  { ids: stored, masks = [] }: Pick<TableRegions, "ids"> & Pick<StoredTable, "masks">,
): TableReading {
  const isRead = stored === undefined || "bytesOf" in stored;
  const ids = isRead ? stored : idReading(table, stored);
  const countOf = (partition: number): number => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return endRow - firstRow;
  };
  return {
    partitionBytes: (partition) =>
      countOf(partition) * (table.dim * 4 + maskBytesPerRow(masks)) +
      (ids?.bytesOf(partition) ?? 0),
    openPartition(partition) {
      const range = rowRangeOf(partition, table);
      const reading = readingOf();
      const stored = ids?.read(partition);
      const attributes = columnsOf(masks, range);
      return {
        rows: countOf(partition),
        dim: table.dim,
        firstRow: range.firstRow,
        ids: stored?.ids,
        keyed: undefined,
        ...(attributes.length > 0 && { attributes }),
        chunks: () => reading.chunks(range),
        checksumShares() {
          const [ofRows = 0, ...ofOthers] = reading.shares(partition);
          return [ofRows, ...(stored === undefined ? [] : [stored.share]), ...ofOthers];
        },
      };
    },
  };
}

function columnsOf(
  masks: readonly AttributeColumn[],
  { firstRow, endRow }: RowRange,
): readonly AttributeColumn[] {
  if (masks.length === 0) return [];
  const rows = Uint32Array.from({ length: endRow - firstRow }, (_, at) => firstRow + at);
  return masks.map((column) => takeRows(column, rows));
}

/** Bytes of mask columns per row, on average over all rows of the table. */
function maskBytesPerRow(masks: readonly AttributeColumn[]): number {
  const bytes = masks.map((column) => columnBytes(column) / Math.max(1, rowsOfColumn(column)));
  return Math.ceil(bytes.reduce((sum, each) => sum + each, 0));
}

function keyedReading(
  table: KeyedTable,
  matrix: RowMatrix,
  vocabulary: StoredTable["vocabulary"],
): TableReading {
  let made: KeyPlan | undefined;
  const plan = (): KeyPlan => (made ??= planKeys(table, vocabulary));
  return {
    partitionBytes: (partition) => plan().partitionBytes(partition),
    openPartition(partition) {
      const keyed = plan().partitionOf(partition);
      const reading = new RowReading(matrix);
      return {
        rows: keyed.globalRows.length,
        dim: table.dim,
        firstRow: 0,
        ids: undefined,
        keyed,
        chunks: () =>
          reading.chunks(plan().runsOf(partition, keyed.globalRows), keyed.globalRows.length),
        checksumShares: () => [rowShare(reading, matrix, partition)],
      };
    },
  };
}

function rowShare(reading: RowReading, matrix: RowMatrix, partition: number): number {
  if (reading.share === undefined) throw new RangeError("a share before all rows were read");
  return (reading.share ^ constantShare(partition, matrix.size)) >>> 0;
}
