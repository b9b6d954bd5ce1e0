// Candidates as a graph uses them: a stored matrix with one row or one column per item, whose items
// may be brought to one length first (`tf.nn.l2_normalize`, a division by `tf.norm`). No node names
// are matched, only what is computed; anything else is no candidate matrix.

import type {
  RowComputation,
  RowLength,
  RowNormalisation,
  StoredTensor,
} from "../../../partitions/stored-table.ts";
import { elementCount } from "@winnow/core";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import { constantValue, integersOf, producerOf } from "../../graph-value.ts";
import {
  PICKED_VALUES_MAX,
  gatherOfRows,
  pickedRows,
  storedSliceOf,
} from "../../tables/row-slice.ts";
import { roundingOf } from "../values/element-functions.ts";
import type { RoundingName } from "../values/element-functions.ts";
import { scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { withoutAddedAxis, withoutRearrangement } from "../values/rearrangement.ts";

/** A matrix on the items' side of a product. */
export interface CandidateMatrix {
  readonly stored: StoredTensor;
  /** The shape as it is stored; of computed items, `[items, dim]`. */
  readonly shape: readonly [number, number];
  /** Of items that are stored as columns: the first one that is searched; `shape` counts those alone. Absent: 0. */
  readonly firstItem?: number | undefined;
  /** The stored axis that the matrix has as its axis 0. */
  readonly firstAxis: 0 | 1;
  /** The stored axis over which values are normalised, and how. */
  readonly normalised: { readonly axis: 0 | 1; readonly how: RowNormalisation } | undefined;
  /** The narrower type to whose values all are rounded, behind all else; in `computed` once it is known what a row is. */
  readonly rounding?: RoundingName | undefined;
  /** What is computed of the stored rows (item-tower.ts); absent: they are taken as they are. */
  readonly computed?: RowComputation | undefined;
}

/** The matrix that a value holds, or holds rounded once; `undefined` for any other value. */
export function candidateMatrixOf(
  value: GraphValue,
  scalars: ScalarReader,
): CandidateMatrix | undefined {
  const { plain, isTurned } = withoutTranspositions(value);
  const { producer } = plain;
  const rounding = producer?.kind === "operation" ? roundingOf(producer) : undefined;
  if (producer === undefined || rounding === undefined) return plainMatrixOf(value, scalars);
  const matrix = turnedBy(isTurned, plainMatrixOf(producer.inputs[0], scalars));
  return matrix && { ...matrix, rounding };
}

/** A matrix whose values are not rounded. */
function plainMatrixOf(value: GraphValue, scalars: ScalarReader): CandidateMatrix | undefined {
  const { plain, isTurned } = withoutTranspositions(value);
  return turnedBy(isTurned, storedMatrixOf(plain, scalars) ?? normalisedMatrixOf(plain, scalars));
}

function turnedBy(
  isTurned: boolean,
  matrix: CandidateMatrix | undefined,
): CandidateMatrix | undefined {
  return matrix && isTurned ? { ...matrix, firstAxis: otherAxis(matrix.firstAxis) } : matrix;
}

const TRANSPOSITIONS_MAX = 8;

/** A value before it was transposed any number of times, and whether it was an odd number of times. */
export function withoutTranspositions(value: GraphValue): {
  readonly plain: GraphValue;
  readonly isTurned: boolean;
} {
  let plain = withoutRearrangement(value);
  let isTurned = false;
  for (let step = 0; step < TRANSPOSITIONS_MAX; step += 1) {
    const [turned, order] = producerOf(plain, "Transpose")?.inputs ?? [];
    if (turned === undefined || integersOf(order)?.join() !== "1,0") break;
    plain = withoutRearrangement(turned);
    isTurned = !isTurned;
  }
  return { plain, isTurned };
}

/** The other axis of a matrix. */
export function otherAxis(axis: 0 | 1): 0 | 1 {
  return axis === 0 ? 1 : 0;
}

/** What rows are read of: of int8 and uint8 as float32. */
const STORED: ReadonlySet<string> = new Set(["float32", "int8", "uint8"]);
const CODES: ReadonlySet<string> = new Set(["int8", "uint8"]);

/** A stored matrix, or one that was computed of constants when the graph was read. */
export function storedMatrixOf(
  value: GraphValue,
  scalars: ScalarReader,
): CandidateMatrix | undefined {
  const { dtype, shape, stored, constant } = rowsOf(quantisedOf(value), scalars);
  const [first, second, ...rest] = shape ?? [];
  if (!STORED.has(dtype) || first === undefined || second === undefined) return undefined;
  if (rest.length > 0 || first < 1 || second < 1) return undefined;
  const name = `constant [${first},${second}]`;
  const content: StoredTensor | undefined =
    stored ?? (constant && { kind: "constant", name, tensor: constant });
  if (content === undefined) return undefined;
  return { stored: content, shape: [first, second], firstAxis: 0, normalised: undefined };
}

/** A value by the rows of a stored matrix that it has, or the value itself. */
function rowsOf(value: GraphValue, scalars: ScalarReader): GraphValue {
  return storedSliceOf(value) ?? pickedRowsOf(value, scalars) ?? value;
}

/** Rows of a stored matrix that a graph gathers by constants; every worker reads the matrix as a whole. */
function pickedRowsOf(value: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const [source, indices] = gatherOfRows(value)?.inputs ?? [];
  if (source?.stored === undefined || indices?.constant === undefined) return undefined;
  if (elementCount(source.shape ?? []) > PICKED_VALUES_MAX) return undefined;
  const content = scalars(source);
  const constant = content && pickedRows(content, indices.constant);
  return constant && constantValue(constant);
}

/** The int8 or uint8 values of which a value is the same as float32; any other value itself. */
function quantisedOf(value: GraphValue): GraphValue {
  const input = producerOf(value, "Cast")?.inputs[0];
  return input !== undefined && CODES.has(input.dtype) && value.dtype === "float32" ? input : value;
}

/** x · rsqrt(Σx²) or x / sqrt(Σx²), with what keeps either from dividing by nothing. */
function normalisedMatrixOf(value: GraphValue, scalars: ScalarReader): CandidateMatrix | undefined {
  const node = producerOf(value, "Mul", "RealDiv", "Div", "DivNoNan");
  const [left, right] = node?.inputs ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  const found = quotientOf(node.op, left, right, scalars);
  if (found !== undefined || node.op !== "Mul") return found;
  return quotientOf(node.op, right, left, scalars);
}

function quotientOf(
  op: string,
  ...[numerator, factor, scalars]: [GraphValue, GraphValue, ScalarReader]
): CandidateMatrix | undefined {
  const length = op === "Mul" ? reciprocalOf(factor, scalars) : lengthOf(factor, scalars);
  if (length === undefined) return undefined;
  const squares = boundedOf(length.value, scalars);
  const axis = axisOfSquares(squares.value, numerator);
  const { plain, isTurned } = withoutTranspositions(withoutAxisOfQueries(numerator));
  const matrix = axis === undefined ? undefined : storedMatrixOf(plain, scalars);
  if (axis === undefined || matrix === undefined) return undefined;
  const how: RowNormalisation = {
    operation: op === "Mul" ? "reciprocal" : op === "DivNoNan" ? "divisionOrZero" : "division",
    squares: squares.bound,
    length: length.bound,
    factorMax: length.factorMax,
  };
  const firstAxis = isTurned ? otherAxis(matrix.firstAxis) : matrix.firstAxis;
  const normalised = { axis: axis === 0 ? firstAxis : otherAxis(firstAxis), how };
  return { ...matrix, firstAxis, normalised };
}

/** `[items, dim]` of `items[None]`; any other value itself. */
function withoutAxisOfQueries(matrix: GraphValue): GraphValue {
  return (matrix.shape?.length === 3 && withoutAddedAxis(matrix, 0)) || matrix;
}

/** rsqrt(s), or minimum(rsqrt(s), c) as Keras 3 writes it: gives s and c. */
function reciprocalOf(factor: GraphValue, scalars: ScalarReader): Bounded | undefined {
  const [first, second] = producerOf(factor, "Minimum")?.inputs ?? [factor];
  const factorMax = second === undefined ? undefined : scalarOf(second, scalars);
  const squares = first && producerOf(first, "Rsqrt")?.inputs[0];
  const isBounded = second === undefined || (factorMax !== undefined && factorMax > 0);
  return squares && isBounded ? { value: squares, bound: undefined, factorMax } : undefined;
}

interface Bounded {
  readonly value: GraphValue;
  readonly bound: RowLength | undefined;
  readonly factorMax?: number | undefined;
}

/** sqrt(s), maximum(sqrt(s), ε) or sqrt(s) + ε: gives s and the outer bound. */
function lengthOf(factor: GraphValue, scalars: ScalarReader): Bounded | undefined {
  const { value, bound } = boundedOf(factor, scalars);
  const squares = producerOf(value, "Sqrt")?.inputs[0];
  return squares === undefined ? undefined : { value: squares, bound };
}

/** maximum(x, ε) or x + ε with a constant ε from 0: gives x and what is done to it. */
function boundedOf(value: GraphValue, scalars: ScalarReader): Bounded {
  const node = producerOf(value, "Maximum", "Add", "AddV2");
  if (node === undefined) return { value, bound: undefined };
  const kind = node.op === "Maximum" ? "atLeast" : "plus";
  for (const [at, epsilon] of node.inputs.map((input) => scalarOf(input, scalars)).entries()) {
    const other = node.inputs[1 - at];
    if (epsilon === undefined || !(epsilon >= 0) || other === undefined) continue;
    return { value: other, bound: { kind, value: epsilon } };
  }
  return { value, bound: undefined };
}

/** The axes of a matrix as a graph names them; behind an axis of size 1 they count from 1. */
const AXES: ReadonlyMap<string, 0 | 1> = new Map([
  ["0", 0],
  ["-2", 0],
  ["1", 1],
  ["-1", 1],
]);
const AXES_BEHIND: ReadonlyMap<string, 0 | 1> = new Map([
  ["1", 0],
  ["-2", 0],
  ["2", 1],
  ["-1", 1],
]);

/** The axis over which a value sums the squares of a matrix, which it keeps as an axis of size 1. */
function axisOfSquares(value: GraphValue, matrix: GraphValue): 0 | 1 | undefined {
  const sum = producerOf(value, "Sum");
  const [squares, axes] = sum?.inputs ?? [];
  if (squares === undefined || sum?.attributes.flag("keep_dims") !== true) return undefined;
  const places = matrix.shape?.length === 3 ? AXES_BEHIND : AXES;
  return isSquareOf(squares, matrix) ? places.get(integersOf(axes)?.join() ?? "") : undefined;
}

function isSquareOf(squares: GraphValue, matrix: GraphValue): boolean {
  const node: OperationNode | undefined = producerOf(squares, "Square", "Mul");
  const isItself = (input: GraphValue): boolean => isSameContent(input, matrix);
  return node?.inputs.every(isItself) === true;
}

/** One variable that a graph reads twice is one value here; a constant is one tensor. */
function isSameContent(a: GraphValue, b: GraphValue): boolean {
  return a === b || (a.constant !== undefined && a.constant === b.constant);
}
