// Operations on each element alone, with broadcasting.

import { ONNX_TYPES } from "./onnx-message.ts";
import type { Translation, Translator, Translators } from "./translation.ts";

/** ONNX's numbers of the types that no value of Winnow has. */
const FLOAT16 = 10;
const BFLOAT16 = 16;

const named =
  (op: string): Translator =>
  (t) =>
    t.node(op, t.names);

const RENAMED: Readonly<Record<string, string>> = {
  Abs: "Abs",
  Acos: "Acos",
  Acosh: "Acosh",
  Add: "Add",
  AddV2: "Add",
  Asin: "Asin",
  Asinh: "Asinh",
  Atan: "Atan",
  Atanh: "Atanh",
  Ceil: "Ceil",
  Cos: "Cos",
  Cosh: "Cosh",
  Elu: "Elu",
  Equal: "Equal",
  Erf: "Erf",
  Exp: "Exp",
  Floor: "Floor",
  Greater: "Greater",
  GreaterEqual: "GreaterOrEqual",
  IsInf: "IsInf",
  IsNan: "IsNaN",
  Less: "Less",
  LessEqual: "LessOrEqual",
  Log: "Log",
  LogicalAnd: "And",
  LogicalNot: "Not",
  LogicalOr: "Or",
  Maximum: "Max",
  Minimum: "Min",
  Mul: "Mul",
  Neg: "Neg",
  Pow: "Pow",
  RealDiv: "Div",
  Reciprocal: "Reciprocal",
  Relu: "Relu",
  Rint: "Round",
  Round: "Round",
  Selu: "Selu",
  Sign: "Sign",
  Sin: "Sin",
  Sinh: "Sinh",
  Softsign: "Softsign",
  Sqrt: "Sqrt",
  Sub: "Sub",
  Tan: "Tan",
  Tanh: "Tanh",
};

/** Translators of elementwise operations. */
export const elementwise: Translators = {
  ...Object.fromEntries(Object.entries(RENAMED).map(([op, onnx]) => [op, named(onnx)])),
  AddN: (t) => t.names.slice(1).reduce((sum, name) => t.node("Add", [sum, name]), t.name(0)),
  Atan2: atan2,
  BiasAdd: biasAdd,
  Cast: (t) => t.cast(t.name(0), ONNX_TYPES[t.outputDtype]),
  ClipByValue: (t) => t.node("Min", [t.node("Max", [t.name(0), t.name(1)]), t.name(2)]),
  // Integers are divided on the host: a 0 that a request brings would end the process that runs ONNX Runtime.
  Div: (t) => t.node("Div", ofFloats(t)),
  DivNoNan: (t) => unlessZero(t, t.node("Div", t.names)),
  Erfc: (t) => t.node("Sub", [one(t), t.node("Erf", t.names)]),
  Expm1: expm1,
  FloorDiv: (t) => floorDivide(t),
  FloorMod: floorModulo,
  LeakyRelu: (t) =>
    t.node("LeakyRelu", t.names, { alpha: { float: t.operation.attributes.float("alpha", 0.2) } }),
  Log1p: (t) => log1p(t, t.name(0)),
  MulNoNan: (t) => unlessZero(t, t.node("Mul", t.names)),
  NotEqual: (t) => t.node("Not", [t.node("Equal", t.names)]),
  OnesLike: (t) => filledLike(t, 1),
  RoundToNarrow: (t) => {
    const narrow = t.operation.attributes.type("DstT") === 19 ? FLOAT16 : BFLOAT16;
    return t.cast(t.cast(t.name(0), narrow), ONNX_TYPES.float32);
  },
  Relu6: (t) =>
    t.node("Clip", [t.name(0), t.model.scalar(t.dtype(0), 0), t.model.scalar(t.dtype(0), 6)]),
  Rsqrt: (t) => t.node("Reciprocal", [t.node("Sqrt", t.names)]),
  Select: select,
  Sigmoid: sigmoid,
  Softplus: softplus,
  SelectV2: (t) => chosen(t, ...t.names),
  Xdivy: (t) => unlessFirstZero(t, t.node("Div", t.names)),
  Xlogy: (t) => unlessFirstZero(t, t.node("Mul", [t.name(0), t.node("Log", [t.name(1)])])),
  Square: (t) => t.node("Mul", [t.name(0), t.name(0)]),
  SquaredDifference: (t) => {
    const difference = t.node("Sub", t.names);
    return t.node("Mul", [difference, difference]);
  },
  ZerosLike: (t) => filledLike(t, 0),
};

/**
 * The angle of (x, y): atan(y / x), half a turn further where x is negative. A zero has a sign, which its
 * reciprocal shows; of two infinities the signs are divided.
 */
function atan2(t: Translation): string {
  const [y, x] = [t.name(0), t.name(1)];
  const number = (value: number): string => t.model.scalar(t.dtype(0), value);
  const isZero = (value: string): string => t.node("Equal", [value, number(0)]);
  const isNegative = (value: string): string => {
    const signed = t.node("Where", [isZero(value), t.node("Reciprocal", [value]), value]);
    return t.node("Less", [signed, number(0)]);
  };
  const halfTurn = t.node("Where", [isNegative(y), number(-Math.PI), number(Math.PI)]);
  const areInfinite = t.node("And", [t.node("IsInf", [y]), t.node("IsInf", [x])]);
  const [rise, run] = [y, x].map((value) =>
    t.node("Where", [areInfinite, t.node("Sign", [value]), value]),
  );
  const angle = t.node("Atan", [t.node("Div", [rise!, run!])]);
  const turned = t.node("Where", [isNegative(x), t.node("Add", [angle, halfTurn]), angle]);
  const upright = t.node("Where", [
    t.node("IsNaN", [y]),
    y,
    t.node("Mul", [halfTurn, number(0.5)]),
  ]);
  const atOrigin = t.node("Where", [isNegative(x), halfTurn, y]);
  const onAxis = t.node("Where", [isZero(y), atOrigin, upright]);
  return t.node("Where", [isZero(x), onAxis, turned]);
}

/**
 * ONNX Runtime's Sigmoid is right to 6 · 10⁻⁸ whatever it gives, so that 10⁻⁵ is wrong in the third digit and 10⁻⁸ is 0.
 * As a probability it must have all digits; gates of a recurrent layer, in the graph of a loop, need not, and are many.
 */
function sigmoid(t: Translation): string {
  if (t.model.isInner) return t.node("Sigmoid", t.names);
  const power = t.node("Exp", [t.node("Neg", t.names)]);
  return t.node("Reciprocal", [t.node("Add", [one(t), power])]);
}

/**
 * log(1 + x). What 1 + x loses of a small x is made good by the ratio of x to what is left of it (Kahan's way in the
 * HP-15C Advanced Functions Handbook, 1982).
 */
function log1p(t: Translation, x: string): string {
  const sum = t.node("Add", [one(t), x]);
  const logarithm = t.node("Log", [sum]);
  const left = t.node("Sub", [sum, one(t)]);
  const corrected = t.node("Mul", [logarithm, t.node("Div", [x, left])]);
  return unlessSmall(t, { x, left, corrected, otherwise: logarithm });
}

/** exp(x) − 1, in the same way. */
function expm1(t: Translation): string {
  const x = t.name(0);
  const power = t.node("Exp", [x]);
  const left = t.node("Sub", [power, one(t)]);
  const corrected = t.node("Mul", [left, t.node("Div", [x, t.node("Log", [power])])]);
  return unlessSmall(t, { x, left, corrected, otherwise: left });
}

/** Of an |x| below ½ the corrected value, or x where nothing is left of it beside 1. */
function unlessSmall(
  t: Translation,
  value: Readonly<Record<"x" | "left" | "corrected" | "otherwise", string>>,
): string {
  const number = (of: number): string => t.model.scalar(t.dtype(0), of);
  const isSmall = t.node("Less", [t.node("Abs", [value.x]), number(0.5)]);
  const isNothing = t.node("Equal", [value.left, number(0)]);
  return chosen(t, isSmall, chosen(t, isNothing, value.x, value.corrected), value.otherwise);
}

/** log(1 + exp(x)) without a power that overflows, or that 1 swallows. */
function softplus(t: Translation): string {
  const x = t.name(0);
  const positive = t.node("Max", [x, t.model.scalar(t.dtype(0), 0)]);
  const power = t.node("Exp", [t.node("Neg", [t.node("Abs", [x])])]);
  return t.node("Add", [positive, log1p(t, power)]);
}

function one(t: Translation): string {
  return t.model.scalar(t.dtype(0), 1);
}

function biasAdd(t: Translation): string {
  const format = t.operation.attributes.text("data_format") || "NHWC";
  if (format === "NHWC") return t.node("Add", t.names);
  if (format !== "NCHW") throw t.untranslatable(`has its channels in ${format} order`);
  const axes = Array.from({ length: t.rank(0) - 2 }, (_, index) => index + 1);
  const bias =
    axes.length === 0 ? t.name(1) : t.node("Unsqueeze", [t.name(1), t.model.integers(axes)]);
  return t.node("Add", [t.name(0), bias]);
}

/** The result, but zero where the second operand is zero. */
function unlessZero(t: Translation, result: string): string {
  const zero = t.model.scalar(t.dtype(1), 0);
  return t.node("Where", [t.node("Equal", [t.name(1), zero]), zero, result]);
}

/** The result, but zero where the first operand is zero, even where the result is NaN. */
function unlessFirstZero(t: Translation, result: string): string {
  const zero = t.model.scalar(t.dtype(0), 0);
  const isZero = t.node("Equal", [t.name(0), zero]);
  return t.node("Where", [isZero, zero, result]);
}

function floorDivide(t: Translation): string {
  return t.node("Floor", [t.node("Div", ofFloats(t))]);
}

/** What is left of a truncating division, brought to the side of zero on which the divisor is. */
function floorModulo(t: Translation): string {
  const [value, divisor] = ofFloats(t);
  const zero = t.model.scalar(t.dtype(0), 0);
  const rest = t.node("Mod", [value!, divisor!], { fmod: 1 });
  const sides = [rest, divisor!].map((each) => t.node("Less", [each, zero]));
  const isSome = t.node("Not", [t.node("Equal", [rest, zero])]);
  const isBeyond = t.node("And", [isSome, t.node("Xor", sides)]);
  return t.node("Where", [isBeyond, t.node("Add", [rest, divisor!]), rest]);
}

/** The operands of a division. @throws WinnowError UNIMPLEMENTED for integers */
function ofFloats(t: Translation): readonly string[] {
  if (!t.dtype(0).startsWith("float")) throw t.untranslatable(`divides ${t.dtype(0)} values`);
  return t.names;
}

/** The values where a mask is true, and `otherwise` (nothing: false) elsewhere; ONNX Runtime's Where knows no booleans. */
export function chosen(t: Translation, ...[mask, values, otherwise]: string[]): string {
  if (t.outputDtype !== "bool") return t.node("Where", [mask!, values!, otherwise!]);
  const kept = t.node("And", [mask!, values!]);
  if (!otherwise) return kept;
  return t.node("Or", [kept, t.node("And", [t.node("Not", [mask!]), otherwise])]);
}

function filledLike(t: Translation, value: number): string {
  return t.node("Expand", [t.model.scalar(t.outputDtype, value), t.node("Shape", [t.name(0)])]);
}

/** Select v1 chooses whole rows where its condition is a vector. */
function select(t: Translation): string {
  const [condition, values] = [t.value(0).shape?.length, t.value(1).shape?.length];
  if (condition === 0 || (condition !== undefined && condition === values)) {
    return chosen(t, ...t.names);
  }
  if (condition !== 1) throw t.untranslatable("needs values of a known rank");
  const axes = Array.from({ length: t.rank(1) - 1 }, (_, index) => index + 1);
  const rows = t.node("Unsqueeze", [t.name(0), t.model.integers(axes)]);
  return chosen(t, rows, t.name(1), t.name(2));
}
