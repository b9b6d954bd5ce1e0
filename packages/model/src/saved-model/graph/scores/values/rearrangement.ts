// Operations that leave a value as it is, or give it an axis of size 1: what stands between the
// parts of a product in graphs of `tf.tensordot`, of `tf.linalg.matvec` or of plain broadcasting.

import type { GraphValue, OperationNode, Shape } from "../../graph-value.ts";
import { integersOf, producerOf } from "../../graph-value.ts";
import { planSlice } from "../../shapes/slice-plan.ts";

const STEPS_MAX = 64;

/** A value before casts to its own type, transpositions and reshapes that change nothing. */
export function withoutRearrangement(value: GraphValue): GraphValue {
  let plain = value;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const node = producerOf(plain, "Cast", "Reshape", "Transpose");
    const input = node?.inputs[0];
    if (node === undefined || input === undefined || !changesNothing(node, input)) break;
    plain = input;
  }
  return plain;
}

function changesNothing(node: OperationNode, input: GraphValue): boolean {
  const output = node.outputs[0];
  if (node.op === "Cast") return output?.dtype === input.dtype;
  if (node.op === "Reshape") return areSameSizes(input.shape, output?.shape);
  return integersOf(node.inputs[1])?.every((axis, at) => axis === at) === true;
}

/** Whether two shapes of as many elements are the same: of one rank, at most one size unknown. */
function areSameSizes(a: Shape, b: Shape): boolean {
  if (a === undefined || a.length !== b?.length || a.includes(0)) return false;
  return a.every((size, axis) => size === b[axis]) && a.filter((size) => size === -1).length <= 1;
}

/** The operand of an operation that keeps the elements of a vector, in any number of axes of size 1, in order. */
export function vectorBefore(vector: GraphValue): GraphValue | undefined {
  const node = producerOf(vector, "Reshape", "Squeeze", "ExpandDims", "Transpose", "StridedSlice");
  const [input, , , strides] = node?.inputs ?? [];
  const isSlice = node?.op === "StridedSlice";
  const isReversed = isSlice && integersOf(strides)?.every((stride) => stride > 0) !== true;
  return isReversed ? undefined : input;
}

/** The value to which another one adds an axis of size 1 at this position; `undefined` for others. */
export function withoutAddedAxis(value: GraphValue, axis: number): GraphValue | undefined {
  const node = producerOf(value, "ExpandDims", "Reshape", "StridedSlice");
  const input = node?.inputs[0];
  if (node === undefined || input?.shape === undefined || value.shape === undefined)
    return undefined;
  const isAdded =
    value.shape[axis] === 1 && areSameSizes(input.shape, value.shape.toSpliced(axis, 1));
  return isAdded && (node.op !== "StridedSlice" || takesAll(node)) ? input : undefined;
}

/** The value from which a squeeze, a reshape or a slice takes an axis of size 1 away. */
export function withRemovedAxis(value: GraphValue, axis: number): GraphValue | undefined {
  const node = producerOf(value, "Squeeze", "Reshape", "StridedSlice");
  const input = node?.inputs[0];
  if (input?.shape?.length !== 3 || value.shape?.length !== 2) return undefined;
  const isRemoved =
    input.shape[axis] === 1 && areSameSizes(input.shape.toSpliced(axis, 1), value.shape);
  return isRemoved && (node?.op !== "StridedSlice" || takesAllBut(node, axis)) ? input : undefined;
}

/** Whether a slice takes every element and an axis of size 1 away: `x[..., 0]`, `x[:, :, -1]`. */
export function takesAllBut({ attributes, inputs }: OperationNode, axis: number): boolean {
  const [begins, ends, strides] = inputs.slice(1, 4).map(integersOf);
  const rank = inputs[0]?.shape?.length;
  const plan = begins && ends && strides && planSlice({ attributes, begins, ends, strides }, rank);
  if (plan === undefined || plan.shrunk.join() !== String(axis)) return false;
  return plan.added.length === 0 && plan.cuts.every((cut) => cut.axis === axis);
}

/** Whether a slice takes every element: `x[:, None]`, `x[..., None, :]`. */
function takesAll({ attributes, inputs }: OperationNode): boolean {
  const strides = integersOf(inputs[3]);
  if (strides === undefined || attributes.int("shrink_axis_mask", 0) !== 0) return false;
  const mask = (name: string): number => attributes.int(name, 0);
  const open = mask("begin_mask") & mask("end_mask");
  const free = open | mask("new_axis_mask") | mask("ellipsis_mask");
  return strides.every((stride, at) => stride === 1 && ((free >> at) & 1) === 1);
}
