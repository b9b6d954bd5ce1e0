// One operation on scores, between the product of queries and candidates and the top-k, as what a
// search makes of it (score-expression.ts): an order that is kept, a value added to all scores of a
// query, a constant factor, or a value added to all scores of an item.

import type { StoredTensor } from "../../partitions/stored-table.ts";
import { producerOf } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { isSingle, scalarOf } from "./scalar-value.ts";
import type { ScalarReader } from "./scalar-value.ts";

/** An operation of the graph on scores. */
export interface ScoreOperation {
  readonly node: OperationNode;
  /** Which of the node's inputs the scores are. */
  readonly position: number;
}

/** What an operation does to scores. */
export type ScoreStep =
  | { readonly kind: "keepsOrder"; readonly operation: ScoreOperation }
  | { readonly kind: "added"; readonly operation: ScoreOperation }
  | { readonly kind: "scaled"; readonly operation: ScoreOperation; readonly factor: number }
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

/** Operations of one operand that rise strictly wherever they are defined. */
const RISING: ReadonlySet<string> = new Set(
  "Sigmoid,Tanh,Exp,Expm1,Log,Log1p,Sqrt,Softplus,Softsign,Elu,Selu".split(","),
);
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
  ]);
/** Factors beyond these could give many scores one value, or none. */
const FACTOR_MAX = 1e15;
const REARRANGEMENTS_MAX = 16;

/** The operation that gave a value, if it is one that a search can do without. */
export function scoreStepOf(value: GraphValue, scalars: ScalarReader): FoundStep | undefined {
  const node = value.producer;
  if (node?.kind !== "operation" || value.dtype !== "float32") return undefined;
  return risingStep(node) ?? binaryStep(node, scalars);
}

function risingStep(node: OperationNode): FoundStep | undefined {
  const [scores] = node.inputs;
  const isRising = RISING.has(node.op) || isRisingByAttribute(node);
  if (scores === undefined || !isRising) return undefined;
  return { scores, step: { kind: "keepsOrder", operation: { node, position: 0 } } };
}

function binaryStep(node: OperationNode, scalars: ScalarReader): FoundStep | undefined {
  const { recognise, positions } = BINARY.get(node.op) ?? { positions: [] };
  for (const position of positions) {
    const [scores, other] = [node.inputs[position], node.inputs[1 - position]];
    if (scores?.shape?.length !== 2 || other === undefined) continue;
    const found = recognise?.({ node, position, scores, other }, scalars);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isRisingByAttribute({ op, attributes }: OperationNode): boolean {
  return op === "LeakyRelu" && attributes.float("alpha", 0.2) > 0;
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
  return isPerQuery(other) ? { scores, step: { kind: "added", operation } } : undefined;
}

/** Whether a value has one element, or one for each query: `[queries, 1]`. */
function isPerQuery(value: GraphValue): boolean {
  const { dtype, shape = [0, 0, 0] } = value;
  if (dtype !== "float32" || shape.length > 2) return false;
  return isSingle(value) || shape.join() === "-1,1";
}

function scaleStep(
  { node, position, scores, other }: Operands,
  scalars: ScalarReader,
): FoundStep | undefined {
  const value = (other.shape?.length ?? 3) > 2 ? undefined : scalarOf(other, scalars);
  if (value === undefined || !isUsable(value)) return undefined;
  const factor = node.op === "Mul" ? value : 1 / value;
  return { scores, step: { kind: "scaled", operation: { node, position }, factor } };
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
