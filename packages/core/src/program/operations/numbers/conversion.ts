// Conversions between numeric dtypes as C++ casts them: floats to integers towards zero, integers
// to narrower ones modulo their size, anything but 0 to true.

import { isBigInts } from "../../../tensor/dtype.ts";
import type { Dtype, NumericArray, NumericDtype } from "../../../tensor/dtype.ts";
import {
  booleanAttribute,
  dtypeAttribute,
  inputAt,
  numbersAttribute,
  numericAt,
  wrongDtype,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { stringsOf, tensorOf, zeros } from "../tensor-memory.ts";

/** Conversions, by TensorFlow's name. */
export const conversionOperations: HostOperations = {
  Bitcast: (call) => [bitcast(call)],
  Cast: (call) => [cast(call)],
  ZerosLike: (call) => [likeInput(call, 0)],
  OnesLike: (call) => [likeInput(call, 1)],
  Bucketize: (call) => [bucketize(call)],
};

function cast(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  const to = dtypeAttribute(call, "DstT", input.dtype);
  if (input.dtype === to) return input;
  if (input.dtype === "string" || to === "string") throw wrongDtype(call, input);
  const isTruncating = booleanAttribute(call, "Truncate", false);
  if (isTruncating) throw wrongDtype(call, input);
  const out = zeros(to, input.shape);
  convert(input.data, out, to);
  return tensorOf(to, input.shape, out);
}

/** The bits of numbers as numbers of another type of the same width. */
function bitcast(call: HostCall): Tensor {
  const { dtype, data, shape } = numericAt(call, 0);
  const to = dtypeAttribute(call, "type", dtype);
  const isOther = to === "string" || to === "bool" || dtype === "bool";
  const out = isOther ? undefined : zeros(to, shape);
  if (out === undefined || out.byteLength !== data.byteLength) {
    throw invalid(`Cannot bitcast from ${dtype} to ${to}: shape [${shape.join(",")}]`);
  }
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  new Uint8Array(out.buffer, out.byteOffset, out.byteLength).set(bytes);
  return tensorOf(to, shape, out);
}

function convert(from: NumericArray, out: NumericArray, to: NumericDtype): void {
  if (to === "bool") {
    for (let at = 0; at < out.length; at += 1)
      out[at] = Number(Boolean(from[at]) || Number.isNaN(from[at]));
  } else if (isBigInts(out)) {
    for (let at = 0; at < out.length; at += 1) out[at] = bigIntOf(from[at]!);
  } else if (to === "float32") {
    for (let at = 0; at < out.length; at += 1) out[at] = singleOf(from[at]!);
  } else if (to === "float64") {
    for (let at = 0; at < out.length; at += 1) out[at] = Number(from[at]);
  } else convertToWords(from, out, to);
}

const LOW_BITS = 11n;
const LOW_BITS_RATIO = 2 ** Number(LOW_BITS);

/** As float32, rounded once: a large bigint would be rounded to float64 first otherwise. */
function singleOf(value: number | bigint): number {
  const near = Number(value);
  if (typeof value === "number" || Number.isSafeInteger(near)) return Math.fround(near);
  const high = value >> LOW_BITS;
  // The last bit stands for all that were cut off, so that no tie is seen where there is none.
  const isCut = high << LOW_BITS !== value;
  return Math.fround(Number(isCut ? high | 1n : high) * LOW_BITS_RATIO);
}

/** To integers of at most 32 bits, whose array keeps the low bits of what it is given. */
function convertToWords(from: NumericArray, out: NumericArray, to: NumericDtype): void {
  const isFloat = from instanceof Float32Array || from instanceof Float64Array;
  const floatWord = to === "uint32" ? unsignedWordOf : signedWordOf;
  for (let at = 0; at < out.length; at += 1) {
    const value = from[at]!;
    if (typeof value === "bigint") out[at] = Number(BigInt.asIntN(32, value));
    else out[at] = isFloat ? floatWord(value) : value;
  }
}

const INT64_MIN = -(2n ** 63n);

/** A float that int64 cannot hold becomes the least int64, as in x86's conversion instruction. */
function bigIntOf(value: number | bigint): bigint {
  if (typeof value === "bigint") return value;
  return Math.abs(value) < 2 ** 63 ? BigInt(Math.trunc(value)) : INT64_MIN;
}

const INT32_MIN = -(2 ** 31);

/** A float that int32 cannot hold becomes the least int32, as in x86's conversion instruction. */
function signedWordOf(value: number): number {
  return value > INT32_MIN - 1 && value < 2 ** 31 ? Math.trunc(value) : INT32_MIN;
}

/** The low 32 bits of the float as int64, which is what compilers convert to for uint32. */
function unsignedWordOf(value: number): number {
  return Number(BigInt.asUintN(32, bigIntOf(value)));
}

function likeInput(call: HostCall, value: 0 | 1): Tensor {
  const { dtype, shape } = inputAt(call, 0);
  if (dtype === "string") {
    if (value === 1) throw wrongDtype(call, inputAt(call, 0));
    return stringsOf(shape, emptyStrings(inputAt(call, 0).data.length));
  }
  return filled(dtype, shape, value);
}

const NO_BYTES = new Uint8Array();

function emptyStrings(count: number): Uint8Array[] {
  return Array.from({ length: count }, () => NO_BYTES);
}

function filled(dtype: Exclude<Dtype, "string">, shape: readonly number[], value: 0 | 1): Tensor {
  const data = zeros(dtype, shape);
  if (isBigInts(data)) data.fill(BigInt(value));
  else data.fill(value);
  return tensorOf(dtype, shape, data);
}

/**
 * The number of boundaries at or below each value (`std::upper_bound`). An integer is compared as
 * float32, so large ones fall together (bucketize_op.cc).
 */
function bucketize(call: HostCall): Tensor {
  const { data, shape } = numericAt(call, 0);
  const boundaries = Float32Array.from(numbersAttribute(call, "boundaries"));
  const isFloat = data instanceof Float32Array || data instanceof Float64Array;
  const out = zeros("int32", shape);
  for (let at = 0; at < out.length; at += 1) {
    const value = isFloat ? data[at]! : singleOf(data[at]!);
    out[at] = boundariesUpTo(boundaries, value);
  }
  return tensorOf("int32", shape, out);
}

function boundariesUpTo(boundaries: Float32Array, value: number): number {
  let low = 0;
  let high = boundaries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (value < boundaries[middle]!) high = middle;
    else low = middle + 1;
  }
  return low;
}
