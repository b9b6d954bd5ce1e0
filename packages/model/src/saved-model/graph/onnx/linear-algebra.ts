// Products of matrices and tensors, and what neural layers build on them: normalisation, softmax.

import { mayBeEmpty, unlessEmpty } from "./empty-operands.ts";
import { ONNX_TYPES } from "./onnx-message.ts";
import type { OnnxModel } from "./onnx-model.ts";
import type { Translation, Translators } from "./translation.ts";

/** Translators of products, normalisations and distributions. */
export const linearAlgebra: Translators = {
  MatMul: (t) => {
    const { attributes } = t.operation;
    const left = attributes.flag("transpose_a") ? swapped(t, 0) : t.name(0);
    return product(t, left, attributes.flag("transpose_b") ? swapped(t, 1) : t.name(1));
  },
  BatchMatMul: batchMatMul,
  BatchMatMulV2: batchMatMul,
  BatchMatMulV3: batchMatMul,
  FusedBatchNormV3: batchNormalisation,
  FusedBatchNormV2: batchNormalisation,
  LogSoftmax: (t) => t.node("LogSoftmax", t.names, { axis: -1 }),
  Softmax: (t) => t.node("Softmax", t.names, { axis: -1 }),
  TopKV2: topK,
  L2Loss: (t) => {
    const halves = t.node("Mul", [t.node("Mul", [t.name(0), t.name(0)]), half(t)]);
    return t.node("ReduceSum", [halves], { keepdims: 0 });
  },
};

function half(t: Translation): string {
  return t.model.scalar(t.dtype(0), 0.5);
}

function batchMatMul(t: Translation): string {
  const { attributes } = t.operation;
  const left = attributes.flag("adj_x") ? swapped(t, 0) : t.name(0);
  return product(t, left, attributes.flag("adj_y") ? swapped(t, 1) : t.name(1));
}

/** Of int8 matrices, as quantised layers have them, TensorFlow sums the products in int32. */
function product(t: Translation, left: string, right: string): string {
  const isQuantised = t.outputDtype === "int32" && [t.dtype(0), t.dtype(1)].includes("int8");
  const sides = [left, right].map((side) => (isQuantised ? t.cast(side, ONNX_TYPES.int32) : side));
  return t.node("MatMul", sides);
}

/** An input with its last two axes exchanged; matrices of MatMul have no others. */
function swapped(t: Translation, position: number): string {
  const rank = t.operation.op === "MatMul" ? 2 : t.rank(position);
  const order = Array.from({ length: rank }, (_, axis) => axis);
  if (rank < 2) throw t.untranslatable("multiplies what is no matrix");
  const perm = [...order.slice(0, -2), rank - 1, rank - 2];
  return t.node("Transpose", [t.name(position)], { perm });
}

/**
 * In inference mode, normalises by the stored mean and variance. In training mode, which Keras 2
 * uses for layer normalisation, by mean and variance of the values themselves over all axes but the
 * channels.
 */
function batchNormalisation(t: Translation): string {
  const { attributes } = t.operation;
  const isTraining = attributes.get("is_training");
  const format = attributes.text("data_format") || "NHWC";
  if (format !== "NHWC" && format !== "NCHW") throw t.untranslatable(`has ${format} channels`);
  const perChannel = (position: number): string =>
    format === "NHWC"
      ? t.name(position)
      : t.node("Unsqueeze", [t.name(position), t.model.integers([1, 2])]);
  const ofItself = isTraining?.kind !== "bool" || isTraining.value;
  const axes = format === "NHWC" ? [0, 1, 2] : [0, 2, 3];
  const mean = ofItself ? t.node("ReduceMean", [t.name(0)], { axes, keepdims: 1 }) : perChannel(3);
  const centred = t.node("Sub", [t.name(0), mean]);
  const squares = t.node("Mul", [centred, centred]);
  const variance = ofItself
    ? t.node("ReduceMean", [squares], { axes, keepdims: 1 })
    : perChannel(4);
  const epsilon = t.model.scalar(t.dtype(1), attributes.float("epsilon", 1e-4));
  const deviation = t.node("Sqrt", [t.node("Add", [variance, epsilon])]);
  const factor = t.node("Div", [perChannel(1), deviation]);
  return t.node("Add", [t.node("Mul", [centred, factor]), perChannel(2)]);
}

/** Equal values keep the lower index first in ONNX Runtime as in TensorFlow. */
function topK(t: Translation): readonly string[] {
  const k = t.model.integers([t.integer(1)]);
  const attributes = { axis: -1, largest: 1, sorted: 1 };
  const compute = (model: OnnxModel): string[] =>
    model.nodes("TopK", [t.name(0), k], { attributes, outputCount: 2 });
  const [values, indices] = mayBeEmpty(t, 0)
    ? unlessEmpty(t, {
        operands: [t.name(0)],
        outputs: [t.dtype(0), "int64"],
        compute,
        shape: (model) => {
          const ends = [model.integers([0]), model.integers([-1])];
          const rows = model.node("Slice", [model.node("Shape", [t.name(0)]), ...ends]);
          return model.node("Concat", [rows, k], { axis: 0 });
        },
      })
    : compute(t.model);
  const dtype = t.operation.outputs[1]?.dtype === "int64" ? "int64" : "int32";
  return [values!, t.cast(indices!, ONNX_TYPES[dtype])];
}
