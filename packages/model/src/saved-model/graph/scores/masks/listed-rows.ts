// Items that a list of the request names: numbers that each item stores, or its row, in every way that a graph compares them
// with a list, counts them or scatters them.

import { integersOf, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { filledNumberOf, isSingle, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { columnOf, itemsOf, operandsOf, rowColumn } from "./item-column.ts";
import type { Within } from "./item-column.ts";

/** Whether an item is among those that a list of the query names. */
export function listedOf(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  return (
    comparedWithList(condition, within) ??
    countedInList(condition, within) ??
    isCounted(condition, within)
  );
}

/** The operand of a reduction over one axis that it does not keep, where the axis is one of these. */
function reducedOf(
  value: GraphValue,
  axes: ReadonlyMap<string, number>,
  ...ops: readonly string[]
): { readonly operand: GraphValue; readonly axis: number } | undefined {
  const node = producerOf(value, ...ops);
  const [operand, over] = node?.inputs ?? [];
  if (operand === undefined || node?.attributes.flag("keep_dims") === true) return undefined;
  const axis = axes.get(integersOf(over)?.join() ?? "");
  return axis === undefined ? undefined : { operand, axis };
}

const MIDDLE: ReadonlyMap<string, number> = new Map([
  ["1", 1],
  ["-2", 1],
]);
const INNER: ReadonlyMap<string, number> = new Map([...MIDDLE, ["2", 2], ["-1", 2]]);

/** `reduce_any(items == list[:, :, None], 1)`, `reduce_any(items[:, None] == list[:, None, :], 2)`. */
function comparedWithList(condition: GraphValue, { items }: Within): GraphMaskRule | undefined {
  const any = reducedOf(condition, INNER, "Any");
  const [left, right] = any === undefined ? [] : operandsOf(any.operand, "Equal");
  if (any === undefined || left === undefined || right === undefined) return undefined;
  const fromLast = any.axis === 2 ? 1 : 0;
  for (const [item, list] of [[left, right] as const, [right, left] as const]) {
    const isList = list.shape?.length === 3 && list.shape[2 - fromLast] === 1;
    const column = isList ? columnOf(item, items, fromLast) : undefined;
    if (column !== undefined) return { kind: "test", column, is: "in", values: list };
  }
  return undefined;
}

/** `reduce_max(one_hot(list, items), 1) > 0` and other ways to ask whether a count is none. */
function countedInList(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  const [cast] = operandsOf(condition, "Cast");
  if (cast !== undefined) return isCounted(cast, within);
  const node = producerOf(condition, ...COUNTS.keys());
  const [counts, bound] = node?.inputs ?? [];
  if (node === undefined || counts === undefined || bound === undefined) return undefined;
  const number = scalarOf(bound, within.scalars) ?? NaN;
  const isAny = asksForAny(node.op, counts, number);
  const rule = isAny === undefined ? undefined : isCounted(counts, within);
  return rule && isAny === false ? { kind: "not", of: rule } : rule;
}

/** Whether a comparison of counts asks where there is any, or where there is none; `undefined` for another question. */
function asksForAny(op: string, counts: GraphValue, bound: number): boolean | undefined {
  const { fits, isAny } = COUNTS.get(op)!;
  if (fits(bound)) return isAny;
  // Of flags, what is not 1 is 0.
  const isOfFlags = bound === 1 && EQUALITIES.has(op) && isMultiHot(counts);
  return isOfFlags ? !isAny : undefined;
}

const EQUALITIES: ReadonlySet<string> = new Set(["Equal", "NotEqual"]);

/** Whether an operation gives 0 and 1 alone, whatever it counts. */
export function isMultiHot(flags: GraphValue): boolean {
  const bins = producerOf(flags, "DenseBincount");
  if (bins !== undefined) return bins.attributes.flag("binary_output");
  return producerOf(flags, "Max", "OneHot", "TensorScatterUpdate") !== undefined;
}

const isBelowOne = (bound: number): boolean => bound >= 0 && bound < 1;
const isUpToOne = (bound: number): boolean => bound > 0 && bound <= 1;
const isZero = (bound: number): boolean => bound === 0;

/** With which bounds a comparison of a count asks whether there is any, and whether there is none. */
const COUNTS: ReadonlyMap<
  string,
  { readonly fits: (bound: number) => boolean; readonly isAny: boolean }
> = new Map([
  ["Greater", { fits: isBelowOne, isAny: true }],
  ["GreaterEqual", { fits: isUpToOne, isAny: true }],
  ["NotEqual", { fits: isZero, isAny: true }],
  ["Equal", { fits: isZero, isAny: false }],
  ["Less", { fits: isUpToOne, isAny: false }],
  ["LessEqual", { fits: isBelowOne, isAny: false }],
]);

/**
 * Rows that are counted in `[queries, items]`: the one of each query, those that a list `[queries, length]` names, or
 * those to which a scatter writes.
 */
export function isCounted(
  counts: GraphValue,
  { items, scalars }: Within,
): GraphMaskRule | undefined {
  const scattered = countedPairs(counts, scalars);
  if (scattered !== undefined)
    return itemsOf(counts) === items ? pairsRule(scattered, items) : undefined;
  const [integers] = operandsOf(counts, "Cast");
  if (integers !== undefined && INTEGERS.has(integers.dtype)) {
    return isCounted(integers, { items, scalars, depth: 0 });
  }
  const listed = listOfBincount(counts, items);
  if (listed !== undefined) return isListed(listed, items);
  const reduced = reducedOf(counts, MIDDLE, "Max", "Sum", "Any")?.operand;
  const list = listOfHot(withoutComparison(reduced ?? counts, scalars), items);
  const rank = reduced === undefined ? 1 : 2;
  return list?.shape?.length === rank ? isListed(list, items) : undefined;
}

/** The flags that a comparison asks for any of, as `one_hot(list, n) > 0`; any other value itself. */
function withoutComparison(flags: GraphValue, scalars: ScalarReader): GraphValue {
  const node = producerOf(flags, ...COUNTS.keys());
  const [counts, bound] = node?.inputs ?? [];
  if (node === undefined || counts === undefined || bound === undefined) return flags;
  return asksForAny(node.op, counts, scalarOf(bound, scalars) ?? NaN) === true ? counts : flags;
}

/**
 * The rows, a list for each query, that `bincount(rows, minlength=items, maxlength=items, axis=-1)` counts: what Keras'
 * `CategoryEncoding` is made of.
 */
function listOfBincount(counts: GraphValue, items: number): GraphValue | undefined {
  const [list, , weights] = operandsOf(counts, "DenseBincount");
  const isOfItems = itemsOf(counts) === items && weights?.shape?.[0] === 0;
  return isOfItems && list?.shape?.length === 2 ? list : undefined;
}

/** The rows that `one_hot(rows, items)` sets to 1 along its last axis. */
function listOfHot(hot: GraphValue, items: number): GraphValue | undefined {
  const node = producerOf(hot, "OneHot");
  if (node === undefined) return undefined;
  const [list, depth, on, off] = node.inputs;
  const axis = node.attributes.int("axis", -1);
  const isLast = axis === -1 || axis === list?.shape?.length;
  const isWhole = isLast && integersOf(depth)?.[0] === items;
  return isWhole && isNumber(on, 1) && isNumber(off, 0) ? list : undefined;
}

function isNumber(value: GraphValue | undefined, number: number): boolean {
  const tensor = value?.constant;
  return tensor !== undefined && tensor.dtype !== "string" && Number(tensor.data[0]) === number;
}

function isListed(list: GraphValue, items: number): GraphMaskRule {
  return { kind: "test", column: rowColumn(items), is: "in", values: list };
}

/** The pairs where `scatter_nd(pairs, 1, shape)` or `tensor_scatter_nd_update(zeros, pairs, 1)` is above 0. */
function countedPairs(counts: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const [pairs, updates] = operandsOf(counts, "ScatterNd");
  if (pairs !== undefined && updates !== undefined)
    return isOne(updates, scalars) ? pairs : undefined;
  const [zeros, places, ones] = operandsOf(counts, "TensorScatterUpdate");
  if (zeros === undefined || places === undefined || ones === undefined) return undefined;
  const isOfNothing = !isSingle(zeros) && isRepeated(zeros, 0, scalars);
  return isOfNothing && isOne(ones, scalars) ? places : undefined;
}

function isOne(value: GraphValue, scalars: ScalarReader): boolean {
  return isRepeated(value, 1, scalars);
}

/** Whether all elements are one number, or that truth. */
function isRepeated(value: GraphValue, number: number, scalars: ScalarReader): boolean {
  return filledNumberOf(value, scalars) === number;
}

/** Types of counts. */
export const INTEGERS: ReadonlySet<string> = new Set(["int32", "int64"]);
/** Rows that pairs `[..., 2]` of a query and a row name. */
export function pairsRule(pairs: GraphValue | undefined, items: number): GraphMaskRule | undefined {
  if (pairs?.shape?.at(-1) !== 2) return undefined;
  return { kind: "test", column: rowColumn(items), is: "at", values: pairs, end: items };
}
