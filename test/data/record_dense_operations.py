"""Records what TensorFlow's own kernels answer, for operations on numbers.

    TF_ENABLE_ONEDNN_OPTS=0 python record_dense_operations.py

Needs tensorflow 2.21; Winnow itself does not. Writes dense-operations.json:

    { recorded_with,
      cases: [ {op, attributes, constants, inputs: [tensor],
                outputs: [tensor] | error: {code, message}} ] }

A tensor is [dtype, shape, flat values]; NaN and the infinities are "NaN", "Infinity", "-Infinity".
`attributes` are [kind, value], where the kind is that of an AttrValue. `constants` are the positions
of inputs that a graph holds as constants.
"""

import json
import os
import pathlib

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np
import tensorflow as tf

cases = []
rng = np.random.default_rng(11)
i32, i64, f32, f64, b = tf.int32, tf.int64, tf.float32, tf.float64, tf.bool
NAN, INF = float("nan"), float("inf")


def plain(value):
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if type(value) is int and abs(value) > 2**53:
        return str(value)
    return value


def tensor(t):
    values = np.asarray(t.numpy()).reshape(-1).tolist()
    return [t.dtype.name, list(t.shape), [plain(value) for value in values]]


def attribute(value):
    if isinstance(value, tf.DType):
        return ["type", value.as_datatype_enum]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, list):
        return ["list", value]
    if isinstance(value, str):
        return ["bytes", value]
    return ["int" if isinstance(value, int) else "float", value]


# Attributes that tf.raw_ops calls otherwise than graphs do.
STORED_NAMES = {("Squeeze", "axis"): "squeeze_dims"}


def case(op, inputs, constants=(), **attributes):
    """inputs: name → tensor, or list of tensors, in the order of the op's definition."""
    flat = [t for value in inputs.values() for t in (value if isinstance(value, list) else [value])]
    names = [name for name, value in inputs.items() for _ in (value if isinstance(value, list) else [value])]
    record = {
        "op": op,
        "attributes": {STORED_NAMES.get((op, name), name): attribute(value) for name, value in attributes.items()},
        "constants": [at for at, name in enumerate(names) if name in constants],
        "inputs": [tensor(t) for t in flat],
    }
    try:
        with tf.device("/cpu:0"):
            answer = getattr(tf.raw_ops, op)(**inputs, **attributes)
    except tf.errors.OpError as error:
        names = {v: k for k, v in tf.errors.__dict__.items() if isinstance(v, int)}
        message = error.message.split("}} ", 1)[-1].split(" [Op:")[0]
        record["error"] = {"code": names[error.error_code], "message": message}
    else:
        outputs = [answer] if isinstance(answer, tf.Tensor) else list(answer)
        record["outputs"] = [tensor(t) for t in outputs]
    cases.append(record)


def c(values, dtype=f32, shape=None):
    return tf.constant(values, dtype, shape=shape)


def randoms(*shape, dtype=f32):
    return tf.constant(np.round(rng.normal(size=shape) * 8) / 8, dtype)


def counted(*shape, dtype=i32):
    return tf.constant(np.arange(1, 1 + int(np.prod(shape))).reshape(shape), dtype)


# --- matrices
BOUNDS = {"num_lower", "num_upper"}
for dtype in (f32, f64, i32, i64):
    for lower, upper in [(-1, 0), (0, -1), (0, 0), (1, 2), (-1, -1), (3, 0), (0, 4)]:
        case("MatrixBandPart", {"input": counted(2, 3, 4, dtype=dtype), "num_lower": c(lower, i64), "num_upper": c(upper, i64)}, BOUNDS)
for lower, upper in [(-1, 0), (0, -1), (1, 1)]:
    case("MatrixBandPart", {"input": c(True, b, [3, 3]), "num_lower": c(lower, i64), "num_upper": c(upper, i64)}, BOUNDS)
    case("MatrixBandPart", {"input": c([[NAN, INF, -INF], [-INF, NAN, INF]]), "num_lower": c(lower, i32), "num_upper": c(upper, i32)}, BOUNDS)
    for shape in ([0, 3, 3], [2, 0, 3], [2, 3, 0], [1, 1], [2, 1, 2, 2]):
        case("MatrixBandPart", {"input": tf.ones(shape), "num_lower": c(lower, i64), "num_upper": c(upper, i64)}, BOUNDS)
case("MatrixBandPart", {"input": counted(3, 3), "num_lower": c(1, i64), "num_upper": c(-1, i64)})
case("MatrixBandPart", {"input": counted(2, 3), "num_lower": c(3, i64), "num_upper": c(0, i64)}, BOUNDS)
case("MatrixBandPart", {"input": counted(2, 3), "num_lower": c(0, i64), "num_upper": c(4, i64)}, BOUNDS)
DIAGONAL = {"k", "num_rows", "num_cols", "padding_value"}
for value in (randoms(2, 3), counted(4), c([NAN, INF]), tf.ones([0, 3])):
    padding = tf.zeros([], value.dtype)
    case("MatrixDiagV3", {"diagonal": value, "k": c(0, i32), "num_rows": c(-1, i32), "num_cols": c(-1, i32), "padding_value": padding}, DIAGONAL, align="RIGHT_LEFT")
for value in (randoms(2, 3, 3), counted(4, 4), tf.ones([0, 2, 2])):
    case("MatrixDiagPartV3", {"input": value, "k": c(0, i32), "padding_value": tf.zeros([], value.dtype)}, DIAGONAL, align="RIGHT_LEFT")
    case("MatrixSetDiagV3", {"input": value, "diagonal": tf.zeros(value.shape[:-1], value.dtype), "k": c(0, i32)}, DIAGONAL, align="RIGHT_LEFT")

# --- convolutions
KERNEL = {"filter"}
for size in (7, 8):
    for cells, stride, dilation in [(1, 1, 1), (3, 1, 1), (2, 1, 1), (3, 2, 1), (4, 3, 1), (1, 3, 1), (2, 1, 3), (3, 1, 2)]:
        for padding in ("VALID", "SAME"):
            lists = {"strides": [1, 1, stride, 1], "dilations": [1, 1, dilation, 1]}
            case("Conv2D", {"input": randoms(2, 1, size, 3), "filter": randoms(1, cells, 3, 2)}, KERNEL, padding=padding, **lists)
case("Conv2D", {"input": randoms(1, 5, 6, 2), "filter": randoms(2, 3, 2, 3)}, KERNEL, padding="SAME", strides=[1, 2, 1, 1], dilations=[1, 1, 1, 1])
case("Conv2D", {"input": randoms(1, 5, 6, 2), "filter": randoms(2, 3, 2, 3)}, KERNEL, padding="EXPLICIT", explicit_paddings=[0, 0, 2, 0, 1, 3, 0, 0], strides=[1, 1, 2, 1])
case("Conv2D", {"input": randoms(1, 5, 6, 2), "filter": randoms(2, 2, 2, 1)}, KERNEL, padding="VALID", strides=[1, 1, 1, 1], dilations=[1, 2, 3, 1])
case("Conv2D", {"input": tf.ones([0, 1, 5, 2]), "filter": randoms(1, 3, 2, 2)}, KERNEL, padding="SAME", strides=[1, 1, 1, 1])
case("Conv2D", {"input": c([[[[NAN], [1], [INF], [2], [3]]]]), "filter": randoms(1, 2, 1, 1)}, KERNEL, padding="SAME", strides=[1, 1, 1, 1])
for cells, stride, dilation, multiplier in [(3, 1, 1, 1), (2, 1, 1, 2), (3, 2, 1, 1)]:
    for padding in ("VALID", "SAME"):
        lists = {"strides": [1, stride, stride, 1], "dilations": [1, dilation, dilation, 1]}
        case("DepthwiseConv2dNative", {"input": randoms(2, 5, 6, 3), "filter": randoms(cells, cells, 3, multiplier)}, KERNEL, padding=padding, **lists)
for op, name in (("MaxPool", "input"), ("AvgPool", "value")):
    for cells, stride in [(1, 1), (2, 1), (2, 2), (3, 2), (2, 3)]:
        for padding in ("VALID", "SAME"):
            case(op, {name: randoms(2, 1, 7, 3)}, ksize=[1, 1, cells, 1], strides=[1, 1, stride, 1], padding=padding)
    case(op, {name: randoms(1, 4, 5, 2)}, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")
    case(op, {name: c([-INF, 1, INF, 2, -1, -2], f32, [1, 1, 6, 1])}, ksize=[1, 1, 2, 1], strides=[1, 1, 2, 1], padding="VALID")
    case(op, {name: tf.ones([0, 1, 5, 2])}, ksize=[1, 1, 2, 1], strides=[1, 1, 2, 1], padding="SAME")
BLOCKS = {"block_shape", "paddings", "crops"}
for shape, block, margins in [([2, 4, 3], [2], [[0, 0]]), ([1, 5, 2], [3], [[2, 2]]), ([2, 3, 4, 2], [2, 2], [[1, 0], [2, 2]]), ([2, 3], [3], [[0, 0]]), ([0, 4, 1], [2], [[1, 1]])]:
    for constants in (BLOCKS, {"block_shape"}):
        case("SpaceToBatchND", {"input": randoms(*shape), "block_shape": c(block, i32), "paddings": c(margins, i32)}, constants)
for shape, block, margins in [([4, 2, 3], [2], [[0, 0]]), ([3, 3, 2], [3], [[2, 1]]), ([4, 3, 4, 2], [2, 2], [[1, 0], [2, 3]]), ([0, 4, 1], [2], [[1, 1]])]:
    for constants in (BLOCKS, {"block_shape"}):
        case("BatchToSpaceND", {"input": randoms(*shape), "block_shape": c(block, i32), "crops": c(margins, i32)}, constants)
case("SpaceToBatchND", {"input": randoms(2, 5, 3), "block_shape": c([2], i32), "paddings": c([[0, 0]], i32)}, BLOCKS)
case("BatchToSpaceND", {"input": randoms(3, 5, 3), "block_shape": c([2], i32), "crops": c([[0, 0]], i32)}, BLOCKS)
STORED = {"scale", "offset", "mean", "variance"}
case("FusedBatchNormV3", {"x": randoms(2, 3, 2, 4), "scale": randoms(4), "offset": randoms(4), "mean": randoms(4), "variance": tf.abs(randoms(4)) + 0.1}, STORED, is_training=False, epsilon=0.001)
case("BiasAdd", {"value": randoms(2, 3), "bias": randoms(3)}, {"bias"})
for shape in ([2, 3], [2, 3, 4], [1, 3, 2, 2]):
    case("BiasAdd", {"value": randoms(*shape), "bias": randoms(3)}, {"bias"}, data_format="NCHW")

# --- elementwise
EDGES = c([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.5, -3.5, NAN, INF, -INF])
for op in "Acos,Acosh,Asin,Asinh,Atan,Atanh,Cosh,Elu,Erf,Sinh,Softplus,Tan,Tanh".split(","):
    case(op, {"features" if op in ("Elu", "Softplus") else "x": EDGES})
for op in ("Xlogy", "Xdivy"):
    case(op, {"x": c([[0.0], [1.5], [-2.0]]), "y": c([0.0, 2.0, -1.0, NAN, INF])})

# --- masks, sequences
case("Where", {"condition": c([[True, False], [True, True]], b)})
case("Where", {"condition": c([], b, [0, 3])})
case("Where", {"condition": c([False, False], b)})
case("Softmax", {"logits": c([[0, -INF, 1], [-1e9, -1e9, -1e9], [3e38, -3e38, 0]])})
case("LogSoftmax", {"logits": c([[0, 1, 2], [-1e9, 0, 1e9], [5, 5, 5]])})
case("SelectV2", {"condition": c([[True], [False]], b), "t": randoms(3), "e": c(-1e9)})
case("SelectV2", {"condition": c([[True], [False]], b), "t": c([True, False, True], b), "e": c(False, b)})
case("SelectV2", {"condition": c([True, False, True], b), "t": c(True, b), "e": c([[False, True, False], [True, False, True]], b)})
for axis in (-1, 0, 1):
    case("OneHot", {"indices": c([[0, 2], [-1, 5]], i32), "depth": c(3, i32), "on_value": c(0.9), "off_value": c(0.1)}, {"depth", "on_value", "off_value"}, axis=axis)
for axis in (0, 1, -1):
    for flags in [(False, False), (True, False), (False, True), (True, True)]:
        case("Cumsum", {"x": randoms(2, 3), "axis": c(axis, i32)}, {"axis"}, exclusive=flags[0], reverse=flags[1])
case("TopKV2", {"input": c([[1, 3, 3, 2], [0, 0, 0, 0]]), "k": c(3, i32)}, {"k"})
case("TopKV2", {"input": tf.ones([0, 4]), "k": c(3, i32)}, {"k"})
case("TopKV2", {"input": tf.ones([2, 0, 4]), "k": c(3, i32)}, {"k"})
for op in ("ArgMax", "ArgMin"):
    case(op, {"input": c([[1, 3, 3], [2, 2, 2]]), "dimension": c(1, i32)}, {"dimension"}, output_type=i32)
for equation, shapes in [("bqd,bkd->bqk", [(2, 3, 4), (2, 2, 4)]), ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 3, 2, 4)]), ("abc,cd->abd", [(2, 3, 4), (4, 2)]), ("bi,eio->beo", [(2, 3), (2, 3, 4)]), ("bij->bji", [(2, 3, 4)]), ("bij->b", [(2, 3, 4)]), ("...d,df->...f", [(2, 3, 4), (4, 2)]), ("aecd,abcd->acbe", [(2, 3, 2, 4), (2, 5, 2, 4)]), ("bhqk,bkhd->bqhd", [(0, 2, 3, 3), (0, 3, 2, 4)]), ("bqd,bkd->bqk", [(2, 3, 0), (2, 2, 0)]), ("...qd,...kd->...qk", [(0, 2, 3, 4), (0, 2, 5, 4)]), ("...qd,...kd->...qk", [(2, 3, 4), (2, 5, 4)]), ("be,beo->bo", [(0, 2), (0, 2, 3)]), ("abc,cd->abd", [(0, 2, 3), (3, 4)])]:
    case("Einsum", {"inputs": [randoms(*shape) for shape in shapes]}, equation=equation)
for axis, batch in [(1, 1), (1, 0), (2, 1), (-1, 1)]:
    case("GatherV2", {"params": randoms(2, 3, 4), "indices": c([[0, 2], [1, 1]], i32), "axis": c(axis, i32)}, {"axis"}, batch_dims=batch)
BOUNDARIES = {"begin", "end", "strides"}
for begin, end, strides, masks in [([0, 1], [0, 3], [1, 1], {"begin_mask": 1, "end_mask": 1}), ([0, -1], [0, 0], [1, 1], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}), ([0, 0], [0, 0], [1, -1], {"begin_mask": 3, "end_mask": 3}), ([0, 0, 1], [0, 0, 2], [1, 1, 1], {"ellipsis_mask": 1, "new_axis_mask": 2}), ([-2], [9], [1], {})]:
    case("StridedSlice", {"input": randoms(3, 4), "begin": c(begin, i32), "end": c(end, i32), "strides": c(strides, i32)}, BOUNDARIES, **masks)

for x in (randoms(2, 3), counted(2, 3), counted(2, 3, dtype=i64)):
    for flags in [(False, False), (True, True)]:
        case("Cumprod", {"x": x, "axis": c(1, i32)}, {"axis"}, exclusive=flags[0], reverse=flags[1])
case("Cumprod", {"x": c([[65537, 65537, 65537]], i32), "axis": c(1, i32)}, {"axis"}, exclusive=False, reverse=False)
for mode in ("REFLECT", "SYMMETRIC"):
    for shape, paddings in [([4], [[2, 3]]), ([2, 3], [[1, 1], [2, 0]]), ([2, 0], [[1, 1], [0, 0]]), ([3], [[3, 3]]), ([3], [[0, 4]])]:
        case("MirrorPad", {"input": counted(*shape), "paddings": c(paddings, i32)}, {"paddings"}, mode=mode)
for lengths in ([0, 3, 4], [1, 2, 5], [2, 2]):
    case("ReverseSequence", {"input": randoms(3, 4, 2), "seq_lengths": c(lengths, i64)}, seq_dim=1, batch_dim=0)
case("ReverseSequence", {"input": counted(3, 2), "seq_lengths": c([2, 3], i32)}, seq_dim=0, batch_dim=1)
for shift, axis in [([1], [1]), ([-1], [0]), ([7, -2], [0, 1]), ([1, 1], [1, 1]), ([1], [2])]:
    case("Roll", {"input": counted(3, 4), "shift": c(shift, i32), "axis": c(axis, i32)}, {"shift", "axis"})
case("Roll", {"input": tf.ones([0, 4]), "shift": c(1, i32), "axis": c(0, i32)}, {"shift", "axis"})
for dtype in (f32, i32, i64):
    places, updates = c([[0, 1], [2, 0], [0, 1]], i32), counted(3, 2, dtype=dtype)
    case("ScatterNd", {"indices": places, "updates": updates, "shape": c([3, 2, 2], i32)})
    for op in "Add,Max,Min,Sub,Update".split(","):
        case(f"TensorScatter{op}", {"tensor": counted(3, 2, 2, dtype=dtype), "indices": places, "updates": updates})
case("ScatterNd", {"indices": c([[3]], i32), "updates": c([1.0]), "shape": c([3], i32)})
case("ScatterNd", {"indices": c([[-1]], i32), "updates": c([1.0]), "shape": c([3], i32)})
case("ScatterNd", {"indices": c([], i32, [0, 1]), "updates": c([], f32, [0]), "shape": c([3], i32)})
case("TensorScatterUpdate", {"tensor": randoms(3), "indices": c([[0]], i32), "updates": randoms(2)})
for op in ("LowerBound", "UpperBound"):
    case(op, {"sorted_inputs": c([[1, 2, 2, 5], [-INF, 0, 0, INF]]), "values": c([[2, 0, 6], [0, -INF, INF]])}, out_type=i32)
    case(op, {"sorted_inputs": c([[1, 2, 2, 5]], i64), "values": c([[2, 0, 6, 5]], i64)}, out_type=i64)
    case(op, {"sorted_inputs": c([], f32, [1, 0]), "values": c([[2]])}, out_type=i32)
for pair in [([2, 1, 3], [4, 1]), ([], [2]), ([2], [3])]:
    case("BroadcastArgs", {"s0": c(pair[0], i32), "s1": c(pair[1], i32)})

# --- reductions of nothing
for op in ("Max", "Min", "Mean", "Sum", "Prod"):
    for shape, axes in [([0, 4], [-1]), ([0, 3, 2], [1]), ([0, 3, 2], [1, 2])]:
        for keep in (True, False):
            case(op, {"input": tf.ones(shape), "axis": c(axes, i32)}, {"axis"}, keep_dims=keep)

# --- transposed convolutions
TRANSPOSED = (*KERNEL, "input_sizes")
for padding, sizes in (("SAME", [[7, 8], [8, 7]]), ("VALID", [[9, 9], [10, 9]])):
    for size in sizes:
        inputs = {"input_sizes": c([2, *size, 3], i32), "filter": randoms(3, 3, 3, 2), "out_backprop": randoms(2, 4, 4, 2)}
        case("Conv2DBackpropInput", inputs, TRANSPOSED, padding=padding, strides=[1, 2, 2, 1])
inputs = {"input_sizes": c([1, 1, 6, 4], i32), "filter": randoms(1, 2, 4, 3), "out_backprop": randoms(1, 1, 2, 3)}
case("Conv2DBackpropInput", inputs, TRANSPOSED, padding="SAME", strides=[1, 1, 3, 1])
inputs = {"input_sizes": c([1, 5, 6, 2], i32), "filter": randoms(2, 3, 2, 1), "out_backprop": randoms(1, 6, 7, 1)}
case("Conv2DBackpropInput", inputs, TRANSPOSED, padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 2, 1, 0, 0], strides=[1, 1, 1, 1])

# --- every other operation that either side has, at its edges
WIDE = c([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 6.5, 20.0, -20.0, 1e-4, 1e30, -1e30, NAN, INF, -INF])
UNARY = "Abs,Ceil,Cos,Erfc,Exp,Expm1,Floor,IsInf,IsNan,LeakyRelu,Log,Log1p,Neg,OnesLike,PreventGradient,Reciprocal,Relu,Relu6,Rint,Round,Rsqrt,Selu,Sigmoid,Sign,Sin,Snapshot,Softsign,Sqrt,Square,StopGradient,ZerosLike"
NAMED = {"LeakyRelu": "features", "Relu": "features", "Relu6": "features", "Selu": "features", "Softsign": "features"}
for op in UNARY.split(","):
    values = WIDE if op not in ("Sin", "Cos") else c([0.0, -0.0, 0.5, -0.5, 3.0, -20.0, 1e4, NAN, INF, -INF])
    name = "input" if op in ("PreventGradient", "Snapshot", "StopGradient") else NAMED.get(op, "x")
    case(op, {name: values})
case("LeakyRelu", {"features": WIDE}, alpha=0.125)
for op in ("Abs", "Neg", "Sign", "Square", "ZerosLike", "OnesLike"):
    for dtype in (i32, i64):
        case(op, {"x": c([0, 1, -7, dtype.max, dtype.min], dtype)})
for op in ("Abs", "Exp", "Floor", "Log", "Neg", "Rsqrt", "Sqrt", "Square", "Sigmoid"):
    case(op, {"x": c([0.0, 0.1, 1.5, -2.5, NAN, INF, -INF], f64)})
ACROSS = c([0.0, 0.5, 1.0, -1.0, 2.0, -2.5, 3e30, NAN, INF, -INF])
for op in "Add,AddV2,Div,DivNoNan,FloorDiv,FloorMod,Maximum,Minimum,Mul,MulNoNan,RealDiv,SquaredDifference,Sub,Equal,NotEqual,Less,LessEqual,Greater,GreaterEqual".split(","):
    case(op, {"x": ACROSS[:, None], "y": ACROSS[None, :]})
case("Mod", {"x": c([-7.5, 7.5, -0.5, 0.0, 1e30]), "y": c([2.0, -2.0, 3.0, 5.0, 7.0])})
case("Pow", {"x": c([[0.5], [1.0], [-1.0], [2.0], [-2.5], [0.0]]), "y": c([0.0, 1.0, 2.0, 3.0, -1.0, 0.5])})
for dtype in (i32, i64):
    some, divisors = c([0, 1, -7, 7, 12, dtype.max, -dtype.max], dtype), c([1, -1, 2, -3, 5], dtype)
    for op in "Add,AddV2,Maximum,Minimum,Mul,Sub,Equal,NotEqual,Less,LessEqual,Greater,GreaterEqual,Div,FloorDiv,FloorMod,Mod,BitwiseAnd,BitwiseOr,BitwiseXor".split(","):
        case(op, {"x": some[:, None], "y": divisors[None, :]})
for op in ("LogicalAnd", "LogicalOr"):
    case(op, {"x": c([[True], [False]], b), "y": c([True, False], b)})
case("LogicalNot", {"x": c([True, False], b)})
for op in ("All", "Any"):
    for keep in (True, False):
        case(op, {"input": c([[True, False, True], [True, True, True], [False, False, False]], b), "axis": c([-1], i32)}, {"axis"}, keep_dims=keep)
case("AddN", {"inputs": [randoms(2, 3), randoms(2, 3), c(NAN, f32, [2, 3])]})
case("AddN", {"inputs": [counted(4), counted(4), c(2**31 - 1, i32, [4])]})
case("AddN", {"inputs": [randoms(3)]})
case("Atan2", {"y": ACROSS[:, None], "x": ACROSS[None, :]})
for low, high in [(-1.0, 2.0), (0.0, 0.0), (-INF, INF)]:
    case("ClipByValue", {"t": WIDE, "clip_value_min": c(low), "clip_value_max": c(high)})
case("ClipByValue", {"t": randoms(2, 3), "clip_value_min": c([[-0.5, 0, 0.5]] * 2), "clip_value_max": tf.ones([2, 3])})
case("ClipByValue", {"t": counted(2, 3), "clip_value_min": c(2, i32), "clip_value_max": c(4, i32)})
case("L2Loss", {"t": randoms(2, 3)})
case("L2Loss", {"t": tf.ones([0, 3])})
case("L2Loss", {"t": c([INF, 1.0])})
for op, names in (("MatMul", ("transpose_a", "transpose_b")), ("BatchMatMul", ("adj_x", "adj_y")), ("BatchMatMulV2", ("adj_x", "adj_y"))):
    left, right = ("a", "b") if op == "MatMul" else ("x", "y")
    for first, second in [(False, False), (True, False), (False, True), (True, True)]:
        lead = [] if op == "MatMul" else [2]
        sides = {left: randoms(*lead, *((4, 3) if first else (3, 4))), right: randoms(*lead, *((2, 4) if second else (4, 2)))}
        case(op, sides, **dict(zip(names, (first, second))))
    case(op, {left: tf.ones(lead + [0, 4]), right: randoms(*lead, 4, 2)})
    case(op, {left: tf.ones(lead + [3, 0]), right: tf.ones(lead + [0, 2])})
    if op != "MatMul":  # The graph is refused when it is read.
        case(op, {left: randoms(*lead, 3, 4), right: randoms(*lead, 3, 2)})
    square = [*(1 for _ in lead), 2, 2]
    case(op, {left: c([1.0, INF, 0.0, NAN], f32, square), right: c([0.0, 1.0, 2.0, -1.0], f32, square)})
case("BatchMatMulV2", {"x": randoms(2, 1, 3, 4), "y": randoms(5, 4, 2)})
case("MatMul", {"a": counted(2, 3), "b": counted(3, 2)})
for version in ("V2", "V3"):
    stored = {"scale": randoms(4), "offset": randoms(4), "mean": randoms(4), "variance": tf.abs(randoms(4)) + 0.1}
    flat = {"x": c([[[[1.0, -2.0, 0.5, INF]], [[0.0, 1e4, NAN, -1.0]]]]), **stored, "variance": c([0.0, 1e-8, 1.0, 1e8])}
    for values in ({"x": randoms(2, 3, 2, 4), **stored}, {"x": tf.ones([0, 3, 2, 4]), **stored}, flat):
        case(f"FusedBatchNorm{version}", values, STORED, is_training=False, epsilon=0.001)
for mode in ({"begin": [0, 1], "size": [-1, 2]}, {"begin": [1, 0], "size": [0, 3]}, {"begin": [0, 2], "size": [2, 3]}):
    case("Slice", {"input": randoms(2, 3), "begin": c(mode["begin"], i32), "size": c(mode["size"], i32)}, {"begin", "size"})
for axis in (0, 1, -1):
    case("ConcatV2", {"values": [randoms(2, 2), randoms(2, 2)], "axis": c(axis, i32)}, {"axis"})
    case("Pack", {"values": [randoms(2, 3), randoms(2, 3)]}, axis=axis)
    case("Unpack", {"value": randoms(2, 2)}, num=2, axis=axis)
    case("Split", {"axis": c(axis, i32), "value": randoms(4, 4)}, {"axis"}, num_split=2)
    case("SplitV", {"value": randoms(4, 4), "size_splits": c([1, 0, 3], i32), "axis": c(axis, i32)}, {"size_splits", "axis"}, num_split=3)
    case("ExpandDims", {"input": randoms(2, 3), "axis": c(axis, i32)}, {"axis"})
    case("ReverseV2", {"tensor": randoms(2, 3), "axis": c([axis], i32)}, {"axis"})
case("ConcatV2", {"values": [tf.ones([0, 2]), randoms(1, 2)], "axis": c(0, i32)}, {"axis"})
case("SplitV", {"value": randoms(2, 4), "size_splits": c([1, -1], i32), "axis": c(1, i32)}, {"size_splits", "axis"}, num_split=2)
case("Split", {"axis": c(0, i32), "value": randoms(3, 4)}, {"axis"}, num_split=2)
for flags in ([False, True], [True, True], [False, False]):
    case("Reverse", {"tensor": randoms(2, 3), "dims": c(flags, b)}, {"dims"})
case("Reverse", {"tensor": randoms(2, 3), "dims": c([True], b)}, {"dims"})
case("BroadcastTo", {"input": randoms(2, 1), "shape": c([3, 2, 4], i32)})
case("BroadcastTo", {"input": randoms(2, 3), "shape": c([2, 4], i32)})
case("Fill", {"dims": c([2, 0], i32), "value": c(1.5)})
case("Fill", {"dims": c([], i32), "value": c(7, i64)})
case("Fill", {"dims": c([2, 3], i64), "value": c(NAN)})
case("Identity", {"input": WIDE})
case("IdentityN", {"input": [randoms(2), counted(3)]})
case("Gather", {"params": randoms(3, 2), "indices": c([[2, 0], [1, 1]], i32)})
case("Gather", {"params": randoms(3, 2), "indices": c([3], i32)})
for value in (randoms(2, 3), tf.ones([0, 3]), c(1.0)):
    for out in (i32, i64):
        case("Shape", {"input": value}, out_type=out)
        case("Size", {"input": value}, out_type=out)
        case("ShapeN", {"input": [value, randoms(1)]}, out_type=out)
    case("Rank", {"input": value})
PADDING = {"paddings", "constant_values"}
for paddings in ([[1, 0], [0, 2]], [[0, 0], [0, 0]], [[0, 0], [3, 0]]):
    case("Pad", {"input": randoms(2, 3), "paddings": c(paddings, i32)}, PADDING)
    case("PadV2", {"input": randoms(2, 3), "paddings": c(paddings, i32), "constant_values": c(-INF)}, PADDING)
case("PadV2", {"input": counted(2), "paddings": c([[1, 1]], i64), "constant_values": c(9, i32)}, PADDING)
for shape, indices, batch in [([2, 3, 4], [[0, 2], [1, 1]], 1), ([2, 3], [2, 0], 1), ([2, 2, 3, 2], [[[0, 2], [1, 1]], [[2, 2], [0, 0]]], 2), ([0, 3, 4], np.zeros([0, 2]), 1)]:
    case("GatherV2", {"params": randoms(*shape), "indices": c(np.array(indices), i32), "axis": c(batch, i32)}, {"axis"}, batch_dims=batch)
for start, limit, delta in [(0, 5, 2), (5, 0, -2), (0, 0, 1), (3, 1, 1)]:
    case("Range", {"start": c(start, i32), "limit": c(limit, i32), "delta": c(delta, i32)})
case("Range", {"start": c(0.5), "limit": c(2.0), "delta": c(0.5)})
case("Range", {"start": c(0, i32), "limit": c(3, i32), "delta": c(0, i32)})
for shape in ([3, 2], [-1], [1, -1, 2], [5], [-1, 4]):
    case("Reshape", {"tensor": randoms(2, 3), "shape": c(shape, i32)})
case("Reshape", {"tensor": tf.ones([0, 3]), "shape": c([3, 0], i32)})
for dims in ([], [0], [-1], [1]):
    case("Squeeze", {"input": randoms(1, 3, 1)}, axis=dims)
case("Tile", {"input": randoms(2, 3), "multiples": c([2, 0], i32)})
case("Tile", {"input": counted(2, 3), "multiples": c([1, 2], i64)})
for perm in ([1, 0], [0, 1]):
    case("Transpose", {"x": randoms(2, 3), "perm": c(perm, i32)}, {"perm"})
case("Select", {"condition": c([True, False], b), "x": randoms(2, 3), "y": c(NAN, f32, [2, 3])})
case("Select", {"condition": c(True, b), "x": randoms(2), "y": c(NAN, f32, [2])})
case("Select", {"condition": c([True, False], b), "x": c([[True, False], [True, True]], b), "y": c([[False, True], [True, False]], b)})
for to in (i32, i64, f32, f64, b):
    case("Cast", {"x": c([0.0, 1.9, -1.9, 2.5, -0.4, 1e6])}, DstT=to)
    case("Cast", {"x": c([0, 1, -1, 70000], i32)}, DstT=to)
    case("Cast", {"x": c([True, False], b)}, DstT=to)
# --- later than the others, whose numbers come from one sequence
for axes in ([], [1], [-2], [0, 1]):
    case("EuclideanNorm", {"input": randoms(3, 4), "axis": c(axes, i32)}, ["axis"], keep_dims=axes == [1])

lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in cases)
head = json.dumps({"recorded_with": f"TensorFlow {tf.__version__}"})[:-1]
path = pathlib.Path(__file__).parent / "dense-operations.json"
path.write_text(f'{head},"cases":[\n{lines}\n]}}\n')
print(len(cases), sum("error" in each for each in cases))
