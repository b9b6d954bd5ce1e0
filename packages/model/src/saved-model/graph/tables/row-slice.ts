// Slices of what is stored, by rows: `items[1:]`, a table without its padding row. Such rows are read from the tensor
// that holds them, so that a search cuts them as any others; anything else that a slice does stays an operation.

import type { StoredTensor } from "../../partitions/stored-table.ts";
import { integersOf, producerOf } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { planSlice } from "../shapes/slice-plan.ts";

const SLICES_MAX = 8;

/** Neighbouring rows of a stored tensor, as a value that is stored; `undefined` for any other value. */
export function storedSliceOf(value: GraphValue, depth = 0): GraphValue | undefined {
  const node = producerOf(value, "StridedSlice", "Slice");
  const input = node?.inputs[0];
  if (node === undefined || input === undefined || depth > SLICES_MAX) return undefined;
  const { stored, shape } = storedSliceOf(input, depth + 1) ?? input;
  if (stored === undefined || shape === undefined) return undefined;
  const firstRow = firstRowOf(node, shape);
  const rows = rowCountOf(value, shape);
  if (firstRow === undefined || rows < 1) return undefined;
  const part = rows === shape[0] ? stored : rowsOf(stored, firstRow, rows);
  return { ...value, stored: part, producer: undefined };
}

/** How many whole rows a slice has; -1 where it has other ones. */
function rowCountOf({ shape = [] }: GraphValue, whole: readonly number[]): number {
  const isWhole = shape.length === whole.length && shape.slice(1).join() === whole.slice(1).join();
  return isWhole ? (shape[0] ?? -1) : -1;
}

/** Neighbouring rows of a stored tensor. */
export function rowsOf(stored: StoredTensor, firstRow: number, rows: number): StoredTensor {
  if (stored.kind !== "rows") return { kind: "rows", of: stored, firstRow, rows };
  return { ...stored, firstRow: stored.firstRow + firstRow, rows };
}

/** The first row of a slice that takes rows one after the other, and all of each. */
function firstRowOf(node: OperationNode, shape: readonly number[]): number | undefined {
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
