// Shapes as far as they follow from the graph: enough to fold shape arithmetic, to give ONNX the
// ranks it needs, and to refuse tables and queries that cannot fit. An operation without a rule
// gives an unknown rank, because a wrong shape would be worse than none.

import { WinnowError } from "@winnow/core";
import { CONVOLUTION_RULES } from "./convolution-shapes.ts";
import { integerOf, integersOf, producerOf } from "../graph-value.ts";
import type { GraphValue, Shape } from "../graph-value.ts";
import type { InferredOutput, Inputs, ShapeRule, ShapedNode } from "./shape-rule.ts";
import { SLICING_RULES } from "./slicing-shapes.ts";

const SAME_SHAPE: readonly string[] = [
  ..."Abs,BiasAdd,Bucketize,Cast,Ceil,CheckNumerics,Elu,Erf,Erfc,Exp,Expm1,Floor,Gelu,LeakyRelu".split(
    ",",
  ),
  ..."Log,Log1p,LogSoftmax,LogicalNot,LookupTableFindV2,Neg,OnesLike,Reciprocal,Relu".split(","),
  ..."Relu6,Rint,Round,RoundToNarrow,Rsqrt,Selu,Sigmoid,Sign,Sin,Cos,Softmax,Softplus,Softsign,Sqrt,Square".split(
    ",",
  ),
  ..."StaticRegexReplace,RegexReplace,StringLower,StringUpper,StringStrip,AsString".split(","),
  ..."StringToHashBucketFast,StringToHashBucketStrong,StringToNumber,Tanh,ZerosLike".split(","),
  ..."DecodeBase64,EncodeBase64,Invert,StringToHashBucket,StringLength".split(","),
  ..."RegexFullMatch,StaticRegexFullMatch".split(","),
  ..."Cumsum,IsNan,IsFinite,IsInf,ClipByValue,FusedBatchNormV2,FusedBatchNormV3".split(","),
  ..."ReverseV2,Acos,Acosh,Asin,Asinh,Atan,Atanh,Cosh,Cumprod,ReverseSequence,Roll,Sinh,Tan".split(
    ",",
  ),
  ..."TensorScatterAdd,TensorScatterMax,TensorScatterMin,TensorScatterSub".split(","),
  ..."TensorScatterUpdate".split(","),
];
const BROADCAST: readonly string[] = [
  ..."Add,AddV2,Atan2,BitwiseAnd,BitwiseOr,BitwiseXor,Div,DivNoNan,Equal,FloorDiv,FloorMod".split(
    ",",
  ),
  ..."Greater,GreaterEqual,LeftShift,Less,LessEqual,RightShift".split(","),
  ..."LogicalAnd,LogicalOr,Maximum,Minimum,Mod,Mul,MulNoNan,NotEqual,Pow,RealDiv".split(","),
  ..."SelectV2,SquaredDifference,StringJoin,Sub,Substr,TruncateDiv,TruncateMod,Xdivy,Xlogy".split(
    ",",
  ),
];
const REDUCTIONS: readonly string[] = "All,Any,EuclideanNorm,Max,Mean,Min,Prod,Sum".split(",");

const RULES: ReadonlyMap<string, ShapeRule> = new Map<string, ShapeRule>([
  ...SAME_SHAPE.map((op): [string, ShapeRule] => [op, (inputs, node) => sameShape(inputs, node)]),
  ...BROADCAST.map((op): [string, ShapeRule] => [op, broadcastRule]),
  ...REDUCTIONS.map((op): [string, ShapeRule] => [op, reductionRule]),
  ["AddN", (inputs) => ({ shape: inputs[0]?.shape })],
  ["Bitcast", bitcastRule],
  ["DecodeCSV", (inputs) => ({ shape: inputs[0]?.shape })],
  ["DecodePaddedRaw", rawRule],
  ["DecodeRaw", rawRule],
  ["Select", (inputs) => ({ shape: inputs[1]?.shape })],
  ["MatMul", matMulRule],
  ["BatchMatMul", batchMatMulRule],
  ["BatchMatMulV2", batchMatMulRule],
  ["BatchMatMulV3", batchMatMulRule],
  ["Reshape", reshapeRule],
  ["ExpandDims", expandDimsRule],
  ["Squeeze", squeezeRule],
  ["Transpose", transposeRule],
  ["ConcatV2", concatRule],
  ["Pack", packRule],
  ["Fill", (inputs) => ({ shape: sizesOf(inputs[0]) })],
  ["BroadcastTo", (inputs) => ({ shape: sizesOf(inputs[1]) })],
  ["Shape", (inputs) => shapeRule(inputs[0]?.shape)],
  ["ScatterNd", (inputs) => ({ shape: sizesOf(inputs[2]) })],
  ["Where", (inputs) => ({ shape: [-1, inputs[0]?.shape?.length ?? -1] })],
  ["Size", () => ({ shape: [] })],
  ["Rank", () => ({ shape: [] })],
  ["GatherV2", gatherRule],
  ["GatherNd", gatherNdRule],
  ["OneHot", oneHotRule],
  ["DenseBincount", bincountRule],
  ["TopKV2", topKRule],
  ...["Max", "Min", "Prod", "Sum"].map((of): [string, ShapeRule] => [
    `UnsortedSegment${of}`,
    segmentRule,
  ]),
  ...["Max", "Mean", "Min", "Prod", "Sum"].map((of): [string, ShapeRule] => [
    `Segment${of}`,
    ([data]) => ({ shape: data?.shape && [-1, ...data.shape.slice(1)] }),
  ]),
  ["ArgMax", argMaxRule],
  ["ArgMin", argMaxRule],
  ...SLICING_RULES,
  ...CONVOLUTION_RULES,
]);

/**
 * The shape of a node's first output, or of all outputs where they are alike (lowered-nodes.ts).
 * @throws WinnowError INVALID_ARGUMENT for shapes that do not fit together or have too many
 * dimensions
 */
export function inferShape(node: ShapedNode, inputs: Inputs): InferredOutput {
  const inferred = RULES.get(node.op)?.(inputs, node) ?? { shape: undefined };
  const rank = inferred.shape?.length ?? 0;
  if (rank <= RANK_MAX) return inferred;
  const text = `node ${node.name} gives a tensor of ${rank} dimensions; up to ${RANK_MAX} are possible`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/** The shape two operands broadcast to. @throws WinnowError INVALID_ARGUMENT when they cannot */
function broadcastShapes(a: Shape, b: Shape, node: string): Shape {
  if (a === undefined || b === undefined) return undefined;
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, index) => {
    const left = a[index - rank + a.length] ?? 1;
    const right = b[index - rank + b.length] ?? 1;
    if (left === 1) return right;
    if (right === 1 || right === left) return left;
    if (left === -1 || right === -1) return Math.max(left, right);
    throw mismatch(node, a, b);
  });
}

function sameShape(inputs: Inputs, node: ShapedNode): InferredOutput {
  const position = node.op === "LookupTableFindV2" ? 1 : 0;
  const value = inputs[position];
  return { shape: value?.shape, known: node.op === "Cast" ? value?.known : undefined };
}

/** DataType numbers of the types of one width: float32, int32 and uint32; float64, int64 and uint64. */
const WIDTHS: ReadonlyMap<number, number> = new Map([
  ...[1, 3, 22].map((type): [number, number] => [type, 4]),
  ...[2, 9, 23].map((type): [number, number] => [type, 8]),
]);

/** Values of as many bytes keep their shape; what others give is left open. */
function bitcastRule(inputs: Inputs, { attributes }: ShapedNode): InferredOutput {
  const from = WIDTHS.get(attributes.type("T"));
  const isSameWidth = from !== undefined && from === WIDTHS.get(attributes.type("type"));
  return { shape: isSameWidth ? inputs[0]?.shape : undefined };
}

/** As many numbers as the bytes of each string give. */
function rawRule([strings]: Inputs): InferredOutput {
  return { shape: strings?.shape && [...strings.shape, -1] };
}

function broadcastRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  let shape: Shape = inputs[0]?.shape;
  for (const input of inputs.slice(1)) shape = broadcastShapes(shape, input.shape, node.name);
  return { shape };
}

function reductionRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const shape = inputs[0]?.shape;
  const axes = integersOf(inputs[1]);
  if (shape === undefined || axes === undefined) return { shape: undefined };
  const reduced = new Set(axes.map((axis) => (axis < 0 ? axis + shape.length : axis)));
  return {
    shape: node.attributes.flag("keep_dims")
      ? shape.map((size, axis) => (reduced.has(axis) ? 1 : size))
      : shape.filter((_, axis) => !reduced.has(axis)),
  };
}

function isCompatible(size: number, other: number): boolean {
  return size === other || size === -1 || other === -1;
}

const ANY_MATRIX: readonly number[] = [-1, -1];

function matMulRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const [a, b] = inputs.map(({ shape }) => shape ?? ANY_MATRIX);
  if (a === undefined || b === undefined) return { shape: undefined };
  const { attributes } = node;
  const [rows = -1, inner = -1] = attributes.flag("transpose_a") ? a.toReversed() : a;
  const [outer = -1, columns = -1] = attributes.flag("transpose_b") ? b.toReversed() : b;
  const areMatrices = a.length === 2 && b.length === 2;
  if (!areMatrices || !isCompatible(inner, outer)) throw mismatch(node.name, a, b);
  return { shape: [rows, columns] };
}

function batchMatMulRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const [a, b] = [inputs[0]?.shape, inputs[1]?.shape];
  if (a === undefined || b === undefined || a.length < 2 || b.length < 2)
    return { shape: undefined };
  const rows = a.at(node.attributes.flag("adj_x") ? -1 : -2) ?? -1;
  const columns = b.at(node.attributes.flag("adj_y") ? -2 : -1) ?? -1;
  const batch = broadcastShapes(a.slice(0, -2), b.slice(0, -2), node.name);
  return { shape: batch === undefined ? undefined : [...batch, rows, columns] };
}

/** TensorFlow's own limit is 254. */
const RANK_MAX = 254;

/** The sizes that a shape tensor holds, -1 for sizes that are not known. */
function sizesOf(value: GraphValue | undefined): Shape {
  const count = value?.shape?.[0] ?? -1;
  // More sizes than a shape can have, and too many to list: running the node will refuse it.
  if (count > RANK_MAX) return undefined;
  const sizes = integersOf(value) ?? value?.known;
  if (sizes !== undefined) return sizes;
  return count < 0 ? undefined : Array.from({ length: count }, () => -1);
}

function reshapeRule(inputs: Inputs): InferredOutput {
  const sizes = sizesOf(inputs[1]);
  const from = inputs[0]?.shape;
  const open = sizes?.indexOf(-1) ?? -1;
  const known = inputs[0]?.known;
  if (sizes === undefined || from === undefined || open < 0 || from.includes(-1)) {
    return { shape: sizes, known };
  }
  if (sizes.filter((size) => size === -1).length > 1) return { shape: sizes, known };
  const rest = sizes.reduce((product, size) => (size === -1 ? product : product * size), 1);
  const total = from.reduce((product, size) => product * size, 1);
  const fits = rest > 0 && total % rest === 0;
  return { shape: fits ? sizes.with(open, total / rest) : sizes, known };
}

function expandDimsRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const axis = integerOf(inputs[1]);
  if (shape === undefined || axis === undefined) return { shape: undefined };
  return { shape: shape.toSpliced(axis < 0 ? axis + shape.length + 1 : axis, 0, 1) };
}

function squeezeRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const shape = inputs[0]?.shape;
  if (shape === undefined) return { shape: undefined };
  const axes = node.attributes.ints("squeeze_dims");
  if (axes.length === 0) {
    return { shape: shape.includes(-1) ? undefined : shape.filter((size) => size !== 1) };
  }
  const gone = new Set(axes.map((axis) => (axis < 0 ? axis + shape.length : axis)));
  return { shape: shape.filter((_, axis) => !gone.has(axis)) };
}

function transposeRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const order = integersOf(inputs[1]);
  if (shape === undefined || order?.length !== shape.length) return { shape: undefined };
  return { shape: order.map((axis) => shape[axis] ?? -1) };
}

function concatRule(inputs: Inputs): InferredOutput {
  const parts = inputs.slice(0, -1);
  const axis = integerOf(inputs.at(-1));
  const first = parts[0]?.shape;
  if (first === undefined || axis === undefined) return { shape: undefined };
  const at = axis < 0 ? axis + first.length : axis;
  if (at < 0 || at >= first.length) return { shape: undefined };
  const sizes = parts.map((part) => part.shape?.[at] ?? -1);
  const total = sizes.includes(-1) ? -1 : sizes.reduce((sum, size) => sum + size, 0);
  const isVector = first.length === 1 && parts.every((part) => part.known !== undefined);
  const known = isVector ? parts.flatMap((part) => part.known ?? []) : undefined;
  return { shape: first.with(at, total), known };
}

function packRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const shape = inputs[0]?.shape;
  if (shape === undefined) return { shape: undefined };
  const axis = node.attributes.int("axis", 0);
  const packed = shape.toSpliced(axis < 0 ? axis + shape.length + 1 : axis, 0, inputs.length);
  const known = shape.length === 0 ? inputs.map((input) => input.known?.[0] ?? -1) : undefined;
  return { shape: packed, known };
}

function shapeRule(shape: Shape): InferredOutput {
  return shape === undefined ? { shape: [-1] } : { shape: [shape.length], known: shape };
}

function gatherRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const [values, indices, axis] = inputs;
  const at = integerOf(axis);
  const batch = node.attributes.int("batch_dims", 0);
  if (values?.shape === undefined || indices?.shape === undefined || at === undefined || at < 0) {
    return { shape: undefined };
  }
  const middle = indices.shape.slice(batch);
  const shape = [...values.shape.slice(0, at), ...middle, ...values.shape.slice(at + 1)];
  // Sizes gathered from a shape, as in `tf.tensordot`.
  const sizes = values.shape.length === 1 && batch === 0 ? values.known : undefined;
  return { shape, known: sizes && integersOf(indices)?.map((row) => sizes[row] ?? -1) };
}

/** The last axis of the indices names places in the first axes of the values. */
function gatherNdRule([values, indices]: Inputs, { attributes }: ShapedNode): InferredOutput {
  const places = indices?.shape?.at(-1) ?? -1;
  const isPlain = places >= 0 && attributes.int("batch_dims", 0) === 0;
  if (values?.shape === undefined || indices?.shape === undefined || !isPlain) {
    return { shape: undefined };
  }
  return { shape: [...indices.shape.slice(0, -1), ...values.shape.slice(places)] };
}

function oneHotRule(inputs: Inputs, node: ShapedNode): InferredOutput {
  const shape = inputs[0]?.shape;
  if (shape === undefined || node.attributes.int("axis", -1) !== -1) return { shape: undefined };
  return { shape: [...shape, integerOf(inputs[1]) ?? -1] };
}

/** A count of each number up to a size, as `tf.math.bincount` bounds it: at least so large, and at most. */
function bincountRule([numbers, size]: Inputs): InferredOutput {
  const shape = numbers?.shape;
  if (shape === undefined || size === undefined) return { shape: undefined };
  const most = producerOf(size, "Minimum")?.inputs ?? [];
  const least = most.flatMap((bound) => producerOf(bound, "Maximum")?.inputs ?? []);
  const isLeast = (bound: number): boolean => least.some((each) => integerOf(each) === bound);
  const both = most.map(integerOf).find((bound) => bound !== undefined && isLeast(bound));
  return { shape: [...shape.slice(0, -1), integerOf(size) ?? both ?? -1] };
}

function topKRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  return {
    shape: shape === undefined ? undefined : [...shape.slice(0, -1), integerOf(inputs[1]) ?? -1],
  };
}

function segmentRule([values, ids, count]: Inputs): InferredOutput {
  if (values?.shape === undefined || ids?.shape === undefined) return { shape: undefined };
  return { shape: [integerOf(count) ?? -1, ...values.shape.slice(ids.shape.length)] };
}

function argMaxRule(inputs: Inputs): InferredOutput {
  const shape = inputs[0]?.shape;
  const axis = integerOf(inputs[1]);
  if (shape === undefined || axis === undefined) return { shape: undefined };
  return { shape: shape.toSpliced(axis < 0 ? axis + shape.length : axis, 1) };
}

function mismatch(node: string, a: Shape, b: Shape): WinnowError {
  const shapes = `[${a?.join(",") ?? "?"}] and [${b?.join(",") ?? "?"}]`;
  return new WinnowError("INVALID_ARGUMENT", `node ${node} cannot combine the shapes ${shapes}`);
}
