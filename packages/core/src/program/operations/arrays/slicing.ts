// Parts of a tensor: StridedSlice with all its masks, Slice, Split and Unpack.

import { reshaped, stridesOf, takeValues, walkPositions } from "../element-positions.ts";
import { axisOf, inputAt, integerAt, integersAt, numberAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";

/** Parts of tensors, by TensorFlow's name. */
export const slicingOperations: HostOperations = {
  StridedSlice: (call) => [stridedSlice(call)],
  Slice: (call) => [slice(call)],
  Split: (call) => split(call),
  SplitV: (call) => splitSizes(call),
  Unpack: (call) => unpack(call),
  Reverse: reverseByFlags,
  ReverseV2: (call) => [reverse(call)],
};

function reverseByFlags(call: HostCall): Tensor[] {
  const [input, flags] = [inputAt(call, 0), integersAt(call, 1)];
  if (flags.length !== input.shape.length) {
    throw invalid(
      `'dims' has ${flags.length} values, 'input' has ${input.shape.length} dimensions`,
    );
  }
  const axes = flags.flatMap((isReversed, axis) => (isReversed === 0 ? [] : [axis]));
  return [reversed(input, axes)];
}

interface SliceAxis {
  readonly begin: number;
  readonly size: number;
  readonly step: number;
  /** The output keeps this axis. */
  readonly isKept: boolean;
}

interface SliceSpec {
  readonly begin: readonly number[];
  readonly end: readonly number[];
  readonly step: readonly number[];
  readonly beginMask: number;
  readonly endMask: number;
  readonly ellipsisMask: number;
  readonly newAxisMask: number;
  readonly shrinkMask: number;
}

const hasBit = (mask: number, bit: number): boolean => ((mask >>> bit) & 1) === 1;

function stridedSlice(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const spec: SliceSpec = {
    begin: integersAt(call, 1),
    end: integersAt(call, 2),
    step: integersAt(call, 3),
    beginMask: numberAttribute(call, "begin_mask", 0),
    endMask: numberAttribute(call, "end_mask", 0),
    ellipsisMask: numberAttribute(call, "ellipsis_mask", 0),
    newAxisMask: numberAttribute(call, "new_axis_mask", 0),
    shrinkMask: numberAttribute(call, "shrink_axis_mask", 0),
  };
  const { axes, shape } = slicePlan(input.shape, spec);
  const strides = stridesOf(input.shape);
  const walk = {
    shape: axes.map(({ size }) => size),
    strides: axes.map(({ step }, axis) => step * strides[axis]!),
    start: axes.reduce((start, { begin }, axis) => start + begin * strides[axis]!, 0),
  };
  return takeValues(input, walkPositions(walk), shape);
}

/** The slice of each input axis, and the output's shape, with new and without shrunk axes. */
function slicePlan(
  sizes: readonly number[],
  spec: SliceSpec,
): { readonly axes: readonly SliceAxis[]; readonly shape: readonly number[] } {
  const count = spec.begin.length;
  const named = spec.begin.filter(
    (_, at) => !hasBit(spec.newAxisMask, at) && !hasBit(spec.ellipsisMask, at),
  ).length;
  if (named > sizes.length) {
    throw invalid(
      `Index out of range using input dim ${sizes.length}; input has only ${sizes.length} dims`,
    );
  }
  const axes: SliceAxis[] = [];
  const shape: number[] = [];
  const keepWhole = (until: number): void => {
    while (axes.length < until) {
      const size = sizes[axes.length]!;
      axes.push({ begin: 0, size, step: 1, isKept: true });
      shape.push(size);
    }
  };
  for (let at = 0; at < count; at += 1) {
    if (hasBit(spec.ellipsisMask, at)) {
      const after = spec.begin
        .slice(at + 1)
        .filter((_, next) => !hasBit(spec.newAxisMask, at + 1 + next));
      keepWhole(sizes.length - after.length);
    } else if (hasBit(spec.newAxisMask, at)) {
      shape.push(1);
    } else {
      const axis = sliceAxis(spec, at, { size: sizes[axes.length]!, axis: axes.length });
      axes.push(axis);
      if (axis.isKept) shape.push(axis.size);
    }
  }
  keepWhole(sizes.length);
  return { axes, shape };
}

function sliceAxis(
  spec: SliceSpec,
  at: number,
  { size, axis }: { readonly size: number; readonly axis: number },
): SliceAxis {
  const step = spec.step[at] ?? 1;
  if (step === 0) throw invalid(`strides[${at}] must be non-zero`);
  const begin = spec.begin[at]!;
  if (hasBit(spec.shrinkMask, at)) {
    const place = begin < 0 ? begin + size : begin;
    if (place < 0 || place >= size) {
      throw invalid(`slice index ${begin} of dimension ${axis} out of bounds.`);
    }
    return { begin: place, size: 1, step: 1, isKept: false };
  }
  const { from, to } = sliceEnds(spec, at, { size, step });
  return { begin: from, size: Math.max(0, Math.ceil((to - from) / step)), step, isKept: true };
}

/** First position and the position after the last, clamped to the axis. */
function sliceEnds(
  { begin, end, beginMask, endMask }: SliceSpec,
  at: number,
  { size, step }: { readonly size: number; readonly step: number },
): { readonly from: number; readonly to: number } {
  const [least, most] = step > 0 ? [0, size] : [-1, size - 1];
  const [first, last] = step > 0 ? [least, most] : [most, least];
  const clamp = (value: number): number =>
    Math.min(most, Math.max(least, value < 0 ? value + size : value));
  return {
    from: hasBit(beginMask, at) ? first : clamp(begin[at]!),
    to: hasBit(endMask, at) ? last : clamp(end[at] ?? 0),
  };
}

function slice(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const begin = integersAt(call, 1);
  const wanted = integersAt(call, 2);
  if (begin.length !== input.shape.length || wanted.length !== begin.length) {
    throw invalid(
      `Expected begin and size arguments to be 1-D tensors of size ${input.shape.length}`,
    );
  }
  const shape = input.shape.map((size, axis) => {
    const from = begin[axis]!;
    const count = wanted[axis] === -1 ? size - from : wanted[axis]!;
    if (from < 0 || from > size)
      throw invalid(`Expected begin[${axis}] in [0, ${size}], but got ${from}`);
    if (count < 0 || from + count > size) {
      throw invalid(`Expected size[${axis}] in [0, ${size - from}], but got ${count}`);
    }
    return count;
  });
  return part(input, begin, shape);
}

function part(input: Tensor, begin: readonly number[], shape: readonly number[]): Tensor {
  const strides = stridesOf(input.shape);
  const start = begin.reduce((sum, from, axis) => sum + from * strides[axis]!, 0);
  return takeValues(input, walkPositions({ shape, strides, start }), shape);
}

function split(call: HostCall): Tensor[] {
  const input = inputAt(call, 1);
  const axis = axisOf(integerAt(call, 0), input.shape.length, call.op);
  const count = numberAttribute(call, "num_split", call.outputs);
  const size = input.shape[axis]!;
  if (count < 1 || size % count !== 0) {
    throw invalid(
      `Number of ways to split should evenly divide the split dimension, but got split_dim ${axis} (size = ${size}) and num_split ${count}`,
    );
  }
  return cut(input, axis, Array<number>(count).fill(size / count));
}

function splitSizes(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  const axis = axisOf(integerAt(call, 2), input.shape.length, call.op);
  const sizes = integersAt(call, 1);
  const known = sizes.filter((size) => size !== -1).reduce((sum, size) => sum + size, 0);
  const filled = sizes.map((size) => (size === -1 ? input.shape[axis]! - known : size));
  const total = filled.reduce((sum, size) => sum + size, 0);
  if (filled.some((size) => size < 0) || total !== input.shape[axis]) {
    throw invalid(`Determined shape must match input dimension ${input.shape[axis]}, got ${total}`);
  }
  return cut(input, axis, filled);
}

function cut(input: Tensor, axis: number, sizes: readonly number[]): Tensor[] {
  let from = 0;
  return sizes.map((size) => {
    const begin = input.shape.map((_, at) => (at === axis ? from : 0));
    from += size;
    return part(input, begin, input.shape.with(axis, size));
  });
}

function unpack(call: HostCall): Tensor[] {
  const input = inputAt(call, 0);
  const axis = axisOf(numberAttribute(call, "axis", 0), input.shape.length, call.op);
  const count = input.shape[axis]!;
  if (count !== numberAttribute(call, "num", count)) {
    throw invalid(
      `Input shape axis ${axis} must equal ${numberAttribute(call, "num", count)}, got ${count}`,
    );
  }
  const shape = input.shape.toSpliced(axis, 1);
  return cut(input, axis, Array<number>(count).fill(1)).map((piece) => reshaped(piece, shape));
}

function reverse(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const axes = integersAt(call, 1).map((axis) => axisOf(axis, input.shape.length, call.op));
  return reversed(input, axes);
}

function reversed(input: Tensor, axes: readonly number[]): Tensor {
  const twice = axes.find((axis, at) => axes.indexOf(axis) !== at);
  if (twice !== undefined) throw invalid(`axis ${twice} specified more than once.`);
  const strides = stridesOf(input.shape);
  const start = axes.reduce((sum, axis) => sum + (input.shape[axis]! - 1) * strides[axis]!, 0);
  for (const axis of axes) strides[axis] = -strides[axis]!;
  const walk = { shape: input.shape, strides, start: Math.max(0, start) };
  return takeValues(input, walkPositions(walk), input.shape);
}
