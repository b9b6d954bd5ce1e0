// One operation on scores, between the product of queries and candidates and the top-k, as what a
// search makes of it (score-expression.ts): a function that keeps the order, a value added to all scores
// of a query, a constant factor, or a value added to all scores of an item.

import type { ScoreOperationName } from "@winnow/core";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import { constantValue, producerOf } from "../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../graph-value.ts";
import { isSingle, scalarOf } from "./scalar-value.ts";
import type { ScalarReader } from "./scalar-value.ts";

/** An operation of the graph on scores. */
export interface ScoreOperation {
  readonly node: OperationNode;
  /** Which of the node's inputs the scores are. */
  readonly position: number;
}

/**
 * What an operation does to scores. `scaled` and `added` may as well be done to queries and to the scores of
 * winners; `function` keeps the order, but may make scores equal.
 */
export type ScoreStep =
  | {
      readonly kind: "function";
      readonly operation: ScoreOperation;
      readonly functions: readonly NodeFunction[];
    }
  | {
      readonly kind: "added";
      readonly operation: ScoreOperation;
      readonly functions: readonly NodeFunction[];
    }
  | {
      readonly kind: "scaled";
      readonly operation: ScoreOperation;
      readonly functions: readonly NodeFunction[];
      readonly factor: number;
    }
  | { readonly kind: "bias"; readonly operation: ScoreOperation; readonly bias: ItemBias };

/** A stored value per item that is added to its scores, times a factor. */
export interface ItemBias {
  readonly stored: StoredTensor;
  readonly items: number;
  readonly factor: number;
}

/** A step and the scores before it. */
interface FoundStep {
  readonly step: ScoreStep;
  readonly scores: GraphValue;
}

/** Which operand of a node the scores are, and what the other one is. */
interface Operands {
  readonly node: OperationNode;
  readonly position: number;
  readonly scores: GraphValue;
  readonly other: GraphValue;
}

/** Operations of one operand, as functions of scores. */
const UNARY: ReadonlyMap<string, readonly NodeFunction[]> = new Map<
  string,
  readonly NodeFunction[]
>([
  ["Ceil", [{ op: "Ceil" }]],
  ["Elu", [{ op: "Elu" }]],
  ["Exp", [{ op: "Exp" }]],
  ["Expm1", [{ op: "Expm1" }]],
  ["Floor", [{ op: "Floor" }]],
  ["Log", [{ op: "Log" }]],
  ["Log1p", [{ op: "Log1p" }]],
  ["Relu", [{ op: "Maximum", operand: scalarValue(0) }]],
  [
    "Relu6",
    [
      { op: "Maximum", operand: scalarValue(0) },
      { op: "Minimum", operand: scalarValue(6) },
    ],
  ],
  ["Rint", [{ op: "Round" }]],
  ["Round", [{ op: "Round" }]],
  ["Selu", [{ op: "Selu" }]],
  ["Sigmoid", [{ op: "Sigmoid" }]],
  ["Softplus", [{ op: "Softplus" }]],
  ["Softsign", [{ op: "Softsign" }]],
  ["Sqrt", [{ op: "Sqrt" }]],
  ["Tanh", [{ op: "Tanh" }]],
]);
/** Operations of two operands, as functions of the one that the scores are. */
const NAMES: ReadonlyMap<string, ScoreOperationName> = new Map([
  ["Add", "Add"],
  ["AddV2", "Add"],
  ["BiasAdd", "Add"],
  ["Div", "Div"],
  ["DivNoNan", "Div"],
  ["Maximum", "Maximum"],
  ["Minimum", "Minimum"],
  ["Mul", "Mul"],
  ["RealDiv", "Div"],
  ["Sub", "Sub"],
]);
type Recognise = (operands: Operands, scalars: ScalarReader) => FoundStep | undefined;
/** Operations of two operands; the scores of some can be either of them. */
const BINARY: ReadonlyMap<string, { readonly recognise: Recognise; readonly positions: number[] }> =
  new Map([
    ["Add", { recognise: sumStep, positions: [0, 1] }],
    ["AddV2", { recognise: sumStep, positions: [0, 1] }],
    ["BiasAdd", { recognise: sumStep, positions: [0] }],
    ["Sub", { recognise: sumStep, positions: [0] }],
    ["Mul", { recognise: scaleStep, positions: [0, 1] }],
    ["RealDiv", { recognise: scaleStep, positions: [0] }],
    ["Div", { recognise: scaleStep, positions: [0] }],
    ["DivNoNan", { recognise: scaleStep, positions: [0] }],
    ["Maximum", { recognise: boundStep, positions: [0, 1] }],
    ["Minimum", { recognise: boundStep, positions: [0, 1] }],
  ]);
/** Factors beyond these could give many scores one value, or none. */
const FACTOR_MAX = 1e15;
const REARRANGEMENTS_MAX = 16;

/** The operation that gave a value, if it is one that a search can do without. */
export function scoreStepOf(value: GraphValue, scalars: ScalarReader): FoundStep | undefined {
  const node = value.producer;
  if (node?.kind !== "operation" || value.dtype !== "float32") return undefined;
  return unaryStep(node) ?? clippedStep(node) ?? binaryStep(node, scalars);
}

function unaryStep(node: OperationNode): FoundStep | undefined {
  const [scores] = node.inputs;
  if (scores === undefined) return undefined;
  const operation = { node, position: 0 };
  if (node.op === "Neg") {
    const functions: readonly NodeFunction[] = [{ op: "Mul", operand: scalarValue(-1) }];
    return { scores, step: { kind: "scaled", operation, functions, factor: -1 } };
  }
  const functions = UNARY.get(node.op) ?? leakyRelu(node);
  return functions && { scores, step: { kind: "function", operation, functions } };
}

function leakyRelu({ op, attributes }: OperationNode): readonly NodeFunction[] | undefined {
  if (op !== "LeakyRelu") return undefined;
  const alpha = attributes.float("alpha", 0.2);
  return alpha > 0 ? [{ op: "LeakyRelu", operand: scalarValue(alpha) }] : undefined;
}

/** ClipByValue with bounds for all scores, or for those of each query. */
function clippedStep(node: OperationNode): FoundStep | undefined {
  const [scores, low, high] = node.op === "ClipByValue" ? node.inputs : [];
  if (scores === undefined || low === undefined || high === undefined) return undefined;
  if (!isPerQuery(low, scores) || !isPerQuery(high, scores)) return undefined;
  const functions: readonly NodeFunction[] = [
    { op: "Minimum", operand: high },
    { op: "Maximum", operand: low },
  ];
  return { scores, step: { kind: "function", operation: { node, position: 0 }, functions } };
}

function boundStep({ node, position, scores, other }: Operands): FoundStep | undefined {
  if (!isPerQuery(other, scores)) return undefined;
  const functions = functionsOf(node, other);
  return { scores, step: { kind: "function", operation: { node, position }, functions } };
}

function functionsOf({ op }: OperationNode, operand: GraphValue): readonly NodeFunction[] {
  return [{ op: NAMES.get(op)!, operand }];
}

function scalarValue(value: number): GraphValue {
  return constantValue({ dtype: "float32", shape: [], data: Float32Array.of(value) });
}

function binaryStep(node: OperationNode, scalars: ScalarReader): FoundStep | undefined {
  const { recognise, positions } = BINARY.get(node.op) ?? { positions: [] };
  for (const position of positions) {
    const [scores, other] = [node.inputs[position], node.inputs[1 - position]];
    if (other === undefined || !isOfItems(scores)) continue;
    const found = recognise?.({ node, position, scores, other }, scalars);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether a value may be scores `[queries, items]`, or of several vectors, `[queries, vectors, items]`. */
function isOfItems(value: GraphValue | undefined): value is GraphValue {
  return value?.shape?.length === 2 || value?.shape?.length === 3;
}

function sumStep(
  { node, position, scores, other }: Operands,
  scalars: ScalarReader,
): FoundStep | undefined {
  const operation = { node, position };
  const bias = itemBiasOf(other, scalars);
  if (bias !== undefined) {
    const factor = node.op === "Sub" ? -bias.factor : bias.factor;
    return { scores, step: { kind: "bias", operation, bias: { ...bias, factor } } };
  }
  if (!isPerQuery(other, scores)) return undefined;
  return { scores, step: { kind: "added", operation, functions: functionsOf(node, other) } };
}

/** Whether a value has one element, or one for each query of some scores: `[queries, 1]`. */
function isPerQuery(value: GraphValue, scores: GraphValue): boolean {
  const { dtype, shape = [0, 0, 0] } = value;
  if (dtype !== "float32" || shape.length > 2) return false;
  return isSingle(value) || (scores.shape?.length === 2 && shape.join() === "-1,1");
}

function scaleStep(
  { node, position, scores, other }: Operands,
  scalars: ScalarReader,
): FoundStep | undefined {
  const value = (other.shape?.length ?? 3) > 2 ? undefined : scalarOf(other, scalars);
  if (value === undefined || !isUsable(value)) return undefined;
  const factor = node.op === "Mul" ? value : 1 / value;
  const functions = functionsOf(node, other);
  return { scores, step: { kind: "scaled", operation: { node, position }, functions, factor } };
}

function isUsable(factor: number): boolean {
  const size = Math.abs(factor);
  return size < FACTOR_MAX && size > 1 / FACTOR_MAX;
}

/** A stored vector with one element per item, or a multiple of one. */
function itemBiasOf(value: GraphValue, scalars: ScalarReader): ItemBias | undefined {
  const { shape = [] } = value;
  const items = shape.at(-1) ?? -1;
  const isVector = shape.length === 1 || (shape.length === 2 && shape[0] === 1);
  if (!isVector || items < 2) return undefined;
  const { vector, factor } = multipleOf(value, scalars) ?? { vector: value, factor: 1 };
  const stored = storedVectorIn(vector, items);
  return stored && isUsable(factor) ? { stored, items, factor } : undefined;
}

interface Multiple {
  readonly vector: GraphValue;
  readonly factor: number;
}

/** -v, c · v or v / c with a constant c. */
function multipleOf(value: GraphValue, scalars: ScalarReader): Multiple | undefined {
  const node = producerOf(value, "Neg", "Mul", "RealDiv", "Div");
  const [first, second] = node?.inputs ?? [];
  if (node === undefined || first === undefined) return undefined;
  if (node.op === "Neg") return { vector: first, factor: -1 };
  const factor = second && scalarOf(second, scalars);
  if (factor !== undefined) {
    return { vector: first, factor: node.op === "Mul" ? factor : 1 / factor };
  }
  const other = node.op === "Mul" ? scalarOf(first, scalars) : undefined;
  return second && other !== undefined ? { vector: second, factor: other } : undefined;
}

/** A stored tensor with this many elements, through operations that keep their order. */
function storedVectorIn(value: GraphValue, items: number): StoredTensor | undefined {
  let vector = value;
  for (let step = 0; step < REARRANGEMENTS_MAX; step += 1) {
    const sizes = vector.shape?.filter((size) => size !== 1) ?? [];
    if (vector.dtype !== "float32" || sizes.join() !== String(items)) return undefined;
    if (vector.stored?.kind === "bundle") return vector.stored;
    if (vector.constant !== undefined) return finiteConstant(vector, items);
    // Of one axis that is not 1, no transposition changes the order.
    const node = producerOf(vector, "Reshape", "Squeeze", "ExpandDims", "Transpose", "Cast");
    const input = node?.inputs[0];
    if (input === undefined) return undefined;
    vector = input;
  }
  return undefined;
}

/** A constant as it is stored, or as if it were. */
function finiteConstant({ constant, stored }: GraphValue, items: number): StoredTensor | undefined {
  if (constant?.dtype !== "float32") return undefined;
  if (!constant.data.every((value) => Number.isFinite(value))) return undefined;
  return stored ?? { kind: "constant", name: `constant [${items}]`, tensor: constant };
}
