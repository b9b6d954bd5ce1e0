// Shape rules of slices, splits, tiles, paddings and products by Einsum.

import { spelledOut } from "./einsum-equation.ts";
import type { Attributes } from "../definition/attributes.ts";
import { integersOf } from "../graph-value.ts";
import type { GraphValue, Shape } from "../graph-value.ts";
import type { InferredOutput, Inputs, ShapeRule, ShapedNode } from "./shape-rule.ts";
import { planSlice, slicedShape } from "./slice-plan.ts";
import type { SlicePlan } from "./slice-plan.ts";

const UNKNOWN: InferredOutput = { shape: undefined };

/** Rules by operation. */
export const SLICING_RULES: readonly (readonly [string, ShapeRule])[] = [
  ["Einsum", einsumRule],
  ["Pad", padRule],
  ["PadV2", padRule],
  ["Range", () => ({ shape: [-1] })],
  ["Slice", sliceRule],
  ["Split", (inputs, node) => ({ shape: splitShape(inputs[1]?.shape, inputs[0], node) })],
  ["SplitV", (inputs) => ({ shape: openedShape(inputs[0]?.shape, inputs[2]) })],
  ["StridedSlice", stridedSliceRule],
  ["Tile", tileRule],
  ["Unpack", unpackRule],
];

/** A slice of a vector keeps what is known of its elements. */
function stridedSliceRule(inputs: Inputs, { attributes }: ShapedNode): InferredOutput {
  const [value, ...bounds] = inputs;
  const [begins, ends, strides] = bounds.map(integersOf);
  if (value?.shape === undefined || !strides) return UNKNOWN;
  if (!begins || !ends) return { shape: openSlice(value.shape, attributes, strides) };
  const plan = strides.includes(0)
    ? undefined
    : planSlice({ attributes, begins, ends, strides }, value.shape.length);
  if (plan === undefined) return UNKNOWN;
  const known = strides.every((stride) => stride === 1) ? slicedElements(value, plan) : undefined;
  return { shape: slicedShape(value.shape, plan), known };
}

/** The shape of a slice at places that are computed: its rank, and the sizes of axes left whole. */
function openSlice(
  shape: readonly number[],
  attributes: Attributes,
  strides: readonly number[],
): Shape {
  const places = strides.map(() => 0);
  const request = { attributes, begins: places, ends: places, strides: places.map(() => 1) };
  const plan = planSlice(request, shape.length);
  if (plan === undefined) return undefined;
  const open = shape.map((size, axis) => (plan.cuts.some((cut) => cut.axis === axis) ? -1 : size));
  return slicedShape(open, plan);
}

function slicedElements(
  { shape, known }: GraphValue,
  { cuts, added }: SlicePlan,
): readonly number[] | undefined {
  if (shape?.length !== 1 || added.length > 0) return undefined;
  return known?.slice(cuts[0]?.begin ?? 0, cuts[0]?.end);
}

function sliceRule(inputs: Inputs): InferredOutput {
  const [value, , sizes] = inputs;
  const wanted = integersOf(sizes);
  if (value?.shape === undefined || wanted?.length !== value.shape.length) return UNKNOWN;
  return { shape: wanted };
}

function tileRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const times = integersOf(inputs[1]) ?? inputs[1]?.known;
  if (shape === undefined) return UNKNOWN;
  return {
    shape: shape.map((size, axis) => {
      const count = times?.[axis] ?? -1;
      return size < 0 || count < 0 ? -1 : size * count;
    }),
  };
}

function padRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const amounts = integersOf(inputs[1]);
  if (shape === undefined || amounts?.length !== shape.length * 2) return UNKNOWN;
  const padded = (size: number, axis: number): number =>
    size < 0 ? -1 : size + amounts[2 * axis]! + amounts[2 * axis + 1]!;
  return { shape: shape.map(padded) };
}

function unpackRule(inputs: Inputs, { attributes }: ShapedNode): InferredOutput {
  const shape = inputs[0]?.shape;
  const axis = attributes.int("axis", 0);
  return { shape: shape?.toSpliced(axis < 0 ? axis + shape.length : axis, 1) };
}

/** The shape, with the size of one axis unknown. */
function openedShape(shape: Shape, axisValue: GraphValue | undefined): Shape {
  const [axis] = integersOf(axisValue) ?? [];
  if (shape === undefined || axis === undefined) return undefined;
  const at = axis < 0 ? axis + shape.length : axis;
  return shape.map((size, index) => (index === at ? -1 : size));
}

function splitShape(shape: Shape, axisValue: GraphValue | undefined, node: ShapedNode): Shape {
  const count = node.attributes.int("num_split", 1);
  const opened = openedShape(shape, axisValue);
  return opened?.map((size, axis) => {
    const whole = shape?.[axis] ?? -1;
    const isSplit = size === -1 && whole > 0 && whole % count === 0;
    return isSplit ? whole / count : size;
  });
}

/** One size per letter of the result; with ellipses in several operands the number of axes is unknown. */
function einsumRule(inputs: Inputs, { attributes }: ShapedNode): InferredOutput {
  const equation = spelledOut(attributes.text("equation"), inputs);
  const [left = "", result] = equation.split("->");
  if (result === undefined || equation.includes(".")) return UNKNOWN;
  const sizes = new Map<string, number>();
  for (const [position, letters] of left.split(",").entries()) {
    for (const [axis, letter] of Array.from(letters).entries()) {
      const size = inputs[position]?.shape?.[axis] ?? -1;
      sizes.set(letter, Math.max(size, sizes.get(letter) ?? -1));
    }
  }
  return { shape: Array.from(result, (letter) => sizes.get(letter) ?? -1) };
}
