// A filter as text, in which it travels to workers and by which they recognise it: nested JSON arrays without
// spaces. A number that JSON cannot hold exactly is a list of its digits. A test of lists only is marked in a
// fourth element; the bound filters that workers get have no such mark.
//
//   ["and",[["in","genre",["crime","drama"]],["gte","year",[1990]]]]

import { WinnowError, excerpt } from "../errors/errors.ts";
import { FILTER_LIMITS } from "./filter.ts";
import type { Filter, FilterComparison, FilterValue } from "./filter.ts";

const COMPARISONS: ReadonlySet<string> = new Set(["in", "gt", "gte", "lt", "lte", "exists"]);

/**
 * Conditions and connectives of a text. A node that a client writes may become a `not` and a test, and a
 * `$all` becomes a test for each of its values: as many as a request may have conditions, 256.
 */
const TEXT_NODES_MAX = 8 * FILTER_LIMITS.nodesMax;

/** Marks a test of an attribute that must be a list. */
const LIST_ONLY = "list";

/** The text of a filter. */
export function filterText(filter: Filter): string {
  return JSON.stringify(plain(filter));
}

function plain(filter: Filter): unknown {
  if (filter.kind === "test") {
    const test = [filter.is, filter.attribute, filter.values.map((value) => plainValue(value))];
    return filter.onList === true ? [...test, LIST_ONLY] : test;
  }
  return [filter.kind, filter.kind === "not" ? plain(filter.of) : filter.of.map(plain)];
}

function plainValue(value: FilterValue): unknown {
  return typeof value === "bigint" ? [String(value)] : value;
}

/** Parses the text of a filter. @throws WinnowError INVALID_ARGUMENT */
export function parseFilterText(text: string): Filter {
  if (text.length > FILTER_LIMITS.bytesMax) {
    const most = `at most ${FILTER_LIMITS.bytesMax} are allowed`;
    const what = `${text.length} characters in the form that workers read`;
    throw malformed(`it has ${what}, together with what the model masks; ${most}`);
  }
  const counts = { nodes: 0, values: 0 };
  return readFilter(parsed(text), counts);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed(`"${excerpt(text)}" is no JSON`);
  }
}

interface Counts {
  nodes: number;
  values: number;
}

function readFilter(value: unknown, counts: Counts): Filter {
  counts.nodes += 1;
  if (counts.nodes > TEXT_NODES_MAX) throw malformed("it has too many conditions");
  if (!Array.isArray(value)) throw malformed("a condition is no list");
  const [kind, first, second, third] = value as readonly unknown[];
  if (kind === "not") return { kind, of: readFilter(first, counts) };
  if (kind === "and" || kind === "or") {
    if (!Array.isArray(first)) throw malformed(`"${kind}" has no list`);
    return { kind, of: first.map((each) => readFilter(each, counts)) };
  }
  if (typeof kind !== "string" || !COMPARISONS.has(kind) || typeof first !== "string") {
    throw malformed("a condition is none that is known");
  }
  const values = readValues(second, counts);
  const is = kind as FilterComparison;
  if (isCount(is, values.length)) {
    const test = { kind: "test", attribute: first, is, values } as const;
    return third === LIST_ONLY ? { ...test, onList: true } : test;
  }
  throw malformed(`"${is}" has ${values.length} values`);
}

function isCount(is: FilterComparison, values: number): boolean {
  if (is === "exists") return values === 0;
  return is === "in" ? values >= 1 : values === 1;
}

function readValues(value: unknown, counts: Counts): FilterValue[] {
  if (!Array.isArray(value)) throw malformed("values are no list");
  counts.values += value.length;
  if (counts.values > FILTER_LIMITS.valuesMax) throw malformed("it has too many values");
  return value.map((each: unknown) => {
    if (Array.isArray(each) && typeof each[0] === "string" && /^-?\d{1,20}$/.test(each[0])) {
      return BigInt(each[0]);
    }
    const isPlain = each === null || ["string", "number", "boolean"].includes(typeof each);
    if (!isPlain) throw malformed("a value is none that is known");
    return each as FilterValue;
  });
}

function malformed(what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Cannot read a filter: ${what}`);
}
