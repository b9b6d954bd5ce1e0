// What a condition on items asks of each: a rule over stored vectors with one value per item (genre, language, price,
// whether it is in stock), compared with values of the request, and over the rows of items that the request lists.

import type { Tensor } from "@winnow/core";
import { constantValue, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue, OperationNode } from "../../graph-value.ts";
import { combined, fewNumbersOf, ruleWhere, stackedParts } from "./few-numbers.ts";
import type { FewNumbers } from "./few-numbers.ts";
import { columnOf, everyItem, operandsOf } from "./item-column.ts";
import type { Within } from "./item-column.ts";
import { listedOf } from "./listed-rows.ts";
import { pickedRule } from "./picked-row.ts";
import { RELATIONS } from "./relations.ts";

const DEPTH_MAX = 12;
const CONNECTED_MAX = 4;

/** The rule that a condition on items is; `undefined` for one that is none. */
export function ruleOf(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  if (within.depth > DEPTH_MAX) return undefined;
  if (condition.dtype === "bool" && isOfQuery(condition)) {
    return { kind: "test", column: everyItem(within.items), is: "in", values: condition };
  }
  const deeper = { ...within, depth: within.depth + 1 };
  const connective = connectiveOf(condition, deeper);
  if (connective !== undefined) return connective;
  const column = columnOf(condition, within.items, 0);
  if (column !== undefined && condition.dtype === "bool") {
    const isTrue: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(1) };
    return { kind: "test", column, is: "in", values: constantValue(isTrue) };
  }
  return (
    comparisonOf(condition, within) ??
    castOf(condition, within) ??
    listedOf(condition, within) ??
    pickedRule(condition, within) ??
    numbersCompared(condition, deeper)
  );
}

/** `cast(flags, bool)` of stored numbers: all that are not 0. */
function castOf(condition: GraphValue, { items }: Within): GraphMaskRule | undefined {
  const [numbers] = condition.dtype === "bool" ? operandsOf(condition, "Cast") : [];
  const column = numbers && columnOf(numbers, items, 0);
  const zero = column && ZEROS.get(numbers.dtype);
  if (column === undefined || zero === undefined) return undefined;
  return { kind: "not", of: { kind: "test", column, is: "in", values: constantValue(zero) } };
}

const ZEROS: ReadonlyMap<string, Tensor> = new Map<string, Tensor>([
  ["float32", { dtype: "float32", shape: [], data: new Float32Array(1) }],
  ["int32", { dtype: "int32", shape: [], data: new Int32Array(1) }],
  ["int64", { dtype: "int64", shape: [], data: new BigInt64Array(1) }],
]);

const CONNECTIVES: ReadonlyMap<string, "not" | "and" | "or"> = new Map([
  ["LogicalNot", "not"],
  ["LogicalAnd", "and"],
  ["LogicalOr", "or"],
  ["All", "and"],
  ["Any", "or"],
]);

function connectiveOf(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  const node = producerOf(condition, ...CONNECTIVES.keys());
  const inputs = node && (isReduction(node) ? stackedParts(node) : node.inputs);
  if (inputs === undefined || inputs.length > CONNECTED_MAX) return undefined;
  const rules = inputs.map((input) => ruleOf(input, within));
  const [rule] = rules;
  if (rule === undefined || rules.includes(undefined)) return undefined;
  const kind = CONNECTIVES.get(node!.op)!;
  return kind === "not" ? { kind, of: rule } : { kind, of: rules as GraphMaskRule[] };
}

/** `reduce_all(stack([in_stock, of_region]), 0)`. */
function isReduction({ op }: OperationNode): boolean {
  return op === "All" || op === "Any";
}

type Comparison = "in" | "gt" | "gte" | "lt" | "lte";

/** What a comparison asks of its left operand, and of its right one. */
const COMPARISONS: ReadonlyMap<string, readonly [Comparison, Comparison]> = new Map([
  ["Equal", ["in", "in"]],
  ["NotEqual", ["in", "in"]],
  ["Less", ["lt", "gt"]],
  ["LessEqual", ["lte", "gte"]],
  ["Greater", ["gt", "lt"]],
  ["GreaterEqual", ["gte", "lte"]],
]);

/** item value ∘ value of the query. */
function comparisonOf(condition: GraphValue, { items }: Within): GraphMaskRule | undefined {
  const node = producerOf(condition, ...COMPARISONS.keys());
  const [left, right] = node?.inputs ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  const [ofLeft, ofRight] = COMPARISONS.get(node.op)!;
  const test =
    testOf(left, right, { is: ofLeft, items }) ?? testOf(right, left, { is: ofRight, items });
  return test && node.op === "NotEqual" ? { kind: "not", of: test } : test;
}

function testOf(
  item: GraphValue,
  values: GraphValue,
  { is, items }: { readonly is: Comparison; readonly items: number },
): GraphMaskRule | undefined {
  // Booleans and strings have no order.
  const isOrdered = item.dtype !== "bool" && item.dtype !== "string";
  if (!isOfQuery(values) || (is !== "in" && !isOrdered)) return undefined;
  const column = columnOf(item, items, 0);
  return column && { kind: "test", column, is, values };
}

/** Whether a value is one for all queries, or one for each. */
function isOfQuery({ shape }: GraphValue): boolean {
  return shape !== undefined && shape.length <= 2 && (shape.length === 0 || shape.at(-1) === 1);
}

/** `seen + sold_out > 0`, `cast(maximum(seen, sold_out), bool)`. */
function numbersCompared(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  const [cast] = operandsOf(condition, "Cast");
  if (cast !== undefined) {
    const few = numbersOf(cast, within);
    return few && ruleWhere(few, (number) => number !== 0);
  }
  const node = producerOf(condition, ...RELATIONS.keys());
  const [left, right] = node?.inputs ?? [];
  const first = left && numbersOf(left, within);
  const second = first && right && numbersOf(right, within);
  if (node === undefined || first === undefined || second === undefined) return undefined;
  const compare = RELATIONS.get(node.op)!;
  const compute = (a = NaN, b = NaN): number => Number(compare(a, b));
  const truth = combined([first, second], { dtype: "float32", compute });
  return truth && ruleWhere(truth, (number) => number === 1);
}

/** The numbers of a value with one for each item, or for all; `undefined` for a value with other ones. */
export function numbersOf(value: GraphValue, within: Within): FewNumbers | undefined {
  return fewNumbersOf(value, within, ruleOf);
}
