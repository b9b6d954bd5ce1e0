// Rows picked by index. TensorFlow on the CPU refuses an index outside of the tensor; the messages
// here are the same.

import { stridesOf, takeValues } from "../element-positions.ts";
import {
  axisOf,
  inputAt,
  integerAt,
  integersAt,
  numberAttribute,
  numericAt,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { outputCount } from "../tensor-memory.ts";

/** Rows picked by index, by TensorFlow's name. */
export const gatheringOperations: HostOperations = {
  Gather: (call) => [gather(call, 0)],
  GatherV2: (call) => [gather(call, integerAt(call, 2))],
  GatherNd: (call) => [gatherNd(call)],
};

/** The name of position `at` of a tensor in TensorFlow's messages: `indices[1,2]`. */
function placeName(at: number, shape: readonly number[]): string {
  const place = stridesOf(shape).map((stride, axis) => Math.floor(at / stride) % shape[axis]!);
  return `indices${place.length === 0 ? "" : `[${place.join(",")}]`}`;
}

function gather(call: HostCall, wantedAxis: number): Tensor {
  const table = inputAt(call, 0);
  const indices = numericAt(call, 1);
  const axis = axisOf(wantedAxis, table.shape.length, call.op);
  const batch = numberAttribute(call, "batch_dims", 0);
  const batches = batch < 0 ? batch + indices.shape.length : batch;
  if (
    batches > axis ||
    table.shape.slice(0, batches).join() !== indices.shape.slice(0, batches).join()
  ) {
    throw invalid(
      `${call.op}: batch_dims ${batches} does not fit [${table.shape.join(",")}] and [${indices.shape.join(",")}]`,
    );
  }
  const rows = table.shape[axis]!;
  const picks = integersAt(call, 1);
  const wrong = picks.findIndex((row) => row < 0 || row >= rows);
  if (wrong >= 0) {
    throw invalid(`${placeName(wrong, indices.shape)} = ${picks[wrong]} is not in [0, ${rows})`);
  }
  const shape = [
    ...table.shape.slice(0, axis),
    ...indices.shape.slice(batches),
    ...table.shape.slice(axis + 1),
  ];
  return takeValues(table, gatherPositions(table.shape, picks, { axis, batches, shape }), shape);
}

interface GatherPlan {
  readonly axis: number;
  readonly batches: number;
  readonly shape: readonly number[];
}

function gatherPositions(
  table: readonly number[],
  picks: readonly number[],
  { axis, batches, shape }: GatherPlan,
): Int32Array {
  const positions = new Int32Array(outputCount(shape));
  const rows = table[axis]!;
  const inner = elementCount(table.slice(axis + 1));
  const outer = elementCount(table.slice(0, axis));
  const outerPerBatch = elementCount(table.slice(batches, axis));
  const picksPerBatch = picks.length / elementCount(table.slice(0, batches));
  let to = 0;
  for (let row = 0; row < outer; row += 1) {
    const firstPick = Math.floor(row / outerPerBatch) * picksPerBatch;
    for (let pick = 0; pick < picksPerBatch; pick += 1) {
      const from = (row * rows + picks[firstPick + pick]!) * inner;
      for (let offset = 0; offset < inner; offset += 1) positions[to + offset] = from + offset;
      to += inner;
    }
  }
  return positions;
}

function gatherNd(call: HostCall): Tensor {
  const table = inputAt(call, 0);
  const indices = numericAt(call, 1);
  const depth = indices.shape.at(-1);
  if (depth === undefined || depth > table.shape.length) {
    throw invalid(
      `index innermost dimension length must be <= params rank; saw: ${depth} vs. ${table.shape.length}`,
    );
  }
  const picks = integersAt(call, 1);
  const strides = stridesOf(table.shape);
  const inner = elementCount(table.shape.slice(depth));
  const places = elementCount(indices.shape.slice(0, -1));
  const shape = [...indices.shape.slice(0, -1), ...table.shape.slice(depth)];
  const positions = new Int32Array(outputCount(shape));
  for (let place = 0; place < places; place += 1) {
    const pick = picks.slice(place * depth, (place + 1) * depth);
    if (pick.some((row, axis) => row < 0 || row >= table.shape[axis]!)) {
      const name = placeName(place, indices.shape.slice(0, -1));
      throw invalid(
        `${name} = [${pick.join(", ")}] does not index into param shape [${table.shape.join(",")}], node name: ${call.node}`,
      );
    }
    const from = pick.reduce((sum, row, axis) => sum + row * strides[axis]!, 0);
    for (let offset = 0; offset < inner; offset += 1)
      positions[place * inner + offset] = from + offset;
  }
  return takeValues(table, positions, shape);
}
