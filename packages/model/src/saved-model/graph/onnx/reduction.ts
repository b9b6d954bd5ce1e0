// Sums, means and extremes over axes. An empty list of axes reduces nothing in TensorFlow but
// everything in ONNX. Of an axis without values TensorFlow's mean of floats is NaN, and none of its values is
// true (tensorflow/core/kernels/reduction_ops.h); ONNX Runtime's mean is 0, and its maximum the least integer.

import { ONNX_TYPES } from "./onnx-message.ts";
import type { Translation, Translators } from "./translation.ts";

/** Translators of reductions. */
export const reduction: Translators = {
  Sum: (t) => overAxes(t, "ReduceSum", t.name(0)),
  Mean: (t) => {
    const isOfFloats = t.outputDtype === "float32" || t.outputDtype === "float64";
    return isOfFloats && mayReduceNothing(t)
      ? meanByCount(t)
      : overAxes(t, "ReduceMean", t.name(0));
  },
  Max: (t) => overAxes(t, "ReduceMax", t.name(0)),
  Min: (t) => overAxes(t, "ReduceMin", t.name(0)),
  Prod: (t) => overAxes(t, "ReduceProd", t.name(0)),
  EuclideanNorm: (t) =>
    axesOf(t).length === 0 ? t.node("Abs", [t.name(0)]) : overAxes(t, "ReduceL2", t.name(0)),
  Any: (t) => {
    const most = overAxes(t, "ReduceMax", t.cast(t.name(0), ONNX_TYPES.int32));
    const zero = t.model.constant({ dtype: "int32", shape: [], data: Int32Array.of(0) });
    return t.node("Greater", [most, zero]);
  },
  All: (t) =>
    t.cast(overAxes(t, "ReduceMin", t.cast(t.name(0), ONNX_TYPES.int32)), ONNX_TYPES.bool),
  ArgMax: (t) => extreme(t, "ArgMax"),
  ArgMin: (t) => extreme(t, "ArgMin"),
  Cumsum: (t) => {
    const { attributes } = t.operation;
    return t.node("CumSum", [t.name(0), t.model.integers(t.integer(1))], {
      exclusive: Number(attributes.flag("exclusive")),
      reverse: Number(attributes.flag("reverse")),
    });
  },
};

/** ReduceSum takes its axes as an input since opset 13, the others as an attribute until 18. */
function overAxes(t: Translation, op: string, value: string): string {
  const axes = axesOf(t);
  if (axes.length === 0) return t.node("Identity", [value]);
  const keepdims = Number(t.operation.attributes.flag("keep_dims"));
  if (op === "ReduceSum") return t.node(op, [value, t.model.integers(axes)], { keepdims });
  return t.node(op, [value], { axes, keepdims });
}

function axesOf(t: Translation): readonly number[] {
  const rank = t.value(0).shape?.length ?? 0;
  // ONNX Runtime does not count axes from the end where a value is empty.
  return t.integers(1).map((axis) => (axis < 0 && rank > 0 ? axis + rank : axis));
}

/** Whether the graph does not say that the axes have values. */
function mayReduceNothing(t: Translation): boolean {
  const { shape } = t.value(0);
  return axesOf(t).some((axis) => !((shape?.[axis] ?? -1) > 0));
}

/** The sum over the number of values: 0 / 0 where there are none. */
function meanByCount(t: Translation): string {
  const axes = t.model.integers(axesOf(t));
  const sizes = t.node("Gather", [t.node("Shape", [t.name(0)]), axes]);
  const count = t.node("ReduceProd", [sizes], { keepdims: 0 });
  const sum = overAxes(t, "ReduceSum", t.name(0));
  return t.node("Div", [sum, t.cast(count, ONNX_TYPES[t.outputDtype])]);
}

function extreme(t: Translation, op: string): string {
  const found = t.node(op, [t.name(0)], { axis: t.integer(1), keepdims: 0 });
  return t.outputDtype === "int64" ? found : t.cast(found, ONNX_TYPES[t.outputDtype]);
}
