// The item table of a retrieval model as the one candidate table of its program: rows in one array, ids in
// another. It is read by the readers of stored tables (saved-model/partitions); here the two arrays are
// found, held against each other, and get their checksums.

import { WinnowError, excerpt, partitionCountOf } from "@winnow/core";
import type { CandidateTable, RowChecks } from "@winnow/core";
import { moreRowsShape, readMoreRows } from "../../saved-model/partitions/more-rows.ts";
import { readTable } from "../../saved-model/partitions/partition-reading.ts";
import type { MoreRows, MoreRowsShape, TableReading } from "../../model-version.ts";
import type { IdReading } from "../../saved-model/partitions/id-reading.ts";
import type { RowDerivation } from "../../saved-model/partitions/stored-table.ts";
import type { StoredRegion } from "../../saved-model/partitions/stored-region.ts";
import type { StoredDtype } from "../../saved-model/bundle/data-type.ts";
import type { Retrieval, TensorFile } from "../description/description.ts";
import { refuseByteOrderMark } from "../directory-files.ts";
import type { DirectoryFiles } from "../directory-files.ts";
import { parquetIds, parquetItems } from "./parquet/parquet-array.ts";
import type { TextColumn } from "./parquet/parquet-array.ts";
import { ColumnIds, TextIds, arrayScan, expectDistinct, fixedTextReading } from "./item-ids.ts";
import { checksumOf } from "./region-bytes.ts";
import { openArray } from "./stored-array.ts";
import type { StoredArray } from "./stored-array.ts";

const ROWS_MAX = 2 ** 31 - 1;
const DIM_MAX = 32_768;
/** As in `torch.nn.functional.normalize`: a row of zeros stays zero. */
const LENGTH_MIN = 1e-12;

/** A table whose partitions can be opened. */
export interface ItemTable {
  readonly spec: CandidateTable;
  readonly derivation: RowDerivation | undefined;
  readonly reading: TableReading;
  /** See `ModelVersion.moreRowsShape`. */
  moreRowsShape(): MoreRowsShape;
  /** See `ModelVersion.moreRows`. */
  moreRows(more: MoreRows): TableReading;
}

/** How tables are cut into partitions and checked. */
export interface TableOptions {
  readonly partitionBytes: number;
  readonly checks: RowChecks;
}

/** Opens the items of a retrieval model; reads no rows. @throws WinnowError naming file and remedy */
export function openItemTable(
  files: DirectoryFiles,
  { items, ids, similarity }: Retrieval,
  { partitionBytes, checks }: TableOptions,
): ItemTable {
  const array = isParquet(items)
    ? parquetItems(files.open(items.file, items.where), items)
    : openArray(files, items);
  const { rows, dim } = sizesOf(array, items);
  const region = storedRegion(array, items, checks);
  const partitions = partitionCountOf({ rows, dim }, partitionBytes);
  const name = `${items.file}:${array.tensor}`;
  const table = { kind: "candidate", name, rows, dim, partitions } as const;
  const found = ids && itemIds(files, { ids, rows, partitions, items: items.file, checks });
  const sources = [region.source, ...(found === undefined ? [] : [found.source])];
  const spec: CandidateTable = { ...table, idDtype: found?.dtype, sources };
  const derivation = similarity === "cosine" ? UNIT_LENGTH : undefined;
  const idsOf = found?.reading(spec);
  const reading = readTable(
    { spec, derivation, vocabulary: undefined },
    { rows: region, ids: idsOf, checks },
  );
  const extendable = { spec, derivation, masks: undefined, dtype: region.dtype };
  return {
    spec,
    derivation,
    reading,
    moreRowsShape: () => moreRowsShape(extendable),
    moreRows: (more) => readMoreRows(extendable, more, checks),
  };
}

const UNIT_LENGTH: RowDerivation = {
  isByColumn: false,
  normalisation: {
    operation: "division",
    squares: undefined,
    length: { kind: "atLeast", value: LENGTH_MIN },
  },
  appended: [],
};

function sizesOf(
  { type, shape, region }: StoredArray,
  { where }: TensorFile,
): { readonly rows: number; readonly dim: number } {
  const [rows = 0, dim = 0] = shape;
  const found = `${region.name} is ${type} [${shape.join(",")}]`;
  if (!isFloat(type) || shape.length !== 2 || rows < 1 || dim < 1) {
    const text = `${where}: ${found} where floats of the shape [items, dim] belong`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (rows > ROWS_MAX || dim > DIM_MAX) {
    const text = `${where}: ${found}; up to ${ROWS_MAX} rows of up to ${DIM_MAX} values are served`;
    throw new WinnowError("RESOURCE_EXHAUSTED", text);
  }
  return { rows, dim };
}

interface WantedIds {
  readonly ids: TensorFile;
  readonly rows: number;
  readonly partitions: number;
  /** File of the items, for messages. */
  readonly items: string;
  readonly checks: RowChecks;
}

interface ItemIds {
  readonly dtype: "string" | "int32" | "int64";
  readonly source: StoredRegion["source"];
  reading(table: CandidateTable): IdReading | StoredRegion;
}

function itemIds(files: DirectoryFiles, wanted: WantedIds): ItemIds {
  const { ids } = wanted;
  if (ids.file.endsWith(".txt")) return lineIds(files, wanted);
  if (!isParquet(ids)) return arrayIds(openArray(files, ids), wanted);
  const found = parquetIds(files.open(ids.file, ids.where), ids);
  return "kind" in found ? columnIds(found, wanted) : arrayIds(found, wanted);
}

function isParquet({ file }: TensorFile): boolean {
  return file.endsWith(".parquet");
}

/** Ids of a column of strings. It is read completely, because nothing else tells their lengths. */
function columnIds(column: TextColumn, wanted: WantedIds): ItemIds {
  const { ids, rows, partitions } = wanted;
  expectRows(column.rows, wanted);
  const texts = new ColumnIds(column, { rows, partitions });
  expectDistinct((visit) => texts.scan(visit), { rows, where: ids.where, name: column.name });
  const { checksum } = texts;
  if (ids.checksum !== undefined && ids.checksum !== checksum) throw otherChecksum(ids, checksum);
  const source = { tensor: column.tensor, file: ids.file, checksum };
  return { dtype: "string", source, reading: (table) => texts.reading(table) };
}

/** Ids of a text file. It is read completely, because nothing else tells where lines begin. */
function lineIds(files: DirectoryFiles, wanted: WantedIds): ItemIds {
  const { ids, rows, checks } = wanted;
  const { where, file } = ids;
  if (ids.tensor !== undefined) {
    const text = `${where}: a text file has no tensors; leave out "tensor"`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const opened = files.open(file, where);
  const head = new Uint8Array(Math.min(opened.size, 3));
  opened.read(0, head);
  refuseByteOrderMark(head, file);
  const region = opened.region({ offset: 0, size: opened.size }, "lines");
  const lines = new TextIds(region);
  expectRows(lines.rows, wanted);
  expectDistinct((visit) => lines.scan(visit), { rows, where, name: region.name });
  const checksum = checksumOf(region, checks);
  if (ids.checksum !== undefined && ids.checksum !== checksum) throw otherChecksum(ids, checksum);
  const source = { tensor: "lines", file, checksum };
  return { dtype: "string", source, reading: (table) => lines.reading(table) };
}

function arrayIds(array: StoredArray, wanted: WantedIds): ItemIds {
  const { ids, rows, checks } = wanted;
  const { where } = ids;
  const { type, shape, region } = array;
  if (isFloat(type) || shape.length !== 1) {
    const text = `${where}: ${region.name} is ${type} [${shape.join(",")}] where ids [items] belong`;
    throw new WinnowError("INVALID_ARGUMENT", `${text}: int64, int32 or texts`);
  }
  expectRows(shape[0] ?? 0, wanted);
  if (ids.checksum === undefined) {
    expectDistinct(arrayScan(array), { rows, where, name: region.name });
  }
  const stored = storedRegion(array, ids, checks);
  const { source } = stored;
  if (type === "int32" || type === "int64") return { dtype: type, source, reading: () => stored };
  return { dtype: "string", source, reading: (table) => fixedTextReading(table, array) };
}

function expectRows(count: number, { ids, rows, items }: WantedIds): void {
  if (count === rows) return;
  const text = `${ids.where}: ${excerpt(ids.file)} has ${count} ids where ${excerpt(items)} has ${rows} rows`;
  const why = "one of them may be cut, or of another export";
  throw new WinnowError("INVALID_ARGUMENT", `${text}; ${why}`);
}

function isFloat(type: StoredArray["type"]): type is "float32" | "half" | "bfloat16" {
  return type === "float32" || type === "half" || type === "bfloat16";
}

/**
 * An array as a region with a checksum: the one in the description, or that of the whole array, which is then
 * read once, in pieces.
 */
function storedRegion(
  array: StoredArray,
  { file, checksum }: TensorFile,
  checks: RowChecks,
): StoredRegion {
  const { type, shape, region, tensor } = array;
  const dtype: StoredDtype = type === "unicode" || type === "bytes" ? "string" : type;
  const known = checksum ?? checksumOf(region, checks);
  const start = shape.map(() => 0);
  const pieces = [{ start, shape, checksum: known, region, offset: 0 }];
  const source = { tensor, file, checksum: known };
  return { dtype, shape, pieces, size: region.size, name: region.name, source };
}

function otherChecksum({ file, where }: TensorFile, found: number): WinnowError {
  const text = `${where}: ${excerpt(file)} has the CRC-32C ${found.toString(16).padStart(8, "0")}`;
  return new WinnowError("DATA_LOSS", `${text}, not that of crc32c; copy the file again`);
}
