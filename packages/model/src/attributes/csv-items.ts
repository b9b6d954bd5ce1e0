// Items and their attributes from a CSV file (RFC 4180) with a header line. CSV has no types: a column has
// the narrowest type that all its fields can be read as, and an empty field is no value.
//
//   id,year,rating,title
//   42,1995,8.3,"Heat, directed by ""M. Mann"""

import { createRequire } from "node:module";
import type * as Csv from "csv-parse/sync";
import { ColumnBuilder, StringColumn, WinnowError, excerpt } from "@winnow/core";
import type { AttributeColumn, AttributeType, AttributeValue } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";
import { checkColumns, idNameOf } from "./described-items.ts";
import type { DescribedItems, RowLimit } from "./described-items.ts";
import { checkUtf8 } from "../storage/utf8-lines.ts";
import { LINE_BYTES_MAX, linesOf } from "./lines.ts";

const QUOTE = 34;
/** Bytes of whole records that the parser gets at once. */
const BATCH_BYTES = 2 ** 20;
const REMEDY = "close each quote, and write one item in each record";

/** Whole records of a file, and the number of their first line, from 1. */
interface Batch {
  readonly bytes: Buffer;
  readonly line: number;
}

/**
 * Reads the whole file. Ids are strings, which can also name items that have integer ids in the model.
 * @throws WinnowError INVALID_ARGUMENT naming the line, RESOURCE_EXHAUSTED for too many rows
 */
export function readCsvItems(file: RegionFile, limit: RowLimit): DescribedItems {
  let items: CsvItems | undefined;
  for (const batch of batchesOf(file)) {
    checkUtf8(file, batch.bytes, batch.line);
    if (batch.line === 1) checkSeparator(file.name, batch.bytes);
    for (const { fields, line } of recordsOf(file.name, batch)) {
      if (items === undefined) items = new CsvItems(file.name, fields);
      else items.add(fields, line);
    }
    limit.checkRead(items?.rows ?? 0);
  }
  return (items ?? new CsvItems(file.name, [])).finish();
}

/** Refuses a header of several columns between which are no commas, as some programs write it. */
function checkSeparator(file: string, bytes: Buffer): void {
  const header = bytes.toString("utf8", 0, bytes.indexOf(NEWLINE));
  const other = header.includes(",") ? undefined : /[;\t|]/.exec(header)?.[0];
  if (other === undefined) return;
  const text = `its header has ${JSON.stringify(other)} where commas belong; separate fields by commas`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
}

/**
 * Cuts a file after whole records. A line break belongs to a field if the number of quotes before it is odd,
 * because a quote within a quoted field is doubled.
 */
function* batchesOf(file: RegionFile): Generator<Batch> {
  let lines: Buffer[] = [];
  let [bytes, recordBytes, first, line] = [0, 0, 1, 0];
  let isQuoted = false;
  for (const each of linesOf(file, REMEDY)) {
    line += 1;
    // The line is in a buffer that lives as long as the batch; line ends are added again.
    lines.push(each, NEWLINE);
    bytes += each.length + 1;
    recordBytes += each.length + 1;
    if (hasOddQuotes(each)) isQuoted = !isQuoted;
    if (isQuoted) {
      if (recordBytes <= LINE_BYTES_MAX) continue;
      const text = `a quoted field of more than ${LINE_BYTES_MAX} bytes ends at or after line ${line}`;
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file.name}: ${text}; ${REMEDY}`);
    }
    recordBytes = 0;
    if (bytes < BATCH_BYTES) continue;
    yield { bytes: Buffer.concat(lines, bytes), line: first };
    [lines, bytes, first] = [[], 0, line + 1];
  }
  if (bytes > 0) yield { bytes: Buffer.concat(lines, bytes), line: first };
}

const NEWLINE = Buffer.from("\n");

function hasOddQuotes(line: Buffer): boolean {
  let isOdd = false;
  for (let at = line.indexOf(QUOTE); at >= 0; at = line.indexOf(QUOTE, at + 1)) isOdd = !isOdd;
  return isOdd;
}

/** Loaded for the first file, so that reader threads start without other packages. */
function csv(): typeof Csv {
  return createRequire(import.meta.url)("csv-parse/sync") as typeof Csv;
}

interface CsvRecord {
  readonly fields: readonly string[];
  /** The last line of the record, from 1. */
  readonly line: number;
}

/** @throws WinnowError INVALID_ARGUMENT */
function recordsOf(file: string, { bytes, line }: Batch): readonly CsvRecord[] {
  const { CsvError, parse } = csv();
  try {
    const records: CsvRecord[] = [];
    parse(bytes, {
      bom: line === 1,
      record_delimiter: ["\n", "\r\n"],
      relax_column_count: true,
      skip_empty_lines: true,
      on_record: (fields: readonly string[], { lines }) => {
        records.push({ fields, line: line + lines - 1 });
        return null;
      },
    });
    return records;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const at = typeof error["lines"] === "number" ? line + error["lines"] - 1 : line;
    const text = `line ${at} is no CSV: ${excerpt(error.message)}`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
  }
}

class CsvItems {
  readonly #file: string;
  readonly #columns: readonly (CsvColumn | undefined)[];
  readonly #idColumn: number;
  readonly #ids: string[] = [];

  constructor(file: string, header: readonly string[]) {
    this.#file = file;
    this.#idColumn = header.indexOf(idNameOf(file, header));
    checkColumns(file, header);
    this.#columns = header.map((name, at) =>
      at === this.#idColumn ? undefined : new CsvColumn(name),
    );
  }

  get rows(): number {
    return this.#ids.length;
  }

  add(fields: readonly string[], line: number): void {
    if (fields.length !== this.#columns.length) {
      const text = `${fields.length} fields where the header has ${this.#columns.length}`;
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${this.#file}, line ${line}: ${text}`);
    }
    const id = fields[this.#idColumn]!;
    if (id === "") {
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${this.#file}, line ${line}: no id`);
    }
    this.#ids.push(id);
    for (const [at, column] of this.#columns.entries()) column?.add(fields[at]!);
  }

  finish(): DescribedItems {
    const columns: AttributeColumn[] = [];
    for (const column of this.#columns) if (column) columns.push(column.finish(this.#file));
    return { ids: StringColumn.fromText(this.#ids), areIdsUntyped: true, columns };
  }
}

/** The fields of one column: each distinct text once, and the number of its text for each row. */
class CsvColumn {
  readonly #name: string;
  readonly #codeOf = new Map<string, number>();
  #codes = new Uint32Array(1024);
  #rows = 0;

  constructor(name: string) {
    this.#name = name;
  }

  add(text: string): void {
    let code = this.#codeOf.get(text);
    if (code === undefined) {
      code = this.#codeOf.size;
      if (code === TEXTS_MAX) {
        const why = `attribute "${excerpt(this.#name)}" has more than ${TEXTS_MAX} distinct values`;
        throw new WinnowError("RESOURCE_EXHAUSTED", `${why}; leave it out`);
      }
      this.#codeOf.set(text, code);
    }
    if (this.#rows === this.#codes.length) {
      const grown = new Uint32Array(this.#rows * 2);
      grown.set(this.#codes);
      this.#codes = grown;
    }
    this.#codes[this.#rows++] = code;
  }

  /** The column, in the narrowest type that fits all its texts. */
  finish(file: string): AttributeColumn {
    const texts = [...this.#codeOf.keys()];
    const { type, valueOf } = READINGS.find(({ isOf }) =>
      texts.every((text) => text === "" || isOf(text)),
    )!;
    const values = texts.map((text) => (text === "" ? undefined : valueOf(text)));
    const builder = new ColumnBuilder();
    try {
      for (let row = 0; row < this.#rows; row += 1) builder.add(values[this.#codes[row]!]);
    } catch (error) {
      if (!(error instanceof WinnowError)) throw error;
      const text = `attribute "${excerpt(this.#name)}": ${error.message}`;
      throw new WinnowError(error.code, `Cannot read ${file}: ${text}`);
    }
    return builder.finish({ name: this.#name, type, isList: false });
  }
}

/** Distinct texts of a column: a JavaScript Map holds at most 2²⁴ entries. */
const TEXTS_MAX = 16_000_000;

/** Without leading zeros: with them a text is a code, such as a postcode. */
const INTEGER = /^-?(?:0|[1-9]\d{0,18})$/;
const FLOAT = /^[+-]?(?:0|[1-9]\d*)?(?:\.\d*)?(?:[eE][+-]?\d+)?$/;
const [INT64_MIN, INT64_MAX] = [-(2n ** 63n), 2n ** 63n - 1n];

/** The types that texts can be read as, the narrowest first. */
const READINGS: readonly {
  readonly type: AttributeType;
  readonly isOf: (text: string) => boolean;
  readonly valueOf: (text: string) => AttributeValue;
}[] = [
  // A column without any value has the type string.
  { type: "string", isOf: () => false, valueOf: (text) => text },
  {
    type: "boolean",
    isOf: (text) => /^(?:true|false)$/i.test(text),
    valueOf: (text) => text.toLowerCase() === "true",
  },
  {
    type: "integer",
    isOf: (text) => INTEGER.test(text) && isInt64(BigInt(text)),
    valueOf: BigInt,
  },
  {
    type: "float",
    isOf: (text) => /\d/.test(text) && FLOAT.test(text) && Number.isFinite(Number(text)),
    valueOf: Number,
  },
  { type: "string", isOf: () => true, valueOf: (text) => text },
];

function isInt64(value: bigint): boolean {
  return value >= INT64_MIN && value <= INT64_MAX;
}
