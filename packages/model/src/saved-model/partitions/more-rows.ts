// Rows in memory that are to be searched behind those of a stored table. They are made into rows of the table as its own are:
// brought to one length, put through the layers of an item tower.

import { StringColumn, rowRangeOf } from "@winnow/core";
import type { CandidateTable, RowChecks, RowRange, Tensor } from "@winnow/core";
import type { MoreRows, MoreRowsShape, TableReading } from "../../model-version.ts";
import type { StoredDtype } from "../bundle/data-type.ts";
import { memoryRegion } from "../../storage/region.ts";
import type { IdReading } from "./id-reading.ts";
import { readTable, storedDim } from "./partition-reading.ts";
import type { ReadableTable } from "./partition-reading.ts";
import { tensorsBeside } from "./stored-table.ts";

/** A candidate table, and what its rows are stored as. */
export interface ExtendableTable extends Pick<ReadableTable, "derivation" | "masks"> {
  readonly spec: CandidateTable;
  readonly dtype: StoredDtype | undefined;
}

type RowDtype = "float32" | "half" | "bfloat16";

const DTYPES: readonly RowDtype[] = ["float32", "half", "bfloat16"];

/** See `ModelVersion.moreRowsShape`: there may be more rows where a vector is all that a row needs. */
export function moreRowsShape({
  spec,
  derivation,
  masks = [],
  dtype,
}: ExtendableTable): MoreRowsShape {
  if (masks.length > 0) return { obstacle: "it masks items by what it holds of each of them" };
  if (tensorsBeside(derivation).length > 0) {
    return { obstacle: "it holds more of each item than a vector, as a bias or a factor" };
  }
  const found = DTYPES.find((each) => each === (dtype ?? "float32"));
  if (found === undefined) return { obstacle: `it stores vectors as ${dtype}` };
  return { dim: storedDim(spec, derivation), dtype: found };
}

/** The rows, ready to be read by partition, numbered from 0. @throws RangeError for a table that takes none */
export function readMoreRows(
  table: ExtendableTable,
  more: MoreRows,
  checks: RowChecks,
): TableReading {
  const shape = moreRowsShape(table);
  if (shape.obstacle !== undefined) throw new RangeError(shape.obstacle);
  const { dim } = shape;
  const { rows, partitions, file, values } = more;
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const region = memoryRegion(bytes, file, "vectors");
  const source = { tensor: "vectors", file, checksum: 0 };
  const piece = { start: [0, 0], shape: [rows, dim], checksum: 0, region, offset: 0 };
  const stored = {
    dtype: "float32",
    shape: [rows, dim],
    pieces: [piece],
    size: bytes.length,
    name: region.name,
    source,
  } as const;
  const derivation = table.derivation && {
    ...table.derivation,
    isByColumn: false,
    firstColumn: undefined,
  };
  const { original: _, ...own } = table.spec;
  return readTable(
    { spec: { ...own, rows, partitions }, derivation, vocabulary: undefined },
    { rows: stored, ids: idsOf(more), checks },
  );
}

function idsOf({ ids, rows, partitions }: MoreRows): IdReading {
  const read = (partition: number): Tensor =>
    slicedIds(ids, rowRangeOf(partition, { rows, partitions }));
  return {
    bytesOf: (partition) => bytesOfIds(read(partition)),
    read: (partition) => ({ ids: read(partition), share: 0 }),
  };
}

function slicedIds(ids: Tensor, { firstRow, endRow }: RowRange): Tensor {
  const shape = [endRow - firstRow];
  if (ids.dtype === "string") {
    // A copy, since ids are handed to other threads with their memory.
    const data = StringColumn.joined([ids.data.slice(firstRow, endRow)]);
    return { dtype: "string", shape, data };
  }
  if (ids.dtype === "int32") {
    return { dtype: "int32", shape, data: ids.data.slice(firstRow, endRow) };
  }
  if (ids.dtype !== "int64") throw new RangeError(`ids of ${ids.dtype}`);
  return { dtype: "int64", shape, data: ids.data.slice(firstRow, endRow) };
}

function bytesOfIds({ data }: Tensor): number {
  if (!(data instanceof StringColumn)) return data.byteLength;
  return data.byteLength + data.offsets.byteLength;
}
