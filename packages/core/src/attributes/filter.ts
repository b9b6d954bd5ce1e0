// A filter as data: which rows of a table a query may return, said of their attributes. `filter-language.ts`
// makes it from what people write, `filter-binding.ts` holds it against the attributes that a table has and
// brings it into one canonical form, `filter-rows.ts` finds the rows.

/** A value that a filter compares with; null stands for none. */
export type FilterValue = string | number | bigint | boolean | null;

/** How a test compares; on a list it holds where it holds for an element. */
export type FilterComparison = "in" | "gt" | "gte" | "lt" | "lte" | "exists";

/**
 * Stands for a row's own number, where the search of a model asks for the first rows alone. Nobody can give an
 * attribute this name by mistake, and no request may use it.
 */
export const ROW_COLUMN = "\0row";

/** One test of one attribute. */
export interface FilterTest {
  readonly kind: "test";
  readonly attribute: string;
  readonly is: FilterComparison;
  /** At least one for `in`, one for the other comparisons, none for `exists`. */
  readonly values: readonly FilterValue[];
  /** Whether the attribute must be a list (`$contains`, `$all`). */
  readonly onList?: boolean;
}

/** Which rows are admitted. `and` of nothing admits all of them, `or` of nothing none. */
export type Filter =
  | FilterTest
  | { readonly kind: "and" | "or"; readonly of: readonly Filter[] }
  | { readonly kind: "not"; readonly of: Filter };

/** How many tests a filter makes of each row. */
export function conditionsOf(filter: Filter): number {
  if (filter.kind === "test") return 1;
  if (filter.kind === "not") return conditionsOf(filter.of);
  return filter.of.reduce((sum, each) => sum + conditionsOf(each), 0);
}

/** What one filter may hold, so that nobody's filter takes a worker long. */
export const FILTER_LIMITS: {
  /** Tests and connectives of one filter. */
  readonly nodesMax: number;
  /** Connectives within each other. */
  readonly depthMax: number;
  /** Values of all tests together. */
  readonly valuesMax: number;
  /** Bytes of the canonical text. */
  readonly bytesMax: number;
} = { nodesMax: 64, depthMax: 16, valuesMax: 4096, bytesMax: 2 ** 16 };
