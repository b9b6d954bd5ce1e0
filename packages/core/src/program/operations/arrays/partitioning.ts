// Rows told apart by a number each, and put together again: how TensorFlow looks keys up in an embedding table that
// it keeps in several variables. Sources: dynamic_partition_op.cc, dynamic_stitch_op.cc.

import { numbersOf, takeValues } from "../element-positions.ts";
import { inputAt, integersAt, numberAttribute, numericAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

/** Operations that tell rows apart or put them together, by TensorFlow's name. */
export const partitioningOperations: HostOperations = {
  DynamicPartition: partitioned,
  DynamicStitch: (call) => [stitched(call)],
  ParallelDynamicStitch: (call) => [stitched(call)],
};

function partitioned(call: HostCall): readonly Tensor[] {
  const data = inputAt(call, 0);
  const { shape } = inputAt(call, 1);
  const rowShape = rowShapeOf(data, shape, "data", "partitions");
  const count = numberAttribute(call, "num_partitions", 1);
  const numbers = integersAt(call, 1);
  const wrong = numbers.findIndex((number) => number < 0 || number >= count);
  if (wrong >= 0) {
    throw invalid(`partitions[${wrong}] = ${numbers[wrong]} is not in [0, ${count})`);
  }
  const width = elementCount(rowShape);
  return Array.from({ length: count }, (_, part) => {
    const rows = numbers.flatMap((number, row) => (number === part ? [row] : []));
    const positions = new Int32Array(rows.length * width);
    for (const [at, row] of rows.entries()) {
      for (let offset = 0; offset < width; offset += 1) {
        positions[at * width + offset] = row * width + offset;
      }
    }
    return takeValues(data, positions, [rows.length, ...rowShape]);
  });
}

/** What a shape has behind the dimensions of another one, which it must begin with. */
function rowShapeOf(
  { shape }: Tensor,
  outer: readonly number[],
  ...[name, outerName]: readonly [string, string]
): readonly number[] {
  if (shape.slice(0, outer.length).join() === outer.join()) return shape.slice(outer.length);
  const shapes = [shape, outer].map((sizes) => `[${sizes.join(",")}]`);
  throw invalid(
    `${name}.shape must start with ${outerName}.shape, got ${name}.shape = ${shapes[0]}, ${outerName}.shape = ${shapes[1]}`,
  );
}

/** Rows at the places that indices give them, of all inputs; of rows for one place, the last one stays. */
function stitched(call: HostCall): Tensor {
  const count = Math.max(1, Math.ceil(call.inputs.length / 2));
  const parts = Array.from({ length: count }, (_, part) => {
    const data = numericAt(call, count + part);
    const { shape } = inputAt(call, part);
    const rowShape = rowShapeOf(data, shape, `data[${part}]`, `indices[${part}]`);
    return { data, rowShape, places: integersAt(call, part) };
  });
  const first = parts[0]!;
  let rows = 0;
  for (const [part, { data, rowShape, places }] of parts.entries()) {
    if (rowShape.join() !== first.rowShape.join() || data.dtype !== first.data.dtype) {
      throw invalid(`Need data[0] and data[${part}] to have rows of one shape and type`);
    }
    for (const place of places) {
      if (place < 0) throw invalid(`indices[${part}] is out of range: ${place}`);
      rows = Math.max(rows, place + 1);
    }
  }
  const shape = [rows, ...first.rowShape];
  const whole = tensorOf(first.data.dtype, shape, zeros(first.data.dtype, shape));
  const width = elementCount(first.rowShape);
  const target = numbersOf(whole) as { [at: number]: number | bigint };
  for (const { data, places } of parts) {
    const source = numbersOf(data);
    for (const [row, place] of places.entries()) {
      for (let offset = 0; offset < width; offset += 1) {
        target[place * width + offset] = source[row * width + offset]!;
      }
    }
  }
  return whole;
}
