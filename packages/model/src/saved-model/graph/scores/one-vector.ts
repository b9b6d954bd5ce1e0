// Scores of one query that is a vector, `[items]`, as functions that serve one user write them: `matvec(items, user)`,
// `tensordot(items, user, 1)`, `reduce_sum(user * items, 1)`. They are the scores of a matrix with one query,
// `[1, items]`, by which a search is found as for many (score-expression.ts); what it finds is a list of one.

import { elementCount } from "@winnow/core";
import type { AttributeValue } from "../definition/attributes.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { integerOf, producerOf } from "../graph-value.ts";
import type { Lowering } from "../lowered-nodes.ts";
import { applied, reshaped } from "./computed-items.ts";
import { takesAllBut, withoutRearrangement } from "./rearrangement.ts";
import { isSingle } from "./scalar-value.ts";
import { isSet, matrixSidesOf, operandsOf } from "./score-product.ts";
import type { Side } from "./score-product.ts";

const STEPS_MAX = 32;
const FACTORS_MAX = 8;

/** Operations that give an axis of size 1, or take it away. */
const ARRANGING: ReadonlySet<string> = new Set([
  "ExpandDims",
  "Reshape",
  "Squeeze",
  "StridedSlice",
]);
/** Operations on each score, which may have a value for each item beside it. */
const ON_EACH: ReadonlySet<string> = new Set(
  (
    "Add,AddV2,Ceil,Div,DivNoNan,Elu,Exp,Expm1,Floor,Log,Log1p,Maximum,Minimum,Mul,Neg,Pow,RealDiv,Relu,Relu6,Rint,Round," +
    "SelectV2,Selu,Sigmoid,Softplus,Softsign,Sqrt,Square,Sub,Tanh"
  ).split(","),
);
/** Operations that read their last axis alone: what they do to `[items]` they do to `[1, items]`. */
const ALONG_LAST: ReadonlySet<string> = new Set(["BiasAdd", "LogSoftmax", "Softmax"]);

/** The same scores as `[1, items]`; `undefined` for any other value than those of one vector. */
export function scoresOfOneVector(lowering: Lowering, scores: GraphValue): GraphValue | undefined {
  const [items = -1, ...others] = scores.shape ?? [];
  if (scores.dtype !== "float32" || items < 2 || others.length > 0) return undefined;
  return new OneVector(lowering, items).lifted(scores);
}

/** Reads the scores of one vector, and adds those of a matrix of one. */
class OneVector {
  readonly #lowering: Lowering;
  readonly #items: number;
  #stepsLeft = STEPS_MAX;

  constructor(lowering: Lowering, items: number) {
    this.#lowering = lowering;
    this.#items = items;
  }

  /** `[items]` or `[items, 1]` as `[1, items]`. */
  lifted(value: GraphValue): GraphValue | undefined {
    const plain = withoutRearrangement(value);
    const node = plain.producer?.kind === "operation" ? plain.producer : undefined;
    this.#stepsLeft -= 1;
    if (node === undefined || this.#stepsLeft < 0 || !this.#isOfItems(plain)) return undefined;
    const product = productOf(plain, this.#items);
    if (product !== undefined) return this.#productOf(product, node);
    if (ARRANGING.has(node.op)) return this.#arranged(node);
    return this.#isOfEach(node, plain) ? this.#applied(node) : undefined;
  }

  /** Whether an operation does to scores as `[1, items]` what it does to them here. */
  #isOfEach({ op, inputs: [, bias] }: OperationNode, { shape }: GraphValue): boolean {
    if (ON_EACH.has(op)) return true;
    if (shape?.length === 1) return ALONG_LAST.has(op);
    // The bias of a layer with one output, `[items, 1] + [1]`.
    return op === "BiasAdd" && bias !== undefined && isSingle(bias);
  }

  /** Whether a value has one element for each item, and no other axes but one of size 1 behind. */
  #isOfItems({ shape }: GraphValue): boolean {
    const [items, last = 1, ...others] = shape ?? [];
    return items === this.#items && last === 1 && others.length === 0;
  }

  #arranged(node: OperationNode): GraphValue | undefined {
    const [input] = node.inputs;
    if (input?.shape?.join() === `1,${this.#items}`) return input;
    return input && takesAllItems(node) ? this.lifted(input) : undefined;
  }

  #applied(node: OperationNode): GraphValue | undefined {
    const { op, attributes, inputs, outputs } = node;
    for (const [at, input] of inputs.entries()) {
      const others = inputs.map((each, place) => (place === at ? each : this.#beside(each)));
      const areKnown = others.every((each) => each !== undefined);
      const scores = this.#isOfItems(input) && areKnown ? this.lifted(input) : undefined;
      if (scores === undefined) continue;
      const name = `${node.name}/of_one`;
      const outputDtypes = outputs.map(({ dtype }) => dtype);
      const operands = others.map((each, place) => (place === at ? scores : each!));
      return this.#lowering.operation({ op, name, attributes, outputDtypes }, operands).outputs[0];
    }
    return undefined;
  }

  /** What stands beside scores: one value, or one for each item, as `[items]`. */
  #beside(value: GraphValue): GraphValue | undefined {
    if (isSingle(value)) return value;
    if (!this.#isOfItems(value)) return undefined;
    if (value.shape?.length === 1) return value;
    const sizes = [this.#items];
    return reshaped(this.#lowering, value, { name: value.producer?.name ?? "items", sizes });
  }

  #productOf({ items, vectors, dim }: VectorProduct, { name }: OperationNode): GraphValue {
    const [first, ...others] = vectors.map((vector) => {
      return reshaped(this.#lowering, vector, { name, sizes: [1, dim] });
    });
    const query = others.reduce((product, each) => {
      return applied(this.#lowering, "Mul", { name, of: [product, each] });
    }, first!);
    const flag: AttributeValue = { kind: "bool", value: items.kept === 0 };
    const attributes = new Map([["transpose_b", flag]]);
    return applied(this.#lowering, "MatMul", { name, of: [query, items.matrix], attributes });
  }
}

/** Whether an operation keeps all items in their order: a slice, those of `[items, 1]`. */
function takesAllItems(node: OperationNode): boolean {
  return node.op !== "StridedSlice" || takesAllBut(node, 1);
}

/** Items, and vectors whose product, value by value, is the one query. */
interface VectorProduct {
  readonly items: Side;
  readonly vectors: readonly GraphValue[];
  readonly dim: number;
}

/** The items and vectors of a product `[items]` or `[items, 1]`; `undefined` for any other value. */
function productOf(value: GraphValue, items: number): VectorProduct | undefined {
  const found = ofMatrices(value) ?? ofEinsum(value) ?? ofSum(value);
  if (found === undefined) return undefined;
  const { kept } = found.items;
  const dim = found.items.matrix.shape?.[1 - kept] ?? 0;
  const { matrix, vectors } = factorsOf(found, { items, dim });
  const isOfItems = matrix.shape?.length === 2 && matrix.shape[kept] === items;
  return isOfItems && areAsked(vectors, dim)
    ? { items: { matrix, kept }, vectors, dim }
    : undefined;
}

/** Whether all are vectors of so many values, and a request may decide one of them. */
function areAsked(vectors: readonly GraphValue[], dim: number): boolean {
  const isAsked = dim > 0 && vectors.some(({ constant, stored }) => !constant && !stored);
  return isAsked && vectors.every((each) => isOfDims(each, dim));
}

interface Factors {
  readonly items: Side;
  readonly vectors: readonly GraphValue[];
}

/** matmul(items, vector[:, None]), either way round. */
function ofMatrices(value: GraphValue): Factors | undefined {
  const [items, vector] = value.shape?.length === 2 ? (matrixSidesOf(value) ?? []) : [];
  return items && vector && { items, vectors: [vector.matrix] };
}

/** Equations of a matrix and a vector: which operand the matrix is, and its axis of items. */
const EQUATIONS: readonly (readonly [equation: RegExp, matrix: 0 | 1, kept: 0 | 1])[] = [
  [/^([a-z])(?!\1)([a-z]),\2->\1$/i, 0, 0],
  [/^([a-z])(?!\1)([a-z]),\1->\2$/i, 0, 1],
  [/^([a-z]),(?!\1)([a-z])\1->\2$/i, 1, 0],
  [/^([a-z]),\1(?!\1)([a-z])->\2$/i, 1, 1],
];

/** einsum("nd,d->n", items, vector), either way round. */
function ofEinsum(value: GraphValue): Factors | undefined {
  const node = producerOf(value, "Einsum");
  const operands = operandsOf(node);
  const equation = node?.attributes.text("equation").replaceAll(" ", "") ?? "";
  const [, at, kept] = EQUATIONS.find(([pattern]) => pattern.test(equation)) ?? [];
  if (operands === undefined || at === undefined || kept === undefined) return undefined;
  return { items: { matrix: operands[at], kept }, vectors: [operands[1 - at]!] };
}

/** reduce_sum(vector * items, 1). */
function ofSum(value: GraphValue): Factors | undefined {
  const sum = producerOf(value, "Sum");
  const [matrix, axes] = operandsOf(sum) ?? [];
  const isAlongLast = [1, -1].includes(integerOf(axes) ?? NaN) && matrix?.shape?.length === 2;
  if (!isAlongLast || isSet(sum!, "keep_dims")) return undefined;
  return { items: { matrix, kept: 0 }, vectors: [] };
}

/** The items without the vectors that they are multiplied with, value by value. */
function factorsOf(
  { items: { matrix, kept }, vectors }: Factors,
  { items, dim }: { readonly items: number; readonly dim: number },
): { readonly matrix: GraphValue; readonly vectors: readonly GraphValue[] } {
  let plain = withoutRearrangement(matrix);
  const found = [...vectors];
  // Of a vector with as many values as there are items, nothing tells which it is.
  const factorsMax = kept === 0 && items !== dim ? FACTORS_MAX : 0;
  while (found.length < factorsMax) {
    const [left, right] = operandsOf(producerOf(plain, "Mul")) ?? [];
    if (left === undefined || right === undefined) break;
    const isOnLeft = isOfDims(left, dim);
    if (isOnLeft === isOfDims(right, dim)) break;
    found.push(isOnLeft ? left : right);
    plain = withoutRearrangement(isOnLeft ? right : left);
  }
  return { matrix: plain, vectors: found };
}

/** Whether a value is a float32 vector of so many values, in any axes of size 1. */
function isOfDims({ dtype, shape }: GraphValue, dim: number): boolean {
  return dtype === "float32" && shape !== undefined && elementCount(shape) === dim;
}
