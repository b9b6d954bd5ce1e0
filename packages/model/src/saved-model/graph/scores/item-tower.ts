// Items that a graph computes of stored matrices by layers: an item tower within the graph that serves,
//
//   top_k(q · relu(A W + b)ᵀ)
//
// Nothing of it depends on a request, and the values of an item follow from its own rows alone. So the stored rows are
// cut, and each worker computes the layers for the rows that it reads (partitions/row-computation.ts). Layers that can
// be done to the query instead are found before (computed-items.ts).

import type { ElementFunctionName } from "@winnow/core";
import { elementCount } from "@winnow/core";
import type { RowOperand, RowStep } from "../../partitions/row-computation.ts";
import type { StoredMatrix } from "../../partitions/stored-table.ts";
import { integersOf } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { storedMatrixOf, withoutTranspositions } from "./candidate-matrix.ts";
import { elementFunctionsOf } from "./element-functions.ts";
import { withoutRearrangement } from "./rearrangement.ts";
import { scalarOf } from "./scalar-value.ts";
import type { ScalarReader } from "./scalar-value.ts";
import { isSet, itemsOf, matrixSidesOf, operandsOf, queryOf } from "./score-product.ts";
import type { ScoreProduct, SearchedItems, Side } from "./score-product.ts";
import { vectorOf } from "./vector-value.ts";

const STEPS_MAX = 256;
/** Values of a row between two layers, at most. */
const WIDTH_MAX = 32_768;
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
  return tower.valuesOf(rows) === undefined ? undefined : tower.searched();
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
  readonly #steps: RowStep[] = [];
  readonly #known = new Map<GraphValue, number>();
  #weights = 0;

  constructor(items: number, scalars: ScalarReader) {
    this.#items = items;
    this.#scalars = scalars;
  }

  /** The items whose values the last step gives. */
  searched(): SearchedItems | undefined {
    const [own, ...beside] = this.#matrices;
    const last = this.#steps.at(-1);
    if (own === undefined || last === undefined || last.kind === "stored") return undefined;
    const candidates = {
      stored: own.stored,
      shape: [this.#items, last.dim],
      firstAxis: 0,
      normalised: undefined,
      computed: { beside, steps: this.#steps },
    } as const;
    return { candidates, itemAxis: 0 };
  }

  /** The step that gives a value of all items, `[items, values]`; `undefined` where it is none. */
  valuesOf(value: GraphValue): number | undefined {
    const plain = withoutRearrangement(value);
    const known = this.#known.get(plain);
    if (known !== undefined) return known;
    const { dtype, shape } = plain;
    const [items, width = 0] = shape ?? [];
    const isOfItems = shape?.length === 2 && items === this.#items && width > 0;
    if (dtype !== "float32" || !isOfItems || width > WIDTH_MAX) return undefined;
    const step = this.#storedOf(plain) ?? this.#computedOf(plain, width);
    if (step !== undefined) this.#known.set(plain, step);
    return step;
  }

  /** The items whose values are those of some steps, one behind the other in each row. */
  joined(parts: readonly number[]): SearchedItems | undefined {
    return this.#joined(parts) === undefined ? undefined : this.searched();
  }

  #joined(parts: readonly number[]): number | undefined {
    const dim = parts.reduce((sum, part) => sum + this.#steps[part]!.dim, 0);
    return dim > WIDTH_MAX ? undefined : this.#add({ kind: "joined", of: parts, dim });
  }

  #add(step: RowStep): number | undefined {
    if (this.#steps.length >= STEPS_MAX || this.#weights > WEIGHTS_MAX) return undefined;
    return this.#steps.push(step) - 1;
  }

  #storedOf(value: GraphValue): number | undefined {
    const matrix = storedMatrixOf(value, this.#scalars);
    if (matrix === undefined) return undefined;
    const { stored, shape } = matrix;
    const dim = shape[1];
    return this.#add({ kind: "stored", matrix: this.#matrices.push({ stored, dim }) - 1, dim });
  }

  #computedOf(value: GraphValue, width: number): number | undefined {
    const node = value.producer?.kind === "operation" ? value.producer : undefined;
    if (node === undefined) return undefined;
    return (
      this.#productOf(node, width) ??
      this.#sumOf(node) ??
      this.#joinOf(node) ??
      this.#elementwiseOf(node, width)
    );
  }

  /** A dense layer: a product with weights. */
  #productOf(node: OperationNode, dim: number): number | undefined {
    const [left, right] = node.op === "MatMul" ? (operandsOf(node) ?? []) : [];
    if (left === undefined || right === undefined || isSet(node, "transpose_a")) return undefined;
    const weights = this.#weightsOf(right);
    const of = weights && this.valuesOf(left);
    if (of === undefined || weights === undefined) return undefined;
    const width = this.#steps[of]!.dim;
    if (weights.length !== width * dim) return undefined;
    const kernel = isSet(node, "transpose_b") ? weights : transposed(weights, width);
    return this.#add({ kind: "product", of, kernel, dim });
  }

  /** A sum or mean of the values of each item, which is kept as an axis of size 1. */
  #sumOf(node: OperationNode): number | undefined {
    const [input, axes] = node.op === "Sum" || node.op === "Mean" ? node.inputs : [];
    const isOfValues = ["1", "-1"].includes(integersOf(axes)?.join() ?? "");
    if (input === undefined || !isOfValues || !isSet(node, "keep_dims")) return undefined;
    const of = this.valuesOf(input);
    if (of === undefined) return undefined;
    return this.#add({ kind: "sum", of, isMean: node.op === "Mean", dim: 1 });
  }

  #joinOf({ op, inputs }: OperationNode): number | undefined {
    const isOfValues = ["1", "-1"].includes(integersOf(inputs.at(-1))?.join() ?? "");
    if (op !== "ConcatV2" || !isOfValues) return undefined;
    const parts = inputs.slice(0, -1).map((input) => this.valuesOf(input));
    const known = parts.filter((part) => part !== undefined);
    return known.length < parts.length ? undefined : this.#joined(known);
  }

  #elementwiseOf(node: OperationNode, dim: number): number | undefined {
    const operands = node.inputs.map((input) => this.#operandOf(input, dim));
    const known = operands.filter((operand) => operand !== undefined);
    const isOfItems = known.some((operand) => typeof operand === "number");
    if (known.length < operands.length || !isOfItems) return undefined;
    const made = this.#functionsOf(node, known, dim);
    return typeof made === "number" ? made : undefined;
  }

  #functionsOf(
    node: OperationNode,
    operands: readonly RowOperand[],
    dim: number,
  ): RowOperand | undefined {
    const apply: Apply = (op, of, by) =>
      of === undefined ? undefined : this.#add({ kind: "elementwise", op, of, by, dim });
    const [left, right] = operands;
    const operation = BINARY.get(node.op);
    if (operation !== undefined) {
      return right === undefined ? undefined : apply(operation, left, right);
    }
    const composed = COMPOSED.get(node.op);
    if (composed !== undefined) return composed(apply, operands);
    let of: RowOperand | undefined;
    for (const { op, operand } of elementFunctionsOf(node) ?? []) {
      const by = operand && scalarOf(operand, this.#scalars);
      of = apply(op as ElementFunctionName, of ?? left, by === undefined ? undefined : number(by));
    }
    return of;
  }

  /** Values of items, or what is the same for all of them. */
  #operandOf(value: GraphValue, dim: number): RowOperand | undefined {
    const { shape = [] } = value;
    const isOfAll = shape.length < 2 || (shape.length === 2 && shape[0] === 1);
    if (!isOfAll) return this.valuesOf(value);
    const width = shape.at(-1) ?? 1;
    return width === 1 || width === dim ? this.#weightsOf(value) : undefined;
  }

  /** The content of weights, a vector or a matrix. */
  #weightsOf(value: GraphValue): Float32Array | undefined {
    const { shape = [-1] } = value;
    const count = shape.includes(-1) ? Infinity : elementCount(shape);
    if (this.#weights + count > WEIGHTS_MAX) return undefined;
    const weights = vectorOf(value, count, this.#scalars);
    this.#weights += weights?.length ?? 0;
    return weights;
  }
}

const BINARY: ReadonlyMap<string, ElementFunctionName> = new Map([
  ["Add", "Add"],
  ["AddV2", "Add"],
  ["BiasAdd", "Add"],
  ["Div", "Div"],
  ["Maximum", "Maximum"],
  ["Minimum", "Minimum"],
  ["Mul", "Mul"],
  ["RealDiv", "Div"],
  ["Sub", "Sub"],
]);

/** Adds a step of one or two operands, and gives its position. */
type Apply = (
  op: ElementFunctionName,
  of: RowOperand | undefined,
  by?: RowOperand,
) => RowOperand | undefined;

const squared = (apply: Apply, of: RowOperand | undefined): RowOperand | undefined =>
  apply("Mul", of, of);

/** Operations that are several functions one after the other. */
const COMPOSED: ReadonlyMap<
  string,
  (apply: Apply, operands: readonly RowOperand[]) => RowOperand | undefined
> = new Map([
  [
    "ClipByValue",
    (apply: Apply, [of, low, high]: readonly RowOperand[]) =>
      apply("Maximum", apply("Minimum", of, high), low),
  ],
  ["Neg", (apply, [of]) => apply("Sub", number(0), of)],
  ["Pow", (apply, [of, power]) => (isNumber(power, 2) ? squared(apply, of) : undefined)],
  ["Reciprocal", (apply, [of]) => apply("Div", number(1), of)],
  ["Rsqrt", (apply, [of]) => apply("Div", number(1), apply("Sqrt", of))],
  ["Square", (apply, [of]) => squared(apply, of)],
  ["SquaredDifference", (apply, [of, other]) => squared(apply, apply("Sub", of, other))],
]);

function number(value: number): Float32Array {
  return Float32Array.of(value);
}

function isNumber(operand: RowOperand | undefined, value: number): boolean {
  return typeof operand === "object" && operand.length === 1 && operand[0] === value;
}

/** A matrix with its columns as rows. */
function transposed(values: Float32Array, rows: number): Float32Array {
  const columns = values.length / rows;
  return values.map((_, at) => values[(at % rows) * columns + Math.floor(at / rows)]!);
}
