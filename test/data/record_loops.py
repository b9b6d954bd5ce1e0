"""Makes SavedModels with loops under operations/ and records what TensorFlow answers.

    TF_ENABLE_ONEDNN_OPTS=0 python record_loops.py

Needs tensorflow 2.21, keras 3 and tf_keras; Winnow itself needs none. The weights are random. Each
folder gets the model as version 1, without the functions that serving does not need (gradients, code
for other devices), and `oracle.json`, in the format of record_savedmodels.py. `stateful_layer` has no
answers: it must be refused.
"""

import json
import os
import pathlib
import shutil

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2

HERE = pathlib.Path(__file__).parent / "operations"
CODES = {3: "INVALID_ARGUMENT", 9: "FAILED_PRECONDITION", 11: "OUT_OF_RANGE", 13: "INTERNAL"}
rng = np.random.default_rng(11)
ITEMS = 12
DIM = 4


def randoms(*shape):
    return np.round(rng.normal(size=shape), 3).astype("float32")


def histories(rows, steps):
    return rng.integers(0, ITEMS + 1, size=(rows, steps)).tolist()


def padded(rows, steps):
    """Histories of all lengths, filled up with 0, the last of them empty."""
    return [[*row[: steps - at], *[0] * at][:steps] for at, row in enumerate(histories(rows, steps))]


def functions_of(nodes):
    for node in nodes:
        for attribute in node.attr.values():
            if attribute.HasField("func"):
                yield attribute.func.name
            yield from (function.name for function in attribute.list.func)


def slim(path):
    """Leaves out what only training needs, and what tells of the Python code."""
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    meta = model.meta_graphs[0]
    library = meta.graph_def.library
    by_name = {function.signature.name: function for function in library.function}
    needed = set()
    wanted = list(functions_of(meta.graph_def.node))
    while wanted:
        name = wanted.pop()
        if name not in needed and name in by_name:
            needed.add(name)
            wanted += functions_of(by_name[name].node_def)
    for function in [function for name, function in by_name.items() if name not in needed]:
        library.function.remove(function)
    for function in library.function:
        function.attr.clear()
        function.arg_attr.clear()
        for node in function.node_def:
            node.ClearField("experimental_debug_info")
            for name in [name for name in node.attr if name.startswith("_") or name == "config_proto"]:
                del node.attr[name]
    meta.object_graph_def.Clear()
    path.write_bytes(model.SerializeToString(deterministic=True))


def record(name, special, module, signatures, cases):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    concrete = {key: function.get_concrete_function() for key, function in signatures.items()}
    tf.saved_model.save(module, str(folder / "1"), signatures=concrete)
    loaded = tf.saved_model.load(str(folder / "1"))
    recorded = []
    for signature_name, kind, inputs in cases:
        signature = loaded.signatures[signature_name]
        specs = signature.structured_input_signature[1]
        case = {"kind": kind, "signature_name": signature_name, "inputs": inputs}
        try:
            fed = {key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()}
            outputs = signature(**fed)
            case["outputs"] = {key: outputs[key].numpy().tolist() for key in sorted(outputs)}
        except tf.errors.OpError as error:
            case["error"] = {"code": CODES[error.error_code], "message": error.message[:200]}
        recorded.append(case)
    slim(folder / "1" / "saved_model.pb")
    shutil.rmtree(folder / "1" / "assets", ignore_errors=True)
    (folder / "1" / "fingerprint.pb").unlink(missing_ok=True)
    if cases:
        versions = f"Keras {keras.__version__}, tf_keras {tf_keras.__version__}"
        oracle = {
            "model": name,
            "recorded_with": f"TensorFlow {tf.__version__}, {versions}",
            "special": special,
            "signature_name": next(iter(signatures)),
            "cases": recorded,
        }
        (folder / "oracle.json").write_text(json.dumps(oracle, indent=1) + "\n")


def tower(api, steps, build, masked=False):
    history = api.Input((steps,), dtype="int64", name="history")
    embedded = api.layers.Embedding(ITEMS + 1, DIM, mask_zero=masked)(history)
    model = api.Model(history, build(api.layers, embedded))
    for variable in model.trainable_variables:
        variable.assign(randoms(*variable.shape))
    return model


def both(layers, value, **options):
    forward = layers.GRU(3, return_sequences=True, **options)
    return layers.Bidirectional(forward)(value)


TOWERS = {
    "gru": (5, False, lambda layers, x: layers.GRU(DIM)(x)),
    "gru_backwards": (5, True, lambda layers, x: layers.GRU(3, go_backwards=True)(x)),
    "gru_any_length": (None, True, lambda layers, x: layers.GRU(DIM)(x)),
    "lstm_masked": (5, True, lambda layers, x: layers.LSTM(DIM)(x)),
    "lstm_sequences": (
        None,
        False,
        lambda layers, x: layers.LSTM(3, return_sequences=True, return_state=True)(x),
    ),
    "simple_masked": (None, True, lambda layers, x: layers.SimpleRNN(DIM)(x)),
    "bidirectional": (5, True, lambda layers, x: both(layers, x)),
    "stacked": (
        None,
        True,
        lambda layers, x: layers.LSTM(DIM)(layers.GRU(3, return_sequences=True)(x)),
    ),
    "cells": (
        5,
        False,
        lambda layers, x: layers.RNN([layers.GRUCell(3, reset_after=True), layers.LSTMCell(3)])(x),
    ),
}


class Sequences(tf.Module):
    """A tower per signature; that of the default one searches items, as the official tutorial does."""

    def __init__(self, api):
        self.towers = {name: tower(api, steps, build, mask) for name, (steps, mask, build) in TOWERS.items()}
        self.items = tf.Variable(randoms(ITEMS, DIM))
        self.names = tf.Variable(tf.range(100, 100 + ITEMS, dtype=tf.int64))

    def signature(self, name):
        spec = tf.TensorSpec([None, TOWERS[name][0]], tf.int64, name="history")

        def answer(history):
            result = self.towers[name](history)
            results = result if isinstance(result, (list, tuple)) else [result]
            return {f"output_{at}": value for at, value in enumerate(results)}

        return tf.function(answer, input_signature=[spec])

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.int64, name="history")])
    def retrieve(self, history):
        scores = tf.matmul(self.towers["gru"](history), self.items, transpose_b=True)
        best, rows = tf.math.top_k(scores, k=4)
        return {"scores": best, "ids": tf.gather(self.names, rows)}


def sequences(name, api):
    module = Sequences(api)
    signatures = {"serving_default": module.retrieve}
    signatures |= {tower: module.signature(tower) for tower in TOWERS if tower != "gru"}
    cases = []
    for signature in signatures:
        steps = 5 if signature == "serving_default" else TOWERS[signature][0]
        for rows, length in [(1, 5), (3, 5), *([(2, 1), (2, 9)] if steps is None else [])]:
            cases.append((signature, "batch", {"history": histories(rows, length)}))
        if signature == "serving_default" or TOWERS[signature][1]:
            cases.append((signature, "padded", {"history": padded(6, 5)}))
    record(name, f"Recurrent layers of {api.__name__}.", module, signatures, cases)


class Loops(tf.Module):
    def __init__(self):
        self.kernel = tf.Variable(randoms(4, 4))
        self.table = tf.Variable(randoms(ITEMS + 1, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def map_fn(self, x):
        pairs = (x, tf.range(tf.shape(x)[0]))
        weighted, numbers = tf.map_fn(
            lambda pair: (tf.nn.softmax(tf.linalg.matvec(self.kernel, pair[0])), pair[1] * 2),
            pairs,
            fn_output_signature=(tf.float32, tf.int32),
        )
        return {"weighted": weighted, "numbers": numbers}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="x")])
    def map_lookup(self, x):
        mean = lambda history: tf.reduce_mean(tf.gather(self.table, tf.cast(history, tf.int64)), 0)
        return {"y": tf.map_fn(mean, x, fn_output_signature=tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32, name="x")])
    def nested(self, x):
        def item(rows):
            body = lambda at, state: (at + 1, tf.tanh(tf.linalg.matvec(self.kernel, state) + rows[at]))
            return tf.while_loop(lambda at, _: at < tf.shape(rows)[0], body, (0, tf.zeros([4])))[1]

        return {"y": tf.map_fn(item, x)}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def scans(self, x):
        step = lambda sum, value: sum * 0.5 + value
        return {
            "from_first": tf.scan(step, x),
            "from_zero": tf.scan(step, x, initializer=tf.zeros([2])),
            "reverse": tf.scan(step, x, initializer=tf.zeros([2]), reverse=True),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32, name="x")])
    def autograph(self, x):
        growing = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        sized = tf.TensorArray(tf.float32, size=tf.shape(x)[1])
        state = tf.zeros([tf.shape(x)[0], 4])
        for step in tf.range(tf.shape(x)[1]):
            state = tf.tanh(tf.matmul(state, self.kernel) + x[:, step])
            growing = growing.write(step, state)
            sized = sized.write(step, x[..., step, 1:3])
        return {"growing": growing.stack(), "sized": sized.stack(), "state": state}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def until(self, x):
        isFar = lambda at, root: tf.logical_and(at < 50, tf.reduce_any(tf.abs(root * root - x) > 1e-3))
        step = lambda at, root: (at + 1, 0.5 * (root + x / root))
        turns, root = tf.while_loop(isFar, step, (0, tf.ones_like(x)))
        return {"root": root, "turns": tf.fill(tf.shape(x), turns)}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def unrolled(self, x):
        parts = tf.TensorArray(tf.float32, size=3)
        for at in range(3):
            parts = parts.write(at, x[:, at] * at)
        return {"stacked": tf.transpose(parts.stack()), "read": parts.read(1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def endless(self, x):
        isSmall = lambda value: tf.reduce_all(value < 1e30)
        return {"y": tf.while_loop(isSmall, lambda value: (value * 1.0,), (x,))[0]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def endless_nest(self, x):
        """Each loop ends; all turns of the inner one together are too many."""
        inner = lambda value: tf.while_loop(
            lambda at, _: at < 1000, lambda at, sum: (at + 1, sum + 1.0), (0, value)
        )[1]
        outer = lambda at, value: (at + 1, inner(value))
        turns = tf.cast(tf.reduce_max(x), tf.int32)
        return {"y": tf.while_loop(lambda at, _: at < turns, outer, (0, x))[1]}


def loops():
    module = Loops()
    names = "map_fn,map_lookup,nested,scans,autograph,until,unrolled,endless,endless_nest".split(",")
    signatures = {name: getattr(module, name) for name in names}
    cases = [("map_fn", "batch", {"x": randoms(rows, 4).tolist()}) for rows in [1, 3, 40]]
    cases += [("map_lookup", "batch", {"x": histories(rows, 5)}) for rows in [1, 3]]
    cases += [("nested", "batch", {"x": randoms(2, steps, 4).tolist()}) for steps in [1, 6]]
    cases += [("scans", "batch", {"x": randoms(rows, 2).tolist()}) for rows in [1, 5]]
    cases += [("autograph", "batch", {"x": randoms(2, steps, 4).tolist()}) for steps in [1, 7]]
    cases += [("until", "batch", {"x": x}) for x in [[2.0, 9.0, 0.25], [1.0]]]
    cases += [("unrolled", "batch", {"x": randoms(2, 3).tolist()})]
    cases += [("endless", "ends at once", {"x": [1e31]}), ("endless_nest", "few", {"x": [3.0]})]
    record("loops", "Loops and TensorArrays as functions write them.", module, signatures, cases)


def stateful_layer():
    model = keras.Sequential(
        [keras.Input(batch_shape=(2, 5, DIM)), keras.layers.GRU(3, stateful=True)]
    )
    spec = tf.TensorSpec([2, 5, DIM], tf.float32, name="x")
    module = tf.Module()
    module.model = model
    serve = tf.function(lambda x: {"y": model(x)}, input_signature=[spec])
    record("stateful_layer", "", module, {"serving_default": serve}, [])


sequences("keras_sequences", keras)
sequences("tf_keras_sequences", tf_keras)
loops()
stateful_layer()
