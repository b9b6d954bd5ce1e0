// Places of values in sorted rows (searchsorted): buckets whose borders the graph computes or holds.

import { numbersOf } from "../element-positions.ts";
import { dtypeAttribute, numericAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

type Numeric = number | bigint;

/** Searches of sorted rows, by TensorFlow's name. */
export const searchingOperations: HostOperations = {
  /** How many values of its row are less than each value. */
  LowerBound: (call) => [bound(call, (sorted, value) => sorted < value)],
  /** How many values of its row are not greater than each value. */
  UpperBound: (call) => [bound(call, (sorted, value) => !(value < sorted))],
};

function bound(call: HostCall, isBefore: (sorted: Numeric, value: Numeric) => boolean): Tensor {
  const [rows, wanted] = [numericAt(call, 0), numericAt(call, 1)];
  const [count, size] = rows.shape;
  const [others, columns] = wanted.shape;
  if (size === undefined || columns === undefined || rows.shape.length > 2 || count !== others) {
    const shapes = `[${rows.shape.join(",")}] and [${wanted.shape.join(",")}]`;
    throw invalid(`Leading dim_size of both tensors must match: ${shapes}`);
  }
  const dtype = dtypeAttribute(call, "out_type", "int32") === "int64" ? "int64" : "int32";
  const places = zeros(dtype, wanted.shape) as { [at: number]: Numeric };
  const [sorted, values] = [numbersOf(rows), numbersOf(wanted)];
  for (let at = 0; at < values.length; at += 1) {
    const first = Math.floor(at / columns) * size;
    let [from, to] = [0, size];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (isBefore(sorted[first + middle]!, values[at]!)) from = middle + 1;
      else to = middle;
    }
    places[at] = dtype === "int64" ? BigInt(from) : from;
  }
  return tensorOf(dtype, wanted.shape, places as unknown as Int32Array);
}
