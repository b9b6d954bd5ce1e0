"""Makes SavedModels of many operations under operations/ and records what TensorFlow answers.

    TF_ENABLE_ONEDNN_OPTS=0 python record_operations.py

Needs tensorflow 2.21 and keras 3; Winnow itself needs neither. The weights are random. Each folder
gets the model as version 1 and `oracle.json`, in the format of record_savedmodels.py.
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

tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)

HERE = pathlib.Path(__file__).parent / "operations"
CODES = {3: "INVALID_ARGUMENT", 9: "FAILED_PRECONDITION", 11: "OUT_OF_RANGE", 13: "INTERNAL"}
rng = np.random.default_rng(7)


def randoms(*shape):
    return np.round(rng.normal(size=shape), 3).astype("float32")


def version_of(name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return str(folder / "1")


def text(value):
    if isinstance(value, list):
        return [text(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def core_of(message):
    """The line that says what is wrong: the one before the node's name, or the first."""
    lines = message.split("\n")
    nodes = [index for index, line in enumerate(lines) if line.lstrip().startswith("[[{{node")]
    return lines[nodes[0] - 1] if nodes else lines[0]


def record(name, special, cases):
    loaded = tf.saved_model.load(str(HERE / name / "1"))
    recorded = []
    for signature_name, kind, inputs in cases:
        signature = loaded.signatures[signature_name]
        specs = signature.structured_input_signature[1]
        case = {"kind": kind, "signature_name": signature_name, "inputs": inputs}
        try:
            fed = {key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()}
            outputs = signature(**fed)
            case["outputs"] = {key: text(outputs[key].numpy().tolist()) for key in sorted(outputs)}
        except tf.errors.OpError as error:
            case["error"] = {"code": CODES[error.error_code], "message": core_of(error.message)}
        recorded.append(case)
    oracle = {
        "model": name,
        "recorded_with": f"TensorFlow {tf.__version__}, Keras {keras.__version__}",
        "special": special,
        "signature_name": "serving_default",
        "cases": recorded,
    }
    (HERE / name / "oracle.json").write_text(json.dumps(oracle, indent=1) + "\n")


class Operations(tf.Module):
    def __init__(self):
        self.kernel = tf.Variable(randoms(4, 3))
        self.bias = tf.Variable(randoms(6))
        self.position = tf.Variable(randoms(4, 4))
        self.table = tf.Variable(randoms(6, 4))
        self.candidates = tf.Variable(randoms(9, 4))
        self.numbers = tf.Variable(tf.range(100, 109, dtype=tf.int64))
        self.names = tf.Variable([f"i{index}" for index in range(9)])
        self.facts = tf.Variable(np.arange(18).reshape(9, 2).astype("int32"))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def dense(self, x):
        positive = tf.abs(x) + 0.5
        size = tf.shape(x)[0]
        return {
            "add_n": tf.add_n([x, x, positive]),
            "all": tf.reduce_all(x > -1, 1),
            "any": tf.reduce_any(x > 1, -1, keepdims=True),
            "argmin": tf.argmin(x, 1, output_type=tf.int32),
            "batch_matmul": tf.matmul(x[:, :, None], x[:, :, None], transpose_a=True),
            "bool": x > 0,
            "branch": tf.cond(tf.constant(True), lambda: x, lambda: -x),
            "broadcast": tf.broadcast_to(x[:, None, :], [size, 2, 4]),
            "clip": tf.clip_by_value(x, -0.5, 0.7),
            "cos": tf.cos(x),
            "cumsum": tf.cumsum(x, 1, exclusive=True),
            "divide": tf.math.divide_no_nan(x, tf.nn.relu(x)),
            "double": tf.cast(x, tf.float64) * 2,
            "einsum": tf.einsum("bi,ij,bk->bkj", x, self.kernel, x),
            "expm1": tf.math.expm1(x),
            "floor": tf.floor(x * 3),
            "gelu": tf.nn.gelu(x, approximate=True),
            "int": tf.cast(x * 3, tf.int32),
            "l2": tf.math.l2_normalize(x, 1),
            "last": x[..., -1],
            "leaky": tf.nn.leaky_relu(x),
            "log1p": tf.math.log1p(positive),
            "log_sigmoid": tf.math.log_sigmoid(x),
            "log_sum": tf.reduce_logsumexp(x, 1),
            "masked": tf.boolean_mask(x, [True, False, True, True], axis=1),
            "pad": tf.pad(x, [[0, 0], [1, 2]]),
            "position": x @ tf.transpose(tf.nn.embedding_lookup(self.position, tf.range(4))),
            "pow": tf.pow(positive, 1.7),
            "prod": tf.reduce_prod(x, 1),
            "range": tf.cast(tf.range(4), tf.float32) * x,
            "reverse": x[:, ::-1],
            "round": tf.round(x * 3),
            "scalar": tf.reduce_sum(x),
            "select": tf.where(x > 0, x, -2 * x),
            "size": tf.size(x),
            "slice": tf.slice(x, [0, 1], [-1, 2]),
            "softsign": tf.nn.softsign(x),
            "split": tf.split(x, [1, 3], 1)[1] * 2,
            "stack": tf.stack(tf.unstack(x, axis=1)[::-1], 1),
            "std": tf.math.reduce_std(x, 1),
            "tile": tf.tile(x, [1, 2]),
            "top_rows": tf.math.top_k(x, 2)[1],
            "top_values": tf.math.top_k(x, 2)[0],
        }

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int32, name="row"),
            tf.TensorSpec([None, 3], tf.int64, name="history"),
        ]
    )
    def lookups(self, row, history):
        mask = tf.cast(history > 0, tf.float32)[..., None]
        total = tf.reduce_sum(tf.gather(self.table, history) * mask, 1)
        query = tf.gather(self.table, row) + total / tf.maximum(tf.reduce_sum(mask, 1), 1)
        scores = tf.matmul(query, self.candidates, transpose_b=True)
        values, rows = tf.math.top_k(scores, k=3)
        return {
            "best": tf.gather(self.candidates, rows[:, 0]),
            "equal": tf.equal(row, 2),
            "facts": tf.gather(self.facts, rows),
            "names": tf.gather(self.names, rows),
            "numbers": tf.gather(self.numbers, rows),
            "one_hot": tf.one_hot(row, 6),
            "scores": values + tf.gather(self.bias, row)[:, None],
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="query")])
    def computed_candidates(self, query):
        """Candidates that are computed, not stored: a dense part and a top-k on the host."""
        scores = tf.matmul(query, tf.math.l2_normalize(self.candidates, 1), transpose_b=True)
        values, rows = tf.math.top_k(scores, k=4)
        return {"all": scores, "names": tf.gather(self.names, rows), "scores": values}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="query")])
    def too_many(self, query):
        """A k that only a request knows, and that is larger than the table."""
        k = tf.constant(60) + 0 * tf.shape(query)[0]
        values, rows = tf.math.top_k(tf.matmul(query, self.candidates, transpose_b=True), k=k)
        return {"rows": rows, "scores": values}


def operations():
    module = Operations()
    signatures = {
        "serving_default": module.dense,
        "lookups": module.lookups,
        "computed_candidates": module.computed_candidates,
        "too_many": module.too_many,
    }
    tf.saved_model.save(module, version_of("operations"), signatures=signatures)
    x = randoms(3, 4).tolist()
    rows = {"row": [0, 5, 2], "history": [[0, 1, 2], [0, 0, 0], [5, 5, 4]]}
    cases = [
        ("serving_default", "batch", {"x": x}),
        ("serving_default", "known", {"x": x[:1]}),
        ("lookups", "batch", rows),
        ("lookups", "error", {"row": [6], "history": [[0, 0, 0]]}),
        ("lookups", "error", {"row": [0], "history": [[0, -1, 0]]}),
        ("computed_candidates", "batch", {"query": x}),
        ("too_many", "error", {"query": x}),
    ]
    record("operations", "Many operations of dense parts and gathers, as a tf.Module.", cases)


def strict_lookup():
    layers = keras.layers
    name = keras.Input((), dtype="string", name="name")
    lookup = layers.StringLookup(vocabulary=["x", "y", "z"], num_oov_indices=0)
    embedding = layers.Embedding(4, 3)(lookup(name))
    model = keras.Model({"name": name}, {"vector": embedding})
    for variable in model.trainable_variables:
        variable.assign(randoms(*variable.shape))
    model.export(version_of("strict_lookup"), verbose=False)
    cases = [
        ("serving_default", "batch", {"name": ["x", "z", "y"]}),
        ("serving_default", "error", {"name": ["x", "w"]}),
    ]
    record("strict_lookup", "StringLookup without an OOV row refuses unknown strings.", cases)


def keras_layers():
    layers = keras.layers
    x = keras.Input((5,), name="x")
    h = layers.BatchNormalization()(layers.Dense(7, activation="relu")(x))
    h = layers.LeakyReLU()(h)
    for activation in ["elu", "selu", "softplus", "tanh", "relu6", "gelu", "swish"]:
        h = layers.Dense(6, activation=activation)(h)
    h = layers.LayerNormalization()(layers.UnitNormalization()(h))
    rows = layers.Permute((2, 1))(layers.Reshape((2, 3))(layers.Dropout(0.5)(h)))
    flat = layers.Flatten()(rows)
    outputs = {
        "attention": layers.MultiHeadAttention(2, 3)(rows, rows),
        "log_softmax": layers.Dense(3, activation="log_softmax")(flat),
        "max": layers.GlobalMaxPooling1D()(rows),
        "out": layers.Dense(3)(flat),
    }
    model = keras.Model({"x": x}, outputs)
    for variable in model.trainable_variables:
        variable.assign(randoms(*variable.shape))
    model.export(version_of("keras_layers"), verbose=False)
    values = randoms(4, 5).tolist()
    cases = [("serving_default", "batch", {"x": values})]
    cases += [("serving_default", "known", {"x": [value]}) for value in values]
    record("keras_layers", "Dense layers, norms and attention of Keras 3.", cases)


operations()
strict_lookup()
keras_layers()
