// A list of items beside a pipeline: one id a line, best first. What is wrong names the line of the list, and the field
// of the pipeline that names the file.
//
//   Heat (1995)
//   Jumanji (1995)

import { PIPELINE_CANDIDATES_MAX, WinnowError, excerpt } from "@winnow/core";
import type { Dtype } from "@winnow/core";
import type { Field } from "./yaml-fields.ts";

/** It goes with each search of its items. */
export const LIST_BYTES_MAX: number = 256 * 1024;

/** Bits of the types of ids that are numbers. */
const INTEGER_BITS: ReadonlyMap<Dtype, number> = new Map([
  ["int32", 32],
  ["int64", 64],
]);

/** The ids in the file that a field names. @throws WinnowError INVALID_ARGUMENT naming the field */
export function readItemList(
  field: Field,
  items: Dtype,
  read: (name: string) => Uint8Array,
): readonly string[] {
  const name = field.text();
  const bits = INTEGER_BITS.get(items);
  if (items !== "string" && bits === undefined) {
    throw field.refused(
      `is a list of ${items}; items with ids of string, int32 or int64 can be listed`,
    );
  }
  const lines = linesOf(field, name, contentOf(field, name, read));
  const seen = new Set<string>();
  for (const [at, line] of lines.entries()) {
    const where = `is ${excerpt(name)}, whose line ${at + 1}`;
    if (line === "") throw field.refused(`${where} is empty`);
    if (bits !== undefined && !isInteger(line, bits)) {
      throw field.refused(`${where} is "${excerpt(line)}", which is no ${items}`);
    }
    if (seen.has(line)) throw field.refused(`${where} has "${excerpt(line)}" again`);
    seen.add(line);
  }
  if (lines.length > 0 && lines.length <= PIPELINE_CANDIDATES_MAX) return lines;
  const most = `a list has 1 to ${PIPELINE_CANDIDATES_MAX} ids, one a line`;
  throw field.refused(`is ${excerpt(name)}, which has ${lines.length} lines; ${most}`);
}

const FAULTS_OF_NAMES: ReadonlySet<string> = new Set(["INVALID_ARGUMENT", "NOT_FOUND"]);

/** A name that is none of a file here is the fault of the field. */
function contentOf(field: Field, name: string, read: (name: string) => Uint8Array): Uint8Array {
  try {
    return read(name);
  } catch (error) {
    if (!(error instanceof WinnowError) || !FAULTS_OF_NAMES.has(error.code)) throw error;
    throw field.refused(`cannot be read: ${error.message}`);
  }
}

/** Lines end in a line feed, or a carriage return and a line feed; behind the last there may be none. */
function linesOf(field: Field, name: string, content: Uint8Array): readonly string[] {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    return text === "" ? [] : text.replace(/\r?\n$/, "").split(/\r?\n/);
  } catch {
    throw field.refused(`is ${excerpt(name)}, which is not UTF-8`);
  }
}

/** As a number is written, so that it equals an id's text: no sign before 0, no zeros in front. */
function isInteger(text: string, bits: number): boolean {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(text)) return false;
  return BigInt.asIntN(bits, BigInt(text)) === BigInt(text);
}
