// Slices of what is stored, by rows: `items[1:]`, a table without its padding row, or the rows of all ids of a
// vocabulary. Such rows are read from the tensor that holds them, so that a search cuts them as any others; anything else
// that a slice does stays an operation.

import type { Tensor } from "@winnow/core";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import { integerOf, integersOf, producerOf } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { planSlice } from "../shapes/slice-plan.ts";

const SLICES_MAX = 8;
/** Values of a stored matrix whose rows are picked when a version is opened, in whatever order a graph names them. */
export const PICKED_VALUES_MAX: number = 2 ** 24;

/** Neighbouring rows of a stored tensor, as a value that is stored; `undefined` for any other value. */
export function storedSliceOf(value: GraphValue, depth = 0): GraphValue | undefined {
  const node = producerOf(value, "StridedSlice", "Slice", "GatherV2");
  const input = node?.inputs[0];
  if (node === undefined || input === undefined || depth > SLICES_MAX) return undefined;
  const { stored, shape } = storedSliceOf(input, depth + 1) ?? input;
  if (stored === undefined || shape === undefined) return undefined;
  const firstRow = firstRowOf(node, shape);
  const rows = rowCountOf(value, shape);
  const part = firstRow === undefined ? undefined : partOf(stored, { firstRow, rows }, shape[0]!);
  return part && { ...value, stored: part, producer: undefined };
}

/** The first row of a gather that takes rows of a tensor one after the other. */
function firstGathered(node: OperationNode): number | undefined {
  const indices = gatherOfRows(node.outputs[0]!)?.inputs[1];
  return indices && firstOfRun(indices);
}

/** The gather of whole rows that gives a value. */
export function gatherOfRows(value: GraphValue): OperationNode | undefined {
  const node = producerOf(value, "GatherV2");
  const isOfRows = integerOf(node?.inputs[2]) === 0 && node?.attributes.int("batch_dims", 0) === 0;
  return isOfRows ? node : undefined;
}

/** Rows of a float32 matrix by their numbers; `undefined` for any others, or where the matrix lacks one. */
export function pickedRows(matrix: Tensor, indices: Tensor): Tensor | undefined {
  if (indices.dtype !== "int32" && indices.dtype !== "int64") return undefined;
  const isList = indices.shape.length === 1;
  if (!isList || matrix.dtype !== "float32" || matrix.shape.length !== 2) return undefined;
  const numbers = Array.from(indices.data, Number);
  const [count = 0, dim = 0] = matrix.shape;
  if (numbers.length === 0 || numbers.some((row) => row < 0 || row >= count)) return undefined;
  const picked = new Float32Array(numbers.length * dim);
  for (const [at, row] of numbers.entries()) {
    picked.set(matrix.data.subarray(row * dim, (row + 1) * dim), at * dim);
  }
  return { dtype: "float32", shape: [numbers.length, dim], data: picked };
}

/** The first of constant numbers that follow each other; `undefined` for any others. */
export function firstOfRun({ constant }: GraphValue): number | undefined {
  if (constant?.shape.length !== 1) return undefined;
  if (constant.dtype !== "int32" && constant.dtype !== "int64") return undefined;
  const { data } = constant;
  const first = Number(data[0]);
  for (let at = 1; at < data.length; at += 1) if (Number(data[at]) !== first + at) return undefined;
  return first >= 0 ? first : undefined;
}

/** How many whole rows a slice has; -1 where it has other ones. */
function rowCountOf({ shape = [] }: GraphValue, whole: readonly number[]): number {
  const isWhole = shape.length === whole.length && shape.slice(1).join() === whole.slice(1).join();
  return isWhole ? (shape[0] ?? -1) : -1;
}

/** Neighbouring rows of a tensor of so many; a gather may ask for rows that it lacks. */
function partOf(
  stored: StoredTensor,
  { firstRow, rows }: { readonly firstRow: number; readonly rows: number },
  count: number,
): StoredTensor | undefined {
  if (rows < 1 || firstRow + rows > count) return undefined;
  return rows === count ? stored : rowsOf(stored, firstRow, rows);
}

/** Neighbouring rows of a stored tensor. */
export function rowsOf(stored: StoredTensor, firstRow: number, rows: number): StoredTensor {
  if (stored.kind !== "rows") return { kind: "rows", of: stored, firstRow, rows };
  return { ...stored, firstRow: stored.firstRow + firstRow, rows };
}

/** The first row of a slice or gather that takes rows one after the other, and all of each. */
function firstRowOf(node: OperationNode, shape: readonly number[]): number | undefined {
  return node.op === "GatherV2" ? firstGathered(node) : firstSliced(node, shape);
}

function firstSliced(node: OperationNode, shape: readonly number[]): number | undefined {
  const [, begin, end, stride] = node.inputs;
  const begins = integersOf(begin);
  if (begins === undefined) return undefined;
  if (node.op === "Slice") return begins[0];
  const [ends, strides] = [integersOf(end), integersOf(stride)];
  if (ends === undefined || strides === undefined) return undefined;
  const plan = planSlice({ attributes: node.attributes, begins, ends, strides }, shape.length);
  if (plan === undefined || plan.shrunk.length + plan.added.length > 0) return undefined;
  const [cut, ...others] = plan.cuts.filter(({ axis, stride: step }) => axis === 0 || step !== 1);
  if (cut === undefined) return 0;
  if (others.length > 0 || cut.axis !== 0 || cut.stride !== 1) return undefined;
  return cut.begin < 0 ? Math.max(0, cut.begin + shape[0]!) : cut.begin;
}
