// Text read as a number (StringToNumber) by C's grammar: only blanks around the number are skipped.

import type { Dtype } from "../../../tensor/dtype.ts";
import { dtypeAttribute, stringsAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { excerpt } from "../../../errors/errors.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";

/** Text read as numbers, by TensorFlow's name. */
export const textNumberOperations: HostOperations = {
  StringToNumber: (call) => [stringToNumber(call)],
};

const FLOAT = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan(?:\(\w*\))?)$/i;
/** Digits before and after the point, and the power of two, in base 16, 16 and 10. */
const HEXADECIMAL = /^[+-]?0x(?=\.?[\da-f])([\da-f]{0,32})\.?([\da-f]{0,32})(?:p([+-]?\d{1,6}))?$/i;
const INTEGER = /^[+-]?\d+$/;
const BLANKS = /^[\t-\r ]+|[\t-\r ]+$/g;

function stringToNumber(call: HostCall): Tensor {
  const { data, shape } = stringsAt(call, 0);
  const dtype = dtypeAttribute(call, "out_type", "float32");
  const texts = data.toText();
  if (dtype === "float32" || dtype === "float64") {
    const out = zeros(dtype, shape);
    for (const [at, text] of texts.entries()) out[at] = floatOf(text);
    return tensorOf(dtype, shape, out);
  }
  return integersOf(texts, shape, dtype);
}

function integersOf(texts: readonly string[], shape: readonly number[], dtype: Dtype): Tensor {
  if (dtype === "int32") {
    const out = zeros("int32", shape);
    for (const [at, text] of texts.entries()) out[at] = Number(integerOf(text, 32));
    return tensorOf(dtype, shape, out);
  }
  const out = zeros("int64", shape);
  for (const [at, text] of texts.entries()) out[at] = integerOf(text, 64);
  return tensorOf("int64", shape, out);
}

/** A text as a number of a type; `undefined` where it is none. */
export function numberOfText(
  text: string,
  dtype: "float32" | "float64" | "int32" | "int64",
): number | bigint | undefined {
  if (dtype === "float32" || dtype === "float64") return floatIn(text);
  const value = integerIn(text, dtype === "int32" ? 32 : 64);
  return dtype === "int32" && value !== undefined ? Number(value) : value;
}

function floatOf(text: string): number {
  const value = floatIn(text);
  if (value === undefined) throw wrongText(text);
  return value;
}

function floatIn(text: string): number | undefined {
  const bare = text.replaceAll(BLANKS, "");
  const hexadecimal = HEXADECIMAL.exec(bare);
  if (hexadecimal !== null) return bare.startsWith("-") ? -hexOf(hexadecimal) : hexOf(hexadecimal);
  if (!FLOAT.test(bare)) return undefined;
  if (/nan/i.test(bare)) return Number.NaN;
  if (/inf/i.test(bare)) return bare.startsWith("-") ? -Infinity : Infinity;
  return Number(bare);
}

const HEX_DIGIT_BITS = 4;

function hexOf([, whole = "", fraction = "", exponent = "0"]: RegExpExecArray): number {
  const power = Number(exponent) - fraction.length * HEX_DIGIT_BITS;
  const digits = Number(`0x${whole}${fraction}`);
  return digits === 0 ? 0 : digits * 2 ** power;
}

const DIGITS_MAX = 40;

function integerOf(text: string, bits: 32 | 64): bigint {
  const value = integerIn(text, bits);
  if (value === undefined) throw wrongText(text);
  return value;
}

function integerIn(text: string, bits: 32 | 64): bigint | undefined {
  const bare = text.replaceAll(BLANKS, "");
  if (!INTEGER.test(bare) || bare.replace(/^[+-]?0*/, "").length > DIGITS_MAX) return undefined;
  const value = BigInt(bare.replace(/^\+/, ""));
  return BigInt.asIntN(bits, value) === value ? value : undefined;
}

function wrongText(text: string): Error {
  return invalid(`StringToNumberOp could not correctly convert string: ${excerpt(text)}`);
}
