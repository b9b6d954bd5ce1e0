"""Records what TensorFlow's own kernels answer, for the operations Winnow runs in TypeScript.

    TF_ENABLE_ONEDNN_OPTS=0 python record_host_operations.py

Needs tensorflow 2.21; Winnow itself does not. Writes host-operations.json:

    { recorded_with,
      fingerprints: [FarmHash Fingerprint64 of sample(n), n = 0…300, as decimal text],
      strong: {key, buckets, bins: [SipHash bucket of sample(n)]},
      cases: [ {op, attributes, inputs: [tensor], outputs: [tensor] | error: {code, message}} ] }

A tensor is [dtype, shape, flat values]. Strings are text, or {"b64": …}; integers beyond 2^53 are
decimal text; NaN and the infinities are "NaN", "Infinity", "-Infinity". Attributes are written as
Winnow's programs carry them: dtypes by name, a list of shapes as texts.
"""

import base64
import json
import os
import pathlib
import random

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np
import tensorflow as tf

cases = []
rng = random.Random(5)


def plain(value):
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if type(value) is int and abs(value) > 2**53:
        return str(value)
    return value


def tensor(t):
    values = t.numpy()
    return [t.dtype.name, list(t.shape), [plain(v) for v in np.asarray(values).reshape(-1).tolist()]]


def attribute(value):
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], (list, tuple)):
            return [",".join("-1" if size is None else str(size) for size in shape) for shape in value]
        return [attribute(v) for v in value]
    return value


def flat(value):
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (tf.Tensor, tf.RaggedTensor)):
        return list(value)
    return [] if isinstance(value, (list, tuple)) and not value else [value]


def case(op, inputs, **attributes):
    """inputs: name → tensor or list of tensors, in the order of the op's definition."""
    fed = {}
    for name, value in inputs.items():
        is_list = isinstance(value, list) and value and isinstance(value[0], tf.Tensor)
        fed[name] = value if is_list or (isinstance(value, list) and not value) else tf.convert_to_tensor(value)
    record = {
        "op": op,
        "attributes": {k: attribute(v) for k, v in attributes.items()},
        "inputs": [tensor(t) for value in fed.values() for t in flat(value)],
    }
    try:
        with tf.device("/cpu:0"):
            answer = getattr(tf.raw_ops, op)(**fed, **attributes)
    except tf.errors.OpError as error:
        names = {v: k for k, v in tf.errors.__dict__.items() if isinstance(v, int)}
        message = error.message.split("{{function_node __wrapped__")[-1]
        message = message.split("}} ", 1)[-1].split(" [Op:")[0]
        record["error"] = {"code": names[error.error_code], "message": message}
    else:
        answer = [] if answer is None else answer
        outputs = [answer] if isinstance(answer, tf.Tensor) else list(answer)
        record["outputs"] = [tensor(t) for o in outputs for t in flat(o)]
    cases.append(record)


def c(values, dtype, shape=None):
    return tf.constant(values, dtype, shape=shape)


i32, i64, f32, f64, u8, b, s = tf.int32, tf.int64, tf.float32, tf.float64, tf.uint8, tf.bool, tf.string
TEXTS = [
    "", " ", "Hello, World!", "tab\tand\nline", "  two  words ", "ÜBER Straße", "日本語 text", b"\xff\xfebad",
    "İstanbul ΣΑΣ", "a,b,,c", ",", ",,", "<br/>html<br>", "it's-red_blue", "UPPER lower 123", "e\u0301 combined",
    "\u00a0nbsp\u3000wide", "🎬 movie 🎬", b"ok\x80mixed\xe6\x97text", "x" * 40,
]

# --- strings
for op in ("StringLower", "StringUpper"):
    case(op, {"input": c(TEXTS, s)}, encoding="")
    case(op, {"input": c([t for t in TEXTS if isinstance(t, str)], s)}, encoding="utf-8")
case("StringStrip", {"input": c(TEXTS + ["\v\fx\r\n", "   "], s)})
for unit in ("BYTE", "UTF8_CHAR"):
    case("StringLength", {"input": c(TEXTS, s)}, unit=unit)
    for pos, length in [(0, 3), (1, 2), (-2, 2), (0, 0)]:
        case("Substr", {"input": c(["hello", "日本語", "ab🎬"], s), "pos": c(pos, i32), "len": c(length, i32)}, unit=unit)
    case("Substr", {"input": c(["hello", "日本語"], s), "pos": c([1, 2], i64), "len": c([9, 1], i64)}, unit=unit)
    case("Substr", {"input": c(["hello", "x"], s), "pos": c(3, i32), "len": c(1, i32)}, unit=unit)
    case("Substr", {"input": c(["hello"], s), "pos": c(-9, i32), "len": c(1, i32)}, unit=unit)
case("StringJoin", {"inputs": [c(["a", "b"], s), c("-", s), c(["x", "日"], s)]}, separator="")
case("StringJoin", {"inputs": [c("p", s), c("q", s)]}, separator=", ")
case("StringJoin", {"inputs": [c(["a", "b"], s), c(["x"], s)]}, separator="")

for values, kw in [
    ([c([3, 1, 2, 5, 4, 9, -7], i64), c(5, i32)], {}),
    ([c(["a\"b", "é\n'", b"\x01\\\x7f"], s), c("s\tx", s)], {}),
    ([c([[1, 2], [3, 4]], i32), c([[[1], [2]], [[3], [4]]], i64)], {}),
    ([c(np.arange(64).reshape(8, 8), i32), c(np.arange(14).reshape(7, 2), i64)], {"summarize": 2}),
    ([c([1, 2, 3, 4], i32), c([True, False], b)], {"summarize": 0}),
    ([c([1, 2, 3, 4, 5, 6, 7, 8, 9], i32), c([], f32)], {"summarize": -1}),
    ([c(np.zeros([0, 3]), f32), c(np.zeros([2, 0]), f32)], {}),
    ([c([1.5, 0.1, 1e10, np.nan, -np.inf, 1e-7, 123456789.0, -0.0, 1 / 3], f32), c([0.1, 1 / 3, 1e300, 2e-5], f64)], {"summarize": 9}),
]:
    case("StringFormat", {"inputs": values}, **{"template": "all {} of {}!", "placeholder": "{}", "summarize": 3, **kw})

ints = [0, 1, -1, 7, -12345, 2**31 - 1, -(2**31)]
for dtype, values in [(i32, ints), (i64, ints + [2**63 - 1, -(2**63)]), (u8, [0, 255]), (b, [True, False])]:
    case("AsString", {"input": c(values, dtype)}, precision=-1, scientific=False, shortest=False, width=-1, fill="")
for fill in ("", "0", " ", "-", "+"):
    if fill:
        case("AsString", {"input": c(ints, i64)}, precision=-1, scientific=False, shortest=False, width=8, fill=fill)
floats = [0.0, -0.0, 1.0, -1.5, 0.1, 3.14159265, 1e-7, 1e20, 123456789.0, 0.0078125, 1e-5, 2.5, 12.34375, np.inf, -np.inf, np.nan, 3.4e38]
for dtype in (f32, f64):
    for kw in [{}, {"precision": 2}, {"precision": 0}, {"precision": 3, "width": 12}, {"scientific": True}, {"shortest": True}, {"precision": 9}]:
        full = dict(precision=-1, scientific=False, shortest=False, width=-1, fill="")
        full.update(kw)
        case("AsString", {"input": c(floats, dtype)}, **full)
for out, texts in [
    (f32, ["1", " 2.5 ", "-3e4", ".5", "inf", "-Infinity", "nan", "1e-50", "16777217"]),
    (f64, ["1", "0.1", "1e308"]),
    (i32, ["1", "-7", " 12 ", "2147483647"]),
    (i64, ["9223372036854775807", "-9223372036854775808", "0"]),
]:
    case("StringToNumber", {"string_tensor": c(texts, s)}, out_type=out)
for out, text in [(f32, "abc"), (f32, ""), (f32, "1.5x"), (i32, "1.5"), (i32, "2147483648"), (i64, "9223372036854775808"), (i64, "")]:
    case("StringToNumber", {"string_tensor": c([text], s)}, out_type=out)

for maxsplit in (-1, 1, 2):
    for sep in ("", ",", ",,", "l"):
        case("StringSplitV2", {"input": c(TEXTS, s), "sep": c(sep, s)}, maxsplit=maxsplit)
case("StringSplitV2", {"input": c([], s), "sep": c("", s)}, maxsplit=-1)

PATTERNS = [
    (r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']', ""), (r"<br\s*/?>", " "), (r"\s+", " "), (r"[^a-z0-9 ]", "_"),
    (r"(\w+) (\w+)", r"\2-\1"), ("a*", "-"), ("", "."), (r"\d+", "<\\0>"), (r"(?i)hello", "bye"), (r"^\s+|\s+$", ""),
    (r"\bred\b", "green"), (r"[[:punct:]]", ""), (r"[[:space:]]+", "|"), (r"\p{L}", "L"), (r"\pN+", "#"), (r"x{3,5}", "y"),
    (r".", "."), (r"[^x]", "!"), (r"(?P<first>\w)", r"[\1]"), (r"\x{65e5}", "sun"), (r"a|b|", "?"), (r"l+?", "L"), (r"\Q.\E|,", ";"),
    (r"(?s).+", "all"), (r"\S+$", "end"), (r"[\d\s]", "0"), (r"[a\-z]", "="), (r"\.\*", ""), (r"o$|^H", "*"),
]
for pattern, rewrite in PATTERNS:
    for replace_global in (True, False):
        case("StaticRegexReplace", {"input": c(TEXTS, s)}, pattern=pattern, rewrite=rewrite, replace_global=replace_global)
case("RegexReplace", {"input": c(TEXTS, s), "pattern": c("[a-e]+", s), "rewrite": c("<\\0>", s)}, replace_global=True)
for pattern in (r"\w+", r"[a-z' -]+", ".*", r"", r"a,b.*", r"(?i)HELLO.*", "x+|UPPER lower \\d+", r"\s*"):
    case("StaticRegexFullMatch", {"input": c(TEXTS, s)}, pattern=pattern)
    case("RegexFullMatch", {"input": c(TEXTS, s), "pattern": c(pattern, s)})
for pattern in ("(", "[a", "a**", "(?=x)", r"\1", "x{2,1}", "*a"):
    case("RegexFullMatch", {"input": c(["a"], s), "pattern": c(pattern, s)})

words = c(["a", "bb", "ccc", "d", "e"], s)
for kw in [
    dict(ngram_widths=[2], pad_width=0, left_pad="", right_pad="", preserve_short_sequences=False),
    dict(ngram_widths=[1, 2], pad_width=0, left_pad="", right_pad="", preserve_short_sequences=False),
    dict(ngram_widths=[3], pad_width=-1, left_pad="<", right_pad=">", preserve_short_sequences=False),
    dict(ngram_widths=[2, 4], pad_width=1, left_pad="L", right_pad="R", preserve_short_sequences=False),
    dict(ngram_widths=[4], pad_width=0, left_pad="", right_pad="", preserve_short_sequences=True),
    dict(ngram_widths=[9], pad_width=1, left_pad="L", right_pad="R", preserve_short_sequences=True),
]:
    for splits in ([0, 3, 3, 5], [0, 5], [0, 1, 2, 5]):
        case("StringNGrams", {"data": words, "data_splits": c(splits, i64)}, separator=" ", **kw)
case("StringNGrams", {"data": words, "data_splits": c([0, 4], i64)}, separator=" ", ngram_widths=[2], pad_width=0, left_pad="", right_pad="", preserve_short_sequences=False)
for errors in ("replace", "ignore"):
    case("UnicodeDecode", {"input": c(["aé日🎬", "", b"ok\xffz"], s)}, input_encoding="UTF-8", errors=errors, replacement_char=65533, replace_control_characters=False, Tsplits=i64)
case("UnicodeDecode", {"input": c([b"ok\xffz"], s)}, input_encoding="UTF-8", errors="strict", replacement_char=65533, replace_control_characters=False, Tsplits=i64)
for errors in ("replace", "ignore"):
    for control in (False, True):
        case("UnicodeDecode", {"input": c(["a\ufffdb", b"\xef\xbf\xbd\xff\xe6\x97\xef\xbf\xbdz", "\x01\x1f\x20\x7f"], s)}, input_encoding="UTF-8", errors=errors, replacement_char=63, replace_control_characters=control, Tsplits=i64)
case("UnicodeDecode", {"input": c(["a\ufffdb\x01"], s)}, input_encoding="UTF-8", errors="strict", replacement_char=63, replace_control_characters=True, Tsplits=i64)
for errors in ("replace", "ignore", "strict"):
    case("UnicodeEncode", {"input_values": c([97, -1, 0x110000, 98], i32), "input_splits": c([0, 2, 4], i64)}, errors=errors, output_encoding="UTF-8", replacement_char=63)
case("UnicodeEncode", {"input_values": c([97, 0xD800, 98], i32), "input_splits": c([0, 3], i64)}, errors="replace", output_encoding="UTF-8", replacement_char=63)
case("UnicodeEncode", {"input_values": c([97, 233, 26085, 127916], i32), "input_splits": c([0, 2, 2, 4], i64)}, errors="replace", output_encoding="UTF-8", replacement_char=65533)
case("StringToHashBucketFast", {"input": c(TEXTS, s)}, num_buckets=1000)
case("StringToHashBucketFast", {"input": c(TEXTS, s)}, num_buckets=2**45 + 7)
case("StringToHashBucketStrong", {"input": c(TEXTS, s)}, num_buckets=10**6, key=[2**40 + 1, 77])

# --- arithmetic, comparison, conversion
pairs32 = [2**31 - 1, -(2**31), -7, 7, 1, 0, 123456], [2, 3, 3, -3, -1, 5, 654321]
pairs64 = [2**63 - 1, -(2**63), -7, 7, 1, 0, 2**40], [2, 3, 3, -3, -1, 5, 2**30]
pairsf = [1.5, -7.0, 7.0, 0.1, np.inf, np.nan, -0.0, 3.0], [0.3, 3.0, -3.0, 0.2, 1.0, 1.0, 0.0, 0.0]
for dtype, (x, y) in [(i32, pairs32), (i64, pairs64), (f32, pairsf), (f64, pairsf)]:
    for op in ["AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Minimum", "SquaredDifference"]:
        case(op, {"x": c(x, dtype), "y": c(y, dtype)})
    for op in ["Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"]:
        case(op, {"x": c(x, dtype), "y": c(y, dtype)})
    for op in ["Neg", "Abs", "Sign", "Square"]:
        case(op, {"x" if op != "Neg" else "x": c(x, dtype)})
for dtype in (f32, f64):
    for op in ["RealDiv", "DivNoNan"]:
        case(op, {"x": c(pairsf[0], dtype), "y": c(pairsf[1], dtype)})
    for op in ["Sqrt", "Rsqrt", "Floor", "Ceil", "Rint", "Round", "Exp", "Log", "Log1p", "Reciprocal", "Tanh", "Sigmoid"]:
        case(op, {"x": c([0.5, 1.5, 2.5, -0.5, 4.0, 1e-3, 9.99], dtype)})
    for op in ["IsNan", "IsInf", "IsFinite"]:
        case(op, {"x": c(pairsf[0], dtype)})
for op in ["FloorMod", "FloorDiv", "TruncateDiv", "TruncateMod"]:
    if op.startswith("Floor"):  # the others answer INTERNAL "Unexpected error in binary operator"
        case(op, {"x": c([1, 2], i32), "y": c([1, 0], i32)})
    case(op, {"x": c([-7, 7], i64), "y": c([2, -2], i64)})
case("AddV2", {"x": c([[1], [2]], i32), "y": c([10, 20, 30], i32)})
case("AddV2", {"x": c([1, 2], i32), "y": c([10, 20, 30], i32)})
case("Mul", {"x": c([], f32), "y": c(2.0, f32)})
case("Equal", {"x": c(["a", "b", ""], s), "y": c("b", s)})
case("NotEqual", {"x": c([["a"], ["b"]], s), "y": c(["b", "c"], s)})
case("Equal", {"x": c([True, False], b), "y": c([True, True], b)})
case("Equal", {"x": c([1, 2], i32), "y": c([1, 2, 3], i32)}, incompatible_shape_error=False)
for op in ("LogicalAnd", "LogicalOr"):
    case(op, {"x": c([[True], [False]], b), "y": c([True, False], b)})
case("LogicalNot", {"x": c([True, False], b)})
case("SelectV2", {"condition": c([True, False], b), "t": c([["a", "b"], ["c", "d"]], s), "e": c("z", s)})
case("SelectV2", {"condition": c(True, b), "t": c([1, 2], i64), "e": c([[3], [4]], i64)})
case("Select", {"condition": c([True, False], b), "x": c([[1, 2], [3, 4]], i32), "y": c([[5, 6], [7, 8]], i32)})
kinds = [i32, i64, f32, f64, u8, tf.int8, tf.int16, tf.uint16, tf.uint32, b]
for to in kinds:
    case("Cast", {"x": c([0, 1, -1, 300, 70000, -70000], i32)}, DstT=to)
    case("Cast", {"x": c([0, 1, -1, 2**33 + 5, 2**62], i64)}, DstT=to)
    case("Cast", {"x": c([0.0, 1.9, 2.5, 100.99], f32)}, DstT=to)
    case("Cast", {"x": c([True, False], b)}, DstT=to)
case("Cast", {"x": c([-1.9, -2.5, 1e6], f64)}, DstT=i32)
for dtype in (f32, f64):
    case("Cast", {"x": c([3e9, -3e9, 2147483648.0, -2147483648.0, 4294967295.0, 5e9, 1e20, float("nan"), float("inf")], dtype)}, DstT=i32)
    case("Cast", {"x": c([3e9, -3e9, 1e19, -1e20, float("nan"), float("inf")], dtype)}, DstT=i64)
case("Cast", {"x": c([16777217, 2**53 + 1], i64)}, DstT=f32)
case("ZerosLike", {"x": c([[1, 2]], i64)})
case("ZerosLike", {"x": c(["a"], s)})
case("OnesLike", {"x": c([[1, 2]], i64)})
for dtype in (f32, f64, i32, i64):
    case("Bucketize", {"input": c([-5, 0, 1, 2, 3, 10, 11], dtype)}, boundaries=[0.0, 2.5, 10.0])
case("Bucketize", {"input": c([0.1, 0.10000001, np.nan, np.inf], f32)}, boundaries=[0.1])

# --- shapes and moves
m = tf.reshape(tf.range(24, dtype=i32), (2, 3, 4))
ms = tf.strings.as_string(m)
for shape in ([4, 6], [-1], [2, -1, 2], [24], [5, 5], [-1, 7], [1, -1]):
    case("Reshape", {"tensor": m, "shape": c(shape, i32)})
for axis in (0, 1, -1, -4, 3, 4):
    case("ExpandDims", {"input": m, "axis": c(axis, i32)})
case("Squeeze", {"input": tf.reshape(m, (1, 24, 1))}, axis=[])
case("Squeeze", {"input": tf.reshape(m, (1, 24, 1))}, axis=[-1])
case("Squeeze", {"input": m}, axis=[0])
for out in (i32, i64):
    case("Shape", {"input": ms}, out_type=out)
    case("Size", {"input": ms}, out_type=out)
case("Rank", {"input": ms})
STRIDES = [
    ([0], [1], [1], {}), ([0], [1], [1], {"shrink_axis_mask": 1}), ([-1], [0], [1], {"shrink_axis_mask": 1}),
    ([0, 1], [2, 3], [1, 1], {}), ([0, 0], [0, 0], [1, 1], {"begin_mask": 3, "end_mask": 3}),
    ([0, -1], [0, 0], [1, 1], {"ellipsis_mask": 1, "shrink_axis_mask": 2}), ([0, 0, 0], [0, 0, 2], [1, 1, 1], {"ellipsis_mask": 1, "new_axis_mask": 2}),
    ([5, 3, 9], [-9, -9, 0], [-1, -2, -1], {}), ([0, 0], [0, 0], [1, 1], {"new_axis_mask": 1, "end_mask": 2}),
    ([-1], [0], [-1], {"begin_mask": 1, "end_mask": 1}), ([1, 0, 1], [2, 3, 4], [1, 2, 2], {}), ([2], [3], [1], {"shrink_axis_mask": 1}), ([0], [1], [0], {}),
    ([0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1], {}), ([1], [-1], [1], {}),
]
for begin, end, strides, masks in STRIDES:
    full = dict(begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0)
    full.update(masks)
    for source in (m, ms):
        case("StridedSlice", {"input": source, "begin": c(begin, i32), "end": c(end, i32), "strides": c(strides, i32)}, **full)
for begin, size in [([0, 0, 0], [1, -1, 2]), ([1, 1, 1], [1, 1, 1]), ([0, 3, 0], [2, 0, 4]), ([0, 2, 0], [2, 2, 4]), ([0, -1, 0], [1, 1, 1])]:
    case("Slice", {"input": m, "begin": c(begin, i64), "size": c(size, i64)})
for axis in (0, 1, 2, -1):
    case("ConcatV2", {"values": [m, m + 100], "axis": c(axis, i32)})
    case("GatherV2", {"params": ms, "indices": c([[1, 0], [1, 1]], i64), "axis": c(axis, i32)}, batch_dims=0)
case("ConcatV2", {"values": [m, tf.reshape(m, (3, 2, 4))], "axis": c(0, i32)})
case("GatherV2", {"params": m, "indices": c([[1, 0], [2, 2]], i32), "axis": c(1, i32)}, batch_dims=1)
case("GatherV2", {"params": m, "indices": c([[[1], [0], [3]], [[2], [2], [0]]], i32), "axis": c(2, i32)}, batch_dims=2)
case("GatherV2", {"params": m, "indices": c([[0, 1], [1, 2]], i32), "axis": c(0, i32)}, batch_dims=0)
case("GatherV2", {"params": m, "indices": c(-1, i32), "axis": c(0, i32)}, batch_dims=0)
for indices in ([[0, 1], [1, 2]], [[1], [0]], [[1, 2, 3]], [[0, 3]], [[-1]]):
    case("GatherNd", {"params": ms, "indices": c(indices, i64)})
case("GatherNd", {"params": m, "indices": tf.zeros((2, 0), i32)})
for axis in (0, 1, -1):
    case("Pack", {"values": [c([1, 2], i64), c([3, 4], i64), c([5, 6], i64)]}, axis=axis)
    case("Unpack", {"value": ms}, num=ms.shape[axis], axis=axis)
case("Split", {"axis": c(1, i32), "value": c([[1, 2, 3, 4]], i32)}, num_split=2)
case("Split", {"axis": c(1, i32), "value": c([[1, 2, 3]], i32)}, num_split=2)
case("SplitV", {"value": m, "size_splits": c([1, -1], i32), "axis": c(2, i32)}, num_split=2)
case("Fill", {"dims": c([2, 3], i32), "value": c("x", s)})
case("Fill", {"dims": c([0], i64), "value": c(1.5, f32)})
case("BroadcastTo", {"input": c([[1], [2]], i64), "shape": c([3, 2, 2], i32)})
case("BroadcastTo", {"input": c([1, 2], i64), "shape": c([3], i32)})
case("Tile", {"input": c([["a", "b"]], s), "multiples": c([2, 3], i32)})
case("Tile", {"input": m, "multiples": c([1, 0, 2], i32)})
for order in ([0, 2, 1], [2, 0, 1], [0, 1, 2]):
    case("Transpose", {"x": m, "perm": c(order, i32)})
case("Pad", {"input": c([[1, 2]], i32), "paddings": c([[1, 0], [0, 2]], i32)})
case("PadV2", {"input": c([["a"]], s), "paddings": c([[0, 1], [1, 1]], i32), "constant_values": c("-", s)})
case("ReverseV2", {"tensor": m, "axis": c([0, -1], i32)})
for start, limit, delta, dtype in [(0, 5, 1, i32), (3, -4, -2, i64), (0.0, 1.0, 0.25, f32), (5, 5, 1, i32), (5, 1, 1, i32), (0, 1, 0, i32)]:
    case("Range", {"start": c(start, dtype), "limit": c(limit, dtype), "delta": c(delta, dtype)})
for axis in (-1, 0, 1):
    case("OneHot", {"indices": c([[0, 2], [-1, 5]], i64), "depth": c(3, i32), "on_value": c(1.0, f32), "off_value": c(0.0, f32)}, axis=axis)

# --- reductions, selection
for dtype in (i32, i64, f32):
    for axes in ([0], [1, 2], [-1], [0, 1, 2], []):
        for keep in (False, True):
            for op in ("Sum", "Max", "Min", "Prod", "Mean"):
                case(op, {"input": tf.cast(m, dtype) - 5, "axis": c(axes, i32)}, keep_dims=keep)
for op in ("Any", "All"):
    case(op, {"input": c([[True, False], [True, True]], b), "axis": c([1], i32)}, keep_dims=False)
    case(op, {"input": c([[True, False], [True, True]], b), "axis": c([0, 1], i32)}, keep_dims=True)
    case(op, {"input": tf.zeros((2, 0), b), "axis": c([1], i32)}, keep_dims=False)
for op in ("Max", "Min", "Sum"):
    case(op, {"input": tf.zeros((0,), i64), "axis": c([0], i32)}, keep_dims=False)
case("Max", {"input": m, "axis": c([3], i32)}, keep_dims=False)
for exclusive in (False, True):
    for reverse in (False, True):
        case("Cumsum", {"x": m, "axis": c(1, i32)}, exclusive=exclusive, reverse=reverse)
        case("Cumsum", {"x": c([1, 2, 3], i64), "axis": c(-1, i32)}, exclusive=exclusive, reverse=reverse)
for op in ("ArgMax", "ArgMin"):
    case(op, {"input": c([[1, 3, 3], [0, 0, -1]], i32), "dimension": c(1, i32)}, output_type=i64)
    case(op, {"input": c([[1, 3, 3], [0, 0, -1]], f32), "dimension": c(0, i32)}, output_type=i32)
case("TopKV2", {"input": c([[1.0, 5.0, 5.0, 2.0, 5.0], [0.0, -0.0, 0.0, -1.0, 3.0]], f32), "k": c(3, i32)}, sorted=True)
case("TopKV2", {"input": c([3, 1, 3], i32), "k": c(0, i32)}, sorted=True)
case("TopKV2", {"input": c([3, 1, 3], i32), "k": c(4, i32)}, sorted=True)
for x, y in [([5, 1, 2, 5, -1], [2, 7]), ([], [1]), ([4], [])]:
    case("ListDiff", {"x": c(x, i64), "y": c(y, i64)}, out_idx=i32)
case("ListDiff", {"x": c([np.nan, 0.0, 1.5], f32), "y": c([np.nan, -0.0], f32)}, out_idx=i64)
case("ListDiff", {"x": c(["b", "a", "日", "b"], s), "y": c(["a", ""], s)}, out_idx=i32)
case("ListDiff", {"x": c([["b"]], s), "y": c(["a"], s)}, out_idx=i32)
for values in ([1.5, -2.0], [1.5, np.nan], [np.inf, 0.0], [np.nan, -np.inf], []):
    case("CheckNumerics", {"tensor": c(values, f32)}, message="x is wrong")
case("Where", {"condition": c([[True, False], [True, True]], b)})
case("Where", {"condition": c([0.0, 1.5, -0.0, 2.0], f32)})
case("Unique", {"x": c(["b", "a", "b", "c", "a"], s)}, out_idx=i32)
case("Unique", {"x": c([5, 5, 2**60, 3], i64)}, out_idx=i64)
case("UniqueWithCounts", {"x": c([5, 5, 1, 3], i32)}, out_idx=i32)

# --- rows told apart and put together
rows = c([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], f32)
case("DynamicPartition", {"data": rows, "partitions": c([1, 0, 1, 1], i32)}, num_partitions=2)
case("DynamicPartition", {"data": c(["a", "b", "c"], s), "partitions": c([2, 2, 0], i32)}, num_partitions=3)
case("DynamicPartition", {"data": rows, "partitions": c([[0, 1], [1, 0], [0, 0], [1, 1]], i32)}, num_partitions=2)
case("DynamicPartition", {"data": c([], i64), "partitions": c([], i32)}, num_partitions=2)
case("DynamicPartition", {"data": c([7, 2**60], i64), "partitions": c([0, 2], i32)}, num_partitions=2)
case("DynamicPartition", {"data": c([7, 8], i64), "partitions": c([0, -1], i32)}, num_partitions=2)
case("DynamicPartition", {"data": rows, "partitions": c([0, 1, 0], i32)}, num_partitions=2)
for op in ("DynamicStitch", "ParallelDynamicStitch"):
    case(op, {"indices": [c([2, 0], i32), c([1], i32)], "data": [rows[:2], rows[3:]]})
    case(op, {"indices": [c([], i32), c([1, 0], i32)], "data": [rows[:0], rows[2:]]})
    case(op, {"indices": [c(1, i32), c([[0, 3], [2, 4]], i32)], "data": [c(7, i64), c([[1, 2], [3, 2**62]], i64)]})
    case(op, {"indices": [c([], i32)], "data": [rows[:0]]})
    case(op, {"indices": [c([0, 1], i32)], "data": [rows[:1]]})
case("DynamicStitch", {"indices": [c([0, 1], i32), c([1, 0], i32)], "data": [rows[:2], rows[2:]]})
case("DynamicStitch", {"indices": [c([0, -1], i32)], "data": [rows[:2]]})

# --- histograms, ragged, sparse
none = tf.zeros((0,), f32)
for binary in (False, True):
    case("DenseBincount", {"input": c([[1, 1, 3], [0, 9, 2]], i64), "size": c(4, i64), "weights": none}, binary_output=binary)
    case("DenseBincount", {"input": c([1, 1, 3], i32), "size": c(4, i32), "weights": c([0.5, 2.0, 1.5], f32)}, binary_output=binary)
    case("DenseBincount", {"input": c([[1, 2**63 - 1], [2**62, 3]], i64), "size": c(4, i64), "weights": none}, binary_output=binary)
    case("RaggedBincount", {"splits": c([0, 2, 2, 5], i64), "values": c([1, 1, 0, 3, 7], i64), "size": c(4, i64), "weights": none}, binary_output=binary)
    case("SparseBincount", {"indices": c([[0, 0], [0, 2], [1, 1]], i64), "values": c([1, 1, 3], i64), "dense_shape": c([2, 3], i64), "size": c(4, i64), "weights": none}, binary_output=binary)
case("DenseBincount", {"input": c([-1], i64), "size": c(4, i64), "weights": none}, binary_output=False)
case("Bincount", {"arr": c([1, 1, 3, 9], i32), "size": c(4, i32), "weights": c([], i64)})
values = c([1, 2, 3, 4, 5, 6], i64)
for shape in ([-1, -1], [3, 2], [5, -1], [-1, 4], [2, 1]):
    case("RaggedTensorToTensor", {"shape": c(shape, i64), "values": values, "default_value": c(0, i64), "row_partition_tensors": [c([0, 2, 2, 6], i64)]}, row_partition_types=["ROW_SPLITS"])
    case("RaggedTensorToTensor", {"shape": c(shape, i64), "values": values, "default_value": c(-1, i64), "row_partition_tensors": [c(4, i64), c([0, 0, 1, 3, 3, 3], i64)]}, row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"])
case("RaggedTensorToTensor", {"shape": c(-1, i64), "values": c(["a", "b", "c", "d", "e", "f"], s), "default_value": c("", s), "row_partition_tensors": [c([0, 1, 3], i64), c([0, 2, 2, 6], i64)]}, row_partition_types=["ROW_SPLITS", "ROW_SPLITS"])
case("RaggedTensorToTensor", {"shape": c([-1, 3, 2], i64), "values": c([[1, 2], [3, 4], [5, 6]], i64), "default_value": c(9, i64), "row_partition_tensors": [c([0, 1, 3], i64)]}, row_partition_types=["ROW_SPLITS"])
case("RaggedTensorToTensor", {"shape": c([-1, -1, 2], i64), "values": c([[1, 2], [3, 4], [5, 6]], i64), "default_value": c([7, 8], i64), "row_partition_tensors": [c([0, 1, 3], i64)]}, row_partition_types=["ROW_SPLITS"])
case("SparseToDense", {"sparse_indices": c([[0, 1], [2, 0]], i64), "output_shape": c([3, 2], i64), "sparse_values": c(["x", "y"], s), "default_value": c("", s)}, validate_indices=True)
case("SparseToDense", {"sparse_indices": c([1, 3], i32), "output_shape": c([5], i32), "sparse_values": c(1.0, f32), "default_value": c(0.0, f32)}, validate_indices=True)
case("SparseToDense", {"sparse_indices": c([[0, 2]], i64), "output_shape": c([3, 2], i64), "sparse_values": c([1], i64), "default_value": c(0, i64)}, validate_indices=True)
case("Assert", {"condition": c(True, b), "data": [c("fine", s)]}, summarize=3)
case("Assert", {"condition": c(False, b), "data": [c("x must be", s), c([1, 2, 3, 4, 5], i32)]}, summarize=3)
case("EnsureShape", {"input": m}, shape=[2, 3, 4])

for name in ("Sum", "Max", "Min", "Prod"):
    rows = c([[1, 2], [3, 4], [5, 6], [7, 8]], f32)
    for ids, count in [([0, 2, 0, -1], 4), ([3, 3, 3, 1], 4), ([0, 4, 0, 0], 4)]:
        case("UnsortedSegment" + name, {"data": rows, "segment_ids": c(ids, i64), "num_segments": c(count, i64)})
    case("UnsortedSegment" + name, {"data": rows, "segment_ids": c([[0, 1], [1, 0], [0, 0], [2, 2]], i32), "num_segments": c(3, i32)})
for name in ("Sum", "Mean", "SqrtN"):
    rows = c([[1, 2], [3, 4], [5, 6]], f32)
    for at, ids in [([0, 2, 1], [0, 0, 1]), ([2, 2], [1, 3]), ([0, 3], [0, 0]), ([0, 1], [1, 0])]:
        case("SparseSegment" + name, {"data": rows, "indices": c(at, i32), "segment_ids": c(ids, i32)})
for ids in ([0, 0, 1, 3], [2, 2, 2, 2], [1, 0, 1, 1], [-1, 0, 0, 0], [0, 0, 1]):
    for dtype in (f32, i32):
        rows = c([[1, 2], [3, 4], [5, 6], [7, 8]], dtype)
        case("SegmentSum", {"data": rows, "segment_ids": c(ids, i32)})
case("SegmentSum", {"data": c(np.zeros([0, 2]), f32), "segment_ids": c(np.zeros([0]), i64)})
case("SegmentSum", {"data": c([float("inf"), float("-inf"), float("nan")], f32), "segment_ids": c([0, 0, 1], i64)})
for name in ("Max", "Mean", "Min", "Prod"):
    for ids in ([0, 0, 1, 3], [2, 2, 2, 2], [1, 0, 1, 1], [0, 0, 1]):
        for dtype in (f32, i32, i64):
            case("Segment" + name, {"data": c([[1, -2], [4, -4], [5, 6], [-7, 8]], dtype), "segment_ids": c(ids, i32)})
    case("Segment" + name, {"data": c([0.1, 0.2, 0.7, 3e38, 3e38, -0.3], f32), "segment_ids": c([0, 0, 0, 1, 1, 1], i64)})
    case("Segment" + name, {"data": c(np.zeros([0, 2]), f32), "segment_ids": c(np.zeros([0]), i64)})


def sparse_reshape(indices, shape, wanted):
    named = {"input_indices": c(indices, i64), "input_shape": c(shape, i64), "new_shape": c(wanted, i64)}
    case("SparseReshape", named)


for wanted in ([9, 4], [-1, 6], [2, 3, 6], [36], [-1], [-1, -1], [7, -1], [35], [-2, 18], [0, -1], [36, 1]):
    sparse_reshape([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 5]], [2, 3, 6], wanted)
# Beyond the dense shape: kept where the shape stays as it is, and in the first axis of another one.
for indices, wanted in [([[5, 0]], [2, -1]), ([[5, 1]], [4]), ([[5, 1]], [1, 4]), ([[-1, 0]], [1, 4]), ([[0, 3]], [2, 2]), ([[0, 3]], [4, 1])]:
    sparse_reshape(indices, [2, 2], wanted)
sparse_reshape(np.zeros([0, 2]), [4, 0], [-1, 3])
sparse_reshape(np.zeros([0, 2]), [0, 3], [-1, 3])
sparse_reshape(np.zeros([0, 2]), [4, 0], [2, 0])
sparse_reshape([[0, 1]], [1, 2, 3], [6])
sparse_reshape([[2**40 - 1, 3]], [2**40, 4], [4, -1])


def sparse_fill(indices, values, shape, default):
    named = {"indices": c(indices, i64), "values": values, "dense_shape": c(shape, i64), "default_value": default}
    case("SparseFillEmptyRows", named)


for indices in ([[0, 1], [0, 3], [2, 0], [3, 1]], [[3, 1], [0, 3], [3, 0], [0, 1]], [[0, 0], [1, 0], [2, 0], [4, 9]]):
    sparse_fill(indices, c(["a", "b", "c", "d"], s), [5, 6], c("-", s))
    sparse_fill(indices, c([1.5, 2.5, 3.5, float("nan")], f32), [6, 6], c(-1, f32))
    sparse_fill(indices, c([1, 2, 3, 4], i64), [3, 6], c(0, i64))
sparse_fill(np.zeros([0, 2]), c([], i64), [3, 4], c(7, i64))
sparse_fill(np.zeros([0, 2]), c([], i64), [0, 4], c(7, i64))
sparse_fill([[0, 0]], c([1], i64), [0, 4], c(7, i64))
sparse_fill([[0, 0], [1, 0]], c([1, 2], i64), [2, 1], c(7, i64))
sparse_fill([[-1, 0]], c([1], i64), [2, 1], c(7, i64))
sparse_fill([[0], [2]], c([1, 2], i64), [4], c(7, i64))
case("RaggedTensorToSparse", {"rt_nested_splits": [c([0, 2, 2, 5], i64)], "rt_dense_values": c(["a", "b", "c", "d", "e"], s)})
for axes in ([0], [1], [-1, 0], [0, 1], []):
    for keep in (False, True):
        case("ReduceJoin", {"inputs": c([["a", "b", "c"], ["d", "e", "f"]], s), "reduction_indices": c(axes, i32)}, keep_dims=keep, separator="-")
case("Add", {"x": c(["a", "b"], s), "y": c("_x", s)})
case("Add", {"x": c([1, 2], i64), "y": c(5, i64)})
for op in ("Sin", "Cos"):
    case(op, {"x": c([0.0, 0.5, -3.0], f32)})

for buckets in (1000, 0, 2**40):
    columns = [c([["a", "b"], ["", "日"]], s), c([[1], [-3]], i64), c([["x", "y", "z"], ["p", "q", "r"]], s)]
    case("SparseCross", {"indices": [], "values": [], "shapes": [], "dense_inputs": columns}, hashed_output=True, num_buckets=buckets, hash_key=956888297470, out_type=i64, internal_type=i64)
    for first, second in [([[0, 0], [0, 1], [2, 0]], [[0, 0], [1, 0], [2, 0]]), ([[1, 0]], [[1, 0], [1, 1], [1, 2]])]:
        parts = {
            "indices": [c(first, i64), c(second, i64)], "values": [c(["a", "", "日"][: len(first)], s), c([7, -1, 2**62][: len(second)], i64)],
            "shapes": [c([3, 2], i64), c([3, 3], i64)], "dense_inputs": [c([["x", "y"], ["z", "x"], ["q", "q"]], s)],
        }
        case("SparseCross", parts, hashed_output=True, num_buckets=buckets, hash_key=956888297470, out_type=i64, internal_type=i64)
        # TensorFlow counts the columns itself; a graph states how many there are.
        cases[-1]["attributes"] |= {"N": 2}
for sep in ("_X_", ""):
    columns = [c([["a", "b"], ["", "日"]], s), c([[1], [-(2**62)]], i64), c([["x", "y", "z"], ["p", "q", "r"]], s)]
    case("SparseCrossV2", {"indices": [], "values": [], "shapes": [], "dense_inputs": columns, "sep": c(sep, s)})
    for first, second in [([[0, 0], [0, 1], [2, 0]], [[0, 0], [1, 0], [2, 0]]), ([[1, 0]], [[1, 0], [1, 1], [1, 2]])]:
        parts = {
            "indices": [c(first, i64), c(second, i64)], "values": [c(["a", "", "日"][: len(first)], s), c([7, -1, 2**62][: len(second)], i64)],
            "shapes": [c([3, 2], i64), c([3, 3], i64)], "dense_inputs": [c([["x", "y"], ["z", "x"], ["q", "q"]], s)],
        }
        case("SparseCrossV2", {**parts, "sep": c(sep, s)})
        cases[-1]["attributes"] |= {"N": 2}

# --- tf.Example


def example(**features):
    feature = {}
    for name, value in features.items():
        if value and isinstance(value[0], bytes):
            feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
        elif value and isinstance(value[0], int):
            feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        else:
            feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


good = [example(u=[b"a", b"b"], n=[5, -6], f=[1.5]), example(n=[1 << 60]), example(u=[b"\xff"], f=[0.25, 2.0, -1.0]), b""]


def parse_v2(serialized, sparse=(), dense=(), ragged=(), names=()):
    case(
        "ParseExampleV2",
        {
            "serialized": c(serialized, s), "names": c(list(names), s), "sparse_keys": c([k for k, _ in sparse], s),
            "dense_keys": c([k for k, *_ in dense], s), "ragged_keys": c([k for k, *_ in ragged], s), "dense_defaults": [c(d, t) for _, t, _, d in dense],
        },
        num_sparse=len(sparse), sparse_types=[t for _, t in sparse], ragged_value_types=[t for _, t, _ in ragged],
        ragged_split_types=[t for _, _, t in ragged], dense_shapes=[list(shape) for _, _, shape, _ in dense],
    )


parse_v2(good, sparse=[("u", s), ("n", i64), ("f", f32)])
parse_v2(good, ragged=[("u", s, i64), ("n", i64, i32), ("f", f32, i64)])
parse_v2(good, dense=[("zz", f32, [2], [1.0, 2.0]), ("yy", s, [], "d")], sparse=[("u", s)])
parse_v2(good, dense=[("f", f32, [None], 9.0), ("n", i64, [None], 0), ("u", s, [None], "pad")])
parse_v2(good[:1], dense=[("u", s, [2], []), ("n", i64, [2, 1], []), ("f", f32, [], [])])
parse_v2(good[:1], dense=[("u", s, [3], [])], names=["one"])
parse_v2(good[:2], dense=[("u", s, [2], [])], names=["one", "two"])
parse_v2(good[:1], dense=[("n", f32, [2], [])])
parse_v2(good[:1], sparse=[("n", f32)])
parse_v2([b"\x01"], sparse=[("n", i64)])
case("ParseSingleExample", {"serialized": c(good[0], s), "dense_defaults": [c([], s), c([7], i64)]}, num_sparse=0, sparse_keys=[], sparse_types=[], dense_keys=["u", "q"], dense_shapes=[[2], [1]])

def parse_v1(serialized, sparse=(), dense=(), names=()):
    """ParseExample: each key is an input of its own."""
    case(
        "ParseExample",
        {
            "serialized": c(serialized, s), "names": c(list(names), s), "sparse_keys": [c(k, s) for k, _ in sparse],
            "dense_keys": [c(k, s) for k, *_ in dense], "dense_defaults": [c(d, t) for _, t, _, d in dense],
        },
        sparse_types=[t for _, t in sparse], dense_shapes=[list(shape) for _, _, shape, _ in dense],
    )
    # TensorFlow counts the keys itself; a graph states how many there are.
    cases[-1]["attributes"] |= {"Nsparse": len(sparse), "Ndense": len(dense)}


parse_v1(good, sparse=[("u", s), ("n", i64), ("f", f32)])
parse_v1(good, dense=[("zz", f32, [2], [1.0, 2.0]), ("yy", s, [], "d")], sparse=[("u", s)])
parse_v1(good, dense=[("f", f32, [None], 9.0), ("n", i64, [None], 0), ("u", s, [None], "pad")])
parse_v1(good[:1], dense=[("u", s, [2], []), ("n", i64, [2, 1], []), ("f", f32, [], [])], names=["one"])
parse_v1([], sparse=[("n", i64)], dense=[("f", f32, [2], [1.0, 2.0])])
parse_v1(good[:1], dense=[("u", s, [3], [])], names=["one"])
parse_v1(good[:2], dense=[("u", s, [2], [])], names=["one", "two"])
parse_v1(good[:1], dense=[("n", f32, [2], [])])
parse_v1(good[:1], sparse=[("n", f32)])
parse_v1([b"\x01"], sparse=[("n", i64)])

# --- parts of ragged and sparse values
for separator in ("", ", "):
    for ids, count in [([0, 0, 2], 3), ([1, -1, 1], 2), ([0, 3, 0], 3), ([0, 0], 1)]:
        case("UnsortedSegmentJoin", {"inputs": c(["a", "", "日"], s), "segment_ids": c(ids, i32), "num_segments": c(count, i32)}, separator=separator)
case("UnsortedSegmentJoin", {"inputs": c([["a", "b"], ["c", "d"]], s), "segment_ids": c([0, 0], i64), "num_segments": c(2, i32)}, separator="-")
for delimiter in ("", ",", ", "):
    for skips in (True, False):
        case("StringSplit", {"input": c(TEXTS[:12], s), "delimiter": c(delimiter, s)}, skip_empty=skips)
for starts, limits, deltas in [([0, 5, 3], [3, 5, 0], [1, 1, -2]), (0, [2, 0, 4], 1), ([1, 2], 4, 2), (0, 3, 1), ([0], [4], [0]), ([0, 1], [3], 1)]:
    for splits in (i32, i64):
        case("RaggedRange", {"starts": c(starts, i64), "limits": c(limits, i64), "deltas": c(deltas, i64)}, Tsplits=splits)
case("RaggedRange", {"starts": c([0.5, 0], f32), "limits": c([2, -1], f32), "deltas": c([0.5, -0.25], f32)}, Tsplits=i64)


def ragged_gather(splits, values, indices):
    named = {"params_nested_splits": splits, "params_dense_values": values, "indices": indices}
    case("RaggedGather", named, OUTPUT_RAGGED_RANK=len(splits) + len(indices.shape) - 1)
    # TensorFlow counts the levels itself; a graph states how many there are.
    cases[-1]["attributes"] |= {"PARAMS_RAGGED_RANK": len(splits)}


for indices in ([2, 0, 0], [1], [], [[0, 2], [1, 1]], [3], [-1]):
    at = c(np.array(indices), i32)
    ragged_gather([c([0, 2, 2, 5], i64)], c(["a", "b", "c", "d", "e"], s), at)
    ragged_gather([c([0, 1, 1, 3], i64), c([0, 2, 2, 3], i64)], c([[1, 2], [3, 4], [5, 6]], i32), at)
for entries in ([[1, 0], [0, 3], [0, 1], [1, 0]], [[0, 0], [2, 1]]):
    case("SparseReorder", {"input_indices": c(entries, i64), "input_values": c([1.5, 2.5, 3.5, 4.5][: len(entries)], f32), "input_shape": c([3, 4], i64)})
case("SparseReorder", {"input_indices": c(np.zeros([0, 2]), i64), "input_values": c([], s), "input_shape": c([3, 4], i64)})


def sparse_slice(start, size, shape=(3, 4)):
    named = {"indices": c([[0, 1], [0, 3], [1, 0], [2, 2]], i64), "values": c([1.5, 2.5, 3.5, 4.5], f32)}
    case("SparseSlice", {**named, "shape": c(shape, i64), "start": c(start, i64), "size": c(size, i64)})


# The second is what an indicator column over a weighted column does.
for start, size in [([0, 1], [2, 2]), ([0, 0], [3, 4]), ([1, 0], [9, 1]), ([2, 3], [1, 9]), ([3, 0], [1, 4]), ([7, 9], [2, 2]), ([0, 0], [0, 4])]:
    sparse_slice(start, size)
sparse_slice([0, 0], [2, 2], (1, 1))
for start, size in [([-1, 0], [2, 2]), ([0, 0], [-1, 2]), ([0], [2, 2]), ([0, 0], [2]), ([0, 0, 0], [1, 1, 1])]:
    sparse_slice(start, size)
case("SparseSlice", {"indices": c(np.zeros([0, 2]), i64), "values": c([], s), "shape": c([0, 4], i64), "start": c([0, 0], i64), "size": c([2, 2], i64)})

# --- bits
for dtype, other, values in [(f32, i32, [0.0, -0.0, 1.5, -2.5, np.nan, np.inf]), (f32, tf.uint32, [-1.0, 3e38]), (f64, i64, [0.0, -0.0, 0.1, -1e300])]:
    case("Bitcast", {"input": c([values], dtype)}, type=other)
    case("Bitcast", {"input": tf.bitcast(c([values], dtype), other)}, type=dtype)
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    for dtype in (tf.int8, i32, i64, u8, tf.uint64):
        most, least = dtype.max, dtype.min
        left, right = [0, 5, 3, most, least, most], [5, 0, 7, least, least, most]
        case(op, {name: c(np.array(values, dtype.as_numpy_dtype), dtype) for name, values in (("x", left), ("y", right))})
case("BitwiseAnd", {"x": c([[1], [2]], i32), "y": c([3, 6], i32)})
case("BitwiseAnd", {"x": c([1, 2], i32), "y": c([1, 2, 3], i32)})
for dtype in (tf.int8, tf.int16, i32, i64, u8, tf.uint16, tf.uint32, tf.uint64):
    bits = dtype.size * 8
    values = np.array([[1], [5], [dtype.max], [dtype.min], [dtype.max // 3]], dtype.as_numpy_dtype)
    case("Invert", {"x": c(values, dtype)})
    places = [0, 1, 3, bits - 1, bits, bits + 5, dtype.max] + ([-1, dtype.min] if dtype.min < 0 else [])
    for op in ("LeftShift", "RightShift"):
        case(op, {"x": c(values, dtype), "y": c(np.array([places], dtype.as_numpy_dtype), dtype)})
case("RightShift", {"x": c([1, 2], i32), "y": c([1, 2, 3], i32)})

# --- bytes as numbers, and base64
RAW = [b"\x00\x00\x80?\x00\x00\xc0\x7f", b"abcdefgh", b"\xff\xfe\xfd\xfc\x01\x02\x03\x84"]
for dtype in (u8, tf.int8, tf.int16, tf.uint16, i32, i64, f32, f64, b):
    for little_endian in (True, False):
        case("DecodeRaw", {"bytes": c(RAW, s)}, out_type=dtype, little_endian=little_endian)
        for length in (8, 16) if dtype != b else ():
            texts = c([[b"", b"abc"], [RAW[2], RAW[1] + RAW[2] + b"long"]], s)
            case("DecodePaddedRaw", {"input_bytes": texts, "fixed_length": c(length, i32)}, out_type=dtype, little_endian=little_endian)
for texts in (b"abcd", ["", ""], np.zeros([0, 3], str), [["abcd"], ["efgh"]], ["abcd", "ab"], ["abc"]):
    case("DecodeRaw", {"bytes": c(texts, s)}, out_type=tf.int16, little_endian=True)
for length in (0, -2, 3):
    case("DecodePaddedRaw", {"input_bytes": c(["ab"], s), "fixed_length": c(length, i32)}, out_type=tf.int16, little_endian=True)
CODES = "|YQ|YQ==|YWI=|YWI|YWJj|Y|YWJjZA|YQ=|YQ===|+/8=|-_8=|-_8|Y Q=|YW=j|YR==|YR|=|==|YWJjZ|YWJj====|YWJj=|YWJj==|YWJjYQ==|YWJj\n|YQ==\n".split("|")
for text in CODES + [b"Y\xff==", b"YQ\x00="]:
    case("DecodeBase64", {"input": c([text], s)})
case("DecodeBase64", {"input": c([["YWJj"], ["_v8"]], s)})
for pad in (False, True):
    case("EncodeBase64", {"input": c(TEXTS, s)}, pad=pad)
    case("EncodeBase64", {"input": c(b"\xff\xfe\xfb\xf0", s)}, pad=pad)
for buckets in (1, 1000, 2**40 + 3):
    case("StringToHashBucket", {"string_tensor": c([bytes((i * 31 + n * 7) & 255 for i in range(n)) for n in range(40)], s)}, num_buckets=buckets)
case("StringToHashBucket", {"string_tensor": c(TEXTS, s)}, num_buckets=97)

# --- comma-separated values


def csv(records, defaults, **attributes):
    full = dict(field_delim=",", use_quote_delim=True, na_value="", select_cols=[])
    full.update(attributes)
    case("DecodeCSV", {"records": c(records, s), "record_defaults": defaults}, **full)


three = [c([7], i32), c([0.5], f32), c(["none"], s)]
csv(["1,2.5,a", ",,", "-3, 1e3 ,\"q,\"\"x\"\"\""], three)
csv([["1,2.5,a"], ["4,nan,日本"]], three)
csv("8,-inf,x", three)
csv(np.zeros([0], str), three)
csv([b"1,2,\xff\xfe"], three)
csv(["1\t2\tb\"c"], three, field_delim="\t", use_quote_delim=False)
csv(["NA,NA,NA", "1,NA,"], three, na_value="NA")
csv(["a,1,b,2.5,x", "a,,b,,\"x\""], [c([7], i32), c([0.5], f32)], select_cols=[1, 3])
csv(["a,1,b,", "a,1,b,3"], [c([7], i32), c([0.5], f32)], select_cols=[1, 3])
csv(["a,1,b", "a,1,b,3"], [c([7], i32), c([0.5], f32)], select_cols=[1, 3])
csv(["\n1,\r\n2,x\n", "1,2,x"], three)
for dtype, values in [(i32, "2147483647,-2147483648, 12 "), (i64, "9223372036854775807,-9223372036854775808,+5"), (f32, "16777217,1e39,-0"), (f64, "0.1,1e308,.5")]:
    csv([values], [c([1], dtype)] * 3)
for dtype in (i32, i64, f32, f64, s):
    empty = tf.zeros([0], dtype)
    csv(["1"], [empty])
    csv(["1,"], [empty, empty])
    for text in ("x", "1.5", "2147483648", "9223372036854775808", " ", "0x10", "1 2"):
        csv([text], [c(["d"], s) if dtype == s else c([1], dtype)])
for record in ("1,2", "1,2,3,4", "", "1,2,\"a", "1,2,\"a\"b", "1,2,a\"b", "1,2,a\nb", "1,2,a\r", "1,2,\"a\"\n", "1,2,\"a\nb\"", "1,2,\"", "1,2,\"\"", "1,2,\"\"\"", "1,2,\"a\",", "\"1\",\"2\",\"3\"", "1,\"\",", "\n", ",,,"):
    csv([record], three)
csv(["1"], [c([1, 2], i32)])
csv(["1"], [c([[1]], i32)])
csv(["1"], [c(1, i32)])

# --- edges of each dtype: where TensorFlow rounds, wraps, refuses and passes over
# Denormals are left out (TensorFlow flushes them to zero), and so are casts of floats that the integer
# cannot hold (C++ leaves them open) and orders of NaN beside NaN.
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.nan, np.inf, -np.inf, 16777217.0, 2147483648.0, -(2.0**63), 0.1, 1e8]
EDGES = {f32: FLOATS, f64: FLOATS + [9007199254740993.0]}
for dtype in (tf.int8, tf.int16, i32, i64, u8, tf.uint16, tf.uint32, tf.uint64):
    least, most = dtype.min, dtype.max
    values = [0, 1, 2, 3, 7, 10, most, most - 1, most // 2 + 1]
    if least < 0:
        values += [-1, -2, -7, least, least + 1]
    if dtype.size >= 4:
        values += [2**24 + 1, 2**24 + 3, 2**25 + 1, 46341, 65537]
    if dtype.size == 8:
        values += [2**53 + 1, 2**62 + 2**38 + 1, 2**62 + 2**38, 2**62 + 3 * 2**38, 4611686293305294849]
    EDGES[dtype] = values


def edges(dtype, values=None):
    return c(np.array(EDGES[dtype] if values is None else values, dtype=dtype.as_numpy_dtype), dtype)


def pairs(dtype, keep=lambda x, y: True):
    values = EDGES[dtype]
    kept = [(x, y) for x in values for y in values if keep(x, y)]
    return {"x": edges(dtype, [x for x, _ in kept]), "y": edges(dtype, [y for _, y in kept])}


for dtype in (f32, f64):
    for op in ("TruncateDiv", "Maximum", "Minimum", "Pow"):
        case(op, pairs(dtype))
for dtype in (tf.int8, tf.int16, i32, i64):
    case("Pow", pairs(dtype, lambda x, y: 0 <= y < 200))
    case("Pow", {"x": edges(dtype, [2, 3]), "y": edges(dtype, [1, -1])})
for dtype in (i64, tf.uint64):
    case("Cast", {"x": edges(dtype)}, DstT=f32, Truncate=False)
bounds = [-2147483648.0, -1.0, 0.0, 0.1, 1.0, 16777216.0, 16777218.0, 33554432.0, 33554436.0, 2147483648.0, 4.611686293305295e18]
for dtype in (i32, i64, f32, f64):
    case("Bucketize", {"input": edges(dtype)}, boundaries=bounds)
for dtype, values in EDGES.items():
    for some in (values[6:8], values[-3:], [values[6]] * 3):
        for op in ("Prod", "Mean") if not dtype.is_floating else ("Max", "Min"):
            case(op, {"input": edges(dtype, some), "axis": c([0], i32)}, keep_dims=False)
for dtype in (f32, f64):
    most = dtype.max
    for values in ([np.nan, 1.0], [1.0, np.nan, 2.0], [np.nan, np.nan], [-np.inf, -most], [np.inf, most], [np.nan, -np.inf], [np.nan, np.inf], [np.nan, np.nan, -most]):
        for op in ("ArgMax", "ArgMin"):
            case(op, {"input": edges(dtype, values), "dimension": c(0, i32)}, output_type=i64)
    case("Unique", {"x": edges(dtype, FLOATS + FLOATS)}, out_idx=i32)
    case("UniqueWithCounts", {"x": edges(dtype, FLOATS + FLOATS)}, out_idx=i32)
    for axis, reverse in ((0, False), (1, True)):
        running = [[1e8, 1.0, -1e8], [0.1, 0.1, 0.1], [16777216.0, 1.0, 1.0], [1e-9, 3.0, -16777216.0]]
        case("Cumsum", {"x": edges(dtype, running), "axis": c(axis, i32)}, exclusive=False, reverse=reverse)
    for count, width in ((1, 1), (7, 3), (8, 1), (9, 2), (10, 1), (17, 4), (25, 8)):
        rows = [[rng.gauss(0, 1) * 10.0 ** rng.randint(-6, 7) for _ in range(width)] for _ in range(count)]
        order = rng.sample(range(count), count)
        for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
            case(op, {"data": edges(dtype, rows), "indices": c(order, i32), "segment_ids": c([0] * count, i32)})
        holed = [[np.nan if rng.random() < 0.15 else value for value in row] for row in rows]
        ids = c([rng.randrange(3) for _ in rows], i32)
        for op in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"):
            case(op, {"data": edges(dtype, holed), "segment_ids": ids, "num_segments": c(4, i32)})
for dtype in (tf.int8, i32, i64, tf.uint32, tf.uint64):
    for op in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"):
        case(op, {"data": edges(dtype, EDGES[dtype][:8]), "segment_ids": c([0, 0, 1, 1, 2, -1, 0, 1], i32), "num_segments": c(4, i32)})
for text in ("0x10", "0X1f", "-0x10", "0x", "0x1.8p1", "0x1g", "0x1p3", "0x0p99999", "-0x1p99999", "0x.8", "nan(1)", "NAN()", "-nan", "infinit", "0b1", "1f", "++1"):
    for out in (f32, f64, i32):
        case("StringToNumber", {"string_tensor": c([text], s)}, out_type=out)

# --- hashes of every length


def sample(n):
    return bytes((i * 31 + n * 7 + (i >> 3)) & 255 for i in range(n))


samples = c([sample(n) for n in range(301)], s)
low = tf.strings.to_hash_bucket_fast(samples, 2**62).numpy()
other = tf.strings.to_hash_bucket_fast(samples, 3**39).numpy()
# The op gives the hash modulo 2^62 and modulo 3^39 only; together they determine all 64 bits.
prints = [
    next(str(int(x) + k * 2**62) for k in range(4) if (int(x) + k * 2**62) % 3**39 == int(y))
    for x, y in zip(low, other)
]
key = [133, 137]
strong = tf.strings.to_hash_bucket_strong(samples, 1_000_003, key).numpy().tolist()
head = {
    "recorded_with": f"tensorflow {tf.__version__}, CPU",
    "fingerprints": prints,
    "strong": {"key": key, "buckets": 1_000_003, "bins": strong},
}
lines = ",\n".join(json.dumps(record, ensure_ascii=True) for record in cases)
target = pathlib.Path(__file__).parent / "host-operations.json"
target.write_text(json.dumps(head)[:-1] + f',\n"cases": [\n{lines}\n]}}\n')
print(len(cases), "cases,", target.stat().st_size // 1024, "KiB")
