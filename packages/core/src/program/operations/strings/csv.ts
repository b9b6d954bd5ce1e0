// Lines of comma-separated values as one tensor for each column (DecodeCSV).

import { excerpt } from "../../../errors/errors.ts";
import type { Dtype, NumericDtype } from "../../../tensor/dtype.ts";
import { stringList } from "../element-positions.ts";
import {
  booleanAttribute,
  inputAt,
  numbersAttribute,
  stringsAt,
  textAttribute,
  wrongDtype,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { stringsOf, tensorOf, zeros } from "../tensor-memory.ts";
import { numberOfText } from "./text-number.ts";

/** Comma-separated values, by TensorFlow's name. */
export const csvOperations: HostOperations = {
  DecodeCSV: decodeCsv,
};

interface Format {
  readonly delimiter: string;
  readonly hasQuotes: boolean;
  /** Positions of the columns that are read, ascending; empty: all. */
  readonly columns: readonly number[];
  /** A field with this text has no value, as an empty one. */
  readonly missing: string;
}

interface Column {
  readonly at: number;
  readonly texts: readonly string[];
  readonly fallback: Tensor;
}

/** Inputs: records, then for each column a vector of its default, empty where the column must have a value. */
function decodeCsv(call: HostCall): readonly Tensor[] {
  const { data, shape } = stringsAt(call, 0);
  const format = formatOf(call);
  const fallbacks = call.inputs.slice(1);
  for (const [at, { shape: own, data: values }] of fallbacks.entries()) {
    if (own.length <= 1 && values.length <= 1) continue;
    const count = `field ${at} has ${values.length}`;
    throw invalid(`There should only be 1 default per field but ${count}`);
  }
  // One character stands for each byte, so that a field keeps bytes that are not UTF-8.
  const records = stringList(data).map((bytes, at) => {
    const fields = fieldsOf(Buffer.from(bytes).toString("latin1"), format);
    if (fields.length === fallbacks.length) return fields;
    const count = `${fallbacks.length} fields but have ${fields.length}`;
    throw invalid(`Expect ${count} in record ${at}`);
  });
  return fallbacks.map((fallback, at) => {
    const texts = records.map((fields) => fields[at]!);
    return columnOf(call, { at, texts, fallback }, { shape, missing: format.missing });
  });
}

function formatOf(call: HostCall): Format {
  const delimiter = textAttribute(call, "field_delim", ",");
  if (delimiter.length !== 1) throw invalid("field_delim should be only 1 char");
  const columns = numbersAttribute(call, "select_cols");
  if (columns.some((column, at) => column < 0 || column <= (columns[at - 1] ?? -1))) {
    throw invalid("select_cols should be strictly increasing indices");
  }
  return {
    delimiter,
    hasQuotes: booleanAttribute(call, "use_quote_delim", true),
    columns,
    missing: Buffer.from(textAttribute(call, "na_value", "")).toString("latin1"),
  };
}

/** The fields of one record that are read. */
function fieldsOf(record: string, format: Format): readonly string[] {
  const { delimiter, hasQuotes, columns } = format;
  const fields: string[] = [];
  const isRead = (column: number): boolean =>
    columns.length === 0 || columns[fields.length] === column;
  let column = 0;
  for (let at = 0; at < record.length; column += 1) {
    // Ends of lines before a field are no part of it.
    while (record[at] === "\n" || record[at] === "\r") at += 1;
    if (at >= record.length) break;
    const isQuoted = hasQuotes && record[at] === '"';
    const field = isQuoted
      ? quotedField(record, at + 1, delimiter)
      : plainField(record, at, format);
    at = field.next;
    if (!isRead(column)) continue;
    fields.push(field.text);
    if (fields.length === columns.length) return fields;
  }
  if (record !== "" && isRead(column) && record.endsWith(delimiter)) fields.push("");
  return fields;
}

interface Field {
  readonly text: string;
  /** Where the next field starts. */
  readonly next: number;
}

function plainField(record: string, from: number, { delimiter, hasQuotes }: Format): Field {
  const end = record.indexOf(delimiter, from);
  const to = end < 0 ? record.length : end;
  const text = record.slice(from, to);
  if (/[\n\r]/.test(text) || (hasQuotes && text.includes('"'))) {
    throw invalid("Unquoted fields cannot have quotes/CRLFs inside");
  }
  return { text, next: to + 1 };
}

/** A field behind its first quote, up to a quote before a delimiter or the end; two quotes stand for one. */
function quotedField(record: string, from: number, delimiter: string): Field {
  const parts: string[] = [];
  for (let at = from; ;) {
    const quote = record.indexOf('"', at);
    if (quote < 0) throw invalid("Quoted field has to end with quote followed by delim or end");
    parts.push(record.slice(at, quote));
    const after = record[quote + 1];
    if (after === undefined || after === delimiter)
      return { text: parts.join(""), next: quote + 2 };
    if (after !== '"') throw invalid("Quote inside a string has to be escaped by another quote");
    parts.push('"');
    at = quote + 2;
  }
}

interface Records {
  readonly shape: readonly number[];
  readonly missing: string;
}

function columnOf(call: HostCall, column: Column, { shape, missing }: Records): Tensor {
  const { at, texts, fallback } = column;
  const isMissing = (text: string): boolean => text === "" || text === missing;
  const without = texts.findIndex(isMissing);
  if (without >= 0 && fallback.data.length === 0) {
    throw invalid(`Field ${at} is required but missing in record ${without}!`);
  }
  const { dtype } = fallback;
  if (dtype === "string") {
    const bytesOf = (text: string): Uint8Array =>
      isMissing(text) ? fallback.data.at(0) : Buffer.from(text, "latin1");
    return stringsOf(shape, texts.map(bytesOf));
  }
  if (!isColumnType(dtype)) throw wrongDtype(call, inputAt(call, at + 1));
  const out = zeros(dtype, shape);
  for (const [record, text] of texts.entries()) {
    const value = isMissing(text) ? fallback.data[0] : numberOfText(text, dtype);
    if (value === undefined) {
      const what = `is not a valid ${NAMES[dtype]}: ${excerpt(text)}`;
      throw invalid(`Field ${at} in record ${record} ${what}`);
    }
    (out as { [at: number]: number | bigint })[record] = value;
  }
  return tensorOf(dtype, shape, out);
}

const NAMES = { float32: "float", float64: "double", int32: "int32", int64: "int64" } as const;

function isColumnType(dtype: Dtype): dtype is keyof typeof NAMES & NumericDtype {
  return Object.hasOwn(NAMES, dtype);
}
