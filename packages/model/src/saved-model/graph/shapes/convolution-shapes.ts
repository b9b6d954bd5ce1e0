// Shape rules of convolutions, pools, blocks and matrices. Sizes that a rule leaves open are measured
// when the model runs, so every rule gives at least the rank.

import { integersOf } from "../graph-value.ts";
import type { Shape } from "../graph-value.ts";
import type { InferredOutput, Inputs, ShapeRule, ShapedNode } from "./shape-rule.ts";

/** Rules by operation. */
export const CONVOLUTION_RULES: readonly (readonly [string, ShapeRule])[] = [
  ["AvgPool", poolRule],
  ["BatchToSpaceND", batchToSpaceRule],
  ["Conv2D", (inputs, node) => convolved(inputs, node, (kernel) => kernel[3] ?? -1)],
  ["Conv2DBackpropInput", ([sizes]) => ({ shape: sizes?.known ?? [-1, -1, -1, -1] })],
  [
    "DepthwiseConv2dNative",
    (inputs, node) =>
      convolved(inputs, node, ([, , channels = -1, multiplier = -1]) =>
        channels < 0 || multiplier < 0 ? -1 : channels * multiplier,
      ),
  ],
  ["MatrixBandPart", (inputs) => ({ shape: inputs[0]?.shape })],
  ["MatrixDiagPartV3", diagonalPartRule],
  ["MatrixSetDiagV3", (inputs) => ({ shape: inputs[0]?.shape })],
  ["MaxPool", poolRule],
  ["MirrorPad", mirrorPadRule],
  ["SpaceToBatchND", spaceToBatchRule],
];

interface Window {
  readonly size: number;
  readonly cells: number;
  readonly stride: number;
  readonly dilation: number;
}

/** How many places a window has along an axis; -1 where that is open. */
function placesOf({ size, cells, stride, dilation }: Window, padding: string): number {
  if (stride < 1 || size < 0) return -1;
  if (padding === "SAME") return Math.ceil(size / stride);
  const reach = (cells - 1) * dilation + 1;
  return cells < 1 || padding !== "VALID"
    ? -1
    : Math.max(0, Math.ceil((size - reach + 1) / stride));
}

/** The axes of rows, height, width and channels in a shape of four. */
function axesOf({ attributes }: ShapedNode): readonly [number, number, number, number] {
  return attributes.text("data_format") === "NCHW" ? [0, 2, 3, 1] : [0, 1, 2, 3];
}

function slid(
  { shape }: { readonly shape: Shape },
  node: ShapedNode,
  { window, channels }: { readonly window: readonly number[]; readonly channels: number },
): Shape {
  const [rows, height, width, channel] = axesOf(node);
  const { attributes } = node;
  const [strides, dilations] = [attributes.ints("strides"), attributes.ints("dilations")];
  const places = [height, width].map((axis, index) =>
    placesOf(
      {
        size: shape?.[axis] ?? -1,
        cells: window[index] ?? -1,
        stride: strides[axis] ?? 1,
        dilation: dilations[axis] ?? 1,
      },
      attributes.text("padding"),
    ),
  );
  return [0, 0, 0, 0]
    .with(rows, shape?.[rows] ?? -1)
    .with(height, places[0]!)
    .with(width, places[1]!)
    .with(channel, channels);
}

function convolved(
  inputs: Inputs,
  node: ShapedNode,
  filtersOf: (kernel: readonly number[]) => number,
): InferredOutput {
  const [value, kernel] = inputs;
  if (value === undefined) return { shape: undefined };
  const sizes = kernel?.shape ?? [];
  return { shape: slid(value, node, { window: sizes.slice(0, 2), channels: filtersOf(sizes) }) };
}

function poolRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const [value] = inputs;
  if (value === undefined) return { shape: undefined };
  const [, height, width, channel] = axesOf(node);
  const cells = node.attributes.ints("ksize");
  const window = [cells[height] ?? -1, cells[width] ?? -1];
  return { shape: slid(value, node, { window, channels: value.shape?.[channel] ?? -1 }) };
}

function diagonalPartRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const diagonals = integersOf(inputs[1]);
  if (shape === undefined || shape.length < 2 || diagonals?.some((k) => k !== 0) !== false) {
    return { shape: undefined };
  }
  return { shape: [...shape.slice(0, -2), Math.min(...shape.slice(-2))] };
}

function mirrorPadRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const amounts = integersOf(inputs[1]);
  const padded = shape?.map((size, axis) => {
    const [before = -1, after = -1] = amounts?.slice(2 * axis) ?? [];
    return size < 0 || before < 0 || after < 0 ? -1 : size + before + after;
  });
  return { shape: padded };
}

function spaceToBatchRule(inputs: Inputs): InferredOutput {
  const [shape, blocks, margins] = [inputs[0]?.shape, integersOf(inputs[1]), integersOf(inputs[2])];
  if (shape === undefined || blocks === undefined) return { shape: shape?.map(() => -1) };
  const rows = shape[0] ?? -1;
  const product = blocks.reduce((all, block) => all * block, 1);
  const cells = blocks.map((block, axis) => {
    const size = shape[axis + 1] ?? -1;
    const [before, after] = margins?.slice(2 * axis) ?? [];
    const isOpen = size < 0 || before === undefined || after === undefined || block < 1;
    return isOpen ? -1 : Math.floor((size + before + after) / block);
  });
  return { shape: [rows < 0 ? -1 : rows * product, ...cells, ...shape.slice(blocks.length + 1)] };
}

function batchToSpaceRule(inputs: Inputs): InferredOutput {
  const [shape, blocks, margins] = [inputs[0]?.shape, integersOf(inputs[1]), integersOf(inputs[2])];
  if (shape === undefined || blocks === undefined) return { shape: shape?.map(() => -1) };
  const rows = shape[0] ?? -1;
  const product = blocks.reduce((all, block) => all * block, 1);
  const cells = blocks.map((block, axis) => {
    const size = shape[axis + 1] ?? -1;
    const [before, after] = margins?.slice(2 * axis) ?? [];
    const isOpen = size < 0 || before === undefined || after === undefined;
    return isOpen ? -1 : Math.max(0, size * block - before - after);
  });
  const batch = rows < 0 || product < 1 ? -1 : Math.floor(rows / product);
  return { shape: [batch, ...cells, ...shape.slice(blocks.length + 1)] };
}
