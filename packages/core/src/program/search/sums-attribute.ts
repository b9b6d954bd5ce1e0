// How a router asks a worker for the sums of powers over its rows: as an attribute `$sums` of a search for one
// item. Where filters admit some rows only, or the powers are those of functions of scores, the name goes on with the
// functions, and the answer tells the best value too. Workers that do not know such a name refuse it:
//
//   $sums                              {"$sums":[3,"17592186044416"]}
//   $sums:[["Add","AChruM4="]]         {"$sums":[3,"17592186044416"],"$best":17.5}
//
// An operand is the base64 of its float32 values, little-endian: one, or one for each query.

import { SUMS_ATTRIBUTE } from "../../attributes/attribute-column.ts";
import { WinnowError, excerpt } from "../../errors/errors.ts";
import type { BoundFunction } from "./score-functions.ts";
import { SCORE_OPERATIONS, isSoftmax } from "./score-functions.ts";
import type { ScoreOperationName } from "../program.ts";

const PREFIX = `${SUMS_ATTRIBUTE}:`;
/** Functions of one search, at most: those of a graph and a penalty. */
const FUNCTIONS_MAX = 128;
const BEST = "$best";

/** Queries of a search, from one to before another. */
interface Queries {
  readonly firstRow: number;
  readonly endRow: number;
}

/** The name under which the sums of some queries are asked. `isOfAll`: no filter leaves out rows. */
export function sumsAttribute(
  functions: readonly BoundFunction[],
  { firstRow, endRow }: Queries,
  isOfAll: boolean,
): string {
  if (isOfAll && functions.length === 0) return SUMS_ATTRIBUTE;
  const written = functions.map(({ op, numbers }) => {
    if (numbers === undefined) return [op];
    const own = numbers.length > 1 ? numbers.slice(firstRow, endRow) : numbers;
    const bytes = Buffer.from(own.buffer, own.byteOffset, own.byteLength);
    return [op, bytes.toString("base64")];
  });
  return PREFIX + JSON.stringify(written);
}

/** Whether an attribute asks for sums. */
export function isSumsAttribute(name: string): boolean {
  return name === SUMS_ATTRIBUTE || name.startsWith(PREFIX);
}

/** The functions that a name asks for; `undefined` for the plain name. @throws WinnowError INVALID_ARGUMENT */
export function functionsInSums(
  name: string,
  queries: number,
): readonly BoundFunction[] | undefined {
  if (name === SUMS_ATTRIBUTE) return undefined;
  const list = parsed(name.slice(PREFIX.length));
  if (!Array.isArray(list) || list.length > FUNCTIONS_MAX) throw notUnderstood(name);
  return list.map((each: unknown) => {
    const found = functionIn(each, queries);
    if (found === undefined) throw notUnderstood(name);
    return found;
  });
}

function functionIn(written: unknown, queries: number): BoundFunction | undefined {
  const [op, text] = Array.isArray(written) ? (written as readonly unknown[]) : [];
  const known = SCORE_OPERATIONS.find((each) => each === op);
  if (known === undefined || isSoftmax({ op: known })) return undefined;
  if (text === undefined) return { op: known };
  return typeof text === "string" ? withNumbers(known, text, queries) : undefined;
}

function withNumbers(
  op: ScoreOperationName,
  text: string,
  queries: number,
): BoundFunction | undefined {
  const bytes = Buffer.from(text, "base64");
  const count = bytes.length / 4;
  if (count !== 1 && count !== queries) return undefined;
  const numbers = Float32Array.from({ length: count }, (_, at) => bytes.readFloatLE(4 * at));
  return { op, numbers };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function notUnderstood(name: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `${excerpt(name)} names no sums of powers`);
}

/** A worker's answer: a sum (`PowerSum.toText`), and the best value where functions were asked for. */
export function sumsText(sum: string, best: number | undefined): string {
  const more = best === undefined ? "" : `,"${BEST}":${JSON.stringify(best)}`;
  return `{"${SUMS_ATTRIBUTE}":${sum}${more}}`;
}

const ANSWER = /^\{"\$sums":(null|\[[^\]]*\])(?:,"\$best":(null|-?[\d.e+-]{1,40}))?\}$/;

/** What a worker answered. @throws WinnowError INTERNAL */
export function readSums(text: string): {
  readonly sum: string;
  /** `undefined` where none was told. */
  readonly best: number | undefined;
} {
  const [, sum, best] = ANSWER.exec(text) ?? [];
  if (sum === undefined) throw new WinnowError("INTERNAL", "A worker answered no sum of powers");
  if (best === undefined) return { sum, best };
  // JSON has no infinity: the best of values that are all -∞ is written as null.
  return { sum, best: best === "null" ? -Infinity : Number(best) };
}
