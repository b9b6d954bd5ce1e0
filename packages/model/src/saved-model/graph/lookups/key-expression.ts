// Recognises what Keras makes of "look the key up, else choose an out-of-vocabulary row": a function
// of one key, built of a lookup, comparisons, selections, hashes and offsets, in many spellings. No
// node names are matched. The function is evaluated instead: on all keys of the vocabulary (which row
// does each lead to?), on the keys it compares with (mask tokens), and symbolically on a key that the
// vocabulary lacks. If the outcome is one row, or a hash over a range of rows, the lookup and the
// gather that follows become one step, and the vocabulary can be cut into partitions with the rows.

import type { MissingKey, Tensor, VocabularyIndex } from "@winnow/core";
import { fold } from "../constant-folding.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { outcomeForMissingKey } from "./missing-key.ts";
import { distinctValues } from "../definition/tensor-values.ts";
import type { Expression } from "./missing-key.ts";

/** A function of one key that a vocabulary-keyed table can stand for. */
export interface KeyExpression {
  /** The key, string or int64 of any shape. */
  readonly key: GraphValue;
  readonly keyDtype: "string" | "int64";
  /** The lookup inside it. */
  readonly lookup: OperationNode;
  readonly vocabulary: { readonly keys: Tensor; readonly values: Tensor };
  readonly missing: MissingKey;
  readonly fixed: { readonly keys: Tensor; readonly rows: readonly number[] };
}

const ELEMENTWISE: ReadonlySet<string> = new Set(
  (
    "Equal,NotEqual,Less,LessEqual,Greater,GreaterEqual,LogicalAnd,LogicalOr,LogicalNot,SelectV2," +
    "Select,Add,AddV2,Sub,Mul,Maximum,Minimum,FloorMod,Cast,StringToHashBucketFast," +
    "LookupTableFindV2,ZerosLike,OnesLike"
  ).split(","),
);
const NODES_MAX = 64;

/** The rows of the embedding table, and the vocabularies that lookups of an expression use. */
export interface ExpressionBounds {
  readonly rows: number;
  vocabularyOf(lookup: OperationNode): VocabularyIndex | undefined;
}

/** Recognises `indices` as a function of one key; `undefined` where they are anything else. */
export function recogniseKeyExpression(
  indices: GraphValue,
  bounds: ExpressionBounds,
): KeyExpression | undefined {
  const lookup = onlyLookupOf(indices);
  const key = lookup?.inputs[1];
  if (lookup === undefined || key === undefined) return undefined;
  if (key.dtype !== "string" && key.dtype !== "int64") return undefined;
  const nodes = nodesBetween(indices, key);
  const index = bounds.vocabularyOf(lookup);
  if (nodes === undefined || index?.vocabulary.keys.dtype !== key.dtype) return undefined;
  return describe({ nodes, indices, key }, { lookup, index }, bounds.rows);
}

/** Evaluates the expression on keys that the vocabulary holds, lacks, and that it compares with. */
function describe(
  expression: Expression,
  asked: AskedVocabulary,
  rowCount: number,
): KeyExpression | undefined {
  const { key } = expression;
  const keyDtype = key.dtype === "string" ? "string" : "int64";
  const vocabulary = rowsOfVocabulary(expression, asked, rowCount);
  const missing = outcomeForMissingKey(expression, rowCount);
  if (vocabulary === undefined || missing === undefined) return undefined;
  const compared = distinctValues(missing.compared, keyDtype);
  const rows = numbersOf(rowsOfCompared(expression, compared, asked));
  if (!areInside(rows, rowCount) || rows.length !== compared.shape[0]) return undefined;
  const fixed = { keys: compared, rows };
  const { lookup } = asked;
  return { key, keyDtype, lookup, vocabulary, missing: missing.outcome, fixed };
}

interface AskedVocabulary {
  readonly lookup: OperationNode;
  readonly index: VocabularyIndex;
}

/** The row that each key of the vocabulary leads to; all must be rows of the table. */
function rowsOfVocabulary(
  expression: Expression,
  { lookup, index }: AskedVocabulary,
  rows: number,
): KeyExpression["vocabulary"] | undefined {
  const { keys, values } = index.vocabulary;
  const found = evaluate(expression, keys, (node) => (node === lookup ? values : undefined));
  if (found?.dtype !== "int64" || !areRows(found.data, rows)) return undefined;
  return { keys, values: found };
}

/** Rows of the keys an expression compares with, which the vocabulary may hold or lack. */
function rowsOfCompared(
  expression: Expression,
  compared: Tensor,
  { lookup, index }: AskedVocabulary,
): Tensor | undefined {
  if (compared.shape[0] === 0) return { dtype: "int64", shape: [0], data: new BigInt64Array() };
  const missing = lookup.inputs[2]?.constant;
  if (missing === undefined) return undefined;
  const call = { ...lookup, outputCount: 1 };
  const found = fold(call, [compared, missing], index)?.[0];
  return evaluate(expression, compared, (node) => (node === lookup ? found : undefined));
}

function areInside(rows: readonly number[], end: number): boolean {
  return rows.every((row) => row >= 0 && row < end);
}

function areRows(values: BigInt64Array, rows: number): boolean {
  const end = BigInt(rows);
  for (const value of values) if (value < 0n || value >= end) return false;
  return true;
}

function numbersOf(tensor: Tensor | undefined): number[] {
  if (tensor?.dtype !== "int64" && tensor?.dtype !== "int32") return [];
  return Array.from(tensor.data, Number);
}

/** The only lookup that a value depends on through elementwise operations. */
function onlyLookupOf(indices: GraphValue): OperationNode | undefined {
  const nodes = nodesBetween(indices, undefined);
  const lookups = nodes?.filter(({ op }) => op === "LookupTableFindV2") ?? [];
  return lookups.length === 1 ? lookups[0] : undefined;
}

/**
 * Elementwise nodes from the key (or, without one, as far back as they go) to the indices, each after
 * its inputs; `undefined` when something else than the key and scalar constants flows in.
 */
function nodesBetween(
  indices: GraphValue,
  key: GraphValue | undefined,
): readonly OperationNode[] | undefined {
  const order: OperationNode[] = [];
  const seen = new Set<OperationNode>();
  const stack: { readonly value: GraphValue; readonly isLeaving: boolean }[] = [
    { value: indices, isLeaving: false },
  ];
  for (let frame = stack.pop(); frame !== undefined; frame = stack.pop()) {
    const { value, isLeaving } = frame;
    if (value === key || isScalarConstant(value) || value.resource !== undefined) continue;
    const node = elementwiseProducerOf(value);
    if (node === undefined) {
      if (key !== undefined) return undefined;
    } else if (isLeaving) {
      order.push(node);
    } else if (!seen.has(node)) {
      seen.add(node);
      if (seen.size > NODES_MAX) return undefined;
      stack.push({ value, isLeaving: true });
      for (const input of node.inputs) stack.push({ value: input, isLeaving: false });
    }
  }
  return order;
}

function elementwiseProducerOf({ producer }: GraphValue): OperationNode | undefined {
  const isElementwise = producer?.kind === "operation" && ELEMENTWISE.has(producer.op);
  return isElementwise ? producer : undefined;
}

function isScalarConstant(value: GraphValue): boolean {
  return value.constant?.shape.length === 0;
}

/**
 * The expression on concrete keys; `given` gives the results of nodes that need not be run. Where a
 * selection takes one side for all keys, as it does for the keys that the vocabulary holds, its
 * other side (a hash of every key, say) is not computed. Nests at most `NODES_MAX` deep.
 */
function evaluate(
  { indices, key }: Expression,
  keys: Tensor,
  given: (node: OperationNode) => Tensor | undefined,
): Tensor | undefined {
  const values = new Map<GraphValue, Tensor | undefined>([[key, keys]]);
  const valueOf = (value: GraphValue): Tensor | undefined => {
    if (value.constant !== undefined || values.has(value))
      return value.constant ?? values.get(value);
    const node = elementwiseProducerOf(value);
    const result = node === undefined ? undefined : (given(node) ?? resultOf(node));
    values.set(value, result);
    return result;
  };
  const resultOf = (node: OperationNode): Tensor | undefined => {
    const chosen = node.op === "SelectV2" ? onlySideOf(node, valueOf) : undefined;
    const whole = chosen === undefined ? undefined : valueOf(chosen);
    if (whole?.shape.join() === keys.shape.join()) return whole;
    const inputs = node.inputs.map(valueOf);
    if (!inputs.every((input) => input !== undefined)) return undefined;
    return fold({ ...node, outputCount: 1, isUnbounded: true }, inputs)?.[0];
  };
  return valueOf(indices);
}

/** The side that a selection takes for every key, if there is one. */
function onlySideOf(
  { inputs }: OperationNode,
  valueOf: (value: GraphValue) => Tensor | undefined,
): GraphValue | undefined {
  const [condition, whenTrue, whenFalse] = inputs;
  const choice = condition === undefined ? undefined : valueOf(condition);
  if (choice?.dtype !== "bool" || choice.data.length === 0) return undefined;
  if (!choice.data.includes(0)) return whenTrue;
  return choice.data.includes(1) ? undefined : whenFalse;
}
