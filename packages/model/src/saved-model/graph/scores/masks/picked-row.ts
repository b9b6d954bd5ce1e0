// Masks that a table holds for each of some groups, of which a request picks one: the items that each country may see.
//
//   gather(visible, country)               row `country` of a table [countries, items]
//   one_hot(country, countries) @ visible  the same, or zeros for a country that is none
//
// The table becomes a column with a list for each item, of the groups for which its value is that of a flag:
//
//   visible  [[1, 0, 1],      column  [0], [1], [0, 1]       the items that a query of country 1 keeps: those whose
//             [0, 1, 1]]                                     list has 1

import { elementCount } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { StoredTensor } from "../../../partitions/stored-table.ts";
import { integerOf, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { isSingle, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";

/** Flags of all groups, which every worker reads as a whole. */
const FLAGS_MAX = 2 ** 24;
/** Groups, at most: an item may be in all of them. */
const GROUPS_MAX = 256;
/** How deep in other conditions such a row may stand: each is a column of its own. */
const DEPTH_MAX = 4;

/** Where a condition stands. */
interface OfItems {
  readonly items: number;
  readonly scalars: ScalarReader;
  readonly depth: number;
}

/** A row of a table that a request picks. */
interface PickedRow {
  /** `[groups, items]`. */
  readonly table: GraphValue;
  readonly groups: number;
  /** Which row, for each query. */
  readonly group: GraphValue;
  /** Whether a row that is none is refused; else it is all zeros. */
  readonly isRefused: boolean;
}

/** The rules of values: a graph is asked for one again and again. */
const rules = new WeakMap<GraphValue, { readonly rule: GraphMaskRule | undefined }>();

/** The rule of a condition on a row that a request picks: flags, or a comparison with a number. */
export function pickedRule(condition: GraphValue, of: OfItems): GraphMaskRule | undefined {
  if (condition.dtype !== "bool" || of.depth > DEPTH_MAX) return undefined;
  const known = rules.get(condition);
  if (known !== undefined) return known.rule;
  const [numbers] = producerOf(condition, "Cast")?.inputs ?? [];
  const row = pickedRow(condition, of) ?? (numbers && pickedRow(numbers, of));
  const rule = row ? ruleOfTable(row, of, (value) => value !== 0) : comparedRow(condition, of);
  rules.set(condition, { rule });
  return rule;
}

/** The rule of a row that a request picks, where its values are 1 and 0. */
export function pickedFlags(flags: GraphValue, of: OfItems): GraphMaskRule | undefined {
  if (flags.dtype !== "float32" || of.depth > DEPTH_MAX) return undefined;
  const known = rules.get(flags);
  if (known !== undefined) return known.rule;
  const row = pickedRow(flags, of);
  const values = row && valuesOf(row, of);
  const areFlags =
    values instanceof Float32Array && values.every((each) => each === 0 || each === 1);
  const rule = row && areFlags ? ruleOfTable(row, of, (value) => value === 1) : undefined;
  rules.set(flags, { rule });
  return rule;
}

const INDICES: ReadonlySet<string> = new Set(["int32", "int64"]);
const COMPARISONS: ReadonlyMap<string, (a: number, b: number) => boolean> = new Map([
  ["Equal", (a: number, b: number) => a === b],
  ["NotEqual", (a: number, b: number) => a !== b],
  ["Less", (a: number, b: number) => a < b],
  ["LessEqual", (a: number, b: number) => a <= b],
  ["Greater", (a: number, b: number) => a > b],
  ["GreaterEqual", (a: number, b: number) => a >= b],
]);

function comparedRow(condition: GraphValue, of: OfItems): GraphMaskRule | undefined {
  const node = producerOf(condition, ...COMPARISONS.keys());
  const [left, right] = node?.inputs ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  const number = isSingle(right) ? scalarOf(right, of.scalars) : undefined;
  const row = number === undefined ? undefined : pickedRow(left, of);
  const compare = COMPARISONS.get(node.op)!;
  return row && ruleOfTable(row, of, (value) => compare(value, number!));
}

function pickedRow(value: GraphValue, of: OfItems): PickedRow | undefined {
  const { shape } = value;
  if (shape?.length !== 2 || shape[1] !== of.items) return undefined;
  return lookedUpRow(value, of) ?? gatheredRow(value, of) ?? weighedRow(value, of);
}

/** A row of floats, which is looked up. */
function lookedUpRow({ producer }: GraphValue, { items }: OfItems): PickedRow | undefined {
  const matrix = producer?.kind === "lookup" ? producer.of : undefined;
  if (producer?.kind !== "lookup" || matrix === undefined) return undefined;
  if (matrix.derivation !== undefined) return undefined;
  const shape = [matrix.rows, matrix.dim];
  const table: GraphValue = { dtype: "float32", shape, stored: matrix.stored };
  return rowOf(table, producer.rows, { items, isRefused: true });
}

function gatheredRow(value: GraphValue, { items }: OfItems): PickedRow | undefined {
  const gather = producerOf(value, "GatherV2");
  const isPlain = gather?.attributes.int("batch_dims", 0) === 0;
  if (!isPlain || integerOf(gather.inputs[2]) !== 0) return undefined;
  return rowOf(gather.inputs[0], gather.inputs[1], { items, isRefused: true });
}

function weighedRow(value: GraphValue, { items, scalars }: OfItems): PickedRow | undefined {
  const product = producerOf(value, "MatMul");
  const isTurned = ["transpose_a", "transpose_b"].some((each) => product?.attributes.flag(each));
  const [hot, table] = product === undefined || isTurned ? [] : product.inputs;
  return rowOf(table, hot && groupOfHot(hot, scalars), { items, isRefused: false });
}

/** What `one_hot(group, groups)` is of. */
function groupOfHot(hot: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const node = producerOf(hot, "OneHot");
  const [group, , on, off] = node?.inputs ?? [];
  const areFlags = on && off && scalarOf(on, scalars) === 1 && scalarOf(off, scalars) === 0;
  const axis = node?.attributes.int("axis", -1);
  return areFlags === true && (axis === -1 || axis === 1) ? group : undefined;
}

function rowOf(
  table: GraphValue | undefined,
  group: GraphValue | undefined,
  { items, isRefused }: { readonly items: number; readonly isRefused: boolean },
): PickedRow | undefined {
  if (table?.shape?.length !== 2 || group?.shape?.length !== 1) return undefined;
  const [groups, width] = table.shape;
  if (width !== items || !INDICES.has(group.dtype)) return undefined;
  const isWithin = groups! > 1 && groups! <= GROUPS_MAX && groups! * items <= FLAGS_MAX;
  return isWithin ? { table, groups: groups!, group, isRefused } : undefined;
}

/** The values of the whole table; `undefined` for texts, and for numbers that a graph computes. */
function valuesOf(
  { table, groups }: PickedRow,
  of: OfItems,
): ArrayLike<number | bigint> | undefined {
  const tensor = table.constant ?? (table.stored && of.scalars(table));
  if (tensor === undefined || tensor.dtype === "string") return undefined;
  return elementCount(tensor.shape) === groups * of.items ? tensor.data : undefined;
}

/** The rule that keeps the items whose value in the picked row a condition holds for. */
function ruleOfTable(
  row: PickedRow,
  of: OfItems,
  holds: (value: number) => boolean,
): GraphMaskRule | undefined {
  const values = valuesOf(row, of);
  if (values === undefined) return undefined;
  const { groups, group, isRefused } = row;
  // A row of zeros keeps what 0 does.
  const isOpposite = !isRefused && holds(0);
  const { items } = of;
  const data = new Uint8Array(items * groups);
  for (let at = 0; at < data.length; at += 1) {
    const isKept = holds(Number(values[at])) !== isOpposite;
    data[(at % items) * groups + Math.floor(at / items)] = isKept ? 1 : 0;
  }
  const tensor: Tensor = { dtype: "bool", shape: [items, groups], data };
  const column: StoredTensor = { kind: "constant", name: `groups of items [${items}]`, tensor };
  const test = { kind: "test", column, is: "in", values: group } as const;
  const rule = isRefused ? { ...test, end: groups } : test;
  return isOpposite ? { kind: "not", of: rule } : rule;
}
