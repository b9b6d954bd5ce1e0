// Items and their attributes from lines of JSON, one object for each item. An attribute has the type of its
// values; a mixture of integers and floats has type float.
//
//   {"id": "Heat (1995)", "year": 1995, "genres": ["crime", "drama"]}

import { ColumnBuilder, StringColumn, WinnowError, excerpt } from "@winnow/core";
import type { AttributeType, AttributeValue } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";
import { checkColumns, idNameOf } from "./described-items.ts";
import { linesOf } from "./lines.ts";
import type { DescribedItems, ItemIds } from "./described-items.ts";

/** Doubles from here on do not fit 64-bit integers. */
const INTEGERS_END = 2 ** 64;

/** Reads the whole file. @throws WinnowError INVALID_ARGUMENT naming the line */
export function readJsonLines(file: RegionFile): DescribedItems {
  const items = new LineItems(file.name);
  let line = 0;
  for (const bytes of linesOf(file, "write one object in each line")) {
    line += 1;
    const text = bytes.toString("utf8");
    if (text.trim() !== "") items.add(text, line);
  }
  return items.finish();
}

/** The values of one attribute while the file is read. */
interface OpenColumn {
  readonly builder: ColumnBuilder;
  type: AttributeType | undefined;
  isList: boolean;
  /** Rows added so far. */
  rows: number;
}

class LineItems {
  readonly #file: string;
  readonly #columns = new Map<string, OpenColumn>();
  readonly #ids: (string | number)[] = [];
  #idName: string | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  add(text: string, line: number): void {
    const fields = this.#objectOf(text, line);
    try {
      const names = Object.keys(fields);
      this.#idName ??= idNameOf(this.#file, names);
      const id = names.includes(this.#idName) ? fields[this.#idName] : undefined;
      if (id === undefined) throw invalid(`it has no "${this.#idName}"`);
      for (const name of names) if (name !== this.#idName) this.#addValue(name, fields[name]);
      this.#addId(id);
    } catch (error) {
      if (!(error instanceof WinnowError) || error.message.startsWith("Cannot read")) throw error;
      throw new WinnowError(
        error.code,
        `Cannot read ${this.#file}, line ${line}: ${error.message}`,
      );
    }
  }

  #objectOf(text: string, line: number): Record<string, unknown> {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      value = undefined;
    }
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
    const what = `line ${line} is no JSON object: ${excerpt(text).slice(0, 80)}`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${this.#file}: ${what}`);
  }

  #addId(id: unknown): void {
    const isId = typeof id === "string" || (typeof id === "number" && Number.isSafeInteger(id));
    if (!isId)
      throw invalid("an id is a text or an integer below 2^53; write larger ones as texts");
    this.#ids.push(id);
  }

  #addValue(name: string, value: unknown): void {
    let column = this.#columns.get(name);
    if (column === undefined) {
      column = { builder: new ColumnBuilder(), type: undefined, isList: false, rows: 0 };
      this.#columns.set(name, column);
      checkColumns(this.#file, [...this.#columns.keys()]);
    }
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
    return { ids: idsOf(this.#ids, this.#file), columns };
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
