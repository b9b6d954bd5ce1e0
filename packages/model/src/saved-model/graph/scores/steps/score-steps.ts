// One operation on scores, between the product of queries and candidates and the top-k, as what a
// search makes of it (../score-expression.ts): a function that keeps the order, a value added to all scores
// of a query, a constant factor, or a value added to all scores of an item.

import type { ScoreOperationName, Tensor } from "@winnow/core";
import type { StoredTensor } from "../../../partitions/stored-table.ts";
import { constantValue, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue, NodeFunction, OperationNode } from "../../graph-value.ts";
import { elementFunctionsOf, scalarValue } from "../values/element-functions.ts";
import { isSingle, repeatedNumberOf, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { vectorBefore } from "../values/rearrangement.ts";
import { squaresOf } from "../products/score-distance.ts";
import type { ItemFactor, SearchedItems } from "../products/score-product.ts";
import { vectorOf } from "../values/vector-value.ts";

/** An operation of the graph on scores. */
export interface ScoreOperation {
  readonly node: OperationNode;
  /** Which of the node's inputs the scores are. */
  readonly position: number;
}

/** Why scores are not searched: the operation that stood in the way, or `undefined` for an input. */
export interface Obstacle {
  readonly node: OperationNode | undefined;
}

/**
 * What an operation does to scores. `scaled` and `added` may as well be done to queries and to the scores of
 * winners; `weighted` is a factor that a request decides, and is done to queries; `function` keeps the order, but may
 * make scores equal; `softmax` does too, and needs the scores of all items. `itemFactor` and `bias` are done to rows.
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
  | {
      readonly kind: "weighted";
      readonly operation: ScoreOperation;
      readonly operand: GraphValue;
      /** Where the factor is above 0 whatever a request says: what it does to scores. */
      readonly functions: readonly NodeFunction[] | undefined;
    }
  | {
      readonly kind: "softmax";
      readonly operation: ScoreOperation;
      readonly functions: readonly NodeFunction[];
    }
  | {
      readonly kind: "itemFactor";
      readonly operation: ScoreOperation;
      readonly factor: ItemFactor;
    }
  | {
      readonly kind: "bias";
      readonly operation: ScoreOperation;
      readonly bias: ItemBias;
      /** Items whose scores become -∞: a rule that keeps the others. */
      readonly shown?: GraphMaskRule | undefined;
    };

/** Whether a step differs by item. */
export function isOfItem({ kind }: ScoreStep): boolean {
  return kind === "bias" || kind === "itemFactor";
}

/** A value per item that is added to its scores, times a factor: a stored one, or its sum of squares. */
export interface ItemBias {
  readonly stored: StoredTensor | undefined;
  /** Where nothing is stored: the items whose squares are summed. */
  readonly squares?: SearchedItems | undefined;
  readonly items: number;
  readonly factor: number;
  /** A further factor, one for each query: `[queries, 1]`; absent: 1. */
  readonly weight?: GraphValue | undefined;
  /** Whether it is 0 for each item that it does not hide. */
  readonly isNothing?: boolean | undefined;
}

/** What one operation is, first step first, and the scores before it. */
interface FoundSteps {
  readonly steps: readonly ScoreStep[];
  readonly scores: GraphValue;
}

/** Which operand of a node the scores are, and what the other one is. */
interface Operands {
  readonly node: OperationNode;
  readonly position: number;
  readonly scores: GraphValue;
  readonly other: GraphValue;
}

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
type Recognise = (operands: Operands, scalars: ScalarReader) => FoundSteps | undefined;
/** Operations of two operands; the scores of some can be either of them. */
const BINARY: ReadonlyMap<string, { readonly recognise: Recognise; readonly positions: number[] }> =
  new Map([
    ["Add", { recognise: sumStep, positions: [0, 1] }],
    ["AddV2", { recognise: sumStep, positions: [0, 1] }],
    ["BiasAdd", { recognise: sumStep, positions: [0] }],
    ["Sub", { recognise: sumStep, positions: [0, 1] }],
    ["Mul", { recognise: scaleStep, positions: [0, 1] }],
    ["RealDiv", { recognise: scaleStep, positions: [0] }],
    ["Div", { recognise: scaleStep, positions: [0] }],
    ["DivNoNan", { recognise: scaleStep, positions: [0] }],
    ["MulNoNan", { recognise: weightedStep, positions: [0] }],
    ["Maximum", { recognise: boundStep, positions: [0, 1] }],
    ["Minimum", { recognise: boundStep, positions: [0, 1] }],
  ]);
/** Factors beyond these could give many scores one value, or none. */
const FACTOR_MAX = 1e15;
/** Powers above it could give many scores one value, or none. */
const EXPONENT_MAX = 16;
const REARRANGEMENTS_MAX = 16;

/** The operation that gave a value, if it is one that a search can do without. */
export function scoreStepsOf(value: GraphValue, scalars: ScalarReader): FoundSteps | undefined {
  const node = value.producer;
  if (node?.kind !== "operation" || value.dtype !== "float32") return undefined;
  return (
    unaryStep(node) ??
    clippedStep(node) ??
    powerStep(node, scalars) ??
    thresholdStep(node, scalars) ??
    binaryStep(node, scalars) ??
    writtenSigmoid(node, scalars) ??
    writtenSimilarity(node, scalars)
  );
}

/** 1 / (1 + exp(-scores)). */
function writtenSigmoid(node: OperationNode, scalars: ScalarReader): FoundSteps | undefined {
  const [one, sum] = node.op === "RealDiv" ? node.inputs : [];
  const power = sum && one && scalarOf(one, scalars) === 1 ? besideOne(sum, scalars) : undefined;
  const opposite = power && producerOf(power, "Exp")?.inputs[0];
  const scores = opposite && producerOf(opposite, "Neg")?.inputs[0];
  const operation = { node, position: 1 };
  const functions: readonly NodeFunction[] = [{ op: "Sigmoid" }];
  return scores && { scores, steps: [{ kind: "function", operation, functions }] };
}

/** 1 / (1 + distance) of scores that are never below 0: e to the opposite logarithm of 1 + distance, which keeps an order. */
function writtenSimilarity(node: OperationNode, scalars: ScalarReader): FoundSteps | undefined {
  const [first, second] = node.inputs;
  const isReciprocal = node.op === "Reciprocal";
  const isOverOne = node.op === "RealDiv" && first && scalarOf(first, scalars) === 1;
  const sum = isReciprocal ? first : isOverOne === true ? second : undefined;
  const scores = sum && besideOne(sum, scalars);
  if (!isOfItems(scores) || !isNeverBelowZero(scores, scalars)) return undefined;
  const operation = { node, position: isReciprocal ? 0 : 1 };
  const opposite: readonly NodeFunction[] = [{ op: "Mul", operand: scalarValue(-1) }];
  return {
    scores,
    steps: [
      { kind: "function", operation, functions: [{ op: "Log1p" }] },
      { kind: "scaled", operation, functions: opposite, factor: -1 },
      { kind: "function", operation, functions: [{ op: "Exp" }] },
    ],
  };
}

/** Operations whose result is never below 0, and those that leave it so where their operand is. */
const NEVER_BELOW_ZERO: ReadonlySet<string> = new Set(
  "Abs,Exp,Relu,Relu6,Sigmoid,Softplus,Sqrt,Square,SquaredDifference".split(","),
);

/** Whether scores are never below 0, as distances and what a relu gives. */
function isNeverBelowZero({ producer }: GraphValue, scalars: ScalarReader, depth = 0): boolean {
  if (producer?.kind !== "operation" || depth > POSITIVE_DEPTH_MAX) return false;
  const [first, second] = producer.inputs;
  if (NEVER_BELOW_ZERO.has(producer.op)) return true;
  const number = second === undefined ? NaN : (scalarOf(second, scalars) ?? NaN);
  if (BESIDE_NUMBER.get(producer.op)?.(number) === true) return true;
  return keepsSign(producer.op, number) && isNeverBelowZero(first!, scalars, depth + 1);
}

function keepsSign(op: string, number: number): boolean {
  return KEEPS_SIGN.has(op) || (MULTIPLES.has(op) && number > 0);
}

/** With which numbers as their second operand operations are never below 0. */
const BESIDE_NUMBER: ReadonlyMap<string, (number: number) => boolean> = new Map([
  ["Maximum", (number: number) => number >= 0],
  ["Pow", (number: number) => number === 2],
]);
const KEEPS_SIGN: ReadonlySet<string> = new Set(["Reshape", "Squeeze", "Sum"]);
const MULTIPLES: ReadonlySet<string> = new Set(["Mul", "RealDiv"]);

/** What 1 is added to. */
function besideOne(sum: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const terms = producerOf(sum, "Add", "AddV2")?.inputs ?? [];
  const others = terms.filter((term) => scalarOf(term, scalars) !== 1);
  return others.length === 1 ? others[0] : undefined;
}

function unaryStep(node: OperationNode): FoundSteps | undefined {
  const [scores] = node.inputs;
  if (scores === undefined) return undefined;
  const operation = { node, position: 0 };
  if (node.op === "Neg") {
    const functions: readonly NodeFunction[] = [{ op: "Mul", operand: scalarValue(-1) }];
    return { scores, steps: [{ kind: "scaled", operation, functions, factor: -1 }] };
  }
  if (node.op === "Softmax" || node.op === "LogSoftmax") {
    const softmax = { kind: "softmax", operation, functions: [{ op: node.op }] } as const;
    return isOfItems(scores) ? { scores, steps: [softmax] } : undefined;
  }
  const functions = elementFunctionsOf(node);
  return functions && { scores, steps: [{ kind: "function", operation, functions }] };
}

/** A power of a constant above 0; whether it keeps the order depends on what the scores are (score-domain.ts). */
function powerStep(node: OperationNode, scalars: ScalarReader): FoundSteps | undefined {
  const [scores, operand = scalarValue(2)] = ["Pow", "Square"].includes(node.op) ? node.inputs : [];
  const exponent = scalarOf(operand, scalars) ?? NaN;
  if (scores === undefined || !(exponent > 0) || exponent > EXPONENT_MAX) return undefined;
  const functions: readonly NodeFunction[] = [{ op: "Pow", operand }];
  return { scores, steps: [{ kind: "function", operation: { node, position: 0 }, functions }] };
}

/** What a comparison says of its left operand, and of its right one. */
const COMPARISONS: ReadonlyMap<string, readonly [Relation, Relation]> = new Map([
  ["Greater", ["above", "below"]],
  ["GreaterEqual", ["from", "upTo"]],
  ["Less", ["below", "above"]],
  ["LessEqual", ["upTo", "from"]],
]);
type Relation = "above" | "below" | "from" | "upTo";

/** where(scores > t, scores, c), or with sides changed: scores that a threshold keeps, which c is not above. */
function thresholdStep(node: OperationNode, scalars: ScalarReader): FoundSteps | undefined {
  const [condition, ...choices] = node.op === "SelectV2" ? node.inputs : [];
  const comparison = condition && producerOf(condition, ...COMPARISONS.keys());
  if (comparison === undefined) return undefined;
  for (const side of [0, 1] as const) {
    const scores = comparison.inputs[side];
    const place = choices.findIndex((choice) => choice === scores);
    const functions = place < 0 ? undefined : keptScores(comparison, { side, choices }, scalars);
    if (scores === undefined || functions === undefined) continue;
    const operation = { node, position: place + 1 };
    return { scores, steps: [{ kind: "function", operation, functions }] };
  }
  return undefined;
}

/** What a threshold makes of the scores on one side of a comparison. */
function keptScores(
  { op, inputs }: OperationNode,
  { side, choices }: { readonly side: 0 | 1; readonly choices: readonly GraphValue[] },
  scalars: ScalarReader,
): readonly NodeFunction[] | undefined {
  const [scores, operand] = [inputs[side], inputs[1 - side]];
  const [then, otherwise] = choices;
  const isThen = scores === then;
  const kept = keptBy(COMPARISONS.get(op)![side], isThen);
  const other = isThen ? otherwise : then;
  if (kept === undefined || operand === undefined || other === undefined) return undefined;
  if (!isOfItems(scores) || !isPerQuery(operand, scores)) return undefined;
  const rest = restOf(other, { threshold: operand, isElse: !isThen }, scalars);
  if (rest === undefined) return undefined;
  const bound = { op: "Maximum", operand: scalarValue(rest) } as const;
  return [{ op: kept, operand }, ...(rest === -Infinity ? [] : [bound])];
}

function keptBy(relation: Relation, isThen: boolean): "KeepAbove" | "KeepFrom" | undefined {
  if (relation === (isThen ? "above" : "upTo")) return "KeepAbove";
  return relation === (isThen ? "from" : "below") ? "KeepFrom" : undefined;
}

/** The score of all that a threshold does not keep; `undefined` where it may be above the scores of others. */
function restOf(
  value: GraphValue,
  { threshold, isElse }: { readonly threshold: GraphValue; readonly isElse: boolean },
  scalars: ScalarReader,
): number | undefined {
  const least = scalarOf(threshold, scalars);
  const rest = repeatedNumberOf(value, scalars);
  // Scores behind "else" are kept by a threshold that is no number.
  const isKnown = least !== undefined || !isElse;
  const isLower = rest === -Infinity || (rest ?? NaN) <= (least ?? NaN);
  return isKnown && isLower ? rest : undefined;
}

/** ClipByValue with bounds for all scores, or for those of each query. */
function clippedStep(node: OperationNode): FoundSteps | undefined {
  const [scores, low, high] = node.op === "ClipByValue" ? node.inputs : [];
  if (scores === undefined || low === undefined || high === undefined) return undefined;
  if (!isPerQuery(low, scores) || !isPerQuery(high, scores)) return undefined;
  const functions: readonly NodeFunction[] = [
    { op: "Minimum", operand: high },
    { op: "Maximum", operand: low },
  ];
  return { scores, steps: [{ kind: "function", operation: { node, position: 0 }, functions }] };
}

function boundStep({ node, position, scores, other }: Operands): FoundSteps | undefined {
  if (!isPerQuery(other, scores)) return undefined;
  const functions = functionsOf(node, other);
  return { scores, steps: [{ kind: "function", operation: { node, position }, functions }] };
}

function functionsOf({ op }: OperationNode, operand: GraphValue): readonly NodeFunction[] {
  return [{ op: NAMES.get(op)!, operand }];
}

function binaryStep(node: OperationNode, scalars: ScalarReader): FoundSteps | undefined {
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
): FoundSteps | undefined {
  // other - scores: the opposite of the scores, to which the other is added.
  const isTurned = node.op === "Sub" && position === 1;
  const sign = node.op === "Sub" && !isTurned ? -1 : 1;
  const terms = addendsOf(other).map((term) => {
    return termStep(term, { operation: { node, position }, scores, sign }, scalars);
  });
  const known = terms.flatMap((term) => term ?? []);
  if (known.length < terms.length) return undefined;
  return { scores, steps: [...(isTurned ? [oppositeStep(node)] : []), ...known] };
}

/** The terms of a sum that stands beside scores: |q|² + |c|². */
function addendsOf(sum: GraphValue): readonly GraphValue[] {
  const [left, right] = producerOf(sum, "Add", "AddV2")?.inputs ?? [];
  const isOfAll = sum.shape?.length === 2 && sum.shape[0] !== 1 && sum.shape[1] !== 1;
  return left && right && isOfAll ? [left, right] : [sum];
}

function termStep(
  term: GraphValue,
  {
    operation,
    scores,
    sign,
  }: { readonly operation: ScoreOperation; readonly scores: GraphValue; readonly sign: 1 | -1 },
  scalars: ScalarReader,
): ScoreStep | undefined {
  const found = itemBiasOf(term, sign, scalars) ?? weightedBiasOf(term, scores, scalars);
  if (found !== undefined) {
    const { shown, ...bias } = found;
    return { kind: "bias", operation, bias: { ...bias, factor: sign * bias.factor }, shown };
  }
  if (!isPerQuery(term, scores)) return undefined;
  const op = sign < 0 ? "Sub" : "Add";
  return { kind: "added", operation, functions: [{ op, operand: term }] };
}

/** The opposite of what a difference subtracts. */
function oppositeStep(node: OperationNode): ScoreStep {
  const negation: OperationNode = { ...node, op: "Neg", inputs: node.inputs.slice(1) };
  const functions: readonly NodeFunction[] = [{ op: "Mul", operand: scalarValue(-1) }];
  return { kind: "scaled", operation: { node: negation, position: 0 }, functions, factor: -1 };
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
): FoundSteps | undefined {
  const value = (other.shape?.length ?? 3) > 2 ? undefined : scalarOf(other, scalars);
  if (value === undefined) {
    const operands = { node, position, scores, other };
    return itemScaleStep(operands, scalars) ?? weightedStep(operands, scalars);
  }
  if (!isUsable(value)) return undefined;
  const factor = node.op === "Mul" ? value : 1 / value;
  const functions = functionsOf(node, other);
  return { scores, steps: [{ kind: "scaled", operation: { node, position }, functions, factor }] };
}

/** A factor for the scores of each item; or the product of one and of a factor for those of each query. */
function itemScaleStep(
  { node, position, scores, other }: Operands,
  scalars: ScalarReader,
): FoundSteps | undefined {
  const isDivisor = node.op !== "Mul";
  const operation = { node, position };
  const factor = itemFactorOf(other, isDivisor, scalars);
  if (factor !== undefined) return { scores, steps: [{ kind: "itemFactor", operation, factor }] };
  const [left, right] = producerOf(other, "Mul")?.inputs ?? [];
  if (left === undefined || right === undefined) return undefined;
  for (const [ofQuery, ofItem] of [[left, right] as const, [right, left] as const]) {
    const own = itemFactorOf(ofItem, isDivisor, scalars);
    const alone: OperationNode = { ...node, inputs: [scores, ofQuery] };
    const found = own && scaleStep({ node: alone, position: 0, scores, other: ofQuery }, scalars);
    if (own === undefined || found === undefined) continue;
    return { scores, steps: [{ kind: "itemFactor", operation, factor: own }, ...found.steps] };
  }
  return undefined;
}

function itemFactorOf(
  value: GraphValue,
  isDivisor: boolean,
  scalars: ScalarReader,
): ItemFactor | undefined {
  return factorOfItems(value, itemsOfVector(value), { isDivisor, scalars });
}

/** A finite value for each item, in any axes of size 1, by which items may be multiplied or divided. */
export function factorOfItems(
  value: GraphValue,
  items: number,
  { isDivisor, scalars }: { readonly isDivisor: boolean; readonly scalars: ScalarReader },
): ItemFactor | undefined {
  const values = items < 2 ? undefined : vectorOf(value, items, scalars);
  const areUsable = values?.every((each) => Number.isFinite(each) && !(isDivisor && each === 0));
  if (values === undefined || areUsable !== true) return undefined;
  const tensor = { dtype: "float32", shape: [items], data: values } as const;
  const name = `${value.producer?.name ?? "constant"} [${items}]`;
  const stored = storedVectorIn(value, items, scalars) ?? { kind: "constant", name, tensor };
  return { stored, items, isDivisor };
}

/** How many items a vector has a value for; 0 for any other value. */
function itemsOfVector({ dtype, shape = [] }: GraphValue): number {
  const isVector = shape.length === 1 || (shape.length === 2 && shape[0] === 1);
  return dtype === "float32" && isVector ? shape.at(-1)! : 0;
}

/** A factor for all scores, or for those of each query, that a request decides. */
function weightedStep(
  { node, position, scores, other }: Operands,
  scalars: ScalarReader,
): FoundSteps | undefined {
  const isKnown = other.constant !== undefined || other.stored !== undefined;
  if (isKnown || !isPerQuery(other, scores)) return undefined;
  const keepsOrder = !node.op.endsWith("NoNan") && isPositive(other, scalars, 0);
  const functions = keepsOrder ? functionsOf(node, other) : undefined;
  const operation = { node, position };
  return { scores, steps: [{ kind: "weighted", operation, operand: other, functions }] };
}

/** Operations whose result is above 0, or a number that is rounded to 0. */
const POSITIVE: ReadonlySet<string> = new Set(["Exp", "Sigmoid", "Softplus"]);
/** Operations whose result is above 0 where all operands are. */
const KEEPS_POSITIVE: ReadonlySet<string> = new Set(
  "Add,AddV2,Div,Minimum,Mul,RealDiv,Sqrt,Rsqrt,Reciprocal".split(","),
);
const POSITIVE_DEPTH_MAX = 8;

/** Whether a value is above 0 whatever a request says. */
function isPositive(value: GraphValue, scalars: ScalarReader, depth: number): boolean {
  const number = scalarOf(value, scalars);
  if (number !== undefined) return number > 0;
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  if (node === undefined || depth > POSITIVE_DEPTH_MAX) return false;
  const isAbove = (input: GraphValue | undefined): boolean =>
    input !== undefined && isPositive(input, scalars, depth + 1);
  if (POSITIVE.has(node.op)) return true;
  if (KEEPS_POSITIVE.has(node.op)) return node.inputs.every(isAbove);
  if (node.op === "Maximum") return node.inputs.some(isAbove);
  if (node.op === "ClipByValue") return isAbove(node.inputs[1]);
  const isSame = ["ExpandDims", "Reshape", "Squeeze", "StridedSlice"].includes(node.op);
  return isSame && isAbove(node.inputs[0]);
}

function isUsable(factor: number): boolean {
  const size = Math.abs(factor);
  return size < FACTOR_MAX && size > 1 / FACTOR_MAX;
}

type FoundBias = ItemBias & { readonly shown?: GraphMaskRule | undefined };

/** A vector with one element per item that is stored, or computed of what is stored, or a multiple of one. */
function itemBiasOf(value: GraphValue, sign: 1 | -1, scalars: ScalarReader): FoundBias | undefined {
  const { shape = [] } = value;
  const items = shape.at(-1) ?? -1;
  const isVector = shape.length === 1 || (shape.length === 2 && shape[0] === 1);
  if (!isVector || items < 2) return undefined;
  const { vector, factor } = multipleOf(value, scalars) ?? { vector: value, factor: 1 };
  if (!isUsable(factor)) return computedBias(value, { items, sign }, scalars);
  const stored = storedVectorIn(vector, items, scalars);
  if (stored !== undefined) return { stored, items, factor };
  const squares = squaresOf(withoutOtherAxes(vector, items), scalars);
  if (squares !== undefined) return { stored, squares, items, factor };
  return computedBias(value, { items, sign }, scalars);
}

/** A bias that a request weighs for each query: `w[:, None] * popularity`, times a constant. */
function weightedBiasOf(
  value: GraphValue,
  scores: GraphValue,
  scalars: ScalarReader,
): FoundBias | undefined {
  const { vector: product, factor } = multipleOf(value, scalars) ?? { vector: value, factor: 1 };
  const operands = (isUsable(factor) && producerOf(product, "Mul")?.inputs) || [];
  const weight = operands.find((operand) => isOfEachQuery(operand, scores));
  const ofItems = operands.find((operand) => operand !== weight);
  const bias = weight && ofItems && itemBiasOf(ofItems, 1, scalars);
  if (bias?.stored === undefined || bias.shown !== undefined) return undefined;
  return { ...bias, weight, factor: factor * bias.factor };
}

/** Whether a value is `[queries, 1]`, also where there is one query. */
function isOfEachQuery(value: GraphValue, scores: GraphValue): boolean {
  const [queries, ...others] = value.shape ?? [];
  const areAsMany = queries === -1 || (queries === 1 && scores.shape?.[0] === 1);
  return areAsMany && others.join() === "1" && isPerQuery(value, scores);
}

/** A bias that is computed of vectors of items, and may hide some of them. */
function computedBias(
  value: GraphValue,
  { items, sign }: { readonly items: number; readonly sign: 1 | -1 },
  scalars: ScalarReader,
): FoundBias | undefined {
  const values = vectorOf(value, items, scalars);
  if (values === undefined) return undefined;
  const data = values.map((each) => (each === -sign * Infinity ? 0 : each));
  if (!data.every((each) => Number.isFinite(each))) return undefined;
  const name = `${value.producer?.name ?? "constant"} [${items}]`;
  const tensor = { dtype: "float32", shape: [items], data } as const;
  const hidden = Uint8Array.from(values, (each) => Number(each === -sign * Infinity));
  return {
    stored: { kind: "constant", name, tensor },
    items,
    factor: 1,
    ...(hidden.includes(1) && {
      isNothing: data.every((each) => each === 0),
      shown: ruleOfHidden(`hidden by ${name}`, hidden),
    }),
  };
}

/** The rule that keeps all items but those of which a flag is set. */
function ruleOfHidden(name: string, hidden: Uint8Array): GraphMaskRule {
  const shown = hidden.map((flag) => 1 - flag);
  const tensor: Tensor = { dtype: "bool", shape: [shown.length], data: shown };
  const isTrue: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(1) };
  const column = { kind: "constant", name, tensor } as const;
  return { kind: "test", column, is: "in", values: constantValue(isTrue) };
}

/** A vector of so many values before it was given axes of size 1. */
function withoutOtherAxes(value: GraphValue, items: number): GraphValue {
  let vector = value;
  for (let step = 0; step < REARRANGEMENTS_MAX; step += 1) {
    const input = vectorBefore(vector);
    const sizes = input?.shape?.filter((size) => size !== 1) ?? [];
    if (input === undefined || sizes.join() !== String(items)) break;
    vector = input;
  }
  return vector;
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

/** A stored tensor with this many elements, all of them finite, through operations that keep their order. */
function storedVectorIn(
  value: GraphValue,
  items: number,
  scalars: ScalarReader,
): StoredTensor | undefined {
  let vector = value;
  for (let step = 0; step < REARRANGEMENTS_MAX; step += 1) {
    const sizes = vector.shape?.filter((size) => size !== 1) ?? [];
    if (vector.dtype !== "float32" || sizes.join() !== String(items)) return undefined;
    if (vector.stored?.kind === "bundle" || vector.constant !== undefined) {
      return finiteVector(vector, items, scalars);
    }
    const input = producerOf(vector, "Cast")?.inputs[0] ?? vectorBefore(vector);
    if (input === undefined) return undefined;
    vector = input;
  }
  return undefined;
}

/** A stored vector or a constant, where all of it is finite; one that is too long to be read here is read with its rows. */
function finiteVector(
  vector: GraphValue,
  items: number,
  scalars: ScalarReader,
): StoredTensor | undefined {
  const { stored, constant } = vector;
  const values = vectorOf(vector, items, scalars);
  if (values?.every((value) => Number.isFinite(value)) === false) return undefined;
  if (stored !== undefined) return stored;
  return constant && { kind: "constant", name: `constant [${items}]`, tensor: constant };
}
