// Tensors put together or spread out: concatenation, packing, padding, tiling, transposing, ranges
// and one-hot rows.

import { isBigInts } from "../../../tensor/dtype.ts";
import {
  NOWHERE,
  broadcastPositions,
  broadcastShape,
  joined,
  reshaped,
  stridesOf,
  takeValues,
  walkPositions,
} from "../element-positions.ts";
import {
  axisOf,
  inputAt,
  integerAt,
  integersAt,
  numberAttribute,
  numericAt,
  scalarAt,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { outputCount, tensorOf, zeros } from "../tensor-memory.ts";

/** Tensors put together or spread out, by TensorFlow's name. */
export const assemblyOperations: HostOperations = {
  ConcatV2: (call) => [concatenate(call)],
  Pack: (call) => [pack(call)],
  Fill: (call) => [spread(scalarAt(call, 1), integersAt(call, 0))],
  BroadcastTo: (call) => [broadcastTo(call)],
  Tile: (call) => [tile(call)],
  Transpose: (call) => [transpose(call)],
  Pad: (call) => [pad(call)],
  PadV2: (call) => [pad(call)],
  Range: (call) => [range(call)],
  OneHot: (call) => [oneHot(call)],
};

function concatenate(call: HostCall): Tensor {
  const parts = call.inputs.slice(0, -1);
  const rank = inputAt(call, 0).shape.length;
  const axis = axisOf(integerAt(call, parts.length), rank, call.op);
  return concatenated(parts, axis);
}

/** Concatenates tensors of one dtype and, except for `axis`, one shape. */
function concatenated(parts: readonly Tensor[], axis: number): Tensor {
  const first = parts[0]!;
  const sizes = parts.map(({ shape }) => {
    const isAlike =
      shape.length === first.shape.length &&
      shape.every((size, at) => at === axis || size === first.shape[at]);
    if (!isAlike) throw wrongConcat(first.shape, shape);
    return shape[axis]!;
  });
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const all = joined(parts);
  const shape = first.shape.with(axis, total);
  if (axis === 0) return reshaped(all, shape);
  return takeValues(all, concatPositions(parts, axis), shape);
}

function wrongConcat(first: readonly number[], other: readonly number[]): Error {
  const shapes = `shape[0] = [${first.join(",")}] vs. shape = [${other.join(",")}]`;
  return invalid(`ConcatOp : Dimension mismatch in tensors: ${shapes}`);
}

/** Source positions of a concatenation: for each outer row, the run of values of each part. */
function concatPositions(parts: readonly Tensor[], axis: number): Int32Array {
  const outer = elementCount(parts[0]!.shape.slice(0, axis));
  const runs = parts.map(({ shape }) => elementCount(shape.slice(axis)));
  const starts = parts.map(() => 0);
  for (let at = 1; at < parts.length; at += 1)
    starts[at] = starts[at - 1]! + parts[at - 1]!.data.length;
  const positions = new Int32Array(outer * runs.reduce((sum, run) => sum + run, 0));
  let to = 0;
  for (let row = 0; row < outer; row += 1) {
    for (const [at, run] of runs.entries()) {
      const from = starts[at]! + row * run;
      for (let offset = 0; offset < run; offset += 1) positions[to + offset] = from + offset;
      to += run;
    }
  }
  return positions;
}

function pack(call: HostCall): Tensor {
  const first = inputAt(call, 0);
  const axis = axisOf(numberAttribute(call, "axis", 0), first.shape.length + 1, call.op);
  const other = call.inputs.find(({ shape }) => shape.join(",") !== first.shape.join(","));
  if (other !== undefined) {
    const shapes = `[${first.shape.join(",")}] != values[1].shape = [${other.shape.join(",")}]`;
    throw invalid(`Shapes of all inputs must match: values[0].shape = ${shapes}`);
  }
  return concatenated(
    call.inputs.map((part) => reshaped(part, part.shape.toSpliced(axis, 0, 1))),
    axis,
  );
}

function spread(scalar: Tensor, shape: readonly number[]): Tensor {
  if (shape.some((size) => size < 0))
    throw invalid(`Dimension of shape [${shape.join(",")}] must be >= 0`);
  return takeValues(scalar, new Int32Array(outputCount(shape)), shape);
}

function broadcastTo(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const shape = integersAt(call, 1);
  const common = broadcastShape(input.shape, shape);
  if (common.join(",") !== shape.join(",")) {
    throw invalid(
      `Unable to broadcast tensor of shape [${input.shape.join(",")}] to tensor of shape [${shape.join(",")}]`,
    );
  }
  return takeValues(input, broadcastPositions(input.shape, shape), shape);
}

function tile(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const multiples = integersAt(call, 1);
  if (multiples.length !== input.shape.length || multiples.some((times) => times < 0)) {
    throw invalid(
      `Expected multiples argument to be a vector of length ${input.shape.length} of values >= 0`,
    );
  }
  const strides = stridesOf(input.shape);
  const walk = {
    shape: input.shape.flatMap((size, axis) => [multiples[axis]!, size]),
    strides: strides.flatMap((stride) => [0, stride]),
  };
  const shape = input.shape.map((size, axis) => size * multiples[axis]!);
  return takeValues(input, walkPositions(walk), shape);
}

function transpose(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const order = integersAt(call, 1).map((axis) => axisOf(axis, input.shape.length, call.op));
  if (order.length !== input.shape.length || new Set(order).size !== order.length) {
    throw invalid(
      `transpose expects a permutation of ${input.shape.length} axes, got [${order.join(",")}]`,
    );
  }
  const strides = stridesOf(input.shape);
  const shape = order.map((axis) => input.shape[axis]!);
  const walk = { shape, strides: order.map((axis) => strides[axis]!) };
  return takeValues(input, walkPositions(walk), shape);
}

function pad(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const paddings = integersAt(call, 1);
  if (paddings.length !== input.shape.length * 2 || paddings.some((count) => count < 0)) {
    throw invalid(`Paddings must be a matrix of ${input.shape.length} non-negative pairs`);
  }
  const shape = input.shape.map(
    (size, axis) => size + paddings[axis * 2]! + paddings[axis * 2 + 1]!,
  );
  const strides = stridesOf(shape);
  const start = input.shape.reduce((sum, _, axis) => sum + paddings[axis * 2]! * strides[axis]!, 0);
  const hasFill = call.inputs.length > 2;
  const source = hasFill ? joined([input, scalarAt(call, 2)]) : input;
  const fill = hasFill ? input.data.length : NOWHERE;
  const positions = new Int32Array(outputCount(shape)).fill(fill);
  const inner = walkPositions({ shape: input.shape, strides, start });
  for (let from = 0; from < inner.length; from += 1) positions[inner[from]!] = from;
  return takeValues(source, positions, shape);
}

function range(call: HostCall): Tensor {
  const { dtype, data } = numericAt(call, 0);
  const start = Number(data[0]);
  const limit = Number(numericAt(call, 1).data[0]);
  const delta = Number(numericAt(call, 2).data[0]);
  if (delta === 0) throw invalid("Requires delta != 0");
  if (delta > 0 ? start > limit : start < limit) {
    const order = delta > 0 ? "start <= limit when delta > 0" : "start >= limit when delta < 0";
    throw invalid(`Requires ${order}: ${start}/${limit}`);
  }
  const shape = [Math.ceil((limit - start) / delta)];
  const out = zeros(dtype, shape);
  for (let at = 0; at < out.length; at += 1) {
    if (isBigInts(out)) out[at] = BigInt(start + at * delta);
    else out[at] = start + at * delta;
  }
  return tensorOf(dtype, shape, out);
}

function oneHot(call: HostCall): Tensor {
  const indices = numericAt(call, 0);
  const depth = integerAt(call, 1);
  if (depth < 0) throw invalid(`depth must be non-negative, got: ${depth}`);
  const { shape: size } = indices;
  const axis = axisOf(numberAttribute(call, "axis", -1), size.length + 1, call.op);
  const shape = size.toSpliced(axis, 0, depth);
  const values = joined([scalarAt(call, 3), scalarAt(call, 2)]);
  const positions = new Int32Array(outputCount(shape));
  const inner = elementCount(size.slice(axis));
  for (let at = 0; at < indices.data.length; at += 1) {
    const hot = Number(indices.data[at]);
    if (hot < 0 || hot >= depth) continue;
    positions[(Math.floor(at / inner) * depth + hot) * inner + (at % inner)] = 1;
  }
  return takeValues(values, positions, shape);
}
