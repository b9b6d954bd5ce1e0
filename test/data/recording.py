"""What record_savedmodels.py and record_searches.py share: how a SavedModel is saved and asked, and how
TensorFlow's answers are written to `oracle.json`. The format is described in record_savedmodels.py.
"""

import base64
import json
import os
import pathlib
import shutil

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)

HERE = pathlib.Path(__file__).parent / "savedmodels"
MAIN = "serving_default"
NOISE = ("Graph execution error", "Detected at", "<stack traces unavailable>", "\t [[{{node")


def randoms(*shape):
    return np.random.default_rng(sum(shape) + 7).normal(size=shape).astype(np.float32)


def spec(dtype, *shape, name=None):
    return tf.TensorSpec(shape, dtype, name)


def plain(value):
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if type(value) is int and abs(value) > 2**53:
        return str(value)
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def describe(specs):
    return {
        name: {
            "dtype": s.dtype.name,
            "shape": None if s.shape.rank is None else [-1 if d is None else d for d in s.shape],
        }
        for name, s in sorted(specs.items())
    }


def core_line(message):
    """The line that says what is wrong, without the names of nodes."""
    lines = [line for line in message.split("\n") if line.strip() and not line.startswith(NOISE)]
    return lines[0].split(" [[{{node")[0].strip()


def of_any_shape(function, fed):
    """Runs the graph as TensorFlow Serving does, which holds no input against the shape of the signature."""
    arguments = [fed[tensor.op.name.split("/")[-1]] for tensor in function.inputs[: len(fed)]]
    return function._call_flat(arguments, function.captured_inputs)


def run(function, inputs, kind):
    specs = function.structured_input_signature[1]
    fed = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
    try:
        answer = of_any_shape(function, fed) if kind == "any shape" else function(**fed)
    except tf.errors.OpError as error:
        names = {v: k for k, v in tf.errors.__dict__.items() if isinstance(v, int)}
        code = names.get(error.error_code, str(error.error_code))
        return {"error": {"code": code, "message": core_line(error.message)}}
    return {"outputs": {name: plain(t.numpy().tolist()) for name, t in sorted(answer.items())}}


def record(name, build):
    """Builds the model `name` and asks it. `build` saves it into a directory, and gives its cases as
    (kind, inputs) or (kind, inputs, signature); its docstring says what is special about the model. Where Winnow is to
    read something else than what was asked, `build.served` saves that in its place."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    directory = str(folder / "1")
    cases = build(directory)
    loaded = tf.saved_model.load(directory)
    signatures = {
        n: {"inputs": describe(f.structured_input_signature[1]), "outputs": describe(f.structured_outputs)}
        for n, f in loaded.signatures.items()
    }
    recorded = []
    for kind, inputs, *signature in cases:
        case = {"kind": kind}
        if signature:
            case["signature_name"] = signature[0]
        case["inputs"] = {k: plain(v) for k, v in inputs.items()}
        case.update(run(loaded.signatures[signature[0] if signature else MAIN], inputs, kind))
        if (kind == "error") != ("error" in case):
            raise AssertionError(f"{name}: {case}")
        recorded.append(case)
    head = {
        "model": name,
        "recorded_with": f"tensorflow {tf.__version__}, CPU, one thread, oneDNN off",
        "special": " ".join(build.__doc__.split()),
        "signature_name": MAIN,
        "signature": signatures[MAIN],
        "signatures": signatures,
    }
    if hasattr(build, "served"):
        shutil.rmtree(directory)
        build.served(directory)
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in recorded)
    text = json.dumps(head, indent=1)[:-2] + f',\n "cases": [\n{lines}\n ]\n}}\n'
    (folder / "oracle.json").write_text(text)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{name}: {len(recorded)} cases, {size // 1024} KiB", flush=True)
