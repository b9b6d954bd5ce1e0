// Partitions of stored tables, ready to be read. A candidate partition is one run of rows with its
// identifiers; a keyed partition is many runs with its keys. What is computed once per table (where
// strings begin, which partition holds which key) is kept while the version is open.

import {
  type CandidateTable,
  type KeyedTable,
  type RowChecks,
  WinnowError,
  rowRangeOf,
} from "@winnow/core";
import type { PartitionReader } from "../../model-version.ts";
import { isNarrowFloat } from "../bundle/data-type.ts";
import { expectShape, idReading } from "./id-reading.ts";
import { type KeyPlan, planKeys } from "./key-plan.ts";
import { bandsOf } from "./matrix-pieces.ts";
import { RowReading, type RowMatrix, constantShare } from "./row-reading.ts";
import type { StoredTable } from "./stored-table.ts";
import type { StoredRegion } from "./stored-region.ts";

/** A table whose partitions can be opened. */
export interface TableReading {
  /** Bytes that one partition takes in memory as rows, ids and keys. */
  partitionBytes(partition: number): number;
  openPartition(partition: number): PartitionReader;
}

/** The stored tensors of a table, and the checks that its rows must pass. */
export interface TableRegions {
  readonly rows: StoredRegion;
  readonly ids: StoredRegion | undefined;
  readonly checks: RowChecks;
}

/** Prepares a table. @throws WinnowError DATA_LOSS when its tensors do not fit its description */
export function readTable(stored: StoredTable, regions: TableRegions): TableReading {
  const { spec } = stored;
  if (spec.rows < 1 || spec.dim < 1) {
    const text = `its shape is [${spec.rows},${spec.dim}]`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot serve table "${spec.name}": ${text}`);
  }
  const dtypes = ["float32", "half", "bfloat16"];
  expectShape(regions.rows, { dtypes, shape: [spec.rows, spec.dim] });
  const { dtype = "float32", size } = regions.rows;
  const format = isNarrowFloat(dtype) ? dtype : "float32";
  const bands = bandsOf(regions.rows);
  const { rows, dim, name: table } = spec;
  const matrix = { bands, format, size, rows, dim, table, checks: regions.checks } as const;
  return spec.kind === "candidate"
    ? candidateReading(spec, matrix, regions.ids)
    : keyedReading(spec, matrix, stored.vocabulary);
}

function candidateReading(
  table: CandidateTable,
  matrix: RowMatrix,
  stored: StoredRegion | undefined,
): TableReading {
  const ids = stored === undefined ? undefined : idReading(table, stored);
  const countOf = (partition: number): number => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return endRow - firstRow;
  };
  return {
    partitionBytes: (partition) =>
      countOf(partition) * table.dim * 4 + (ids?.bytesOf(partition) ?? 0),
    openPartition(partition) {
      const { firstRow } = rowRangeOf(partition, table);
      const count = countOf(partition);
      const reading = new RowReading(matrix);
      const stored = ids?.read(partition);
      return {
        rows: count,
        dim: table.dim,
        firstRow,
        ids: stored?.ids,
        keyed: undefined,
        chunks: () => reading.chunks([{ firstRow, count, accounted: true, copies: [] }], count),
        checksumShares: () => [
          rowShare(reading, matrix, partition),
          ...(stored === undefined ? [] : [stored.share]),
        ],
      };
    },
  };
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
