// Items that a graph computes of stored matrices by layers: an item tower within the graph that serves,
//
//   top_k(q · relu(A W + b)ᵀ)            top_k(q · mean(words[tokens of each item])ᵀ)
//
// Nothing of it depends on a request, and the values of an item follow from its own rows alone. So the stored rows are
// cut, and each worker computes the layers for the rows that it reads (partitions/row-computation.ts). Layers that can
// be done to the query instead are found before (../rewrites/computed-items.ts).
//
// A value counts as one of items if its first axis numbers them. `[items · n, …]` is `[items, n, …]` in the same order,
// so it may be that as well: the tokens of all items one behind the other.

import { elementCount } from "@winnow/core";
import type { ElementFunctionName, Tensor } from "@winnow/core";
import { INTEGER_MAX } from "../../../partitions/row-computation.ts";
import type { Reduction, RowFunctionName } from "../../../partitions/row-computation.ts";
import type { StoredMatrix } from "../../../partitions/stored-table.ts";
import { fold } from "../../constant-folding.ts";
import { integersOf, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import { PICKED_VALUES_MAX, gatherOfRows, storedSliceOf } from "../../tables/row-slice.ts";
import { storedMatrixOf, withoutTranspositions } from "./candidate-matrix.ts";
import { elementFunctionsOf } from "../values/element-functions.ts";
import { withoutRearrangement } from "../values/rearrangement.ts";
import { scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import {
  BATCH_PRODUCTS,
  equationOf,
  isSet,
  itemsOf,
  matrixSidesOf,
  operandsOf,
  queryOf,
} from "./score-product.ts";
import type { ScoreProduct, SearchedItems, Side } from "./score-product.ts";
import { TowerSteps, WIDTH_MAX, numberFor } from "./tower-steps.ts";
import type { ItemValues, Values } from "./tower-steps.ts";
import { vectorOf } from "../values/vector-value.ts";

/** Operations one behind the other, at most. */
const DEPTH_MAX = 512;
/** Weights of all layers, each of which every worker reads as a whole. */
const WEIGHTS_MAX = 2 ** 24;

/** A product of queries and items that a graph computes of stored ones; `undefined` for any other value. */
export function towerProductOf(value: GraphValue, scalars: ScalarReader): ScoreProduct | undefined {
  const [queries, items] = value.dtype === "float32" ? (matrixSidesOf(value) ?? []) : [];
  const query = queries && queryOf(queries);
  if (query?.dtype !== "float32" || items === undefined) return undefined;
  const searched = towerOf(items, scalars);
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  return searched && { query, ...searched, node };
}

/** The items on one side of a product: stored ones, or such as a graph computes of them. */
export function anyItemsOf(side: Side, scalars: ScalarReader): SearchedItems | undefined {
  return itemsOf(side, scalars) ?? towerOf(side, scalars);
}

function towerOf(side: Side, scalars: ScalarReader): SearchedItems | undefined {
  const rows = rowsIn(side);
  if (rows === undefined) return undefined;
  const tower = new TowerReading(rows.shape![0]!, scalars);
  const values = tower.valuesOf(rows);
  return values && tower.searched(values);
}

/** One side of a product as `[items, values]`, before it was transposed; `undefined` where it never was so. */
export function rowsIn({ matrix, kept }: Side): GraphValue | undefined {
  const { plain, isTurned } = withoutTranspositions(matrix);
  const isOfRows = (kept === 1) === isTurned && plain.shape?.length === 2;
  return isOfRows && plain.shape[0]! > 1 ? plain : undefined;
}

/** Reads the layers behind some values of all items. */
export class TowerReading {
  readonly #items: number;
  readonly #scalars: ScalarReader;
  readonly #matrices: StoredMatrix[] = [];
  readonly #steps = new TowerSteps();
  readonly #known = new Map<GraphValue, ItemValues | undefined>();
  #weights = 0;
  #depth = 0;

  constructor(items: number, scalars: ScalarReader) {
    this.#items = items;
    this.#scalars = scalars;
  }

  /** The items with these values; `undefined` where these are stored as they are. */
  searched({ of, shape }: ItemValues): SearchedItems | undefined {
    const steps = this.#steps.all.slice(0, of + 1);
    const last = steps.at(-1);
    const [own, ...beside] = this.#matrices;
    if (own === undefined || last === undefined || last.kind === "stored") return undefined;
    const candidates = {
      stored: own.stored,
      shape: [this.#items, elementCount(shape)],
      firstAxis: 0,
      normalised: undefined,
      computed: { beside, steps },
    } as const;
    return { candidates, itemAxis: 0 };
  }

  /** The items whose values are those of several, one behind the other in each row. */
  joined(parts: readonly ItemValues[]): SearchedItems | undefined {
    const values = this.#steps.joined(parts);
    return values && this.searched(values);
  }

  /** What gives a value of all items, `[items, …]` or `[items · n, …]`; `undefined` where it is none. */
  valuesOf(value: GraphValue): ItemValues | undefined {
    const plain = withoutRearrangement(value);
    if (this.#known.has(plain)) return this.#known.get(plain);
    const shape = this.#shapeOf(plain);
    if (shape === undefined || this.#depth >= DEPTH_MAX) return undefined;
    this.#depth += 1;
    const found = this.#storedOf(plain, shape) ?? this.#computedOf(plain, shape);
    this.#depth -= 1;
    const isWhole = found && elementCount(found.shape) === elementCount(shape);
    const values = isWhole ? { of: found.of, shape } : undefined;
    this.#known.set(plain, values);
    return values;
  }

  /** The axes of a value for each item. */
  #shapeOf({ dtype, shape }: GraphValue): readonly number[] | undefined {
    if (!NUMBERS.has(dtype) || shape === undefined || shape.includes(-1)) return undefined;
    const [first = 0, ...others] = shape;
    const each = first / this.#items;
    const own = each === 1 ? others : [each, ...others];
    const count = elementCount(own);
    return Number.isInteger(each) && count > 0 && count <= WIDTH_MAX ? own : undefined;
  }

  #storedOf(value: GraphValue, shape: readonly number[]): ItemValues | undefined {
    const stored =
      value.shape?.length === 2 && value.dtype === "float32" && shape.length === 1
        ? (storedMatrixOf(value, this.#scalars)?.stored ?? this.#contentOf(value))
        : this.#contentOf(value);
    if (stored === undefined) return undefined;
    const dim = elementCount(shape);
    const matrix = this.#matrices.push({ stored, dim }) - 1;
    return this.#steps.add({ kind: "stored", matrix, dim }, shape);
  }

  /** Stored numbers that are no matrix of float32, as one, which every worker reads as a whole. */
  #contentOf(value: GraphValue): StoredMatrix["stored"] | undefined {
    const whole = storedSliceOf(value) ?? value;
    const count = elementCount(value.shape!);
    if (count > PICKED_VALUES_MAX) return undefined;
    const content =
      whole.constant ?? (whole.stored === undefined ? undefined : this.#scalars(whole));
    const data = content && floatsOf(content);
    if (data?.length !== count) return undefined;
    const shape = [this.#items, count / this.#items];
    const name = `constant [${shape.join()}]`;
    return { kind: "constant", name, tensor: { dtype: "float32", shape, data } };
  }

  #computedOf(value: GraphValue, shape: readonly number[]): ItemValues | undefined {
    const node = value.producer?.kind === "operation" ? value.producer : undefined;
    if (node === undefined) return undefined;
    const { op } = node;
    if (VIEWS.has(op)) return this.#viewOf(node);
    if (op === "GatherV2" && gatherOfRows(value) === node) return this.#gatherOf(node);
    if (PRODUCTS.has(op)) return this.#productOf(node);
    const how = howReduced(node);
    if (how !== undefined) return this.#reductionOf(node, how);
    if (MOVES.has(op)) return this.#moveOf(node, value, shape);
    return this.#numberOf(node, shape) ?? this.#elementwiseOf(node, value);
  }

  /** The same values in the same order, with other axes or of another type. */
  #viewOf({ op, inputs, outputs }: OperationNode): ItemValues | undefined {
    const [input] = inputs;
    // Numbers that are cut to integers are others.
    if (input === undefined || (op === "Cast" && input.dtype === "float32")) return undefined;
    const normalised = op === "Reshape" ? this.#normalisedOf(input) : undefined;
    const values = normalised ?? this.valuesOf(input);
    const isTruth = op === "Cast" && outputs[0]?.dtype === "bool";
    return isTruth ? this.#steps.apply("NotEqual", values, numberFor(0)) : values;
  }

  /** A dense layer: a product with weights, of each vector along the last axis. */
  #productOf(node: OperationNode): ItemValues | undefined {
    const [left, right] = operandsOf(node) ?? [];
    const kernel = right && this.#kernelOf(node, right);
    const of = kernel && left && this.valuesOf(left);
    if (kernel === undefined || of?.shape.at(-1) !== kernel.width) return undefined;
    return this.#steps.product(of, kernel.values);
  }

  /** The right side of a product, what gives the same value together. */
  #kernelOf(
    node: OperationNode,
    value: GraphValue,
  ): { readonly values: Float32Array; readonly width: number } | undefined {
    const [rows = 0, columns = 0, ...others] = value.shape ?? [];
    if (node.op === "Einsum" && !isLayer(equationOf(node))) return undefined;
    if (others.length > 0 || isSet(node, "transpose_a", "adj_x")) return undefined;
    const values = this.#weightsOf(value);
    if (values === undefined) return undefined;
    if (isSet(node, "transpose_b", "adj_y")) return { values, width: columns };
    return { values: transposed(values, rows), width: rows };
  }

  /** Rows of a table that every worker reads as a whole: an embedding of tokens. */
  #gatherOf({ inputs: [table, numbers] }: OperationNode): ItemValues | undefined {
    const of = numbers && this.valuesOf(numbers);
    const content = of && table && this.#weightsOf(table);
    return content && this.#steps.gathered(of, content, table.shape!.slice(1));
  }

  #reductionOf({ inputs }: OperationNode, how: Reduction): ItemValues | undefined {
    const [input, axes] = inputs;
    const rank = input?.shape?.length ?? 0;
    const of = input && this.valuesOf(input);
    if (of === undefined) return undefined;
    // The axes of an item are the last ones of the value: there is one more, or none where it is `[items · n, …]`.
    const before = rank - of.shape.length;
    const own = (integersOf(axes) ?? []).map((axis) => (axis < 0 ? axis + rank : axis) - before);
    const [first = -1, ...others] = own.toSorted((a, b) => a - b);
    const areTogether = others.every((axis, at) => axis === first + at + 1);
    if (first < 1 - before || first < 0 || !areTogether) return undefined;
    return this.#steps.reduce(of, how, [first, first + own.length]);
  }

  /** Values in other places: what the operation itself does to the numbers of the places, for two rows at once. */
  #moveOf(
    { op, name, attributes, inputs, outputs }: OperationNode,
    value: GraphValue,
    shape: readonly number[],
  ): ItemValues | undefined {
    const isMoved = MOVES.get(op)!;
    const moved = Array.from(inputs.keys()).filter((at) => isMoved(at, inputs.length));
    const known = moved.flatMap((at) => this.valuesOf(inputs[at]!) ?? []);
    const ofItems = [value, ...moved.map((at) => inputs[at]!)];
    const areOfItems = ofItems.every((each) => each.shape?.[0] === this.#items);
    if (known.length < moved.length || known.length === 0 || !areOfItems) return undefined;
    const width = known.reduce((sum, part) => sum + elementCount(part.shape), 0);
    const call = { op, name, attributes, outputCount: outputs.length, isUnbounded: true };
    const tensors: (Tensor | undefined)[] = inputs.map(({ constant }) => constant);
    let first = 0;
    for (const [at, part] of known.entries()) {
      const count = elementCount(part.shape);
      tensors[moved[at]!] = numbered(part.shape, { first, width });
      first += count;
    }
    if (tensors.includes(undefined)) return undefined;
    const result = fold(call, tensors as Tensor[])?.[outputs.indexOf(value)];
    const places = result && placesIn(result, { shape, width });
    const joined = places && this.#steps.joined(known);
    return joined && this.#steps.picked(joined, places, shape);
  }

  /** Values brought to mean 0 and variance 1, as a layer normalisation of tf_keras has them: `[1, items, values, 1]`. */
  #normalisedOf(value: GraphValue): ItemValues | undefined {
    const node = producerOf(value, "FusedBatchNormV3");
    const input = node?.inputs[0];
    const before = input && producerOf(input, "Reshape")?.inputs[0];
    if (before === undefined || node?.outputs[0] !== value) return undefined;
    const of = this.#isLayerNormalisation(node) ? this.valuesOf(before) : undefined;
    if (of === undefined || of.shape.at(-1) !== input?.shape?.[2]) return undefined;
    return this.#normalised(of, node.attributes.float("epsilon", 1e-4));
  }

  /** Whether each vector of items is brought to its own mean and variance, and nothing else is done. */
  #isLayerNormalisation(node: OperationNode): boolean {
    const [input, scale, offset] = node.inputs;
    const [one, vectors = 0, , last] = input?.shape ?? [];
    const isOfVectors = one === 1 && last === 1 && vectors % this.#items === 0;
    const isOfInput = isSet(node, "is_training") && node.attributes.text("data_format") === "NCHW";
    return (
      isOfVectors &&
      isOfInput &&
      this.#isAll(scale, { count: vectors, value: 1 }) &&
      this.#isAll(offset, { count: vectors, value: 0 })
    );
  }

  #normalised(of: ItemValues, epsilon: number): ItemValues | undefined {
    const steps = this.#steps;
    const axes = [of.shape.length - 1, of.shape.length] as const;
    const mean = steps.reduce(of, "Mean", axes);
    const centred = mean && steps.apply("Sub", of, mean);
    const squares = steps.apply("Mul", centred, centred);
    const variance = squares && steps.reduce(squares, "Mean", axes);
    const spread = steps.apply("Sqrt", steps.apply("Add", variance, numberFor(epsilon)));
    return spread && steps.apply("Div", centred, spread);
  }

  #isAll(
    value: GraphValue | undefined,
    { count, value: wanted }: { readonly count: number; readonly value: number },
  ): boolean {
    const content = value && vectorOf(value, count, this.#scalars);
    return content?.every((each) => each === wanted) === true;
  }

  /** A vector of 0 and 1 for each number; how many boundaries a number has reached. */
  #numberOf(
    { op, inputs, attributes }: OperationNode,
    shape: readonly number[],
  ): ItemValues | undefined {
    if (op !== "OneHot" && op !== "Bucketize") return undefined;
    const found = this.valuesOf(inputs[0]!);
    const of = found && { ...found, shape: [...found.shape, 1] };
    if (of === undefined) return undefined;
    if (op === "OneHot") {
      const [on, off] = inputs.slice(2).map((each) => scalarOf(each, this.#scalars));
      const isPlain = on === 1 && off === 0 && attributes.int("axis", -1) === -1;
      const places = Float32Array.from({ length: shape.at(-1) ?? 0 }, (_, at) => at);
      return isPlain
        ? this.#steps.apply("Equal", of, { of: places, shape: [places.length] })
        : undefined;
    }
    const boundaries = Float32Array.from(attributes.floats("boundaries"));
    const each = { of: boundaries, shape: [boundaries.length] };
    const reached = this.#steps.apply("GreaterEqual", of, each);
    return reached && this.#steps.reduce(reached, "Sum", [shape.length, shape.length + 1]);
  }

  #elementwiseOf(node: OperationNode, value: GraphValue): ItemValues | undefined {
    const operands = node.inputs.map((input) => this.#operandOf(input, value));
    const known = operands.filter((operand) => operand !== undefined);
    const isOfItems = known.some(({ of }) => typeof of === "number");
    if (known.length < operands.length || !isOfItems) return undefined;
    if (QUOTIENTS.has(node.op) && this.#hasZeros(node.inputs[1]!)) return undefined;
    const made = this.#functionsOf(node, known);
    return typeof made?.of === "number" ? (made as ItemValues) : undefined;
  }

  /** Whether what is known of a divisor before rows are read has a 0: a mean of no tokens is no number. */
  #hasZeros(divisor: GraphValue): boolean {
    const count = elementCount(divisor.shape ?? [-1]);
    return vectorOf(divisor, count, this.#scalars)?.includes(0) === true;
  }

  #functionsOf(node: OperationNode, operands: readonly Values[]): Values | undefined {
    const { op, inputs, attributes } = node;
    const steps = this.#steps;
    const ofTruth = TRUTH.get(op);
    if (ofTruth !== undefined) return ofTruth(steps, operands);
    const isOfFloats = inputs.every(({ dtype }) => dtype === "float32");
    if (!isOfFloats) return op === "AddV2" ? steps.apply("AddIntegers", ...operands) : undefined;
    if (attributes.text("data_format") === "NCHW") return undefined;
    const operation = BINARY.get(op);
    if (operation !== undefined) return steps.apply(operation, ...operands);
    const composed = COMPOSED.get(op);
    if (composed !== undefined) return composed(steps, operands);
    return this.#chainOf(node, operands[0]!);
  }

  /** Functions of one operand, one after the other. */
  #chainOf(node: OperationNode, operand: Values): Values | undefined {
    let of: Values | undefined = operand;
    const functions = elementFunctionsOf(node) ?? [];
    for (const { op, operand: by } of functions) {
      const operands = by === undefined ? [] : [numberFor(scalarOf(by, this.#scalars) ?? NaN)];
      of = this.#steps.apply(op as ElementFunctionName, of, ...operands);
    }
    return functions.length === 0 ? undefined : of;
  }

  /** Values of items, or what is the same for all of them, as an operand of what gives a value. */
  #operandOf(value: GraphValue, { shape: result = [] }: GraphValue): Values | undefined {
    const { shape } = value;
    if (shape === undefined || shape.includes(-1)) return undefined;
    const isWide = shape.length === result.length;
    if (isWide && shape[0] === result[0]) return this.valuesOf(value);
    const own = isWide ? shape.slice(1) : shape;
    const isOfAll = shape.length < result.length || shape[0] === 1;
    const weights = isOfAll ? this.#weightsOf(value) : undefined;
    return weights && { of: weights, shape: own };
  }

  /** The content of weights of any shape. */
  #weightsOf(value: GraphValue): Float32Array | undefined {
    const { shape = [-1] } = value;
    const count = shape.includes(-1) ? Infinity : elementCount(shape);
    if (this.#weights + count > WEIGHTS_MAX) return undefined;
    const content = value.constant ? floatsOf(value.constant) : undefined;
    const weights = content ?? vectorOf(value, count, this.#scalars);
    this.#weights += weights?.length ?? 0;
    return weights;
  }
}

const PRODUCTS: ReadonlySet<string> = new Set(["MatMul", "Einsum", ...BATCH_PRODUCTS]);

/** Whether an equation, `ng,gd->nd` or `ntd,de->nte`, is that of a layer of the last axis. */
function isLayer(equation: string): boolean {
  const [, axes = "", summed = "", made = "", result] =
    /^([a-z]+)([a-z]),\2([a-z])->([a-z]+)$/i.exec(equation) ?? [];
  return new Set(axes + summed + made).size === axes.length + 2 && result === axes + made;
}

const NUMBERS: ReadonlySet<string> = new Set(["bool", "float32", "int32", "int64"]);

/** Numbers as float32; `undefined` for those that float32 does not hold. */
function floatsOf({ dtype, data }: Tensor): Float32Array | undefined {
  if (dtype === "float32") return data;
  if (dtype !== "bool" && dtype !== "int32" && dtype !== "int64") return undefined;
  const floats = Float32Array.from(data as ArrayLike<number | bigint>, Number);
  return floats.every((value) => Math.abs(value) <= INTEGER_MAX) ? floats : undefined;
}

/** Operations that keep all values in their order. */
const VIEWS: ReadonlySet<string> = new Set(["Cast", "ExpandDims", "Reshape", "Squeeze"]);

const REDUCTIONS: ReadonlyMap<string, Reduction> = new Map([
  ["Max", "Max"],
  ["Mean", "Mean"],
  ["Min", "Min"],
  ["Sum", "Sum"],
]);
/** Of integers; their mean is an integer too, towards 0. */
const INTEGER_REDUCTIONS: ReadonlyMap<string, Reduction> = new Map([
  ["Max", "Max"],
  ["Min", "Min"],
  ["Sum", "SumIntegers"],
]);

function howReduced({ op, inputs }: OperationNode): Reduction | undefined {
  return (inputs[0]?.dtype === "float32" ? REDUCTIONS : INTEGER_REDUCTIONS).get(op);
}

/** Operations that put values elsewhere, and which of their inputs have them. */
const MOVES: ReadonlyMap<string, (at: number, inputs: number) => boolean> = new Map([
  ["ConcatV2", (at: number, inputs: number) => at < inputs - 1],
  ["GatherV2", (at) => at === 0],
  ["Pack", () => true],
  ["Slice", (at) => at === 0],
  ["Split", (at) => at === 1],
  ["SplitV", (at) => at === 0],
  ["StridedSlice", (at) => at === 0],
  ["Tile", (at) => at === 0],
  ["Transpose", (at) => at === 0],
  ["Unpack", (at) => at === 0],
]);

/** Two rows of numbers: of all places of the first row, which has `width` of them, then of the second. */
function numbered(
  shape: readonly number[],
  { first, width }: { readonly first: number; readonly width: number },
): Tensor {
  const count = elementCount(shape);
  const data = Int32Array.from({ length: 2 * count }, (_, at) => {
    return at < count ? first + at : width + first + at - count;
  });
  return { dtype: "int32", shape: [2, ...shape], data };
}

/** The places that an operation took values from; `undefined` where a row has some of another row. */
function placesIn(
  { dtype, shape: [rows, ...axes], data }: Tensor,
  { shape, width }: { readonly shape: readonly number[]; readonly width: number },
): Int32Array | undefined {
  const count = elementCount(shape);
  if (dtype !== "int32" || rows !== 2 || axes.join() !== shape.join()) return undefined;
  const places = data.subarray(0, count);
  const isOfRow = places.every((place, at) => {
    return place < width && data[count + at] === place + width;
  });
  return isOfRow ? Int32Array.from(places) : undefined;
}

const BINARY: ReadonlyMap<string, RowFunctionName> = new Map([
  ["Add", "Add"],
  ["AddV2", "Add"],
  ["BiasAdd", "Add"],
  ["Div", "Div"],
  ["DivNoNan", "DivNoNan"],
  ["Maximum", "Maximum"],
  ["Minimum", "Minimum"],
  ["Mul", "Mul"],
  ["RealDiv", "Div"],
  ["Sub", "Sub"],
]);
const QUOTIENTS: ReadonlySet<string> = new Set(["Div", "RealDiv"]);
type Composed = (steps: TowerSteps, operands: readonly Values[]) => Values | undefined;

const functionNamed =
  (op: RowFunctionName): Composed =>
  (steps, operands) =>
    steps.apply(op, ...operands);

/** Operations on numbers of any type whose values are 0 or 1, or that choose by such. */
const TRUTH: ReadonlyMap<string, Composed> = new Map<string, Composed>([
  ["Equal", functionNamed("Equal")],
  ["Greater", functionNamed("Greater")],
  ["GreaterEqual", functionNamed("GreaterEqual")],
  ["Less", functionNamed("Less")],
  ["LessEqual", functionNamed("LessEqual")],
  ["LogicalAnd", functionNamed("Minimum")],
  ["LogicalNot", (steps, [of]) => steps.apply("Equal", of, numberFor(0))],
  ["LogicalOr", functionNamed("Maximum")],
  ["NotEqual", functionNamed("NotEqual")],
  ["SelectV2", (steps, operands) => steps.choose(...operands)],
]);

/** Operations that are several functions one after the other. */
const COMPOSED: ReadonlyMap<string, Composed> = new Map<string, Composed>([
  ["Abs", functionNamed("Abs")],
  [
    "AddN",
    (steps, [first, ...others]) =>
      others.reduce<Values | undefined>((sum, other) => steps.apply("Add", sum, other), first),
  ],
  [
    "ClipByValue",
    (steps, [of, low, high]) => steps.apply("Maximum", steps.apply("Minimum", of, high), low),
  ],
  ["Erf", functionNamed("Erf")],
  ["Erfc", functionNamed("Erfc")],
  ["Neg", (steps, [of]) => steps.apply("Sub", numberFor(0), of)],
  ["Pow", power],
  ["Reciprocal", (steps, [of]) => steps.apply("Div", numberFor(1), of)],
  ["Rsqrt", (steps, [of]) => steps.apply("Div", numberFor(1), steps.apply("Sqrt", of))],
  ["Sign", functionNamed("Sign")],
  ["Softmax", softmax],
  ["Square", squared],
  ["SquaredDifference", (steps, [of, other]) => squared(steps, [steps.apply("Sub", of, other)])],
]);

function squared(steps: TowerSteps, [of]: readonly (Values | undefined)[]): Values | undefined {
  return of && steps.apply("Mul", of, of);
}

function power(steps: TowerSteps, [of, by]: readonly Values[]): Values | undefined {
  const exponent = typeof by?.of === "object" && by.of.length === 1 ? by.of[0] : undefined;
  if (exponent === 0.5) return steps.apply("Sqrt", of);
  const square = exponent === 2 || exponent === 3 ? squared(steps, [of!]) : undefined;
  return exponent === 3 ? steps.apply("Mul", square, of) : square;
}

/** Over the last axis, as TensorFlow has no other: exp(x - max x) over the sum of these. */
function softmax(steps: TowerSteps, [of]: readonly Values[]): Values | undefined {
  if (typeof of?.of !== "number" || of.shape.length === 0) return undefined;
  const axes = [of.shape.length - 1, of.shape.length] as const;
  const best = steps.reduce(of as ItemValues, "Max", axes);
  const powers = best && steps.apply("Exp", steps.apply("Sub", of, best));
  const sum = powers && steps.reduce(powers, "Sum", axes);
  return sum && steps.apply("Div", powers, sum);
}

/** A matrix with its columns as rows. */
function transposed(values: Float32Array, rows: number): Float32Array {
  const columns = values.length / rows;
  return values.map((_, at) => values[(at % rows) * columns + Math.floor(at / rows)]!);
}
