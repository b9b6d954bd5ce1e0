// Vectors with one value for each item that a graph computes of what it stores: `0.2 * log1p(views)`,
// `(1 - in_stock) * -1e9`. They are computed when the version is opened, by the operations that a router would run.

import { elementCount, elementFunction } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { fold } from "../../constant-folding.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import { roundingOf } from "./element-functions.ts";
import type { RoundingName } from "./element-functions.ts";
import type { ScalarReader } from "./scalar-value.ts";

/** Operations that give each item a value of its own, those that add or take axes of size 1, and what all items have together. */
const OPERATIONS: ReadonlySet<string> = new Set(
  (
    "Abs,Add,AddV2,Cast,Div,DivNoNan,Equal,Exp,ExpandDims,Floor,GatherV2,Greater,GreaterEqual,Less,LessEqual,Log,Log1p," +
    "LogicalAnd,LogicalNot,LogicalOr,Max,Maximum,Mean,Min,Minimum,Mul,Neg,NotEqual,OnesLike,Pow,RealDiv,Reciprocal," +
    "Relu,Reshape,Rsqrt,Select,SelectV2,Sigmoid,Sqrt,Square,SquaredDifference,Squeeze,StridedSlice,Sub,Sum,Tanh," +
    "Transpose,ZerosLike"
  ).split(","),
);
const OPERATIONS_MAX = 32;
/** Integers below it are float32, too. */
const INTEGER_MAX = 2 ** 24;
/** Items whose vectors are read as a whole when a version is opened. */
const ITEMS_MAX = 2 ** 24;

/** The content of a float32 vector of items; `undefined` where a request, or another operation, decides it. */
export function vectorOf(
  value: GraphValue,
  items: number,
  read: ScalarReader,
): Float32Array | undefined {
  const count = elementCount(value.shape ?? [-1]);
  if (count !== items || items > ITEMS_MAX || value.shape?.includes(-1) === true) return undefined;
  const tensor = contentOf(value, { read, operationsLeft: OPERATIONS_MAX });
  return tensor?.dtype === "float32" && tensor.data.length === items ? tensor.data : undefined;
}

/** The content of a vector of items, of floats or of integers; `undefined` where a request, or another operation, decides it. */
export function numbersOfItems(
  value: GraphValue,
  items: number,
  read: ScalarReader,
): Float32Array | undefined {
  if (value.dtype === "float32") return vectorOf(value, items, read);
  const content =
    value.shape?.join() === String(items) && items <= ITEMS_MAX
      ? contentOf(value, { read, operationsLeft: OPERATIONS_MAX })
      : undefined;
  if (content?.dtype !== "int32" && content?.dtype !== "int64") return undefined;
  const numbers = Float32Array.from(content.data, Number);
  return numbers.every((number) => Math.abs(number) < INTEGER_MAX) ? numbers : undefined;
}

interface Reading {
  readonly read: ScalarReader;
  operationsLeft: number;
}

function contentOf(value: GraphValue, reading: Reading): Tensor | undefined {
  const { constant, stored, shape, producer } = value;
  if (constant !== undefined) return constant;
  if (shape === undefined || shape.includes(-1) || elementCount(shape) > ITEMS_MAX) {
    return undefined;
  }
  if (stored !== undefined) return reading.read(value);
  reading.operationsLeft -= 1;
  const isComputed = producer?.kind === "operation" && reading.operationsLeft >= 0;
  return isComputed ? computed(producer, reading) : undefined;
}

function computed(node: OperationNode, reading: Reading): Tensor | undefined {
  const { op, name, attributes, inputs: values } = node;
  const rounding = roundingOf(node);
  if (rounding === undefined && !OPERATIONS.has(op)) return undefined;
  const inputs = values.flatMap((input) => contentOf(input, reading) ?? []);
  if (inputs.length < values.length) return undefined;
  if (rounding !== undefined) return rounded(inputs[0]!, rounding);
  return fold({ op, name, attributes, outputCount: 1, isUnbounded: true }, inputs)?.[0];
}

function rounded(tensor: Tensor, rounding: RoundingName): Tensor {
  if (tensor.dtype !== "float32") return tensor;
  const round = elementFunction(rounding);
  return { ...tensor, data: tensor.data.map((value) => round(value, NaN)) };
}
