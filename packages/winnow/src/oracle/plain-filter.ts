// Filters as docs/filters.md defines them, tried on the values of one item after the other: no codes, no bitmaps.

import { type AttributeColumn, type Filter, valueOfCode } from "@winnow/core";

/** A value in a filter. */
export type FilterValue = string | number | boolean;

/** A filter that questions are made of, which is also its JSON. */
export type PlainFilter =
  | { readonly $and: readonly PlainFilter[] }
  | { readonly $or: readonly PlainFilter[] }
  | { readonly [attribute: string]: PlainCondition };

/** What one attribute must be. */
export interface PlainCondition {
  readonly $eq?: FilterValue;
  readonly $ne?: FilterValue;
  readonly $in?: readonly FilterValue[];
  readonly $gte?: FilterValue;
  readonly $lt?: FilterValue;
  readonly $exists?: boolean;
}

/** Values of an item's attribute: one, those of a list, or `undefined` where it has none. */
export type ItemValues = (attribute: string) => readonly FilterValue[] | undefined;

/** Whether an item is admitted. */
export function isAdmitted(filter: PlainFilter, valuesOf: ItemValues): boolean {
  return Object.entries(filter).every(([name, inner]) => {
    if (name === "$and")
      return (inner as PlainFilter[]).every((each) => isAdmitted(each, valuesOf));
    if (name === "$or") return (inner as PlainFilter[]).some((each) => isAdmitted(each, valuesOf));
    return holds(inner as PlainCondition, valuesOf(name));
  });
}

function holds(condition: PlainCondition, values: readonly FilterValue[] | undefined): boolean {
  const { $eq, $ne, $in, $gte, $lt, $exists } = condition;
  const hasAny = (test: (value: FilterValue) => boolean): boolean => values?.some(test) === true;
  if ($eq !== undefined && !hasAny((value) => value === $eq)) return false;
  if ($ne !== undefined && hasAny((value) => value === $ne)) return false;
  if ($in !== undefined && !hasAny((value) => $in.includes(value))) return false;
  if ($gte !== undefined && !hasAny((value) => !isBelow(value, $gte))) return false;
  if ($lt !== undefined && !hasAny((value) => isBelow(value, $lt))) return false;
  return $exists === undefined || $exists === (values !== undefined);
}

/** Whether a mask of the model keeps an item. */
export function isKept(filter: Filter, valuesOf: ItemValues): boolean {
  switch (filter.kind) {
    case "not":
      return !isKept(filter.of, valuesOf);
    case "and":
      return filter.of.every((each) => isKept(each, valuesOf));
    case "or":
      return filter.of.some((each) => isKept(each, valuesOf));
    case "test": {
      const [own] = valuesOf(filter.attribute) ?? [];
      const { is } = filter;
      return filter.values.some((value) => {
        const wanted = typeof value === "bigint" ? Number(value) : value;
        if (own === undefined || wanted === null) return false;
        if (is === "in") return own === wanted;
        if (is === "gt" || is === "lte") return own > wanted === (is === "gt");
        return own >= wanted === (is === "gte");
      });
    }
  }
}

/** Strings by their UTF-8 bytes. */
function isBelow(a: FilterValue, b: FilterValue): boolean {
  if (typeof a !== "string" || typeof b !== "string") return a < b;
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
}

/** The values of a row in a column. */
export function valuesInColumn(
  column: AttributeColumn,
  row: number,
): readonly FilterValue[] | undefined {
  const { codes, offsets, values } = column;
  const from = offsets === undefined ? row : offsets[row]!;
  const end = offsets === undefined ? row + 1 : offsets[row + 1]!;
  const own = Array.from(codes.subarray(from, end));
  // The code one past the last value says that there is none.
  if (own.length === 1 && own[0]! >= values.length) return undefined;
  return own.map((code) => {
    const value = valueOfCode(column, code)!;
    return typeof value === "bigint" ? Number(value) : value;
  });
}
