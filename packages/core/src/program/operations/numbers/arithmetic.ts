// Element-wise arithmetic with broadcasting. int32 wraps and int64 is exact as in C++; float32
// results are computed in float64 and rounded once, which for + - * / and square roots gives the
// same bits.

import { isBigInts } from "../../../tensor/dtype.ts";
import type { BigIntArray, NumberArray } from "../../../tensor/dtype.ts";
import { broadcastShape, broadcastValues, numbersOf } from "../element-positions.ts";
import { inputAt, numericAt, wrongDtype } from "../host-call.ts";
import type { HostCall, HostOperation, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { tensorOf, zeros } from "../tensor-memory.ts";
import { concatenateStrings } from "../strings/text.ts";

interface Binary {
  readonly ofNumbers: (a: number, b: number) => number;
  /** For float32 where an intermediate result must be rounded too. */
  readonly ofSingles?: (a: number, b: number) => number;
  /** For int8 to uint32 where it differs; the target array wraps the result. */
  readonly ofIntegers?: (a: number, b: number) => number;
  /** `undefined`: not defined for int64. */
  readonly ofBigInts?: (a: bigint, b: bigint) => bigint;
}

interface Unary {
  readonly ofNumbers: (value: number) => number;
  /** For int8 to uint32 where it differs. */
  readonly ofIntegers?: (value: number) => number;
  readonly ofBigInts?: (value: bigint) => bigint;
}

function refuseZero<T extends number | bigint>(divisor: T): T {
  if (divisor === 0 || divisor === 0n) throw invalid("Integer division by zero");
  return divisor;
}

/** Multiplies modulo 2³²; a narrower target array keeps the low bits. */
const wrapMultiply = (a: number, b: number): number => Math.imul(a, b);

const floorDivideBig = (a: bigint, b: bigint): bigint => {
  const quotient = a / refuseZero(b);
  return quotient * b !== a && a < 0n !== b < 0n ? quotient - 1n : quotient;
};

const floorModulo = (a: number, b: number): number => {
  const remainder = a % b;
  return remainder !== 0 && remainder < 0 !== b < 0 ? remainder + b : remainder;
};

const add: Binary = { ofNumbers: (a, b) => a + b, ofBigInts: (a, b) => a + b };
const divided: Binary = {
  ofNumbers: (a, b) => a / b,
  ofIntegers: (a, b) => Math.trunc(a / refuseZero(b)),
  ofBigInts: (a, b) => a / refuseZero(b),
};
const truncatedDivide: Binary = {
  ...divided,
  ofNumbers: (a, b) => Math.trunc(a / b),
  ofSingles: (a, b) => Math.trunc(Math.fround(a / b)),
};
const truncatedModulo: Binary = {
  ofNumbers: (a, b) => a % b,
  ofIntegers: (a, b) => a % refuseZero(b),
  ofBigInts: (a, b) => a % refuseZero(b),
};
const floorDivided: Binary = {
  ofNumbers: (a, b) => Math.floor(a / b),
  ofSingles: (a, b) => Math.floor(Math.fround(a / b)),
  ofIntegers: (a, b) => Math.floor(a / refuseZero(b)),
  ofBigInts: floorDivideBig,
};
const floorRemainder: Binary = {
  ofNumbers: floorModulo,
  ofIntegers: (a, b) => floorModulo(a, refuseZero(b)),
  ofBigInts: (a, b) => a - floorDivideBig(a, b) * b,
};
const squaredDifference: Binary = {
  ofNumbers: (a, b) => (a - b) ** 2,
  ofSingles: (a, b) => Math.fround(a - b) ** 2,
  ofIntegers: (a, b) => Math.imul(a - b, a - b),
  ofBigInts: (a, b) => (a - b) ** 2n,
};
/** NaN if either value is. */
const larger: Binary = {
  ofNumbers: (a, b) => (a < b || Number.isNaN(b) ? b : a),
  ofBigInts: (a, b) => (a < b ? b : a),
};
const smaller: Binary = {
  ofNumbers: (a, b) => (b < a || Number.isNaN(b) ? b : a),
  ofBigInts: (a, b) => (b < a ? b : a),
};

function refuseNegative<T extends number | bigint>(exponent: T): T {
  if (exponent < 0) throw invalid("Integers to negative integer powers are not allowed");
  return exponent;
}

/** Modulo 2³²; a narrower target array keeps the low bits. */
function wrapPower(base: number, exponent: number): number {
  let power = 1;
  let square = base;
  for (let left = refuseNegative(exponent); left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) power = Math.imul(power, square);
    square = Math.imul(square, square);
  }
  return power;
}

/** Modulo 2⁶⁴. */
function wrapPowerBig(base: bigint, exponent: bigint): bigint {
  let power = 1n;
  let square = base;
  for (let left = refuseNegative(exponent); left > 0n; left /= 2n) {
    if (left % 2n === 1n) power = BigInt.asUintN(64, power * square);
    square = BigInt.asUintN(64, square * square);
  }
  return power;
}

const raised: Binary = {
  // C's `pow`, unlike JavaScript's: 1 to any power is 1, and -1 to an infinite one too.
  ofNumbers: (a, b) => (a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : a ** b),
  ofIntegers: wrapPower,
  ofBigInts: wrapPowerBig,
};

const BINARY: Readonly<Record<string, Binary>> = {
  AddV2: add,
  Sub: { ofNumbers: (a, b) => a - b, ofBigInts: (a, b) => a - b },
  Mul: { ofNumbers: (a, b) => a * b, ofIntegers: wrapMultiply, ofBigInts: (a, b) => a * b },
  RealDiv: { ofNumbers: (a, b) => a / b },
  Div: divided,
  TruncateDiv: truncatedDivide,
  TruncateMod: truncatedModulo,
  Mod: truncatedModulo,
  FloorDiv: floorDivided,
  FloorMod: floorRemainder,
  DivNoNan: { ofNumbers: (a, b) => (b === 0 ? 0 : a / b) },
  SquaredDifference: squaredDifference,
  Maximum: larger,
  Minimum: smaller,
  BitwiseAnd: { ofNumbers: (a, b) => a & b, ofBigInts: (a, b) => a & b },
  BitwiseOr: { ofNumbers: (a, b) => a | b, ofBigInts: (a, b) => a | b },
  BitwiseXor: { ofNumbers: (a, b) => a ^ b, ofBigInts: (a, b) => a ^ b },
  Pow: raised,
};

const roundHalfToEven = (value: number): number => {
  const rounded = Math.round(value);
  const isTie = Math.abs(value % 1) === 0.5;
  return isTie && rounded % 2 !== 0 ? rounded - 1 : rounded;
};

const UNARY: Readonly<Record<string, Unary>> = {
  Invert: { ofNumbers: (value) => ~value, ofBigInts: (value) => ~value },
  Neg: { ofNumbers: (value) => -value, ofBigInts: (value) => -value },
  Abs: { ofNumbers: Math.abs, ofBigInts: (value) => (value < 0n ? -value : value) },
  Sign: {
    ofNumbers: Math.sign,
    ofBigInts: (value) => (value > 0n ? 1n : value < 0n ? -1n : 0n),
  },
  Square: {
    ofNumbers: (value) => value * value,
    ofIntegers: (value) => Math.imul(value, value),
    ofBigInts: (value) => value * value,
  },
  Sqrt: { ofNumbers: Math.sqrt },
  Rsqrt: { ofNumbers: (value) => 1 / Math.sqrt(value) },
  Reciprocal: { ofNumbers: (value) => 1 / value },
  Floor: { ofNumbers: Math.floor },
  Ceil: { ofNumbers: Math.ceil },
  Rint: { ofNumbers: roundHalfToEven },
  Round: { ofNumbers: roundHalfToEven, ofBigInts: (value) => value },
  Exp: { ofNumbers: Math.exp },
  Log: { ofNumbers: Math.log },
  Log1p: { ofNumbers: Math.log1p },
  Sin: { ofNumbers: Math.sin },
  Cos: { ofNumbers: Math.cos },
  Tanh: { ofNumbers: Math.tanh },
  Sigmoid: { ofNumbers: (value) => 1 / (1 + Math.exp(-value)) },
  Relu: { ofNumbers: (value) => (value < 0 ? 0 : value), ofBigInts: (v) => (v < 0n ? 0n : v) },
};

/** By a number of places of a type with `bits` bits: as TensorFlow, from 0 to one less than that. */
type Shift = (bits: number) => Binary;

const placesOf = (count: number | bigint, bits: number): number =>
  Math.min(Math.max(Number(count), 0), bits - 1);

const leftShift: Shift = (bits) => ({
  ofNumbers: (a, b) => a << placesOf(b, bits),
  ofBigInts: (a, b) => a << BigInt(placesOf(b, bits)),
});

/** A negative value stays negative. */
const rightShift: Shift = (bits) => ({
  // No `>>`: values of uint32 are beyond those of int32.
  ofNumbers: (a, b) => Math.floor(a / 2 ** placesOf(b, bits)),
  ofBigInts: (a, b) => a >> BigInt(placesOf(b, bits)),
});

const BYTE_BITS = 8;

/** Element-wise arithmetic, by TensorFlow's name. */
export const arithmeticOperations: HostOperations = Object.fromEntries([
  ...Object.entries(BINARY).map(([name, binary]) => [name, binaryOperation(binary)] as const),
  ...Object.entries(UNARY).map(([name, unary]) => [name, unaryOperation(unary)] as const),
  ["Add", addOrConcatenate],
  ["AddN", addAll],
  ["LeftShift", shifting(leftShift)],
  ["RightShift", shifting(rightShift)],
]);

function binaryOperation(binary: Binary): HostOperation {
  return (call) => [combined(call, binary, [0, 1])];
}

function shifting(shift: Shift): HostOperation {
  return (call) => {
    const { data } = numericAt(call, 0);
    return [combined(call, shift(data.BYTES_PER_ELEMENT * BYTE_BITS), [0, 1])];
  };
}

/** `Add`, unlike `AddV2`, accepts strings too. */
function addOrConcatenate(call: HostCall): readonly Tensor[] {
  const isText = inputAt(call, 0).dtype === "string";
  return [isText ? concatenateStrings(call) : combined(call, add, [0, 1])];
}

function addAll(call: HostCall): readonly [ReturnType<typeof combined>] {
  let sum = numericAt(call, 0) as ReturnType<typeof combined>;
  for (const term of call.inputs.slice(1)) {
    sum = combined({ ...call, inputs: [sum, term] }, add, [0, 1]);
  }
  return [sum];
}

function combined(call: HostCall, binary: Binary, [left, right]: readonly [number, number]) {
  const a = numericAt(call, left);
  const b = numericAt(call, right);
  if (a.dtype !== b.dtype) throw invalid(`${call.op} of ${a.dtype} and ${b.dtype}`);
  if (a.dtype === "bool") throw wrongDtype(call, a);
  const shape = broadcastShape(a.shape, b.shape);
  const out = zeros(a.dtype, shape);
  const valuesA = numbersOf(broadcastValues(a, shape));
  const valuesB = numbersOf(broadcastValues(b, shape));
  if (isBigInts(out)) {
    if (binary.ofBigInts === undefined) throw wrongDtype(call, a);
    combineBigInts(out, [valuesA as BigIntArray, valuesB as BigIntArray], binary.ofBigInts);
  } else {
    combineNumbers(
      out,
      [valuesA as NumberArray, valuesB as NumberArray],
      kernelOf(binary, a.dtype),
    );
  }
  return tensorOf(a.dtype, shape, out);
}

function kernelOf(binary: Binary, dtype: string): Binary["ofNumbers"] {
  const special = dtype === "float32" ? binary.ofSingles : binary.ofIntegers;
  return dtype === "float64" ? binary.ofNumbers : (special ?? binary.ofNumbers);
}

function combineNumbers(
  out: NumberArray,
  [a, b]: readonly [NumberArray, NumberArray],
  combine: (a: number, b: number) => number,
): void {
  for (let at = 0; at < out.length; at += 1) out[at] = combine(a[at]!, b[at]!);
}

function combineBigInts(
  out: BigIntArray,
  [a, b]: readonly [BigIntArray, BigIntArray],
  combine: (a: bigint, b: bigint) => bigint,
): void {
  for (let at = 0; at < out.length; at += 1) out[at] = combine(a[at]!, b[at]!);
}

function unaryOperation(unary: Unary): HostOperation {
  return (call) => {
    const input = numericAt(call, 0);
    if (input.dtype === "bool") throw wrongDtype(call, inputAt(call, 0));
    const out = zeros(input.dtype, input.shape);
    const { data } = input;
    if (isBigInts(out)) {
      const { ofBigInts } = unary;
      if (ofBigInts === undefined) throw wrongDtype(call, input);
      for (let at = 0; at < out.length; at += 1) out[at] = ofBigInts((data as BigIntArray)[at]!);
    } else {
      const isFloat = input.dtype === "float32" || input.dtype === "float64";
      const apply = isFloat ? unary.ofNumbers : (unary.ofIntegers ?? unary.ofNumbers);
      for (let at = 0; at < out.length; at += 1) out[at] = apply(data[at] as number);
    }
    return [tensorOf(input.dtype, input.shape, out)];
  };
}
