// Scores of one query that is a vector, `[items]`, as functions that serve one user write them: `matvec(items, user)`,
// `tensordot(items, user, 1)`, `reduce_sum(user * items, 1)`. They are the scores of a matrix with one query,
// `[1, items]`, by which a search is found as for many (score-expression.ts); what it finds is a list of one. Lists of
// items that the user has seen become those of the one query, too.

import { elementCount } from "@winnow/core";
import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue, integerOf, producerOf } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import type { Lowering } from "../lowered-nodes.ts";
import { differenceIn } from "./products/score-distance.ts";
import { isSet, matrixSidesOf, operandsOf } from "./products/score-product.ts";
import type { Side } from "./products/score-product.ts";
import { applied, reshaped } from "./values/added-operations.ts";
import { takesAllBut, withoutAddedAxis, withoutRearrangement } from "./values/rearrangement.ts";
import { isSingle, scalarReader } from "./values/scalar-value.ts";
import type { ScalarReader } from "./values/scalar-value.ts";

/** Operations that are looked at for one top-k. */
const STEPS_MAX = 128;
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
/** Operations that write one score in the place of others. */
const SCATTERING: ReadonlySet<string> = new Set(["TensorScatterMin", "TensorScatterUpdate"]);
/** Operations that count the rows of a list. */
const COUNTING: ReadonlySet<string> = new Set(["Any", "Max", "Sum"]);
/** What becomes of such counts before scores are masked by them. */
const ON_FLAGS: ReadonlySet<string> = new Set(
  "Cast,Equal,Greater,GreaterEqual,Less,LessEqual,LogicalNot,Minimum,Mul,NotEqual,RealDiv,Sub".split(
    ",",
  ),
);
const FLAGS_DEPTH_MAX = 6;
/** Operands of any of these operations; a file may claim more. */
const OPERANDS_MAX = 3;
const NO_ATTRIBUTES = new Attributes("", new Map());
/** Operations that read their last axis alone: what they do to `[items]` they do to `[1, items]`. */
const ALONG_LAST: ReadonlySet<string> = new Set(["BiasAdd", "LogSoftmax", "Softmax"]);

/**
 * The same scores as `[1, items]`; `undefined` for any other value than those of one vector, or of a matrix of one query
 * beside which something stands that is not of a matrix.
 */
export function scoresOfOneVector(lowering: Lowering, scores: GraphValue): GraphValue | undefined {
  const { shape = [] } = scores;
  const items = shape.at(-1) ?? -1;
  const isMatrix = shape.length === 2 && shape[0] === 1;
  if (scores.dtype !== "float32" || items < 2 || (shape.length !== 1 && !isMatrix))
    return undefined;
  const vector = new OneVector(lowering, items);
  const lifted = vector.lifted(scores);
  return isMatrix && !vector.hasChanged ? undefined : lifted;
}

/** Reads the scores of one vector, and adds those of a matrix of one. */
class OneVector {
  readonly #lowering: Lowering;
  readonly #items: number;
  #stepsLeft = STEPS_MAX;
  /** Whether something beside the scores became that of a matrix. */
  hasChanged = false;

  constructor(lowering: Lowering, items: number) {
    this.#lowering = lowering;
    this.#items = items;
  }

  /** `[items]`, `[items, 1]` or `[1, items]` as `[1, items]`. */
  lifted(value: GraphValue): GraphValue | undefined {
    const plain = withoutRearrangement(value);
    const node = plain.producer?.kind === "operation" ? plain.producer : undefined;
    this.#stepsLeft -= 1;
    if (node === undefined || this.#stepsLeft < 0) return undefined;
    if (this.#isMatrix(plain)) return this.#liftedMatrix(plain, node);
    return this.#isOfItems(plain) ? this.#liftedItems(plain, node) : undefined;
  }

  /** `[1, items]`, of which something may have been `[items]`: the scores themselves, or what stands beside them. */
  #liftedMatrix(plain: GraphValue, node: OperationNode): GraphValue {
    const vector = withoutAddedAxis(plain, 0);
    const scores = vector && this.lifted(vector);
    this.hasChanged ||= scores !== undefined;
    return scores ?? (ON_EACH.has(node.op) ? this.#applied(node) : undefined) ?? plain;
  }

  #liftedItems(plain: GraphValue, node: OperationNode): GraphValue | undefined {
    const product = productOf(plain, this.#items);
    if (product !== undefined) return this.#productOf(product, node);
    const distance = distanceOf(plain, scalarReader(this.#lowering));
    if (distance !== undefined) return this.#distanceOf(distance, node);
    if (ARRANGING.has(node.op)) return this.#arranged(node);
    if (SCATTERING.has(node.op)) return this.#scattered(node);
    return this.#isOfEach(node, plain) ? this.#applied(node) : undefined;
  }

  /** Whether an operation does to scores as `[1, items]` what it does to them here. */
  #isOfEach({ op, inputs: [, bias] }: OperationNode, { shape }: GraphValue): boolean {
    if (ON_EACH.has(op)) return true;
    if (shape?.length === 1) return ALONG_LAST.has(op);
    // The bias of a layer with one output, `[items, 1] + [1]`.
    return op === "BiasAdd" && bias !== undefined && isSingle(bias);
  }

  #isMatrix({ shape }: GraphValue): boolean {
    return shape?.join() === `1,${this.#items}`;
  }

  /** Whether a value has one element for each item, and no other axes but one of size 1 behind. */
  #isOfItems({ shape }: GraphValue): boolean {
    const [items, last = 1, ...others] = shape ?? [];
    return items === this.#items && last === 1 && others.length === 0;
  }

  #arranged(node: OperationNode): GraphValue | undefined {
    const [input] = node.inputs;
    if (input === undefined) return undefined;
    return takesAllItems(node, this.#isMatrix(input) ? 0 : 1) ? this.lifted(input) : undefined;
  }

  #applied(node: OperationNode): GraphValue | undefined {
    const { op, attributes, inputs, outputs } = node;
    if (inputs.length > OPERANDS_MAX) return undefined;
    for (const [at, input] of inputs.entries()) {
      const others = inputs.map((each, place) => (place === at ? each : this.#beside(each)));
      const areKnown = others.every((each) => each !== undefined);
      const isOfScores = this.#isMatrix(input) || this.#isOfItems(input);
      const scores = isOfScores && areKnown ? this.lifted(input) : undefined;
      if (scores === undefined) continue;
      const name = `${node.name}/of_one`;
      const outputDtypes = outputs.map(({ dtype }) => dtype);
      const operands = others.map((each, place) => (place === at ? scores : each!));
      return this.#lowering.operation({ op, name, attributes, outputDtypes }, operands).outputs[0];
    }
    return undefined;
  }

  /** `tensor_scatter_nd_update(scores, rows[:, None], c)` */
  #scattered(node: OperationNode): GraphValue | undefined {
    const [scores, rows, updates] = node.inputs;
    const isOfRows = rows?.shape?.length === 2 && rows.shape[1] === 1;
    const matrix = scores && isOfRows && updates ? this.lifted(scores) : undefined;
    if (matrix === undefined || rows === undefined || updates === undefined) return undefined;
    const query = this.#again(node, "Sub", [rows, rows]);
    const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(1) });
    const pairs = this.#again(node, "ConcatV2", [query, rows, axis]);
    return this.#again(node, node.op, [matrix, pairs, updates]);
  }

  /** What stands beside scores: one value, or one for each item, as `[items]` or, of a list of the request, `[1, items]`. */
  #beside(value: GraphValue): GraphValue | undefined {
    if (isSingle(value) || this.#isMatrix(value)) return value;
    if (!this.#isOfItems(value)) return undefined;
    if (value.shape?.length === 1) {
      // Other scores are added, or something that was made of what is stored, which is none.
      const found = this.#flagged(value, 0) ?? this.#weighed(value) ?? this.lifted(value);
      this.hasChanged ||= found !== undefined;
      return found ?? value;
    }
    const sizes = [this.#items];
    return reshaped(this.#lowering, value, { name: value.producer?.name ?? "items", sizes });
  }

  /** A value for each item times one of the request, which becomes that of each query, `[1, 1]`. */
  #weighed(value: GraphValue): GraphValue | undefined {
    const node = producerOf(withoutRearrangement(value), "Mul");
    const at = node?.inputs.findIndex(
      (each) => isSingle(each) && !each.constant && !each.stored && each.dtype === "float32",
    );
    const weight = at === undefined ? undefined : node?.inputs[at];
    if (node === undefined || at === undefined || weight === undefined) return undefined;
    const single = reshaped(this.#lowering, weight, { name: node.name, sizes: [1, 1] });
    return this.#again(node, node.op, node.inputs.with(at, single));
  }

  /** What a graph makes of the rows that a list names, one value for each item, as `[1, items]`; `undefined` for any other value. */
  #flagged(value: GraphValue, depth: number): GraphValue | undefined {
    const plain = withoutRearrangement(value);
    const node = plain.producer?.kind === "operation" ? plain.producer : undefined;
    this.#stepsLeft -= 1;
    const isTooFar = depth > FLAGS_DEPTH_MAX || this.#stepsLeft < 0;
    if (node === undefined || isTooFar || !this.#isOfItems(plain)) return undefined;
    const counted = this.#counted(node);
    const isOnFlags = ON_FLAGS.has(node.op) && node.inputs.length <= OPERANDS_MAX;
    if (counted !== undefined || !isOnFlags) return counted;
    const lifted = node.inputs.map((input) => this.#flagged(input, depth + 1));
    if (lifted.every((each) => each === undefined)) return undefined;
    const inputs = node.inputs.map((input, at) => lifted[at] ?? input);
    return this.#again(node, node.op, inputs);
  }

  /** How often a list names each item: `bincount(list)`, or a reduction of `one_hot(list, items)`. */
  #counted(node: OperationNode): GraphValue | undefined {
    const [list, ...others] = node.op === "DenseBincount" ? node.inputs : [];
    if (list?.shape?.length !== 1) return COUNTING.has(node.op) ? this.#reduced(node) : undefined;
    return this.#again(node, node.op, [this.#listOf(list), ...others]);
  }

  /** A sum or the greatest of `one_hot(list, items)` over the list. */
  #reduced(node: OperationNode): GraphValue | undefined {
    const [flags, axes] = operandsOf(node) ?? [];
    const hot = flags && producerOf(flags, "OneHot");
    const [list, ...others] = hot?.inputs ?? [];
    if (hot === undefined || list?.shape?.length !== 1 || integerOf(axes) !== 0) return undefined;
    const matrix = this.#again(hot, hot.op, [this.#listOf(list), ...others]);
    const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(1) });
    return this.#again(node, node.op, [matrix, axis]);
  }

  /** A list as the only one of a matrix, `[1, length]`. */
  #listOf(list: GraphValue): GraphValue {
    const sizes = constantValue({ dtype: "int32", shape: [2], data: Int32Array.of(1, -1) });
    const name = `${list.producer?.name ?? "list"}/of_one`;
    const node = { op: "Reshape", name, attributes: NO_ATTRIBUTES, outputDtypes: [list.dtype] };
    return this.#lowering.operation(node, [list, sizes]).outputs[0]!;
  }

  /** What an operation like one of the graph gives of other values: its type is that of the first, or the node's own. */
  #again(like: OperationNode, op: string, inputs: readonly GraphValue[]): GraphValue {
    const isOwn = op === like.op;
    const dtype = isOwn ? like.outputs[0]!.dtype : inputs[0]!.dtype;
    const name = `${like.name}/${op.toLowerCase()}_of_one`;
    const attributes = isOwn ? like.attributes : NO_ATTRIBUTES;
    return this.#lowering.operation({ op, name, attributes, outputDtypes: [dtype] }, inputs)
      .outputs[0]!;
  }

  /** `reduce_sum(squared_difference(vector[:, None], items), 2)` */
  #distanceOf({ vector, matrix, dim }: VectorDistance, { name }: OperationNode): GraphValue {
    const query = reshaped(this.#lowering, vector, { name, sizes: [1, dim] });
    const each = reshaped(this.#lowering, query, { name, sizes: [1, 1, dim] });
    const squares = applied(this.#lowering, "SquaredDifference", { name, of: [each, matrix] });
    const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(2) });
    return applied(this.#lowering, "Sum", { name, of: [squares, axis] });
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

/** Whether an operation keeps all items in their order, where it takes this axis of size 1 away. */
function takesAllItems(node: OperationNode, axis: number): boolean {
  return node.op !== "StridedSlice" || takesAllBut(node, axis);
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

/** A vector and items whose squared distances are ranked. */
interface VectorDistance {
  readonly vector: GraphValue;
  readonly matrix: GraphValue;
  readonly dim: number;
}

/** The sides of `reduce_sum(square(vector - items), 1)`; `undefined` for any other value. */
function distanceOf(value: GraphValue, scalars: ScalarReader): VectorDistance | undefined {
  const [squares, axes] = operandsOf(producerOf(value, "Sum")) ?? [];
  const isAlongLast = [1, -1].includes(integerOf(axes) ?? NaN) && squares?.shape?.length === 2;
  const sides = squares && isAlongLast ? differenceIn(squares, scalars) : undefined;
  return sides && distanceBetween(sides, squares?.shape?.[1] ?? 0);
}

function distanceBetween(
  sides: readonly [GraphValue, GraphValue],
  dim: number,
): VectorDistance | undefined {
  const vector = sides.find((side) => isOfDims(side, dim) && side.shape?.at(-1) === dim);
  const matrix = sides.find((side) => side.shape?.length === 2 && !isOfDims(side, dim));
  if (vector === undefined || matrix === undefined) return undefined;
  return areAsked([vector], dim) ? { vector, matrix, dim } : undefined;
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
