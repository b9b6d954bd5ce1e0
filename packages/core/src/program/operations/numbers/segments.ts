// Rows reduced by segment: the mean of a ragged list of embeddings, embedding_lookup_sparse. Rows are
// added in their order, and float32 is rounded at each step. Source: segment_reduction_ops_impl.h.

import { isBigInts } from "../../../tensor/dtype.ts";
import type { NumericDtype } from "../../../tensor/dtype.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { finiteLimitsOf, isWide } from "./dtype-limits.ts";
import { numbersOf } from "../element-positions.ts";
import { integerAt, integersAt, numericAt, wrongDtype } from "../host-call.ts";
import type { HostCall, HostOperation, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

interface SegmentReducer {
  /** Of a segment without rows. */
  readonly start: (dtype: NumericDtype) => number | bigint;
  readonly reduceNumbers: (total: number, value: number) => number;
  /** For int8 to uint32 where it differs; the target array keeps the low bits. */
  readonly reduceIntegers?: (total: number, value: number) => number;
  readonly reduceBigInts: (total: bigint, value: bigint) => bigint;
}

const sum: SegmentReducer = {
  start: (dtype) => (isWide(dtype) ? 0n : 0),
  reduceNumbers: (total, value) => total + value,
  reduceBigInts: (total, value) => total + value,
};

const product: SegmentReducer = {
  start: (dtype) => (isWide(dtype) ? 1n : 1),
  reduceNumbers: (total, value) => total * value,
  reduceIntegers: Math.imul,
  reduceBigInts: (total, value) => total * value,
};

/** Eigen's `cwiseMax(value, total)`: a NaN stands until the next row. */
const largest: SegmentReducer = {
  start: (dtype) => finiteLimitsOf(dtype)[0],
  reduceNumbers: (total, value) => (value < total ? total : value),
  reduceBigInts: (total, value) => (value < total ? total : value),
};

const smallest: SegmentReducer = {
  start: (dtype) => finiteLimitsOf(dtype)[1],
  reduceNumbers: (total, value) => (total < value ? total : value),
  reduceBigInts: (total, value) => (total < value ? total : value),
};

/** Reductions by segment, by TensorFlow's name. */
export const segmentOperations: HostOperations = {
  UnsortedSegmentSum: unsorted(sum),
  UnsortedSegmentProd: unsorted(product),
  UnsortedSegmentMax: unsorted(largest),
  UnsortedSegmentMin: unsorted(smallest),
  SegmentSum: sorted(sum),
  SegmentProd: sorted(product),
  SegmentMax: sorted(largest, zeroOfNothing),
  SegmentMin: sorted(smallest, zeroOfNothing),
  SegmentMean: sorted(sum, divided),
  SparseSegmentSum: sparse(() => 1),
  SparseSegmentMean: sparse((count) => count),
  SparseSegmentSqrtN: sparse(Math.sqrt),
};

/** Rows, and the segments to which they are added. */
interface Additions {
  readonly data: Tensor;
  /** Of each row; a row of a negative segment is skipped. */
  readonly segments: readonly number[];
  /** Values per row. */
  readonly width: number;
}

function unsorted(reducer: SegmentReducer): HostOperation {
  return (call) => {
    const data = numericAt(call, 0);
    if (data.dtype === "bool") throw wrongDtype(call, data);
    const segments = integersAt(call, 1);
    const ids = numericAt(call, 1).shape;
    if (data.shape.slice(0, ids.length).join() !== ids.join()) {
      throw invalid(
        `data.shape = [${data.shape.join(",")}] does not start with segment_ids.shape = [${ids.join(",")}]`,
      );
    }
    const count = integerAt(call, 2);
    if (count < 0) throw invalid(`Input num_segments == ${count} must not be negative.`);
    const wrong = segments.findIndex((segment) => segment >= count);
    if (wrong >= 0)
      throw invalid(`segment_ids[${wrong}] = ${segments[wrong]} is out of range [0, ${count})`);
    const shape = [count, ...data.shape.slice(ids.length)];
    const width = elementCount(shape.slice(1));
    return [reduced({ data, segments, width }, shape, reducer)];
  };
}

/** What is made of the totals of segments, of which each has so many rows. */
type Finish = (totals: Tensor, counts: readonly number[]) => void;

/** Rows of `data` by segment, which ascend from 0. */
function sorted(reducer: SegmentReducer, finish?: Finish): HostOperation {
  return (call) => {
    const additions = sortedAdditions(call);
    const { data, segments, width } = additions;
    const count = (segments.at(-1) ?? -1) + 1;
    const totals = reduced(additions, [count, ...data.shape.slice(1)], reducer);
    if (finish === undefined || width === 0) return [totals];
    const counts = Array.from({ length: count }, () => 0);
    for (const segment of segments) counts[segment]! += 1;
    finish(totals, counts);
    return [totals];
  };
}

function sortedAdditions(call: HostCall): Additions {
  const data = numericAt(call, 0);
  if (data.dtype === "bool") throw wrongDtype(call, data);
  const segments = integersAt(call, 1);
  if (numericAt(call, 1).shape.length !== 1) throw invalid("segment_ids should be a vector.");
  if (data.shape.length === 0 || data.shape[0] !== segments.length) {
    const sizes = `Got ${segments.length} segment ids and data of shape [${data.shape.join(",")}]`;
    throw invalid(`segment_ids should be the same size as dimension 0 of input. ${sizes}`);
  }
  if (segments.some((segment, at) => segment < (segments[at - 1] ?? 0))) {
    throw invalid("segment ids are not increasing");
  }
  return { data, segments, width: elementCount(data.shape.slice(1)) };
}

/** The largest or smallest of no rows is 0. */
function zeroOfNothing({ data, shape }: Tensor, counts: readonly number[]): void {
  const width = elementCount(shape.slice(1));
  for (const [segment, rows] of counts.entries()) {
    if (rows > 0) continue;
    for (let at = segment * width; at < (segment + 1) * width; at += 1) {
      if (isBigInts(data)) data[at] = 0n;
      else (data as Float32Array)[at] = 0;
    }
  }
}

/** Sums divided by the number of rows: of integers without the rest. */
function divided({ data, shape }: Tensor, counts: readonly number[]): void {
  const width = elementCount(shape.slice(1));
  for (const [segment, rows] of counts.entries()) {
    if (rows === 0) continue;
    for (let at = segment * width; at < (segment + 1) * width; at += 1) {
      if (isBigInts(data)) data[at] = data[at]! / BigInt(rows);
      else (data as Float32Array)[at]! /= rows;
    }
  }
}

/** Rows of `data` by index, summed by ascending segment and divided by `divisorOf` their count. */
function sparse(divisorOf: (count: number) => number): HostOperation {
  return (call) => {
    const data = floatsAt(call);
    const rows = integersAt(call, 1);
    const segments = integersAt(call, 2);
    const known = data.shape[0] ?? 0;
    if (rows.length !== segments.length)
      throw invalid("segment_ids and indices should have same size.");
    if (segments.some((segment, at) => segment < (segments[at - 1] ?? 0))) {
      throw invalid("segment ids are not increasing");
    }
    const wrong = rows.findIndex((row) => row < 0 || row >= known);
    if (wrong >= 0)
      throw invalid(
        `Segment id ${segments[wrong]}: index ${rows[wrong]} out of range [0, ${known})`,
      );
    const shape = [(segments.at(-1) ?? -1) + 1, ...data.shape.slice(1)];
    const out = data.dtype === "float32" ? zeros("float32", shape) : zeros("float64", shape);
    for (let from = 0; from < segments.length;) {
      const segment = segments[from]!;
      let to = from + 1;
      while (segments[to] === segment) to += 1;
      averageRows({ data, rows: rows.slice(from, to), out, segment }, divisorOf(to - from));
      from = to;
    }
    return [tensorOf(data.dtype, shape, out)];
  };
}

interface SegmentRows {
  readonly data: Tensor;
  readonly rows: readonly number[];
  readonly out: Float32Array | Float64Array;
  readonly segment: number;
}

/** Rows that TensorFlow adds up before it adds them to the total, and those of the first time. */
const ROWS_AT_ONCE = 8;

/** Adds rows as TensorFlow's kernel does, eight at a time, each sum rounded to the dtype. */
function averageRows({ data, rows, out, segment }: SegmentRows, divisor: number): void {
  const values = data.data as Float32Array;
  const width = elementCount(data.shape.slice(1));
  const round = data.dtype === "float32" ? Math.fround : Number;
  const rest = rows.length % ROWS_AT_ONCE;
  const first = Math.min(rows.length, rest < 2 ? ROWS_AT_ONCE + rest : rest);
  for (let offset = 0; offset < width; offset += 1) {
    let total = 0;
    for (let from = 0, to = first; from < rows.length; from = to, to += ROWS_AT_ONCE) {
      let part = values[rows[from]! * width + offset]!;
      for (let at = from + 1; at < to; at += 1) {
        part = round(part + values[rows[at]! * width + offset]!);
      }
      total = from === 0 ? part : round(total + part);
    }
    out[segment * width + offset] = total / round(divisor);
  }
}

function floatsAt(call: HostCall): Tensor {
  const data = numericAt(call, 0);
  if (data.dtype !== "float32" && data.dtype !== "float64") throw wrongDtype(call, data);
  return data;
}

function reduced(
  { data, segments, width }: Additions,
  shape: readonly number[],
  { start, reduceNumbers, reduceIntegers = reduceNumbers, reduceBigInts }: SegmentReducer,
): Tensor {
  const dtype = data.dtype as NumericDtype;
  const totals = zeros(dtype, shape);
  const reduce = dtype.startsWith("float") ? reduceNumbers : reduceIntegers;
  const values = numbersOf(data);
  if (isBigInts(totals)) totals.fill(start(dtype) as bigint);
  else totals.fill(start(dtype) as number);
  for (const [row, segment] of segments.entries()) {
    if (segment < 0) continue;
    const from = row * width;
    const to = segment * width;
    for (let offset = 0; offset < width; offset += 1) {
      const value = values[from + offset]!;
      if (isBigInts(totals)) {
        totals[to + offset] = reduceBigInts(totals[to + offset]!, value as bigint);
      } else totals[to + offset] = reduce(totals[to + offset]!, value as number);
    }
  }
  return tensorOf(dtype, shape, totals);
}
