// Items and their attributes from lines of JSON, one object for each item. An attribute has the type of its
// values; a mixture of integers and floats has type float.
//
//   {"id": "Heat (1995)", "year": 1995, "genres": ["crime", "drama"]}

import { randomInt } from "node:crypto";
import { ColumnBuilder, StringColumn, WinnowError, excerpt } from "@winnow/core";
import type { AttributeType, AttributeValue } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";
import { checkColumns, idNameOf } from "./described-items.ts";
import { checkUtf8 } from "../storage/utf8-lines.ts";
import { blocksOf } from "./lines.ts";
import { keysWritten, repeatedKey } from "./repeated-keys.ts";
import type { DescribedItems, ItemIds, RowLimit } from "./described-items.ts";

/** Doubles from here on do not fit 64-bit integers. */
const INTEGERS_END = 2 ** 64;

const NEWLINE = 10;
/** Some programs write it in front of a file in UTF-8; it means nothing. */
const BYTE_ORDER_MARK = Buffer.from("\uFEFF");
/** Bytes of lines that are parsed at once. */
const PARSED_BYTES = 2 ** 16;
const SEPARATOR_END = 2 ** 30;

/** Reads the whole file. @throws WinnowError INVALID_ARGUMENT naming the line, RESOURCE_EXHAUSTED for too many rows */
export function readJsonLines(file: RegionFile, limit: RowLimit): DescribedItems {
  const items = new LineItems(file.name);
  const separator = randomInt(SEPARATOR_END);
  let line = 0;
  for (const block of blocksOf(file, "write one object in each line")) {
    checkUtf8(file, block, line + 1);
    const isMarked =
      line === 0 && block.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
    for (let from = isMarked ? BYTE_ORDER_MARK.length : 0; from < block.length;) {
      const end = endOfLines(block, from);
      const lines = block.subarray(from, end).toString("utf8").replace(/\n$/, "");
      const objects = objectsOf(lines, separator);
      const [before, linesBefore] = [items.fields, line];
      if (objects === undefined)
        for (const text of lines.split("\n")) items.addText(text, (line += 1));
      else for (const object of objects) items.add(object, (line += 1));
      if (keysWritten(lines) > items.fields - before) checkKeys(file.name, lines, linesBefore);
      from = end;
    }
    limit.checkRead(items.rows);
  }
  return items.finish();
}

/**
 * Refuses an object that has a key twice, of which the parser keeps the last value. The first of `lines` follows on
 * `linesBefore` others. @throws WinnowError INVALID_ARGUMENT naming line and key
 */
function checkKeys(file: string, lines: string, linesBefore: number): void {
  for (const [at, text] of lines.split("\n").entries()) {
    const key = repeatedKey(text);
    if (key === undefined) continue;
    const what = `line ${linesBefore + at + 1} has the key "${excerpt(key)}" twice; leave one of them`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${what}`);
  }
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The objects of lines, if each line is one object; `undefined`: that must be found out line by line. They are parsed
 * as one array with a separator between the lines, which the file cannot know: if there is one between any two of
 * its elements, and there are as many as lines end, then no object goes from one line into another, and no line has
 * two.
 */
function objectsOf(lines: string, separator: number): readonly Fields[] | undefined {
  const between = `,${separator},`;
  const joined = lines.replaceAll("\n", between);
  const separators = (joined.length - lines.length) / (between.length - 1);
  const parsed = parsedOrNot(`[${joined}]`) as readonly unknown[] | undefined;
  if (parsed?.length !== 2 * separators + 1) return undefined;
  const objects: Fields[] = [];
  for (const [at, value] of parsed.entries()) {
    if (at % 2 === 1 ? value !== separator : !isObject(value)) return undefined;
    if (at % 2 === 0) objects.push(value as Fields);
  }
  return objects;
}

function parsedOrNot(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Where lines end that begin at `from`, and are parsed together. */
function endOfLines(block: Buffer, from: number): number {
  if (block.length - from <= PARSED_BYTES) return block.length;
  const last = block.lastIndexOf(NEWLINE, from + PARSED_BYTES);
  const end = last < from ? block.indexOf(NEWLINE, from) : last;
  return end < 0 ? block.length : end + 1;
}

/** The values of one attribute while the file is read. */
interface OpenColumn {
  readonly builder: ColumnBuilder;
  type: AttributeType | undefined;
  isList: boolean;
  /** Rows added so far. */
  rows: number;
}

/** Which column each field of an object has; `undefined`: it is the id, or has no column yet. */
interface Shape {
  readonly names: readonly string[];
  readonly columns: (OpenColumn | undefined)[];
}

class LineItems {
  readonly #file: string;
  readonly #columns = new Map<string, OpenColumn>();
  readonly #ids: (string | number)[] = [];
  #fields = 0;
  #idName: string | undefined;
  /** Of the last object: most objects of a file have the same fields. */
  #shape: Shape | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  get rows(): number {
    return this.#ids.length;
  }

  /** Fields of all objects, each key once. */
  get fields(): number {
    return this.#fields;
  }

  /** Adds the object of a line, if it is not empty. */
  addText(text: string, line: number): void {
    if (text.trim() === "") return;
    const value = parsedOrNot(text);
    if (isObject(value)) return this.add(value, line);
    const what = `line ${line} is no JSON object: ${excerpt(text).slice(0, 80)}`;
    const remedy = "; write one object a line, without a list around them (pandas: lines=True)";
    const isList = text.trimStart().startsWith("[");
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot read ${this.#file}: ${what}${isList ? remedy : ""}`,
    );
  }

  add(fields: Fields, line: number): void {
    try {
      const { names, columns } = this.#shapeOf(Object.keys(fields));
      for (let at = 0; at < names.length; at += 1) {
        const name = names[at]!;
        if (name === this.#idName) continue;
        columns[at] ??= this.#columnOf(name);
        this.#addValue(columns[at]!, name, fields[name]);
      }
      this.#fields += names.length;
      this.#addId(fields[this.#idName!]);
    } catch (error) {
      if (!(error instanceof WinnowError) || error.message.startsWith("Cannot read")) throw error;
      throw new WinnowError(
        error.code,
        `Cannot read ${this.#file}, line ${line}: ${error.message}`,
      );
    }
  }

  /** The shape of an object with these fields. @throws WinnowError INVALID_ARGUMENT if none is the id */
  #shapeOf(names: readonly string[]): Shape {
    const known = this.#shape;
    if (
      known?.names.length === names.length &&
      known.names.every((name, at) => name === names[at])
    ) {
      return known;
    }
    this.#idName ??= idNameOf(this.#file, names);
    if (!names.includes(this.#idName)) throw invalid(`it has no "${this.#idName}"`);
    this.#shape = { names, columns: names.map((name) => this.#columns.get(name)) };
    return this.#shape;
  }

  #addId(id: unknown): void {
    const isId = typeof id === "string" || (typeof id === "number" && Number.isSafeInteger(id));
    if (!isId)
      throw invalid("an id is a text or an integer below 2^53; write larger ones as texts");
    this.#ids.push(id);
  }

  #columnOf(name: string): OpenColumn {
    const column = { builder: new ColumnBuilder(), type: undefined, isList: false, rows: 0 };
    this.#columns.set(name, column);
    checkColumns(this.#file, [...this.#columns.keys()]);
    return column;
  }

  #addValue(column: OpenColumn, name: string, value: unknown): void {
    for (; column.rows < this.#ids.length; column.rows += 1) column.builder.add(undefined);
    try {
      if (value === null) column.builder.add(undefined);
      else if (Array.isArray(value)) {
        column.isList = true;
        const there: AttributeValue[] = [];
        for (const each of value as unknown[]) if (each !== null) there.push(typed(column, each));
        column.builder.add(there);
      } else column.builder.add(typed(column, value));
      column.rows += 1;
    } catch (error) {
      if (!(error instanceof WinnowError)) throw error;
      throw new WinnowError(error.code, `attribute "${excerpt(name)}": ${error.message}`);
    }
  }

  finish(): DescribedItems {
    const columns = Array.from(this.#columns, ([name, column]) => {
      for (; column.rows < this.#ids.length; column.rows += 1) column.builder.add(undefined);
      const { type = "string", isList } = column;
      return column.builder.finish({ name, type, isList });
    });
    const ids = idsOf(this.#ids, this.#file);
    // Integers of 2^53 and more can only be written as texts.
    return { ids, areIdsUntyped: ids instanceof StringColumn, columns };
  }
}

/** A value in the column's type, which the value may widen or set. */
function typed(column: OpenColumn, value: unknown): AttributeValue {
  const type = typeOf(value);
  const isNumber = type === "integer" || type === "float";
  const areNumbers = column.type === "integer" || column.type === "float";
  if (column.type !== undefined && column.type !== type && !(isNumber && areNumbers)) {
    throw invalid(`it is ${type} here and ${column.type} before`);
  }
  if (column.type !== "float") column.type = type;
  return value as AttributeValue;
}

function typeOf(value: unknown): AttributeType {
  if (typeof value === "string") return "string";
  if (typeof value === "boolean") return "boolean";
  if (typeof value !== "number") {
    throw invalid("an object or a list of lists; attributes are values, or lists of values");
  }
  if (!Number.isInteger(value) || Math.abs(value) >= INTEGERS_END) return "float";
  if (Number.isSafeInteger(value)) return "integer";
  throw invalid("an integer beyond 2^53, which JSON does not hold exactly; write a Parquet file");
}

/** The ids, all of one type. */
function idsOf(ids: readonly (string | number)[], file: string): ItemIds {
  const texts = ids.filter((id) => typeof id === "string");
  if (texts.length === ids.length) return StringColumn.fromText(texts);
  if (texts.length > 0) {
    const text =
      "some ids are texts and some are integers; write all of them as the model has them";
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
  }
  return BigInt64Array.from(ids as number[], (id) => BigInt(id));
}

function invalid(what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", what);
}
