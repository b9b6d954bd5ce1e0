// Histograms, by which CategoryEncoding and TextVectorization count tokens (multi_hot, count,
// tf_idf).

import { isBigInts } from "../../../tensor/dtype.ts";
import {
  axisOf,
  booleanAttribute,
  inputAt,
  integerAt,
  integersAt,
  numbersOf,
  numericAt,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

/** Histograms, by TensorFlow's name. */
export const countingOperations: HostOperations = {
  DenseBincount: (call) => [denseBincount(call)],
  Bincount: (call) => [denseBincount(call)],
  RaggedBincount: (call) => [raggedBincount(call)],
  SparseBincount: (call) => [sparseBincount(call)],
};

interface Histogram {
  /** Row of each value. */
  readonly rowOf: (at: number) => number;
  readonly values: readonly number[];
  readonly size: number;
  readonly weights: Tensor;
  readonly shape: readonly number[];
}

function denseBincount(call: HostCall): Tensor {
  const { shape: inputShape } = numericAt(call, 0);
  if (inputShape.length > 2) throw invalid("Shape must be at most rank 2");
  const size = sizeOf(call, 1);
  const width = inputShape.at(-1) ?? 1;
  return counted(call, {
    rowOf: inputShape.length === 2 ? (at) => Math.floor(at / width) : () => 0,
    values: countedAt(call, 0),
    size,
    weights: inputAt(call, 2),
    shape: inputShape.length === 2 ? [inputShape[0]!, size] : [size],
  });
}

function raggedBincount(call: HostCall): Tensor {
  const splits = integersAt(call, 0);
  const size = sizeOf(call, 2);
  const values = countedAt(call, 1);
  if (splits[0] !== 0) throw invalid(`Splits must start with 0, not with ${splits[0]}`);
  if (splits.at(-1) !== values.length) {
    throw invalid(
      `Splits must end with the number of values, got ${splits.at(-1)} instead of ${values.length}`,
    );
  }
  return counted(call, {
    rowOf: rowsOfSplits(splits),
    values,
    size,
    weights: inputAt(call, 3),
    shape: [splits.length - 1, size],
  });
}

/** Row of each value of a ragged tensor. */
function rowsOfSplits(splits: readonly number[]): (at: number) => number {
  let row = 0;
  return (at) => {
    while (splits[row + 1]! <= at) row += 1;
    return row;
  };
}

function sparseBincount(call: HostCall): Tensor {
  const places = integersAt(call, 0);
  const dense = integersAt(call, 2);
  const size = sizeOf(call, 3);
  const isMatrix = dense.length === 2;
  axisOf(0, dense.length, call.op);
  const rows = isMatrix ? places.filter((_, at) => at % 2 === 0) : [];
  if (rows.some((row) => row < 0 || row >= dense[0]!)) throw invalid("Sparse index out of bounds");
  return counted(call, {
    rowOf: isMatrix ? (at) => rows[at]! : () => 0,
    values: countedAt(call, 1),
    size,
    weights: inputAt(call, 4),
    shape: isMatrix ? [dense[0]!, size] : [size],
  });
}

/** Integers that are counted: those beyond 2⁵³ are beyond every histogram, such as the mask of a multi-hot lookup. */
function countedAt(call: HostCall, position: number): number[] {
  return numbersOf(numericAt(call, position).data);
}

function sizeOf(call: HostCall, position: number): number {
  const size = integerAt(call, position);
  if (size < 0) throw invalid(`size (${size}) must be non-negative`);
  return size;
}

/** Counts values; those beyond the histogram are ignored, negative ones are refused. */
function counted(call: HostCall, { rowOf, values, size, weights, shape }: Histogram): Tensor {
  if (weights.dtype === "string") throw invalid(`${call.op} needs numeric weights`);
  const isBinary = booleanAttribute(call, "binary_output", false);
  const isWeighted = weights.data.length > 0;
  if (isWeighted && weights.data.length !== values.length) {
    throw invalid("weights must be empty or have the shape of the values");
  }
  const out = zeros(weights.dtype, shape);
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at]!;
    if (value < 0) throw invalid("Input arr must be non-negative!");
    if (value >= size) continue;
    const bin = rowOf(at) * size + value;
    if (isBigInts(out))
      out[bin] = isBinary ? 1n : out[bin]! + (isWeighted ? (weights.data[at] as bigint) : 1n);
    else out[bin] = isBinary ? 1 : out[bin]! + (isWeighted ? (weights.data[at] as number) : 1);
  }
  return tensorOf(weights.dtype, shape, out);
}
