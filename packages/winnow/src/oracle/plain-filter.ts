// Filters as docs/filters.md defines them, evaluated on the values of one item after the other, without codes
// or bitmaps.

import { type AttributeColumn, type Filter, valueOfCode } from "@winnow/core";

/** A value of an item or in a filter; integers beyond the range of a number are bigints. */
export type FilterValue = string | number | bigint | boolean;

/** A filter in a question; it has the form of its JSON. */
export type PlainFilter =
  | { readonly $and: readonly PlainFilter[] }
  | { readonly $or: readonly PlainFilter[] }
  | { readonly [attribute: string]: PlainCondition };

/** The condition on one attribute. */
export interface PlainCondition {
  readonly $eq?: FilterValue;
  readonly $ne?: FilterValue;
  readonly $in?: readonly FilterValue[];
  readonly $gte?: FilterValue;
  readonly $lt?: FilterValue;
  readonly $exists?: boolean;
}

/** Values of an item's attribute: one value, those of a list, or `undefined` if there is none. */
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
  if ($eq !== undefined && !hasAny((value) => isEqual(value, $eq))) return false;
  if ($ne !== undefined && hasAny((value) => isEqual(value, $ne))) return false;
  if ($in !== undefined && !hasAny((value) => $in.some((each) => isEqual(value, each))))
    return false;
  if ($gte !== undefined && !hasAny((value) => !isBelow(value, $gte))) return false;
  if ($lt !== undefined && !hasAny((value) => isBelow(value, $lt))) return false;
  return $exists === undefined || $exists === (values !== undefined);
}

/** Whether a mask of the model or a filter of a pipeline admits an item. Timestamps are microseconds. */
export function isKept(filter: Filter, valuesOf: ItemValues): boolean {
  switch (filter.kind) {
    case "not":
      return !isKept(filter.of, valuesOf);
    case "and":
      return filter.of.every((each) => isKept(each, valuesOf));
    case "or":
      return filter.of.some((each) => isKept(each, valuesOf));
    case "test": {
      const values = valuesOf(filter.attribute);
      const { is } = filter;
      if (is === "exists") return values !== undefined;
      return filter.values.some((wanted) => {
        if (wanted === null) return is === "in" && values === undefined;
        return values?.some((own) => comparesAs(is, own, wanted)) === true;
      });
    }
  }
}

function comparesAs(
  is: "in" | "gt" | "gte" | "lt" | "lte",
  own: FilterValue,
  wanted: FilterValue,
): boolean {
  switch (is) {
    case "in":
      return isEqual(own, wanted);
    case "gt":
      return isBelow(wanted, own);
    case "gte":
      return !isBelow(own, wanted);
    case "lt":
      return isBelow(own, wanted);
    case "lte":
      return !isBelow(wanted, own);
  }
}

/** Names of the attributes in a filter. */
export function namesInFilter(filter: PlainFilter): readonly string[] {
  return Object.entries(filter).flatMap(([name, inner]) =>
    name.startsWith("$") ? (inner as PlainFilter[]).flatMap(namesInFilter) : [name],
  );
}

/** Numbers are equal if their values are, in whatever type. */
function isEqual(a: FilterValue, b: FilterValue): boolean {
  const areNumbers = isNumber(a) && isNumber(b);
  return areNumbers ? !(a < b) && !(a > b) : a === b;
}

function isNumber(value: FilterValue): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

/** Strings compare by their UTF-8 bytes. */
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
  // The code after that of the last value means no value.
  if (own.length === 1 && own[0]! >= values.length) return undefined;
  return own.map((code) => valueOfCode(column, code)!);
}
