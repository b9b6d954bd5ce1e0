// Axes reduced to one value, running sums and arg-max. Float sums run in float64 and round once.
// They may differ in the last bit from TensorFlow's, whose order of summation depends on the
// machine. Running sums have an order, and round at each step.

import { isBigInts } from "../../../tensor/dtype.ts";
import type { NumericDtype } from "../../../tensor/dtype.ts";
import { finiteLimitsOf, isWide, limitsOf } from "./dtype-limits.ts";
import { numbersOf, reshaped, stridesOf, takeValues, walkPositions } from "../element-positions.ts";
import {
  axisOf,
  booleanAttribute,
  dtypeAttribute,
  inputAt,
  integerAt,
  integersAt,
  numericAt,
  wrongDtype,
} from "../host-call.ts";
import type { HostCall, HostOperation, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

interface Reducer {
  /** The initial total, which is also the result for no values. */
  readonly empty: (dtype: NumericDtype) => number | bigint;
  readonly reduceNumbers: (total: number, value: number) => number;
  /** For int8 to uint32 where it differs; the target array keeps the low bits. */
  readonly reduceIntegers?: (total: number, value: number) => number;
  readonly reduceBigInts: (total: bigint, value: bigint) => bigint;
  readonly finish?: (total: number | bigint, count: number, dtype: NumericDtype) => number | bigint;
}

const sum: Reducer = {
  empty: (dtype) => zeroOf(dtype),
  reduceNumbers: (total, value) => total + value,
  reduceBigInts: (total, value) => total + value,
};

const REDUCERS: Readonly<Record<string, Reducer>> = {
  Sum: sum,
  Prod: {
    empty: (dtype) => (isWide(dtype) ? 1n : 1),
    reduceNumbers: (total, value) => total * value,
    reduceIntegers: Math.imul,
    reduceBigInts: (total, value) => total * value,
  },
  Max: {
    empty: (dtype) => limitsOf(dtype)[0],
    reduceNumbers: (total, value) => (value > total || Number.isNaN(value) ? value : total),
    reduceBigInts: (total, value) => (value > total ? value : total),
  },
  Min: {
    empty: (dtype) => limitsOf(dtype)[1],
    reduceNumbers: (total, value) => (value < total || Number.isNaN(value) ? value : total),
    reduceBigInts: (total, value) => (value < total ? value : total),
  },
  Mean: { ...sum, finish: meanOf },
  Any: {
    empty: () => 0,
    reduceNumbers: (total, value) => total | value,
    reduceBigInts: (total) => total,
  },
  All: {
    empty: () => 1,
    reduceNumbers: (total, value) => total & value,
    reduceBigInts: (total) => total,
  },
};

/** Reductions, by TensorFlow's name. */
export const reductionOperations: HostOperations = {
  ...Object.fromEntries(
    Object.entries(REDUCERS).map(([name, reducer]) => [name, reduction(reducer)]),
  ),
  Cumprod: (call) => [cumulative(call, CUMULATIONS.product)],
  Cumsum: (call) => [cumulative(call, CUMULATIONS.sum)],
  ArgMax: argument(
    (value, best) => value > best,
    (dtype) => finiteLimitsOf(dtype)[0],
  ),
  ArgMin: argument(
    (value, best) => value < best,
    (dtype) => finiteLimitsOf(dtype)[1],
  ),
};

const zeroOf = (dtype: NumericDtype): number | bigint => (isWide(dtype) ? 0n : 0);

/** A sum of 64-bit integers as C++ has it. */
function wrapped(total: bigint, dtype: NumericDtype): bigint {
  return dtype === "uint64" ? BigInt.asUintN(64, total) : BigInt.asIntN(64, total);
}

function meanOf(total: number | bigint, count: number, dtype: NumericDtype): number | bigint {
  if (typeof total === "bigint") return count === 0 ? 0n : wrapped(total, dtype) / BigInt(count);
  const mean = total / count;
  return dtype.startsWith("float") ? mean : Math.trunc(mean);
}

function reduction(reducer: Reducer): HostOperation {
  return (call) => {
    const input = numericAt(call, 0);
    const isLogical = call.op === "Any" || call.op === "All";
    if (isLogical !== (input.dtype === "bool")) throw wrongDtype(call, input);
    const axes = new Set(integersAt(call, 1).map((axis) => reducedAxis(axis, input.shape.length)));
    const kept = input.shape.filter((_, axis) => !axes.has(axis));
    const isKeeping = booleanAttribute(call, "keep_dims", false);
    const shape = isKeeping ? input.shape.map((size, axis) => (axes.has(axis) ? 1 : size)) : kept;
    return [reshaped(reduced(grouped(input, axes), kept, reducer), shape)];
  };
}

function reducedAxis(axis: number, rank: number): number {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw invalid(`Invalid reduction dimension (${axis} for input with ${rank} dimension(s)`);
}

/** The values with the reduced axes last, so that the values of one result are contiguous. */
function grouped(input: Tensor, axes: ReadonlySet<number>): Tensor {
  const all = input.shape.map((_, axis) => axis);
  const order = [...all.filter((axis) => !axes.has(axis)), ...all.filter((axis) => axes.has(axis))];
  if (order.every((axis, at) => axis === at)) return input;
  const strides = stridesOf(input.shape);
  const shape = order.map((axis) => input.shape[axis]!);
  const walk = { shape, strides: order.map((axis) => strides[axis]!) };
  return takeValues(input, walkPositions(walk), shape);
}

function reduced(input: Tensor, shape: readonly number[], reducer: Reducer): Tensor {
  const dtype = input.dtype as NumericDtype;
  const out = zeros(dtype, shape);
  const values = numbersOf(input);
  const run = elementCount(input.shape.slice(shape.length));
  const { finish = (total) => total, reduceNumbers, reduceIntegers = reduceNumbers } = reducer;
  const reduce = dtype.startsWith("float") ? reduceNumbers : reduceIntegers;
  for (let at = 0; at < out.length; at += 1) {
    let total = reducer.empty(dtype);
    for (let from = at * run; from < (at + 1) * run; from += 1) {
      const value = values[from]!;
      total =
        typeof total === "bigint"
          ? reducer.reduceBigInts(total, value as bigint)
          : reduce(total, value as number);
    }
    (out as { [at: number]: number | bigint })[at] = finish(total, run, dtype);
  }
  return tensorOf(dtype, shape, out);
}

/** How a running total goes on; the total of nothing is `empty`. */
interface Cumulation {
  readonly empty: 0 | 1;
  readonly ofFloats: (total: number, value: number) => number;
  readonly ofIntegers: (total: number, value: number) => number;
  readonly ofBigInts: (total: bigint, value: bigint) => bigint;
}

const plus = (a: number, b: number): number => a + b;

const CUMULATIONS: Readonly<Record<"sum" | "product", Cumulation>> = {
  sum: { empty: 0, ofFloats: plus, ofIntegers: plus, ofBigInts: (a, b) => a + b },
  product: {
    empty: 1,
    ofFloats: (a, b) => a * b,
    ofIntegers: Math.imul,
    ofBigInts: (a, b) => a * b,
  },
};

function cumulative(call: HostCall, cumulation: Cumulation): Tensor {
  const input = numericAt(call, 0);
  const axis = axisOf(integerAt(call, 1), input.shape.length, call.op);
  const isExclusive = booleanAttribute(call, "exclusive", false);
  const isReverse = booleanAttribute(call, "reverse", false);
  const out = zeros(input.dtype, input.shape) as { [at: number]: number | bigint };
  const values = numbersOf(input);
  const { empty, ofBigInts, ofFloats, ofIntegers } = cumulation;
  const ofNumbers = input.dtype.startsWith("float") ? ofFloats : ofIntegers;
  const stored = totalAs(input.dtype);
  const size = input.shape[axis]!;
  const inner = elementCount(input.shape.slice(axis + 1));
  const lines = values.length === 0 ? 0 : values.length / size;
  for (let line = 0; line < lines; line += 1) {
    const first = Math.floor(line / inner) * size * inner + (line % inner);
    let total: number | bigint = isWide(input.dtype) ? BigInt(empty) : empty;
    for (let step = 0; step < size; step += 1) {
      const at = first + (isReverse ? size - 1 - step : step) * inner;
      const next: number | bigint =
        typeof total === "bigint"
          ? ofBigInts(total, values[at] as bigint)
          : stored(ofNumbers(total, values[at] as number));
      out[at] = isExclusive ? total : next;
      total = next;
    }
  }
  return tensorOf(input.dtype, input.shape, out as unknown as Int32Array);
}

/** A running total as its dtype holds it: floats are rounded at each step. */
function totalAs(dtype: NumericDtype): (total: number) => number {
  return dtype === "float32" ? Math.fround : (total) => total;
}

/**
 * The place of the first best value. The search begins at the worst finite value, as Eigen's does, so
 * that NaN is passed over, and place 0 is the answer where all are NaN or infinitely bad.
 */
function argument(
  isBetter: (value: number | bigint, best: number | bigint) => boolean,
  worstOf: (dtype: NumericDtype) => number | bigint,
): HostOperation {
  return (call) => {
    const input = numericAt(call, 0);
    const axis = axisOf(integerAt(call, 1), input.shape.length, call.op);
    const size = input.shape[axis]!;
    if (size === 0)
      throw invalid(`Reduction axis ${axis} is empty in shape [${input.shape.join(",")}]`);
    const shape = input.shape.toSpliced(axis, 1);
    const rows = numbersOf(grouped(inputAt(call, 0), new Set([axis])));
    const dtype = dtypeAttribute(call, "output_type", "int64") === "int32" ? "int32" : "int64";
    const out = zeros(dtype, shape);
    const worst = worstOf(input.dtype);
    for (let at = 0; at < out.length; at += 1) {
      let found = 0;
      let best = worst;
      for (let place = 0; place < size; place += 1) {
        const value = rows[at * size + place]!;
        if (!isBetter(value, best)) continue;
        found = place;
        best = value;
      }
      if (isBigInts(out)) out[at] = BigInt(found);
      else out[at] = found;
    }
    return [tensorOf(dtype, shape, out)];
  };
}
