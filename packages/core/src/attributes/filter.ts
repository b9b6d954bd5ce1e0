// A filter as data: a condition on attributes that decides which rows of a table a query may return.
// `filter-language.ts` makes it from a request, `filter-binding.ts` checks it against the attributes of a
// table and makes it canonical, `filter-rows.ts` finds the rows.

/** A value that a filter compares with; null means no value. */
export type FilterValue = string | number | bigint | boolean | null;

const INTEGERS_END = 2n ** 64n;

/**
 * An integer as columns may hold it. None has integers of more than 64 bits: a float64 stands for one, as it does where
 * one is written with an exponent.
 */
export function heldInteger(value: bigint): number | bigint {
  return value < INTEGERS_END && value > -INTEGERS_END ? value : Number(value);
}

/** A comparison. On a list it holds if it holds for one element. */
export type FilterComparison = "in" | "gt" | "gte" | "lt" | "lte" | "exists";

/**
 * Stands for a row's own number, where the search of a model asks for the first rows only. No attribute can
 * have this name by mistake, and no request may use it.
 */
export const ROW_COLUMN = "\0row";

/** One test of one attribute. */
export interface FilterTest {
  readonly kind: "test";
  readonly attribute: string;
  readonly is: FilterComparison;
  /** At least one value for `in`, one for the other comparisons, none for `exists`. */
  readonly values: readonly FilterValue[];
  /** Whether the attribute must be a list (`$contains`, `$all`). */
  readonly onList?: boolean;
}

/** Which rows are admitted. An empty `and` admits all rows, an empty `or` none. */
export type Filter =
  | FilterTest
  | { readonly kind: "and" | "or"; readonly of: readonly Filter[] }
  | { readonly kind: "not"; readonly of: Filter };

/** Number of tests that a filter makes for each row. */
export function conditionsOf(filter: Filter): number {
  if (filter.kind === "test") return 1;
  if (filter.kind === "not") return conditionsOf(filter.of);
  return filter.of.reduce((sum, each) => sum + conditionsOf(each), 0);
}

/** Limits of one filter, so that evaluating it cannot take a worker long. */
export const FILTER_LIMITS: {
  /** Tests and connectives of one filter. */
  readonly nodesMax: number;
  /** Depth of nested connectives. */
  readonly depthMax: number;
  /** Values of all tests together. */
  readonly valuesMax: number;
  /** Bytes of the canonical text. */
  readonly bytesMax: number;
} = { nodesMax: 64, depthMax: 16, valuesMax: 4096, bytesMax: 2 ** 16 };
