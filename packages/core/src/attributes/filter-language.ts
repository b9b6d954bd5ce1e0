// Filters as clients write them, in the language that MongoDB made common (docs/filters.md):
//
//   {"genre": "drama", "year": {"$gte": 1990, "$lt": 2000}}       both
//   {"$or": [{"genres": {"$in": ["crime", "noir"]}}, {"rating": {"$gt": 4.5}}]}
//
// No table is known here: `filter-binding.ts` checks names and types.

import { WinnowError, excerpt } from "../errors/errors.ts";
import { nearestName } from "../errors/nearest-name.ts";
import { FILTER_LIMITS, heldInteger } from "./filter.ts";
import type { Filter, FilterComparison, FilterValue } from "./filter.ts";

/** A JSON value whose objects are maps, so that no member's name has a special meaning in JavaScript. */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly JsonValue[]
  | ReadonlyMap<string, JsonValue>;

const COMPARISONS: ReadonlyMap<string, FilterComparison> = new Map([
  ["$gt", "gt"],
  ["$gte", "gte"],
  ["$lt", "lt"],
  ["$lte", "lte"],
]);
const OPERATORS = "$eq $ne $gt $gte $lt $lte $in $nin $exists $contains $all $not".split(" ");
const CONNECTIVES = "$and $or $nor $not".split(" ");

/** Reads a filter. @throws WinnowError INVALID_ARGUMENT naming the place and what is allowed there */
export function parseFilter(value: JsonValue): Filter {
  const counts = { nodes: 0, values: 0 };
  return new FilterParser(counts).filter(value, { path: '"filter"', depth: 0 });
}

interface Operation {
  readonly operator: string;
  readonly operand: JsonValue;
}

interface Place {
  readonly path: string;
  readonly depth: number;
}

class FilterParser {
  readonly #counts: { nodes: number; values: number };

  constructor(counts: { nodes: number; values: number }) {
    this.#counts = counts;
  }

  filter(value: JsonValue, place: Place): Filter {
    if (!isObject(value)) throw refused(place, `is ${textOf(value)}; it must be an object`);
    if (place.depth > FILTER_LIMITS.depthMax) {
      throw refused(place, `lies deeper than ${FILTER_LIMITS.depthMax} levels`);
    }
    const parts = Array.from(value, ([name, part]) => this.#member(name, part, place));
    return parts.length === 1 ? parts[0]! : { kind: "and", of: parts };
  }

  #member(name: string, value: JsonValue, { path, depth }: Place): Filter {
    this.#count("nodes", 1, path);
    const place = { path: `${path}.${excerpt(name)}`, depth: depth + 1 };
    if (!name.startsWith("$")) return this.#attribute(name, value, place);
    if (name === "$not") return { kind: "not", of: this.filter(value, place) };
    if (OPERATORS.includes(name)) throw misplacedOperator(name, path);
    if (!CONNECTIVES.includes(name)) throw unknownName(name, CONNECTIVES, path);
    if (!isList(value) || value.length === 0) {
      throw refused(place, `is ${textOf(value)}; it must be a list of at least one filter`);
    }
    const of = value.map((each, at) =>
      this.filter(each, { path: `${place.path}[${at}]`, depth: place.depth }),
    );
    if (name === "$nor") return { kind: "not", of: { kind: "or", of } };
    return { kind: name === "$and" ? "and" : "or", of };
  }

  #attribute(attribute: string, value: JsonValue, place: Place): Filter {
    if (isList(value)) {
      if (value.some(isObject)) throw refused(place, FILTERS_ARE_JOINED);
      throw refused(place, `is a list; write {"$in": ${textOf(value)}} for any of its values`);
    }
    if (!isObject(value)) return this.#in(attribute, [value], place);
    if (value.size === 0) throw refused(place, "is an empty object; name an operator such as $eq");
    const tests = Array.from(value, ([operator, operand]) =>
      this.#test(attribute, { operator, operand }, place),
    );
    return tests.length === 1 ? tests[0]! : { kind: "and", of: tests };
  }

  #test(attribute: string, { operator, operand }: Operation, { path, depth }: Place): Filter {
    this.#count("nodes", 1, path);
    const place = { path: `${path}.${excerpt(operator)}`, depth: depth + 1 };
    const comparison = COMPARISONS.get(operator);
    if (comparison !== undefined) {
      const value = this.#value(operand, place);
      if (value === null) throw refused(place, "is null; only $eq, $ne, $in and $nin take null");
      return { kind: "test", attribute, is: comparison, values: [value] };
    }
    const test = this.#equality(attribute, { operator, operand }, place);
    if (test !== undefined) return test;
    switch (operator) {
      case "$exists": {
        if (typeof operand !== "boolean") {
          throw refused(place, `is ${textOf(operand)}; it must be true or false`);
        }
        const exists = { kind: "test", attribute, is: "exists", values: [] } as const;
        return operand ? exists : { kind: "not", of: exists };
      }
      case "$contains":
        return this.#contains(attribute, operand, place);
      case "$all":
        return this.#all(attribute, operand, place);
      case "$not": {
        if (!isObject(operand)) throw refused(place, "must be an object of operators");
        if (depth > FILTER_LIMITS.depthMax) throw refused(place, "lies too deep");
        return { kind: "not", of: this.#attribute(attribute, operand, place) };
      }
      default:
        throw unknownName(operator, OPERATORS, path);
    }
  }

  /** `$eq`, `$ne`, `$in`, `$nin`: whether a value is one of some values, or none of them. */
  #equality(attribute: string, { operator, operand }: Operation, place: Place): Filter | undefined {
    switch (operator) {
      case "$eq":
        return this.#in(attribute, [operand], place);
      case "$ne":
        return { kind: "not", of: this.#in(attribute, [operand], place) };
      case "$in":
        return this.#in(attribute, this.#list(operand, place), place);
      case "$nin":
        return { kind: "not", of: this.#in(attribute, this.#list(operand, place), place) };
      default:
        return undefined;
    }
  }

  #contains(attribute: string, operand: JsonValue, place: Place): Filter {
    const value = this.#value(operand, place);
    if (value === null) throw refused(place, "holds null, which no list holds");
    return { kind: "test", attribute, is: "in", values: [value], onList: true };
  }

  #all(attribute: string, operand: JsonValue, place: Place): Filter {
    const all = this.#list(operand, place);
    if (all.length === 0) return nothingOf(attribute);
    return { kind: "and", of: all.map((each) => this.#contains(attribute, each, place)) };
  }

  #in(attribute: string, list: readonly JsonValue[], place: Place): Filter {
    if (list.length === 0) return nothingOf(attribute);
    const values = list.map((value) => this.#value(value, place));
    return { kind: "test", attribute, is: "in", values };
  }

  #list(operand: JsonValue, place: Place): readonly JsonValue[] {
    if (isList(operand)) return operand;
    throw refused(place, `is ${textOf(operand)}; it must be a list of values`);
  }

  #value(value: JsonValue, place: Place): FilterValue {
    this.#count("values", 1, place.path);
    if (isList(value) || isObject(value)) {
      throw refused(
        place,
        "holds a list or an object; values are strings, numbers, booleans or null",
      );
    }
    const found = typeof value === "bigint" ? heldInteger(value) : value;
    if (typeof found === "number" && !Number.isFinite(found)) {
      throw refused(place, "holds a number that is not finite");
    }
    return found;
  }

  #count(what: "nodes" | "values", more: number, path: string): void {
    this.#counts[what] += more;
    const most = what === "nodes" ? FILTER_LIMITS.nodesMax : FILTER_LIMITS.valuesMax;
    if (this.#counts[what] <= most) return;
    const noun = what === "nodes" ? "names and operators" : "values";
    throw new WinnowError("INVALID_ARGUMENT", `${path}: a filter has at most ${most} ${noun}`);
  }
}

/** For languages that join filters under a name, as in `{"must": [{…}]}`. */
const FILTERS_ARE_JOINED =
  'is a list of objects, which no attribute holds; filters are joined by "$and", "$or" and "$nor"';

/**
 * Holds nowhere, as a list of no values asks for: a client may fill such a list from what it knows of a user. The name
 * is still checked, and workers of each release can read it.
 */
function nothingOf(attribute: string): Filter {
  const exists = { kind: "test", attribute, is: "exists", values: [] } as const;
  return { kind: "and", of: [exists, { kind: "not", of: exists }] };
}

function isObject(value: JsonValue): value is ReadonlyMap<string, JsonValue> {
  return value instanceof Map;
}

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function unknownName(name: string, known: readonly string[], path: string): WinnowError {
  const nearest = nearestName(name, known);
  const hint = nearest === undefined ? `known are ${known.join(", ")}` : `did you mean ${nearest}?`;
  return refused(
    { path, depth: 0 },
    `holds "${excerpt(name)}", which is no operator here; ${hint}`,
  );
}

function misplacedOperator(name: string, path: string): WinnowError {
  const form = `{"an attribute": {"${name}": …}}`;
  return refused({ path, depth: 0 }, `holds "${name}" without an attribute; write ${form}`);
}

function refused({ path }: Place, what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `${path} ${what}`);
}

/** A value as messages show it. */
function textOf(value: JsonValue): string {
  if (isObject(value)) return "an object";
  if (isList(value)) return value.length > 8 ? "a long list" : `[${value.map(textOf).join(", ")}]`;
  return excerpt(typeof value === "bigint" ? String(value) : JSON.stringify(value));
}
