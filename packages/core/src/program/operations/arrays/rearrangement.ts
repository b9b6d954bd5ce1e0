// Values moved along axes: sequences shifted, turned round up to their length, continued by their
// mirror image. Every operation says for each place of its result where the value comes from.

import { stridesOf, takeValues } from "../element-positions.ts";
import { axisOf, inputAt, integersAt, numberAttribute, textAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { outputCount } from "../tensor-memory.ts";

/** Operations that move values along axes, by TensorFlow's name. */
export const rearrangementOperations: HostOperations = {
  MirrorPad: (call) => [mirrorPad(call)],
  ReverseSequence: (call) => [reverseSequence(call)],
  Roll: (call) => [roll(call)],
};

/** Where along an axis the value for a place of the result lies. */
type SourceOf = (place: number) => number;

/** The tensor whose axis is read in the order that `sourceOf` gives. */
function reordered(
  input: Tensor,
  axis: number,
  [size, sourceOf]: readonly [number, SourceOf],
): Tensor {
  const shape = input.shape.with(axis, size);
  const inner = elementCount(input.shape.slice(axis + 1));
  const from = input.shape[axis]! * inner;
  const positions = new Int32Array(outputCount(shape));
  const sources = Int32Array.from({ length: size }, (_, place) => sourceOf(place));
  for (let at = 0; at < positions.length; at += 1) {
    const line = Math.floor(at / inner);
    const source = sources[line % size]!;
    positions[at] = Math.floor(line / size) * from + source * inner + (at % inner);
  }
  return takeValues(input, positions, shape);
}

/** REFLECT leaves out the edge itself, SYMMETRIC repeats it. */
function mirrorPad(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const margins = integersAt(call, 1);
  if (margins.length !== input.shape.length * 2) {
    throw invalid(`paddings must be a matrix with ${input.shape.length} rows of 2`);
  }
  const edge = textAttribute(call, "mode", "REFLECT") === "REFLECT" ? 1 : 0;
  return input.shape.reduce((padded: Tensor, size, axis) => {
    const [before, after] = [margins[2 * axis]!, margins[2 * axis + 1]!];
    if (before < 0 || after < 0) throw invalid(`paddings must be non-negative: ${before} ${after}`);
    if (Math.max(before, after) + edge > size) throw tooWide(edge, [before, after], size);
    const mirrored = (place: number): number => {
      const at = place - before;
      if (at < 0) return edge - 1 - at;
      return at < size ? at : 2 * size - 1 - edge - at;
    };
    return reordered(padded, axis, [before + size + after, mirrored]);
  }, input);
}

function tooWide(edge: number, [before, after]: readonly number[], size: number): Error {
  const bound = edge === 1 ? "less than" : "no greater than";
  return invalid(`paddings must be ${bound} the dimension size: ${before}, ${after} with ${size}`);
}

/** The first `lengths[row]` values of each row backwards, the others as they are. */
function reverseSequence(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const lengths = integersAt(call, 1);
  const { shape } = input;
  const axis = axisOf(numberAttribute(call, "seq_dim", 0), shape.length, call.op);
  const batchAxis = axisOf(numberAttribute(call, "batch_dim", 0), shape.length, call.op);
  if (axis === batchAxis) throw invalid(`batch_dim == seq_dim == ${axis}`);
  const [size, rows] = [shape[axis]!, shape[batchAxis]!];
  if (lengths.length !== rows) {
    throw invalid(`Length of seq_lens != input.dims(${batchAxis}): ${lengths.length} vs. ${rows}`);
  }
  const wrong = lengths.findIndex((length) => length < 0 || length > size);
  if (wrong >= 0) {
    throw invalid(`seq_lens(${wrong}) = ${lengths[wrong]} is not in [0, ${size}]`);
  }
  const strides = stridesOf(shape);
  const positions = new Int32Array(input.data.length);
  for (let at = 0; at < positions.length; at += 1) {
    const place = Math.floor(at / strides[axis]!) % size;
    const length = lengths[Math.floor(at / strides[batchAxis]!) % rows]!;
    const source = place < length ? length - 1 - place : place;
    positions[at] = at + (source - place) * strides[axis]!;
  }
  return takeValues(input, positions, shape);
}

/** Values that leave an axis at its end come in again at its beginning. */
function roll(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const shifts = integersAt(call, 1);
  const axes = integersAt(call, 2);
  if (shifts.length !== axes.length) throw invalid("shift and axis must have the same size");
  if (input.shape.length === 0) throw invalid("input must be 1-D or higher");
  return axes.reduce((rolled: Tensor, wanted, index) => {
    const axis = axisOf(wanted, input.shape.length, call.op);
    const size = input.shape[axis]!;
    const shift = size === 0 ? 0 : ((shifts[index]! % size) + size) % size;
    return reordered(rolled, axis, [size, (place) => (place + size - shift) % size]);
  }, input);
}
