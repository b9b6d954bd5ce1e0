"""Makes SavedModels of many operations under operations/ and records what TensorFlow answers.

    TF_ENABLE_ONEDNN_OPTS=0 python record_operations.py [name ...]

Needs tensorflow 2.21 and keras 3; Winnow itself needs neither. The weights are random. Each folder
gets the model as version 1 and `oracle.json`, in the format of record_savedmodels.py.
"""

import base64
import json
import os
import pathlib
import shutil
import sys

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
    if isinstance(value, float) and np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


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
        case = {"kind": kind, "signature_name": signature_name, "inputs": {}}
        case["inputs"] = {key: text(value) for key, value in inputs.items()}
        try:
            fed = {key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()}
            outputs = signature(**fed)
            case["outputs"] = {key: text(np.asarray(outputs[key]).tolist()) for key in sorted(outputs)}
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


class Towers(tf.Module):
    """Towers over sequences and pairs, in the operations that Keras and TFRS export."""

    def __init__(self):
        self.items = tf.Variable(randoms(12, 6))
        self.causal = tf.Variable(randoms(1, 3, 6, 4))
        self.same = tf.Variable(randoms(1, 4, 6, 4))
        self.depths = tf.Variable(randoms(1, 3, 6, 2))
        self.bias = tf.Variable(randoms(4))
        self.projections = [tf.Variable(randoms(6, 2, 3)) for _ in range(3)]
        self.output = tf.Variable(randoms(2, 3, 6))

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.int64, name="history")])
    def convolutions(self, history):
        x = tf.gather(self.items, history)
        padded = tf.pad(x, [[0, 0], [4, 0], [0, 0]])
        dilated = tf.nn.convolution(padded, self.causal[0], padding="VALID", dilations=[2])
        blocks = tf.space_to_batch(x, [2], [[1, 2]])
        image = tf.expand_dims(x, 1)
        strides = {"strides": [1, 1, 2, 1], "padding": "SAME"}
        return {
            "average": tf.nn.avg_pool1d(x, 3, 2, "SAME"),
            "back": tf.batch_to_space(blocks, [2], [[1, 2]]),
            "causal": tf.nn.relu(tf.nn.bias_add(dilated, self.bias)),
            "depthwise": tf.nn.depthwise_conv2d(image, self.depths, [1, 1, 1, 1], "SAME"),
            "max": tf.nn.max_pool1d(x, 2, 2, "VALID"),
            "same": tf.nn.conv2d(image, self.same, **strides),
            "best": tf.reduce_max(tf.nn.conv1d(x, self.same[0], 1, "VALID"), 1),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64, name="history")])
    def attention(self, history):
        """Causal attention over as many steps as a request has; 0 is padding."""
        x = tf.gather(self.items, history)
        steps = tf.shape(history)[1]
        q, k, v = [tf.einsum("bsd,dhe->bshe", x, w) for w in self.projections]
        scores = tf.einsum("bqhe,bkhe->bhqk", q, k) / 3**0.5
        causal = tf.linalg.band_part(tf.ones([steps, steps]), -1, 0) > 0
        seen = causal[None, None] & (history != 0)[:, None, None]
        weights = tf.nn.softmax(tf.where(seen, scores, -1e9))
        y = tf.einsum("bhqk,bkhe->bqhe", weights, v)
        y = tf.nn.gelu(tf.einsum("bshe,hed->bsd", y, self.output))
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        y = (y - mean) * tf.math.rsqrt(variance + 1e-6)
        lengths = tf.reduce_sum(tf.cast(history != 0, tf.int32), 1)
        last = tf.gather(y, tf.maximum(lengths - 1, 0), batch_dims=1)
        return {"last": last, "turned": tf.reverse_sequence(x, lengths, 1), "vectors": y}

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 6], tf.float32, name="x")])
    def pairs(self, x):
        products = tf.matmul(x, x, transpose_b=True)
        below = tf.linalg.band_part(tf.ones_like(products), -1, 0)
        strictly = tf.cast(below - tf.linalg.band_part(below, 0, 0), tf.bool)
        rows = tf.range(tf.shape(x)[0])
        places = tf.stack([rows, rows % 4], 1)
        return {
            "below": tf.linalg.band_part(products, 1, 0),
            "diagonal": tf.linalg.diag_part(products),
            "pairs": tf.reshape(tf.boolean_mask(products, strictly), [-1, 6]),
            "rolled": tf.roll(x, 1, 1),
            "scattered": tf.tensor_scatter_nd_add(x, places, x[:, 0]),
            "without": tf.linalg.set_diag(products, tf.zeros(tf.shape(products)[:-1])),
            "written": tf.scatter_nd(places, x[:, 0], tf.shape(x)),
        }


def towers():
    module = Towers()
    signatures = {
        "serving_default": module.convolutions,
        "attention": module.attention,
        "pairs": module.pairs,
    }
    tf.saved_model.save(module, version_of("towers"), signatures=signatures)
    histories = [[1, 5, 3, 2, 7], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    x = randoms(3, 4, 6).tolist()
    cases = [("serving_default", "batch", {"history": histories})]
    cases += [("serving_default", "known", {"history": [row]}) for row in histories]
    cases += [("attention", "batch", {"history": histories})]
    cases += [("attention", "known", {"history": [row]}) for row in histories]
    cases += [("attention", "known", {"history": [[4]]})]
    cases += [("pairs", "batch", {"x": x}), ("pairs", "known", {"x": x[:1]})]
    record("towers", "Convolutions, causal attention and dot interactions, as a tf.Module.", cases)


class Branches(tf.Module):
    """Branches that the request chooses between: tf.cond over all that a program is made of."""

    def __init__(self):
        users = tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], [1, 2, 3], tf.string, tf.int64)
        self.users = tf.lookup.StaticHashTable(users, 0)
        self.vectors = tf.Variable(randoms(4, 4))
        self.popular = tf.Variable(randoms(1, 4))
        self.kernel = tf.Variable(randoms(4, 4))
        self.candidates = tf.Variable(randoms(9, 4))
        self.names = tf.Variable([f"i{index}" for index in range(9)])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="user")])
    def cold_start(self, user):
        """The search's query comes from a lookup or from a constant."""
        rows = self.users.lookup(user)
        is_known = tf.reduce_all(rows > 0)
        query = tf.cond(
            is_known,
            lambda: tf.nn.relu(tf.gather(self.vectors, rows) @ self.kernel),
            lambda: tf.tile(self.popular, [tf.shape(user)[0], 1]),
        )
        values, found = tf.math.top_k(tf.matmul(query, self.candidates, transpose_b=True), k=3)
        return {"known": is_known, "names": tf.gather(self.names, found), "scores": values}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="user")])
    def two_answers(self, user):
        """One branch searches, the other has its answer ready; results are strings and numbers."""

        def search():
            query = tf.gather(self.vectors, self.users.lookup(user))
            scores = tf.matmul(query, self.candidates, transpose_b=True)
            values, found = tf.math.top_k(scores, k=2)
            return tf.gather(self.names, found), values

        def ready():
            size = tf.shape(user)[0]
            return tf.fill([size, 2], "i0"), tf.zeros([size, 2])

        names, scores = tf.cond(tf.shape(user)[0] < 3, search, ready)
        return {"names": names, "scores": scores}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4], tf.float32, name="x"),
            tf.TensorSpec([None], tf.int32, name="row"),
        ]
    )
    def nested(self, x, row):
        """Predicates that are computed, one within a branch; what fails runs in no other branch."""
        h = x @ self.kernel

        def positive():
            inner = tf.nn.relu(h) + tf.gather(self.vectors, row)
            return tf.cond(
                tf.reduce_max(inner) > 4,
                lambda: (inner / tf.reduce_max(inner), tf.constant("large")),
                lambda: (inner @ self.kernel, tf.constant("small")),
            )

        def negative():
            tf.debugging.assert_less(row, 2, message="only the first rows")
            return tf.reshape(h, [-1, 2, 2])[:, 0] @ self.kernel[:2], tf.constant("negative")

        vectors, kind = tf.cond(tf.reduce_sum(h) > 0, positive, negative)
        count = tf.cond(tf.size(row) > 1, lambda: 100 // tf.reduce_min(row), lambda: -1)
        return {"count": count, "kind": kind, "vectors": vectors + 1}


def branches():
    module = Branches()
    signatures = {
        "serving_default": module.cold_start,
        "two_answers": module.two_answers,
        "nested": module.nested,
    }
    tf.saved_model.save(module, version_of("branches"), signatures=signatures)
    users = [["a"], ["b", "c"], ["?"], ["a", "?"], ["a", "b", "c"]]
    cases = [
        (name, "known", {"user": user})
        for name in ("serving_default", "two_answers")
        for user in users
    ]
    x = [[0.5, 1.0, -0.25, 2.0], [1.5, -1.0, 0.75, 0.5], [-0.5, 0.25, 1.0, -2.0]]
    rows = [[1], [0], [3], [9], [-1], [0, 1], [1, 1], [2, 1]]
    for sign in (1, -1, 0.125, -0.125):
        for row in rows:
            values = [[sign * value for value in x[at]] for at in range(len(row))]
            cases.append(("nested", "known", {"x": values, "row": row}))
    record("branches", "tf.cond over lookups, searches, dense parts, strings and assertions.", cases)


# --- choices between towers, quantised layers ------------------------------------------------------


class Choices(tf.Module):
    def __init__(self):
        super().__init__()
        self.towers = [tf.Variable(randoms(4, 4)) for _ in range(3)]
        self.candidates = tf.Variable(randoms(9, 4))
        self.names = tf.Variable([f"i{index}" for index in range(9)])

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4], tf.float32, name="x"),
            tf.TensorSpec([], tf.int32, name="segment"),
        ]
    )
    def switch(self, x, segment):
        """The query comes from the tower of a segment; segments that are not known take the last one."""
        query = tf.switch_case(segment, [lambda tower=tower: x @ tower for tower in self.towers])
        inner = tf.cond(
            segment > 0,
            lambda: tf.switch_case(segment - 1, [lambda: tf.constant("one"), lambda: tf.constant("more")]),
            lambda: tf.constant("none"),
        )
        values, found = tf.math.top_k(tf.matmul(query, self.candidates, transpose_b=True), k=3)
        return {"kind": inner, "names": tf.gather(self.names, found), "scores": values}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.float32, name="y"),
            tf.TensorSpec([None], tf.float32, name="x"),
        ]
    )
    def angle(self, y, x):
        return {"angle": tf.atan2(y, x), "of_one": tf.atan2(y, tf.constant(-2.0))}


def choices():
    module = Choices()
    signatures = {"serving_default": module.switch, "angle": module.angle}
    tf.saved_model.save(module, version_of("choices"), signatures=signatures)
    x = randoms(3, 4).tolist()
    cases = [("serving_default", "known", {"x": x, "segment": segment}) for segment in (0, 1, 2, 3, -1)]
    edges = [0.0, -0.0, 1.0, -1.0, 1e-30, -3e38, float("inf"), float("-inf"), 0.75]
    y, x = zip(*[(y, x) for y in edges for x in edges])
    cases.append(("angle", "known", {"y": list(y), "x": list(x)}))
    record("choices", "tf.switch_case over towers, and atan2 with the signs of zeros and infinities.", cases)


def quantised():
    """Layers of Keras 3 in int8: products of int8 matrices, whose sums are int32."""
    layers = keras.layers
    keras.utils.set_random_seed(5)
    query = keras.Input((8,), name="query")
    hidden = layers.Dense(16, activation="relu")(query)
    embedding = layers.Embedding(12, 16)
    row = keras.Input((), dtype="int32", name="row")
    outputs = {"logits": layers.Dense(24)(hidden + embedding(row))}
    model = keras.Model({"query": query, "row": row}, outputs)
    model.quantize("int8")
    model.export(version_of("quantised"), verbose=False)
    values = randoms(4, 8).tolist()
    inputs = [{"query": values[:1], "row": [3]}, {"query": values, "row": [0, 11, 5, 5]}]
    record("quantised", quantised.__doc__, [("serving_default", "known", each) for each in inputs])


def scores_of(model):
    return lambda inputs: {"scores": model(inputs)}


def mixed_precision():
    """Layers of Keras 3 that compute in bfloat16 or half: attention, normalisation, activations, an embedding table that
    is cast before rows are gathered. The last layer computes in float32."""
    layers = keras.layers
    archive = keras.export.ExportArchive()
    names = {"mixed_bfloat16": "serving_default", "mixed_float16": "half"}
    for policy, name in names.items():
        keras.utils.set_random_seed(3)
        keras.mixed_precision.set_global_policy(policy)
        history, context = keras.Input((6,), dtype="int32", name="history"), keras.Input((4,), name="context")
        x = layers.LayerNormalization()(layers.Embedding(41, 8)(history))
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
        told = layers.BatchNormalization()(layers.Dense(8, activation="gelu")(context))
        x = layers.Concatenate()([layers.Flatten()(x), layers.GlobalAveragePooling1D()(x), told])
        x = layers.Dense(8, activation="softmax")(layers.Dense(16, activation="swish")(x))
        model = keras.Model({"history": history, "context": context}, layers.Dense(6, dtype="float32")(x))
        archive.track(model)
        inputs = {"history": tf.TensorSpec([None, 6], tf.int32, name="history"), "context": tf.TensorSpec([None, 4], tf.float32, name="context")}
        archive.add_endpoint(name, scores_of(model), [inputs])
    keras.mixed_precision.set_global_policy("float32")
    archive.write_out(version_of("mixed_precision"), verbose=False)
    rows = np.random.default_rng(3).integers(0, 41, (3, 6)).tolist()
    values = randoms(3, 4).tolist()
    inputs = [{"history": rows[:1], "context": values[:1]}, {"history": rows, "context": values}]
    record("mixed_precision", " ".join(mixed_precision.__doc__.split()), [(name, "batch", each) for name in names.values() for each in inputs])


def sparse_signature():
    """TensorFlow 1: a signature with a sparse input and a sparse output, beside one without; sparse tensors are three."""
    v1 = tf.compat.v1
    directory = version_of("sparse_signature")
    cases = []
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        v1.enable_resource_variables()
        tags = v1.sparse_placeholder(tf.int64, [None, None], name="tags")
        query = v1.placeholder(tf.float32, [None, 8], name="query")
        table = v1.get_variable("table", initializer=tf.constant(randoms(50, 8)))
        items = v1.get_variable("items", initializer=tf.constant(randoms(40, 8)))
        pooled = tf.nn.safe_embedding_lookup_sparse([table], tags, combiner="mean")
        scores, rows = tf.math.top_k(tf.matmul(pooled, items, transpose_b=True), 5)
        plain_scores, plain_rows = tf.math.top_k(tf.matmul(query, items, transpose_b=True), 5)
        more = tf.SparseTensor(tags.indices, tags.values + 1, tags.dense_shape)
        session.run(v1.global_variables_initializer())
        of = v1.saved_model.build_tensor_info
        outputs = {"scores": scores, "rows": rows, "more": more}
        method = "tensorflow/serving/predict"
        signatures = {
            "serving_default": v1.saved_model.build_signature_def({"tags": of(tags)}, {key: of(value) for key, value in outputs.items()}, method),
            "plain": v1.saved_model.build_signature_def({"query": of(query)}, {"scores": of(plain_scores), "rows": of(plain_rows)}, method),
        }
        builder = v1.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()
        parts = {"more/indices": more.indices, "more/values": more.values, "more/dense_shape": more.dense_shape}
        for indices, values, shape in (([[0, 0], [0, 1], [2, 0]], [3, 4, 49], [3, 2]), ([[1, 3]], [7], [2, 5])):
            fed = {"tags/indices": indices, "tags/values": values, "tags/dense_shape": shape}
            feed = {tags.indices: indices, tags.values: values, tags.dense_shape: shape}
            found = session.run({"scores": scores, "rows": rows, **parts}, feed)
            cases.append({"kind": "batch", "signature_name": "serving_default", "inputs": fed, "outputs": {key: found[key].tolist() for key in sorted(found)}})
        values = randoms(2, 8).tolist()
        found = session.run({"scores": plain_scores, "rows": plain_rows}, {query: values})
        cases.append({"kind": "batch", "signature_name": "plain", "inputs": {"query": values}, "outputs": {key: found[key].tolist() for key in sorted(found)}})
    oracle = {
        "model": "sparse_signature",
        "recorded_with": f"TensorFlow {tf.__version__}",
        "special": sparse_signature.__doc__,
        "signature_name": "serving_default",
        "cases": cases,
    }
    (HERE / "sparse_signature" / "oracle.json").write_text(json.dumps(oracle, indent=1) + "\n")


def partitioned_lookup():
    """TensorFlow 1: embeddings in three variables each, looked up by both strategies, alone and pooled, before a ranking."""
    v1 = tf.compat.v1
    directory = version_of("partitioned_lookup")
    cases = []
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        v1.enable_resource_variables()
        user = v1.placeholder(tf.int64, [None], name="user")
        tags = v1.placeholder(tf.string, [None, 3], name="tags")

        def partitioned(name, rows):
            values = randoms(rows, 4)

            def rows_of_part(shape, dtype, partition_info):
                first = partition_info.var_offset[0]
                return tf.constant(values[first : first + shape[0]], dtype)

            cut = v1.fixed_size_partitioner(3, axis=0)
            return v1.get_variable(name, values.shape, tf.float32, rows_of_part, partitioner=cut)

        users, words = partitioned("users", 25), partitioned("words", 10)
        kernel = v1.get_variable("kernel", initializer=tf.constant(randoms(8, 3)))
        hashed = tf.strings.to_hash_bucket_fast(tags, 10)
        sparse = tf.sparse.from_dense(tf.where(tf.equal(tags, ""), tf.zeros_like(hashed), hashed + 1))
        sparse = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
        pooled = tf.nn.safe_embedding_lookup_sparse(list(words), sparse, combiner="mean")
        known = v1.nn.embedding_lookup(list(users), user, partition_strategy="div")
        alike = v1.nn.embedding_lookup(list(users), user, partition_strategy="mod")
        chances = tf.nn.softmax(tf.matmul(tf.nn.relu(tf.concat([known, pooled], 1)), kernel))
        session.run(v1.global_variables_initializer())
        outputs = {"known": known, "alike": alike, "pooled": pooled, "chances": chances}
        builder = v1.saved_model.Builder(directory)
        signature = v1.saved_model.predict_signature_def({"user": user, "tags": tags}, outputs)
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
        builder.save()
        batches = [([0, 24, 9, 8], [["a", "b", ""], ["", "", ""], ["c", "", ""], ["a", "a", "日"]]), ([17], [["x", "y", "z"]])]
        for users_asked, tags_asked in batches:
            found = session.run(outputs, {user: users_asked, tags: tags_asked})
            answer = {key: found[key].tolist() for key in sorted(found)}
            asked = {"user": users_asked, "tags": tags_asked}
            cases.append({"kind": "batch", "signature_name": "serving_default", "inputs": asked, "outputs": answer})
    oracle = {
        "model": "partitioned_lookup",
        "recorded_with": f"TensorFlow {tf.__version__}",
        "special": partitioned_lookup.__doc__,
        "signature_name": "serving_default",
        "cases": cases,
    }
    (HERE / "partitioned_lookup" / "oracle.json").write_text(json.dumps(oracle, indent=1) + "\n")


class Lists(tf.Module):
    """TensorLists in the operations that TensorArray leaves out or uses in loops alone."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(randoms(4, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def pushed(self, x):
        """A list that grows by one element after the other, at places that the graph states."""
        raw, items = tf.raw_ops, tf.raw_ops.EmptyTensorList(element_shape=[-1], max_num_elements=-1, element_dtype=tf.float32)
        before = raw.TensorListLength(input_handle=items)
        for at in range(3):
            items = raw.TensorListPushBack(input_handle=items, tensor=x[:, at] * (at - 1))
        stacked = raw.TensorListStack(input_handle=items, element_shape=[-1], element_dtype=tf.float32, num_elements=3)
        second = raw.TensorListGetItem(input_handle=items, index=1, element_shape=[-1], element_dtype=tf.float32)
        lengths = tf.stack([before, raw.TensorListLength(input_handle=items)])
        return {"lengths": lengths, "second": second, "stacked": stacked}

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32, name="x")])
    def pushed_in_loop(self, x):
        """A list that each iteration lengthens, with an element before the first of them and without."""
        raw, steps = tf.raw_ops, tf.shape(x)[1]
        empty = raw.EmptyTensorList(element_shape=[-1, 4], max_num_elements=-1, element_dtype=tf.float32)
        begun = raw.TensorListPushBack(input_handle=empty, tensor=x[:, 0] * 2.0)

        def body(at, state, all_states, with_first):
            state = tf.tanh(tf.matmul(state, self.kernel) + x[:, at])
            pushed = [raw.TensorListPushBack(input_handle=each, tensor=state) for each in (all_states, with_first)]
            return at + 1, state, *pushed

        first = tf.zeros([tf.shape(x)[0], 4])
        shapes = (tf.TensorShape([]), tf.TensorShape([None, 4]), tf.TensorShape(None), tf.TensorShape(None))
        *_, all_states, with_first = tf.while_loop(lambda at, *_: at < steps, body, (0, first, empty, begun), shapes)
        results = {}
        for name, items in (("all", all_states), ("with_first", with_first)):
            results[name] = raw.TensorListStack(input_handle=items, element_shape=[-1, 4], element_dtype=tf.float32, num_elements=-1)
            results[f"{name}_length"] = raw.TensorListLength(input_handle=items)
        return results

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 4], tf.float32, name="x"),
            tf.TensorSpec([], tf.int32, name="at"),
        ]
    )
    def of_tensor(self, x, at):
        """A list made of a tensor, of which only the request knows the length, and the element that it asks for."""
        raw, items = tf.raw_ops, tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[-1, 4])
        element = raw.TensorListGetItem(input_handle=items, index=at, element_shape=[-1, 4], element_dtype=tf.float32)
        stacked = raw.TensorListStack(input_handle=items, element_shape=[-1, 4], element_dtype=tf.float32, num_elements=-1)
        return {"element": element, "length": raw.TensorListLength(input_handle=items), "stacked": stacked}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
    def reserved(self, x):
        """A list of a fixed length, whose elements are written in any order and twice."""
        raw, items = tf.raw_ops, tf.raw_ops.TensorListReserve(element_shape=[-1], num_elements=3, element_dtype=tf.int32)
        for at, factor in ((2, 5), (0, 1), (1, -1), (2, 7)):
            items = raw.TensorListSetItem(input_handle=items, index=at, item=x * factor)
        stacked = raw.TensorListStack(input_handle=items, element_shape=[-1], element_dtype=tf.int32, num_elements=3)
        return {"length": raw.TensorListLength(input_handle=items), "stacked": stacked}


def lists():
    module = Lists()
    names = ["pushed", "pushed_in_loop", "of_tensor", "reserved"]
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, version_of("lists"), signatures={"serving_default": module.pushed, **signatures})
    cases = [("pushed", "batch", {"x": randoms(rows, 3).tolist()}) for rows in (1, 4)]
    cases += [("pushed_in_loop", "batch", {"x": randoms(2, steps, 4).tolist()}) for steps in (1, 5)]
    x = randoms(3, 2, 4).tolist()
    cases += [("of_tensor", "known", {"x": x[:rows], "at": at}) for rows, at in ((1, 0), (3, 0), (3, 2))]
    cases += [("of_tensor", "error", {"x": x, "at": 3})]
    cases += [("reserved", "batch", {"x": x}) for x in ([3], [0, -7, 2**31 - 1])]
    record("lists", Lists.__doc__, cases)


class Practice(tf.Module):
    """Uses of operations that models of practice have: branches and tables of TensorFlow 1, sparse and ragged features."""

    def __init__(self):
        super().__init__()
        self.table = tf.Variable(randoms(12, 4))
        self.items = tf.Variable(randoms(9, 4))
        self.users = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], [3, 0, 7], tf.string, tf.int64), -1)
        self.precise = tf.Variable(randoms(7, 4).astype("float64"))
        self.others = tf.Variable(randoms(5, 4))
        self.requests = tf.Variable(0)
        self.left = tf.Variable(9)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="query")])
    def reranked(self, query):
        """The best items one by one, each time without those that are alike: gathers by rows within a loop."""
        scores, rows = tf.math.top_k(tf.matmul(query, self.items, transpose_b=True), 6)
        found = tf.math.l2_normalize(tf.gather(self.items, rows), -1)
        chosen = tf.TensorArray(tf.int32, size=3)
        left = scores
        for at in tf.range(3):
            best = tf.argmax(left, 1, output_type=tf.int32)
            chosen = chosen.write(at, tf.gather(rows, best, batch_dims=1))
            alike = tf.einsum("bd,bnd->bn", tf.gather(found, best, batch_dims=1), found)
            left = left - alike - 1e6 * tf.one_hot(best, 6)
        return {"rows": tf.transpose(chosen.stack())}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64, name="ids")])
    def wide(self, ids):
        """A sparse matrix times stored weights, in any order of its entries; -1 fills lists up."""
        places = tf.where(ids >= 0)
        values = tf.gather_nd(ids, places)
        entries = tf.reverse(tf.stack([places[:, 0], values], 1), [0])
        size = tf.stack([tf.shape(ids, out_type=tf.int64)[0], tf.constant(12, tf.int64)])
        weights = tf.cast(tf.reverse(places[:, 1], [0]) + 1, tf.float32)
        hot = tf.sparse.reorder(tf.SparseTensor(entries, weights, size))
        return {"product": tf.sparse.sparse_dense_matmul(hot, self.table)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="user")])
    def sizes(self, user):
        """The size of a lookup table, as a row behind its own, and a rank; counters that no answer depends on."""
        self.requests.assign_add(1)
        self.left.assign_sub(1)
        rows = self.users.lookup(user)
        rank = tf.raw_ops.Rank(input=tf.expand_dims(rows, 0))
        return {"rank": rank, "row": tf.where(rows < 0, self.users.size() + 5, rows), "vector": tf.gather(self.table, tf.maximum(rows, 0))}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
    def quotients(self, x):
        """What has the shape of a number divided by several, and of a bit mask."""
        divided, masked = 100 // tf.maximum(x, 1), tf.bitwise.bitwise_and(tf.constant(6), x)
        return {"divided": divided, "filled": tf.fill(tf.shape(divided), 7), "masked": tf.fill(tf.shape(masked), 5)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="query")])
    def one_by_one(self, query):
        """The best items of each query, found in a loop: there they are not cut."""
        best = lambda vector: tuple(tf.math.top_k(tf.linalg.matvec(self.items, vector), 2))
        scores, rows = tf.map_fn(best, query, fn_output_signature=(tf.float32, tf.int32))
        return {"rows": rows, "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def best(self, x):
        """Keras 3 looks at the bits of zeros before it takes the greatest of them."""
        return {"of_input": keras.ops.argmax(x, axis=1), "of_product": keras.ops.argmax(tf.matmul(x, self.table, transpose_b=True), axis=-1)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64, name="ids")])
    def masked(self, ids):
        """A mask of integers that is cast to bfloat16, as layers of mixed precision do with theirs."""
        mask = tf.cast(ids > 0, tf.bfloat16)
        vectors = tf.cast(tf.gather(self.table, tf.maximum(ids, 0)), tf.bfloat16) * mask[..., None]
        return {"count": tf.cast(tf.reduce_sum(mask, 1), tf.float32), "first": tf.cast(vectors[:, 0], tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="query")])
    def uncut(self, query):
        """Items in float64, and items of which the graph does not tell how many they are: neither is cut."""
        exact = tf.matmul(tf.cast(query, tf.float64), self.precise, transpose_b=True)
        some = tf.boolean_mask(self.others, self.others[:, 0] > -9)
        return {"exact": tf.math.top_k(tf.cast(exact, tf.float32), 3)[1], "some": tf.math.top_k(tf.matmul(query, some, transpose_b=True), 2)[1]}

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32, name="x")])
    def lists(self, x):
        """Elements of a list that a loop wrote, joined and by their places."""
        steps = tf.shape(x)[1]
        states = tf.TensorArray(tf.float32, size=steps)
        for at in tf.range(steps):
            states = states.write(at, tf.tanh(x[:, at]))
        fixed = tf.TensorArray(tf.float32, size=2).write(0, x[:, 0]).write(1, x[:, 0] * 2.0)
        return {"joined": states.concat(), "chosen": states.gather([0, 0]), "fixed": fixed.concat(), "fixed_chosen": fixed.gather([1])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def ragged(self, text):
        words = tf.strings.split(text)
        return {
            "bytes": tf.strings.bytes_split(tf.strings.substr(text, 0, 3)).to_tensor(""),
            "first": words[:, :2].to_tensor("-"),
            "joined": tf.strings.reduce_join(words, axis=1, separator="+"),
            "twice": tf.concat([words, words], 1).to_tensor("-"),
            "turned": tf.gather(words, tf.range(words.nrows())[::-1]).to_tensor("-"),
        }


def practice():
    module = Practice()
    names = ["reranked", "wide", "sizes", "quotients", "one_by_one", "best", "masked", "uncut", "lists", "ragged"]
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, version_of("practice"), signatures={"serving_default": module.reranked, **signatures})
    cases = [("reranked", "batch", {"query": randoms(rows, 4).tolist()}) for rows in (1, 3)]
    cases += [("wide", "batch", {"ids": ids}) for ids in ([[1, 5, -1], [-1, -1, -1], [11, 3, 3]], [[-1]])]
    cases += [("wide", "error", {"ids": [[12]]})]
    cases += [("sizes", "known", {"user": ["a", "?", "b"]})]
    cases += [("quotients", "batch", {"x": x}) for x in ([3, -7, 40], [5])]
    cases += [("best", "batch", {"x": [[-0.0, 0.0, -1.0, -0.0], [-0.0, -3.0, -1.0, -0.0], [0.5, -3.0, 2.0, 1.0]]})]
    cases += [("masked", "batch", {"ids": [[3, 0, 11], [0, 5, 0]]})]
    cases += [("uncut", "batch", {"query": randoms(3, 4).tolist()})]
    cases += [("one_by_one", "batch", {"query": randoms(3, 4).tolist()})]
    cases += [("lists", "batch", {"x": randoms(2, steps, 4).tolist()}) for steps in (1, 3)]
    cases += [("ragged", "batch", {"text": text}) for text in (["a b c", "", "日本 x"], ["one"])]
    record("practice", Practice.__doc__, cases)


class Encodings(tf.Module):
    """Features as text: lines of CSV, raw bytes in base64, and packed bits; and layers of Keras 3 in int4."""

    def __init__(self):
        self.kernel = tf.Variable(randoms(2, 3))
        keras.utils.set_random_seed(9)
        self.model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(5)])
        self.model.quantize("int4")
        self.weights = self.model.variables

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, name="x")])
    def int4(self, x):
        return {"y": self.model(x)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="lines")])
    def csv(self, lines):
        age, price, name = tf.io.decode_csv(lines, [[18.0], tf.constant([], tf.float32), ["?"]], na_value="NA")
        return {"y": tf.matmul(tf.stack([age, price], 1), self.kernel), "name": name}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="vectors")])
    def raw(self, vectors):
        values = tf.io.decode_raw(tf.io.decode_base64(vectors), tf.float32)
        return {"y": tf.matmul(tf.reshape(values, [-1, 2]), self.kernel)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="flags")])
    def bits(self, flags):
        places = tf.range(8, dtype=tf.int64)
        return {"bits": tf.bitwise.bitwise_and(tf.bitwise.right_shift(flags[:, None], places), 1), "bucket": tf.strings.to_hash_bucket(tf.as_string(flags), 7)}


def encodings():
    module = Encodings()
    signatures = {name: getattr(module, name) for name in ("int4", "csv", "raw", "bits")}
    tf.saved_model.save(module, version_of("encodings"), signatures={"serving_default": module.csv, **signatures})
    cases = [("int4", "batch", {"x": randoms(rows, 6).tolist()}) for rows in (1, 3)]
    cases += [("csv", "batch", {"lines": lines}) for lines in (["1,2,a", ',3,"q,""r"""', "NA,-1e2,"], ["7,.5,日本"])]
    cases += [("csv", "error", {"lines": lines}) for lines in (["1,,a"], ["1,2,a", "1,2"], ["x,2,a"], ['1,2,"a'])]
    vectors = [base64.urlsafe_b64encode(np.array(row, "float32").tobytes()).decode() for row in ([1.5, -2], [0.1, 3])]
    cases += [("raw", "batch", {"vectors": vectors}), ("raw", "batch", {"vectors": [vectors[0].rstrip("=")]})]
    cases += [("raw", "error", {"vectors": wrong}) for wrong in (["YWJj"], ["+/8="], [vectors[0], "YWJjZA"])]
    cases += [("bits", "batch", {"flags": [0, 1, 170, -1, 2**52 + 5]})]
    record("encodings", Encodings.__doc__, cases)


def constant_branches():
    """TensorFlow 1, control flow v1: tf.cond on a placeholder with a default, as of is_training; a branch has a constant."""
    v1 = tf.compat.v1
    directory = version_of("constant_branches")
    cases = []
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        training = v1.placeholder_with_default(False, [], name="training")
        kernel = v1.get_variable("kernel", initializer=tf.constant(randoms(4, 4)))
        words = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.range(2, dtype=tf.int64)), 2)
        word = v1.placeholder(tf.string, [None], name="word")
        kept = v1.cond(training, lambda: tf.constant(0.5), lambda: tf.constant(1.0))
        hidden = v1.cond(training, lambda: tf.nn.relu(tf.matmul(x, kernel)), lambda: tf.matmul(x, kernel) * kept)
        hidden = v1.cond(v1.logical_not(training), lambda: tf.tanh(hidden), lambda: hidden)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        outputs = {"hidden": hidden, "row": words.lookup(word)}
        signature = v1.saved_model.predict_signature_def({"x": x, "word": word}, outputs)
        builder = v1.saved_model.Builder(directory)
        main = v1.tables_initializer()
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature}, main_op=main)
        builder.save()
        asked = {"x": randoms(2, 4).tolist(), "word": ["b", "?"]}
        found = session.run(outputs, {x: asked["x"], word: asked["word"]})
        answer = {key: found[key].tolist() for key in sorted(found)}
        cases.append({"kind": "batch", "signature_name": "serving_default", "inputs": asked, "outputs": answer})
    v1.enable_control_flow_v2()
    oracle = {
        "model": "constant_branches",
        "recorded_with": f"TensorFlow {tf.__version__}",
        "special": constant_branches.__doc__,
        "signature_name": "serving_default",
        "cases": cases,
    }
    (HERE / "constant_branches" / "oracle.json").write_text(json.dumps(oracle, indent=1) + "\n")


def columns_in_slices():
    """TensorFlow 1: an output layer in slices of columns, and rows of a reference variable that are pooled at once."""
    v1 = tf.compat.v1
    directory = version_of("columns_in_slices")
    cases = []
    v1.disable_resource_variables()
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        ids = v1.placeholder(tf.int64, [None, None], name="ids")
        words = v1.get_variable("words", initializer=tf.constant(randoms(20, 8)))
        values = randoms(8, 30)

        def columns_of_part(shape, dtype, partition_info):
            first = partition_info.var_offset[1]
            return tf.constant(values[:, first : first + shape[1]], dtype)

        cut = v1.fixed_size_partitioner(3, axis=1)
        kernel = v1.get_variable("kernel", values.shape, tf.float32, columns_of_part, partitioner=cut, use_resource=True)
        places = tf.where(tf.not_equal(ids, -1))
        sparse = tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))
        outputs = {}
        for combiner in ("mean", "sum", "sqrtn"):
            outputs[combiner] = tf.nn.embedding_lookup_sparse([words], sparse, None, combiner=combiner)
        scores, rows = tf.nn.top_k(tf.matmul(outputs["mean"], tf.convert_to_tensor(kernel)), 4)
        outputs |= {"scores": scores, "rows": rows}
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(directory)
        signature = v1.saved_model.predict_signature_def({"ids": ids}, outputs)
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
        builder.save()
        for asked in ([[1, 2, -1], [19, -1, -1]], [[0, 0, 7]]):
            found = session.run(outputs, {ids: asked})
            answer = {key: found[key].tolist() for key in sorted(found)}
            cases.append({"kind": "batch", "signature_name": "serving_default", "inputs": {"ids": asked}, "outputs": answer})
    v1.enable_resource_variables()
    oracle = {
        "model": "columns_in_slices",
        "recorded_with": f"TensorFlow {tf.__version__}",
        "special": columns_in_slices.__doc__,
        "signature_name": "serving_default",
        "cases": cases,
    }
    (HERE / "columns_in_slices" / "oracle.json").write_text(json.dumps(oracle, indent=1) + "\n")


class Picked(tf.Module):
    """Rows by their places (tf.gather_nd of a variable), segments of sorted rows, differences of lists, approximate top-k."""

    def __init__(self):
        super().__init__()
        self.items = tf.Variable(randoms(12, 4))
        self.names = tf.Variable([f"i{index:02d}" for index in range(12)])

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="query")])
    def approximate(self, query):
        """A search, of which the ids are picked by places; and the best of values that are no search."""
        scores, rows = tf.math.approx_max_k(tf.matmul(query, self.items, transpose_b=True), 3)
        largest = tf.math.approx_max_k(tf.nn.relu(query), 2)
        return {"largest": largest[0], "names": tf.gather_nd(self.names, rows[..., tf.newaxis]), "places": largest[1], "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="rows"), tf.TensorSpec([None, 1], tf.int32, name="places")])
    def rows(self, rows, places):
        pairs = tf.stack([rows, rows % 4], 1)
        return {"names": tf.gather_nd(self.names, places), "rows": tf.gather_nd(self.items, rows[:, tf.newaxis]), "values": tf.gather_nd(self.items, pairs)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="history")])
    def segments(self, history):
        """Words of each line, by what their rows of the table are together."""
        words = tf.strings.split(history, "|")
        of = words.value_rowids()
        rows = tf.gather(self.items, tf.strings.to_hash_bucket_fast(words.flat_values, 12))
        kernel = tf.transpose(self.items)
        return {
            "length": tf.math.reduce_euclidean_norm(tf.math.segment_mean(rows, of), 1),
            "max": tf.math.segment_max(rows, of) @ kernel,
            "min": tf.debugging.check_numerics(tf.math.segment_min(rows, of), "of rows") @ kernel,
            "new": tf.compat.v1.setdiff1d(words.flat_values, tf.constant(["a", "b"]))[0],
            "product": tf.math.segment_prod(rows, of),
        }


def picked():
    module = Picked()
    signatures = {"serving_default": module.approximate, "rows": module.rows, "segments": module.segments}
    tf.saved_model.save(module, version_of("picked"), signatures=signatures)
    cases = [("serving_default", "batch", {"query": randoms(count, 4).tolist()}) for count in (1, 3)]
    cases += [("rows", "batch", {"rows": rows, "places": [[row] for row in rows]}) for rows in ([3], [11, 0, 11])]
    cases += [("rows", "error", {"rows": [12], "places": [[0]]}), ("rows", "error", {"rows": [0], "places": [[-1]]})]
    cases += [("segments", "batch", {"history": lines}) for lines in (["a|c", "", "d|b|a"], ["日本"])]
    record("picked", Picked.__doc__, cases)


MODELS = (operations, strict_lookup, keras_layers, towers, branches, choices, quantised, mixed_precision, sparse_signature, partitioned_lookup, lists, practice, encodings, constant_branches, columns_in_slices, picked)
for build in MODELS:
    if len(sys.argv) < 2 or build.__name__ in sys.argv[1:]:
        build()
