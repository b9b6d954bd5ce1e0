// A column of a Parquet file as an array: numbers as a region with the bytes that the same array has in a
// `.npy`, so that all code that reads regions reads Parquet too; strings as a scan. Checksums cover the
// values, whatever pages and compression they are written in.

import { WinnowError, elementCount, excerpt } from "@winnow/core";
import type { Region, RegionFile } from "../../../storage/region.ts";
import type { TensorFile } from "../../description/description.ts";
import type { StoredArray } from "../stored-array.ts";
import { ColumnValues } from "./column-values.ts";
import { damaged, readFooter } from "./parquet-file.ts";
import type { ParquetColumn } from "./parquet-file.ts";

/** Strings by row number. */
export interface TextColumn {
  readonly kind: "texts";
  /** File and column, for messages. */
  readonly name: string;
  readonly tensor: string;
  readonly rows: number;
  texts(firstRow: number, endRow: number): Generator<Uint8Array>;
}

const ARRAY_TYPES: Readonly<Record<string, StoredArray["type"] | undefined>> = {
  FLOAT: "float32",
  INT32: "int32",
  INT64: "int64",
};

/** The column of embeddings: of lists of floats. @throws WinnowError naming file and remedy */
export function parquetItems(file: RegionFile, wanted: TensorFile): StoredArray {
  const remedy =
    'write the items as lists of float32 (pandas: list(matrix.astype("float32")), Polars: cast(pl.List(pl.Float32)), DuckDB: ::FLOAT[])';
  const column = chosen(file, wanted, { fits: isItems, remedy });
  if (isItems(column)) return arrayOf(file, column);
  const text = `${wanted.where}: column "${excerpt(column.name)}" of ${file.name} is ${typeText(column)}`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}; ${remedy}`);
}

function isItems({ type, repetitionLevel }: ParquetColumn): boolean {
  return type === "FLOAT" && repetitionLevel === 1;
}

function typeText({ type, meaning, repetitionLevel }: ParquetColumn): string {
  const isPlain = meaning === undefined || meaning === "unsigned";
  return `${"list of ".repeat(repetitionLevel)}${type}${isPlain ? "" : ` (${meaning})`}`;
}

/** The column of ids: integers or texts. @throws WinnowError naming file and remedy */
export function parquetIds(file: RegionFile, wanted: TensorFile): StoredArray | TextColumn {
  const remedy = "write ids as texts, int64 or int32";
  const column = chosen(file, wanted, { fits: isId, remedy });
  if (!isId(column)) {
    const text = `${wanted.where}: column "${excerpt(column.name)}" of ${file.name} is ${typeText(column)}`;
    throw new WinnowError("INVALID_ARGUMENT", `${text}; ${remedy}`);
  }
  if (column.type !== "BYTE_ARRAY") {
    const array = arrayOf(file, column);
    return column.meaning === "unsigned" ? unsignedAsInt64(array) : array;
  }
  const values = new ColumnValues(file, column, 1);
  const rows = column.chunks.reduce((sum, chunk) => sum + chunk.rows, 0);
  return {
    kind: "texts",
    name: `${file.name}, column "${excerpt(column.name)}"`,
    tensor: column.name,
    rows,
    texts: (firstRow, endRow) => values.texts(firstRow, endRow),
  };
}

/** Dates, times and decimals are stored as integers or bytes too, which would be ids that nobody knows. */
function isId({ type, meaning, repetitionLevel }: ParquetColumn): boolean {
  if (repetitionLevel > 0) return false;
  if (type === "BYTE_ARRAY") return meaning === undefined;
  return (type === "INT64" || type === "INT32") && [undefined, "unsigned"].includes(meaning);
}

/** Unsigned integers as int64: those of 32 bits are widened, those of 64 bits must be below 2⁶³. */
function unsignedAsInt64({
  elementBytes: storedBytes,
  region,
  ...array
}: StoredArray): StoredArray {
  const elementBytes = 8;
  const size = (region.size / storedBytes) * elementBytes;
  const read = (offset: number, target: Uint8Array): void => {
    const first = Math.floor(offset / elementBytes);
    const end = Math.ceil((offset + target.length) / elementBytes);
    const stored = new Uint32Array(((end - first) * storedBytes) / 4);
    region.read(first * storedBytes, new Uint8Array(stored.buffer));
    const words = storedBytes === 8 ? stored : new Uint32Array(2 * (end - first));
    for (let at = 0; at < end - first; at += 1) {
      if (storedBytes === 4) words[2 * at] = stored[at]!;
      else if (words[2 * at + 1]! >= 2 ** 31) {
        const text = `Cannot read ${region.name}: the id of row ${first + at} is 2^63 or more`;
        throw new WinnowError("INVALID_ARGUMENT", `${text}; write ids as texts or int64`);
      }
    }
    target.set(new Uint8Array(words.buffer, offset - first * elementBytes, target.length));
  };
  return { ...array, type: "int64", elementBytes, region: { ...region, size, read } };
}

/** What a column is chosen for: which columns may be meant, and what to write if there are none. */
interface Choice {
  readonly fits: (column: ParquetColumn) => boolean;
  readonly remedy: string;
}

/** The column that the description names, or the only one that fits. */
function chosen(
  file: RegionFile,
  { tensor, where }: TensorFile,
  { fits, remedy }: Choice,
): ParquetColumn {
  const columns = readFooter(file);
  const found = columns.filter((column) =>
    tensor === undefined ? fits(column) : column.name === tensor,
  );
  if (found.length === 1) return found[0]!;
  const listed = columns
    .slice(0, 20)
    .map((column) => `"${excerpt(column.name)}" (${typeText(column)})`)
    .join(", ");
  if (tensor !== undefined) {
    const text = `${where}: ${file.name} has not one column "${excerpt(tensor)}", but ${listed}`;
    throw new WinnowError("NOT_FOUND", text);
  }
  const next = found.length > 1 ? `name one of them as "tensor"` : `none of them fits: ${remedy}`;
  const text = `${where}: ${file.name} has the columns ${listed}; ${next}`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function arrayOf(file: RegionFile, column: ParquetColumn): StoredArray {
  const { name: tensor, chunks } = column;
  const type = ARRAY_TYPES[column.type];
  const elementBytes = column.valueBytes;
  if (type === undefined || elementBytes === undefined) throw new RangeError(column.type);
  const rows = chunks.reduce((sum, chunk) => sum + chunk.rows, 0);
  const width = widthOf(file, column);
  const shape = column.repetitionLevel === 0 ? [rows] : [rows, width];
  const size = elementCount(shape) * elementBytes;
  const name = `${file.name}, column "${excerpt(tensor)}"`;
  const values = new ColumnValues(file, column, width);
  const region: Region = {
    size,
    name,
    file: file.name,
    fileBytes: file.size,
    read(offset, target) {
      const end = offset + target.length;
      if (offset < 0 || end > size) {
        throw new WinnowError(
          "DATA_LOSS",
          `Cannot read ${name}: byte ${offset} lies outside of it`,
        );
      }
      const first = Math.floor(offset / elementBytes);
      let at = first * elementBytes;
      for (const piece of values.bytes(first, Math.ceil(end / elementBytes))) {
        const from = Math.max(0, offset - at);
        const part = piece.subarray(from, Math.min(piece.length, end - at));
        target.set(part, at + from - offset);
        at += piece.length;
      }
    },
  };
  return { type, elementBytes, shape, region, tensor };
}

/** Values per row: the values of a chunk divided by its rows, equal in all chunks. */
function widthOf(file: RegionFile, { name, chunks, repetitionLevel }: ParquetColumn): number {
  const filled = chunks.filter(({ rows, values }) => rows > 0 || values > 0);
  const widths = new Set(filled.map(({ rows, values }) => values / rows));
  const [width = 1] = widths;
  const isOne = repetitionLevel > 0 || width === 1;
  if (widths.size <= 1 && Number.isSafeInteger(width) && width > 0 && isOne) return width;
  if (repetitionLevel === 0)
    throw damaged(file, `column "${excerpt(name)}" has more values than rows`);
  const text = `Cannot read ${file.name}: rows of column "${excerpt(name)}" have not all the same number of values`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}; every row needs as many, all there`);
}
