// Items and their attributes from a Parquet file: one row for each item, one column for each attribute.

import { isUtf8 } from "node:buffer";
import { ColumnBuilder, StringColumn, WinnowError, excerpt, timeOf } from "@winnow/core";
import type { AttributeType, AttributeValue } from "@winnow/core";
import { ColumnPages } from "../onnx-directory/tables/parquet/column-pages.ts";
import type { DecodedPage, Page, Values } from "../onnx-directory/tables/parquet/column-pages.ts";
import type { PageTexts } from "../onnx-directory/tables/parquet/page-texts.ts";
import { damaged, readFooter } from "../onnx-directory/tables/parquet/parquet-file.ts";
import type { ParquetColumn } from "../onnx-directory/tables/parquet/parquet-file.ts";
import type { RegionFile } from "../storage/region.ts";
import { checkColumns, idNameOf } from "./described-items.ts";
import type { DescribedItems, ItemIds, RowLimit } from "./described-items.ts";

/**
 * Reads the whole file.
 * @throws WinnowError RESOURCE_EXHAUSTED for too many rows, before any is read; DATA_LOSS, INVALID_ARGUMENT,
 * UNIMPLEMENTED naming the column
 */
export function readParquetItems(file: RegionFile, limit: RowLimit): DescribedItems {
  const columns = readFooter(file);
  limit.check(columns[0] === undefined ? 0 : rowCountOf(columns[0]));
  const names = columns.map(({ name }) => name);
  checkColumns(file.name, names);
  const idName = idNameOf(file.name, names);
  const ids = readIds(
    file,
    columns.find(({ name }) => name === idName)!,
  );
  const described = columns
    .filter(({ name }) => name !== idName)
    .map((column) => {
      const type = typeOf(file, column);
      const builder = new ColumnBuilder();
      try {
        for (const value of rowsOf(file, column, type)) builder.add(value);
      } catch (error) {
        throw error instanceof WinnowError && !error.message.startsWith("Cannot read")
          ? refused(file, column, `cannot be an attribute: ${error.message}`)
          : error;
      }
      return builder.finish({ name: column.name, type, isList: column.repetitionLevel > 0 });
    });
  return { ids, columns: described };
}

function rowCountOf({ chunks }: ParquetColumn): number {
  return chunks.reduce((sum, { rows }) => sum + rows, 0);
}

function readIds(file: RegionFile, column: ParquetColumn): ItemIds {
  const type = typeOf(file, column);
  const isId = type === "string" || type === "integer";
  if (!isId || column.repetitionLevel > 0) {
    const what = column.repetitionLevel > 0 ? `a list of ${type}` : type;
    throw refused(file, column, `is ${what}; ids are texts or integers`);
  }
  const texts: string[] = [];
  const integers = new BigInt64Array(type === "string" ? 0 : rowCountOf(column));
  let row = 0;
  for (const value of rowsOf(file, column, type)) {
    if (value === undefined) throw refused(file, column, `has no id in row ${row}`);
    if (typeof value === "string") texts.push(value);
    else integers[row] = BigInt(value as number | bigint);
    row += 1;
  }
  return type === "string" ? StringColumn.fromText(texts) : integers;
}

function typeOf(file: RegionFile, column: ParquetColumn): AttributeType {
  const { type, meaning, repetitionLevel, depth } = column;
  if (repetitionLevel > 1 || depth > (repetitionLevel === 1 ? 3 : 1)) {
    throw refused(file, column, "is nested; attributes are values, or lists of values");
  }
  const remedy = "write texts, integers, doubles or timestamps";
  if (meaning === "decimal") return column.scale === 0 ? "integer" : "float";
  if (meaning !== undefined && !READ_MEANINGS.has(meaning)) {
    throw refused(file, column, `has values of the logical type ${meaning}; ${remedy}`);
  }
  const found = TYPES[type];
  if (found === undefined) throw refused(file, column, `is ${type}; ${remedy}`);
  const isTime = found === "integer" && meaning !== undefined && meaning !== "unsigned";
  return isTime ? "timestamp" : found;
}

const READ_MEANINGS: ReadonlySet<ParquetColumn["meaning"]> = new Set([
  "date",
  "millis",
  "micros",
  "nanos",
  "unsigned",
]);

/** The attribute type of each physical type. */
const TYPES: Readonly<Record<string, AttributeType | undefined>> = {
  BOOLEAN: "boolean",
  BYTE_ARRAY: "string",
  FLOAT: "float",
  DOUBLE: "float",
  INT32: "integer",
  INT64: "integer",
  // Times of Spark and Hive, which have no logical type.
  INT96: "timestamp",
};

type RowValue = AttributeValue | readonly AttributeValue[] | undefined;

/** The value, or the list, of each row. */
function* rowsOf(
  file: RegionFile,
  column: ParquetColumn,
  type: AttributeType,
): Generator<RowValue> {
  const pages = new ColumnPages(file, column);
  const { repetitionLevel } = column;
  for (const [number, chunk] of column.chunks.entries()) {
    if (repetitionLevel === 0 && chunk.values !== chunk.rows) {
      throw damaged(
        file,
        `${chunk.values} values in ${chunk.rows} rows, in column "${excerpt(column.name)}"`,
      );
    }
    const open = pages.openChunk(number);
    let rows = 0;
    const list = new ListRows(file, column);
    for (const page of open.pages) {
      const decoded = pages.decoded(open, page);
      const valueAt = valuesOf(file, column, { type, values: decoded.values });
      const found =
        repetitionLevel === 0
          ? scalars(column, page, { decoded, valueAt })
          : list.rows(page, { decoded, valueAt });
      for (const value of found) {
        rows += 1;
        yield value;
      }
    }
    if (repetitionLevel > 0) {
      for (const value of list.end()) {
        rows += 1;
        yield value;
      }
    }
    if (rows !== chunk.rows) {
      throw damaged(file, `${rows} rows of ${chunk.rows}, in column "${excerpt(column.name)}"`);
    }
  }
}

interface PageValues {
  readonly decoded: DecodedPage;
  readonly valueAt: (position: number) => AttributeValue;
}

function* scalars(
  { definitionLevel }: ParquetColumn,
  page: Page,
  { decoded: { definition }, valueAt }: PageValues,
): Generator<RowValue> {
  let next = 0;
  for (let at = 0; at < page.values; at += 1) {
    const isThere = definition === undefined || definition[at] === definitionLevel;
    yield isThere ? valueAt(next++) : undefined;
  }
}

/** Elements of a list, missing ones too: more are beyond the bytes of a value, and a run of few bytes may hold millions. */
const ELEMENTS_MAX = 1024;

/** Lists, which may continue in the next page. */
class ListRows {
  readonly #file: RegionFile;
  readonly #column: ParquetColumn;
  #row: AttributeValue[] | undefined;
  /** Elements of the row so far. */
  #elements = 0;
  #hasRow = false;

  constructor(file: RegionFile, column: ParquetColumn) {
    this.#file = file;
    this.#column = column;
  }

  *rows(page: Page, { decoded, valueAt }: PageValues): Generator<RowValue> {
    const { definitionLevel, elementLevel } = this.#column;
    const { repetition, definition } = decoded;
    let next = 0;
    for (let at = 0; at < page.values; at += 1) {
      const level = definition?.[at] ?? definitionLevel;
      if (repetition?.[at] === 0) {
        if (this.#hasRow) yield this.#row;
        this.#hasRow = true;
        this.#elements = 0;
        // Below the level of an element the list is empty; below the level of an empty list there is no list.
        this.#row = level < elementLevel - 1 ? undefined : [];
      }
      this.#elements += 1;
      if (this.#elements > ELEMENTS_MAX) throw this.#tooLong();
      // A missing element is left out.
      if (level === definitionLevel) this.#row?.push(valueAt(next++));
    }
  }

  *end(): Generator<RowValue> {
    if (this.#hasRow) yield this.#row;
  }

  #tooLong(): WinnowError {
    const what = `cannot be an attribute: a list has more than ${ELEMENTS_MAX} elements; leave the column out`;
    return refused(this.#file, this.#column, what);
  }
}

/** Gives the function that reads the value at a position of a page. */
function valuesOf(
  file: RegionFile,
  column: ParquetColumn,
  { type, values }: { readonly type: AttributeType; readonly values: Values },
): (position: number) => AttributeValue {
  const { type: physical, meaning } = column;
  if (meaning === "decimal") return decimalsOf(file, column, values);
  if (!(values instanceof Uint8Array)) return textsOf(file, column, values);
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  if (physical === "INT96") return (position) => timeOfDay(view, position * 12);
  if (physical === "BOOLEAN") return (position) => values[position] === 1;
  if (physical === "FLOAT") return (position) => view.getFloat32(position * 4, true);
  if (physical === "DOUBLE") return (position) => view.getFloat64(position * 8, true);
  const isUnsigned = meaning === "unsigned";
  const integerAt =
    physical === "INT32"
      ? (position: number) =>
          isUnsigned ? view.getUint32(position * 4, true) : view.getInt32(position * 4, true)
      : (position: number) => view.getBigInt64(position * 8, true);
  return (position) => {
    const integer = integerAt(position);
    if (type === "timestamp") return microseconds(BigInt(integer), meaning);
    if (isUnsigned && integer < 0) throw refused(file, column, "holds an integer above 2^63 - 1");
    return integer;
  };
}

/** What stands for bytes that are no UTF-8. */
const REPLACEMENT = "\uFFFD";
/** Entries of a dictionary are at one place wherever they occur, and mostly occur many times. */
const KNOWN_TEXTS = 2 ** 12;

/** Refuses texts that are not UTF-8: read leniently, two ids with different damaged bytes would be one. */
function textsOf(
  file: RegionFile,
  column: ParquetColumn,
  values: PageTexts,
): (position: number) => string {
  const known = new Map<number, string>();
  return (position) => {
    const start = values.startOf(position);
    const seen = known.get(start);
    if (seen !== undefined) return seen;
    const bytes = values.at(position);
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
    if (text.includes(REPLACEMENT) && !isUtf8(bytes)) {
      throw refused(file, column, `holds "${excerpt(text)}", not UTF-8; write texts in UTF-8`);
    }
    if (known.size < KNOWN_TEXTS) known.set(start, text);
    return text;
  };
}

/** Those of 76 digits, the most that libraries write. */
const DECIMAL_BYTES_MAX = 32;

/** Integers where no digit is behind the point, else the nearest float64, as a filter's `3.99` is. */
function decimalsOf(
  file: RegionFile,
  column: ParquetColumn,
  values: Values,
): (position: number) => AttributeValue {
  const integerAt = unscaledOf(file, column, values);
  const { scale } = column;
  if (scale === 0) {
    return (position) => {
      const integer = integerAt(position);
      if (BigInt.asIntN(64, integer) === integer) return integer;
      throw refused(file, column, "holds an integer of more than 64 bits; write texts");
    };
  }
  const divisor = Number(`1e${scale}`);
  return (position) => {
    const integer = integerAt(position);
    const number = Number(integer);
    // Both are exact, so the quotient is rounded once.
    if (scale <= 22 && Number.isSafeInteger(number)) return number / divisor;
    return Number(`${integer}e-${scale}`);
  };
}

/** The integers of decimals without their point: numbers, or bytes of which the first is the highest. */
function unscaledOf(
  file: RegionFile,
  column: ParquetColumn,
  values: Values,
): (position: number) => bigint {
  const { type, valueBytes: size } = column;
  const signed = (bytes: Uint8Array): bigint => {
    if (bytes.length > DECIMAL_BYTES_MAX) {
      throw refused(file, column, `holds a decimal of ${bytes.length} bytes; write doubles`);
    }
    const hex = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex");
    return BigInt.asIntN(bytes.length * 8, BigInt(`0x0${hex}`));
  };
  if (!(values instanceof Uint8Array)) return (position) => signed(values.at(position));
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  if (type === "INT32") return (position) => BigInt(view.getInt32(position * 4, true));
  if (type === "INT64") return (position) => view.getBigInt64(position * 8, true);
  return (position) => signed(values.subarray(position * size!, (position + 1) * size!));
}

const DAY_MICROSECONDS = 86_400_000_000n;
/** The Julian day that began at noon of 1970-01-01; days of INT96 begin at midnight. */
const JULIAN_DAY_1970 = 2_440_588;

/** INT96: nanoseconds of the day, then the Julian day. */
function timeOfDay(view: DataView, at: number): number {
  const day = BigInt(view.getInt32(at + 8, true) - JULIAN_DAY_1970);
  return timeOf(day * DAY_MICROSECONDS + view.getBigInt64(at, true) / 1000n);
}

function microseconds(value: bigint, meaning: ParquetColumn["meaning"]): number {
  if (meaning === "date") return timeOf(value * DAY_MICROSECONDS);
  if (meaning === "millis") return timeOf(value * 1000n);
  // Rounded down, also for times before 1970.
  if (meaning === "nanos") return timeOf((value - (((value % 1000n) + 1000n) % 1000n)) / 1000n);
  return timeOf(value);
}

function refused(file: RegionFile, { name }: ParquetColumn, what: string): WinnowError {
  const text = `Cannot read ${excerpt(file.name)}: column "${excerpt(name)}" ${what}`;
  return new WinnowError("INVALID_ARGUMENT", text);
}
