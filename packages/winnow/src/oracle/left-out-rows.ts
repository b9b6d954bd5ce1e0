// Which rows a question leaves out: those that it excludes, all but those that it lists, and those that a filter or a
// mask of the model does not admit, one row after the other.

import type { Filter, Tensor, TopKQuestion } from "@winnow/core";
import { ROW_COLUMN, VECTOR_ATTRIBUTE, WinnowError, excerpt } from "@winnow/core";
import { type FilterValue, isAdmitted, isKept, namesInFilter } from "./plain-filter.ts";
import type { ReferenceQuestion } from "./reference.ts";
import { type DescribedItems, type ItemsById, keyAt, valuesOfRow } from "./whole-table.ts";

/** What leaves rows out. */
export interface LeavingOut
  extends
    Pick<ReferenceQuestion, "exclude" | "include" | "filter">,
    Partial<Pick<TopKQuestion, "admits">> {
  /** Filters of a pipeline. */
  readonly ownFilters?: readonly Filter[] | undefined;
}

/**
 * The rows that may not be answered to a query of a search, by its place there and its place in the request.
 * @throws WinnowError INVALID_ARGUMENT for attributes that there are not, and ids of another kind
 */
export function leftOutOf(
  { exclude = [], include = [], filter, ownFilters = [], admits }: LeavingOut,
  { table, rowsOf }: ItemsById,
): (at: number, query: number) => ReadonlySet<number> {
  if (filter !== undefined) checkNames(namesInFilter(filter), table);
  const without = exclude.map((ids) => rowsOfIds(ids, rowsOf));
  const only = include.map((ids) => rowsOfIds(ids, rowsOf));
  const hasConditions = (filter ?? admits ?? ownFilters[0]) !== undefined || only.length > 0;
  const all = Array.from({ length: hasConditions ? table.rows : 0 }, (_, row) => row);
  const refused = all.filter((row) => {
    const valuesOf = (name: string): readonly FilterValue[] | undefined =>
      valuesOfRow(table, row, name);
    if (filter !== undefined && !isAdmitted(filter, valuesOf)) return true;
    return ownFilters.some((own) => !isKept(own, valuesOf));
  });
  return (at, query) => {
    const listed = ofQuery(only, query);
    const others = listed === undefined ? [] : all.filter((row) => !listed.has(row));
    const mask = admits && ofQuery(admits, at);
    const masked =
      mask === undefined
        ? []
        : all.filter((row) => {
            const valuesOf = (name: string): readonly FilterValue[] | undefined =>
              name === ROW_COLUMN ? [row] : valuesOfRow(table, row, name);
            return !isKept(mask, valuesOf);
          });
    return new Set([...(ofQuery(without, query) ?? []), ...others, ...refused, ...masked]);
  };
}

/** Checks that items have attributes of these names. @throws WinnowError INVALID_ARGUMENT */
export function checkNames(names: readonly string[], { spec }: DescribedItems): void {
  const known = new Set((spec.attributes ?? []).map(({ name }) => name));
  const unknown = names.find((name) => name !== VECTOR_ATTRIBUTE && !known.has(name));
  if (unknown === undefined) return;
  const text = `The items have no attribute "${excerpt(unknown)}"`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/** One list for all queries, or one for each. */
function ofQuery<List>(lists: readonly List[], query: number): List | undefined {
  return lists.length > 1 ? lists[query] : lists[0];
}

/** Rows that carry one of these ids. @throws WinnowError INVALID_ARGUMENT for ids of another kind */
function rowsOfIds(
  ids: Tensor,
  rowsOf: (id: string | bigint) => readonly number[],
): ReadonlySet<number> {
  const rows = Array.from({ length: ids.data.length }, (_, at) => rowsOf(keyAt(ids, at)));
  return new Set(rows.flat());
}
