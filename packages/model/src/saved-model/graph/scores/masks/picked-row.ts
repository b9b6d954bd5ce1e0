// Masks that a table holds for each of some groups, of which a request picks one: the items that each country may see.
//
//   gather(visible, country)               row `country` of a table [countries, items]
//   one_hot(country, countries) @ visible  the same, or zeros for a country that is none
//   transpose(gather(visible, country, axis=1))   column `country` of a table [items, countries]
//
// The table becomes a column with a list for each item, of the groups for which its value is that of a flag:
//
//   visible  [[1, 0, 1],      column  [0], [1], [0, 1]       the items that a query of country 1 keeps: those whose
//             [0, 1, 1]]                                     list has 1

import { elementCount } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { StoredTensor } from "../../../partitions/stored-table.ts";
import { integerOf, integersOf, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { isSingle, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { RELATIONS } from "./relations.ts";

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
  /** `[groups, items]`; `[items, groups]` where it is turned. */
  readonly table: GraphValue;
  readonly isTurned: boolean;
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
  const rule =
    row && values && areFlags(values) ? ruleOfTable(row, of, (value) => value === 1) : undefined;
  rules.set(flags, { rule });
  return rule;
}

function areFlags(values: ArrayLike<number | bigint>): boolean {
  for (let at = 0; at < values.length; at += 1) {
    const value = Number(values[at]);
    if (value !== 0 && value !== 1) return false;
  }
  return true;
}

const INDICES: ReadonlySet<string> = new Set(["int32", "int64"]);

function comparedRow(condition: GraphValue, of: OfItems): GraphMaskRule | undefined {
  const node = producerOf(condition, ...RELATIONS.keys());
  const [left, right] = node?.inputs ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  const number = isSingle(right) ? scalarOf(right, of.scalars) : undefined;
  const row = number === undefined ? undefined : pickedRow(left, of);
  const compare = RELATIONS.get(node.op)!;
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
  return rowOf(table, producer.rows, { items, isOfColumns: false, isRefused: true });
}

function gatheredRow(value: GraphValue, { items }: OfItems): PickedRow | undefined {
  const columns = beforeTurn(value);
  const gather = producerOf(columns ?? value, "GatherV2");
  const [table, group, axis] = gather?.inputs ?? [];
  const isPlain = gather?.attributes.int("batch_dims", 0) === 0;
  if (!isPlain || table === undefined) return undefined;
  const isOfColumns = [1, -1].includes(integerOf(axis) ?? NaN);
  if (columns === undefined ? integerOf(axis) !== 0 : !isOfColumns) return undefined;
  return rowOf(table, group, { items, isOfColumns, isRefused: true });
}

/** What a matrix is the transposition of. */
function beforeTurn(value: GraphValue): GraphValue | undefined {
  const [input, axes] = producerOf(value, "Transpose")?.inputs ?? [];
  return integersOf(axes)?.join() === "1,0" ? input : undefined;
}

function weighedRow(value: GraphValue, { items, scalars }: OfItems): PickedRow | undefined {
  const product = producerOf(value, "MatMul");
  const isOfColumns = product?.attributes.flag("transpose_b") === true;
  const [hot, table] = product?.attributes.flag("transpose_a") === false ? product.inputs : [];
  return rowOf(table, hot && groupOfHot(hot, scalars), { items, isOfColumns, isRefused: false });
}

/** What `one_hot(group, groups)` is of. */
function groupOfHot(hot: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const node = producerOf(hot, "OneHot");
  const [group, , on, off] = node?.inputs ?? [];
  const areFlags = on && off && scalarOf(on, scalars) === 1 && scalarOf(off, scalars) === 0;
  const axis = node?.attributes.int("axis", -1);
  return areFlags === true && (axis === -1 || axis === 1) ? group : undefined;
}

/** How a row is picked of a table. */
interface Picking {
  readonly items: number;
  /** Whether it is a column instead. */
  readonly isOfColumns: boolean;
  readonly isRefused: boolean;
}

function rowOf(
  given: GraphValue | undefined,
  group: GraphValue | undefined,
  { items, isOfColumns, isRefused }: Picking,
): PickedRow | undefined {
  const matrix = given && matrixOf(given, isOfColumns);
  if (matrix === undefined || group?.shape?.length !== 1) return undefined;
  const { groups, width, ...table } = matrix;
  if (width !== items || !INDICES.has(group.dtype) || !areFew(groups, items)) return undefined;
  return { ...table, groups, group, isRefused };
}

/** Types whose values are the same numbers as float32, or as flags. */
const WHOLE: ReadonlySet<string> = new Set(["bool", ...INDICES]);

/** A matrix before it is transposed or cast, each once. */
function matrixOf(
  given: GraphValue,
  isOfColumns: boolean,
): (Pick<PickedRow, "table" | "isTurned" | "groups"> & { readonly width: number }) | undefined {
  const turned = beforeTurn(beforeCast(given));
  const table = beforeCast(turned ?? given);
  const isTurned = isOfColumns === (turned === undefined);
  const [groups, width, ...others] = (isTurned ? table.shape?.toReversed() : table.shape) ?? [];
  if (groups === undefined || width === undefined || others.length > 0) return undefined;
  return { table, isTurned, groups, width };
}

function beforeCast(value: GraphValue): GraphValue {
  const [input] = producerOf(value, "Cast")?.inputs ?? [];
  return input !== undefined && WHOLE.has(input.dtype) ? input : value;
}

function areFew(groups: number, items: number): boolean {
  return groups > 1 && groups <= GROUPS_MAX && groups * items <= FLAGS_MAX;
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
  const { groups, group, isTurned, isRefused } = row;
  // A row of zeros keeps what 0 does.
  const isOpposite = !isRefused && holds(0);
  const { items } = of;
  const data = new Uint8Array(items * groups);
  for (let at = 0; at < data.length; at += 1) {
    const isKept = holds(Number(values[at])) !== isOpposite;
    const place = isTurned ? at : (at % items) * groups + Math.floor(at / items);
    data[place] = isKept ? 1 : 0;
  }
  const tensor: Tensor = { dtype: "bool", shape: [items, groups], data };
  const column: StoredTensor = { kind: "constant", name: `groups of items [${items}]`, tensor };
  const test = { kind: "test", column, is: "in", values: group } as const;
  const rule = isRefused ? { ...test, end: groups } : test;
  return isOpposite ? { kind: "not", of: rule } : rule;
}
