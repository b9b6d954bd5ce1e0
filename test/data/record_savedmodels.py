"""Makes the small SavedModels under savedmodels/ and records what TensorFlow answers for them.

    TF_USE_LEGACY_KERAS=1 TF_ENABLE_ONEDNN_OPTS=0 python record_savedmodels.py [name ...]

Needs tensorflow 2.21, keras 3, tf_keras (Keras 2) and tensorflow-recommenders 0.7; Winnow itself
needs none of them. The weights are random, no data set is behind them. Each folder gets the model as
version 1 and `oracle.json`:

    { model, recorded_with, special, signature_name, signature: {inputs, outputs},
      signatures: {name: {inputs, outputs}},
      cases: [ {kind, signature_name?, inputs, outputs | error: {code, message}, next_score?} ] }

A case without `signature_name` asks the model's `signature_name`. Values are nested lists by row;
bytes that are not UTF-8 are {"b64": ...}; float32 are printed as doubles that round back exactly;
integers beyond 2^53 are decimal strings.
"""

import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

from recording import randoms, record, spec

import keras as keras3
import numpy as np
import tensorflow as tf
import tensorflow_recommenders as tfrs
from tensorflow.python.distribute.sharded_variable import ShardedVariable

layers = tf.keras.layers
MODELS = {}

USERS = [f"u{i:02d}" for i in range(24)]
ITEMS = [f"item {i:02d}" for i in range(40)]
STRANGERS = ["", "u99", " u01", "日本", "x" * 70, "U01", b"\xff\xfe", "a\0b"]


def model(build):
    MODELS[build.__name__] = build
    return build


def singles(name, values):
    return [("known" if v in USERS else "unknown", {name: [v]}) for v in values]


def string_cases(name):
    everyone = USERS[:6] + STRANGERS
    return [*singles(name, everyone), ("batch", {name: everyone[::-1]})]


# --- retrieval with one keyed table, TFRS and Keras 2 ---------------------------------------------


def brute_force(query_model, k=5, ids=ITEMS, dim=8):
    index = tfrs.layers.factorized_top_k.BruteForce(query_model, k=k)
    index.index(tf.constant(randoms(len(ITEMS), dim)), None if ids is None else tf.constant(ids))
    return index


def saved_layer(directory, index, example):
    index(example)
    tf.saved_model.save(index, directory)


@model
def lookup_oov_buckets(directory):
    """StringLookup with three OOV buckets (FarmHash of the key chooses), BruteForce k=5."""
    tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=USERS, num_oov_indices=3), layers.Embedding(27, 8)]
    )
    saved_layer(directory, brute_force(tower), tf.constant(["u01"]))
    more = [f"stranger {i}" for i in range(20)]
    return [*string_cases("input_1"), ("batch", {"input_1": more})]


@model
def lookup_mask_token(directory):
    """StringLookup with mask token "" (row 0) and one OOV row, ranking by a small MLP."""
    tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=USERS, mask_token=""), layers.Embedding(26, 6)]
    )
    item = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=ITEMS, mask_token="[MASK]"), layers.Embedding(42, 6)]
    )
    rate = tf.keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
    module = tf.Module()
    module.parts = [tower, item, rate]

    @tf.function(input_signature=[spec(tf.string, None, name="user"), spec(tf.string, None, name="title")])
    def serve(user, title):
        return {"rating": rate(tf.concat([tower(user), item(title)], axis=1))}

    tf.saved_model.save(module, directory, signatures=serve)
    pairs = [(u, t) for u in ["u01", "", "u99"] for t in ["item 03", "[MASK]", "item 99"]]
    return [("known", {"user": [u], "title": [t]}) for u, t in pairs] + [
        ("batch", {"user": [u for u, _ in pairs], "title": [t for _, t in pairs]})
    ]


@model
def lookup_file_vocabulary(directory):
    """StringLookup from a file in assets/, two OOV rows, with a mask token."""
    file = pathlib.Path(tempfile.mkdtemp()) / "users.txt"
    file.write_text("\n".join(USERS) + "\n")
    lookup = layers.StringLookup(vocabulary=str(file), num_oov_indices=2, mask_token="")
    tower = tf.keras.Sequential([lookup, layers.Embedding(27, 8)])
    saved_layer(directory, brute_force(tower), tf.constant(["u01"]))
    return string_cases("input_1")


@model
def lookup_integer(directory):
    """IntegerLookup with two OOV rows; negative and huge ids; int64 input, int64 item ids."""
    ids = [3, 7, 11, 1 << 40, -5, 12, 100, 101]
    tower = tf.keras.Sequential(
        [layers.IntegerLookup(vocabulary=ids, num_oov_indices=2), layers.Embedding(10, 8)]
    )
    item_ids = np.arange(40, dtype=np.int64) * 1_000_000_007 - 5
    saved_layer(directory, brute_force(tower, ids=item_ids), tf.constant([3], tf.int64))
    ask = ids + [0, 1, 2, -1, -2, 8, 9, (1 << 62) + 1, -(1 << 63)]
    return [("known" if i in ids else "unknown", {"input_1": [i]}) for i in ask] + [
        ("batch", {"input_1": ask})
    ]


@model
def hashing(directory):
    """Hashing of strings, of strings with a salt (SipHash), of integers, with a mask value."""
    plain, salted = layers.Hashing(num_bins=30), layers.Hashing(num_bins=30, salt=133)
    salted_pair = layers.Hashing(num_bins=30, salt=[133, 137])
    masked = layers.Hashing(num_bins=30, mask_value="")
    tables = [layers.Embedding(30, 4) for _ in range(5)]
    module = tf.Module()
    module.parts = [plain, salted, salted_pair, masked, tables]
    names = [spec(tf.string, None, name="user"), spec(tf.int64, None, name="zip")]

    @tf.function(input_signature=names)
    def serve(user, zip):
        hashed = [plain(user), salted(user), salted_pair(user), masked(user), plain(zip)]
        rows = [tables[i](bins) for i, bins in enumerate(hashed)]
        return {"bins": tf.stack(hashed, axis=1), "vector": tf.concat(rows, axis=1)}

    tf.saved_model.save(module, directory, signatures=serve)
    users = USERS[:3] + STRANGERS + ["y" * n for n in (4, 8, 16, 17, 32, 33, 64, 65, 129, 300)]
    zips = [0, 1, -1, 94107, 1 << 40, -(1 << 63)] + list(range(2, 2 + len(users) - 6))
    return [("known", {"user": [u], "zip": [z]}) for u, z in zip(users, zips)] + [
        ("batch", {"user": users, "zip": zips})
    ]


@model
def context_features(directory):
    """The context features tutorial: StringLookup, Discretization and Normalization of a timestamp,
    TextVectorization of a title, query tower with Dense, BruteForce over a dict of inputs."""
    stamps = np.linspace(879_024_327, 886_436_417, 50).astype(np.float32)
    normalization = layers.Normalization(axis=None)
    normalization.adapt(stamps)
    buckets = np.linspace(stamps.min(), stamps.max(), num=12).tolist()
    text = layers.TextVectorization(max_tokens=30)
    text.adapt(["The Matrix (1999)", "Toy Story", "the Toy of the story", "Heat, part two!"])

    class UserModel(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.user = tf.keras.Sequential(
                [layers.StringLookup(vocabulary=USERS, mask_token=None), layers.Embedding(25, 8)]
            )
            self.stamp = tf.keras.Sequential(
                [layers.Discretization(buckets), layers.Embedding(13, 4)]
            )
            self.normalization = normalization
            self.title = tf.keras.Sequential(
                [text, layers.Embedding(30, 4, mask_zero=True), layers.GlobalAveragePooling1D()]
            )
            self.dense = layers.Dense(8)

        def call(self, inputs):
            return self.dense(
                tf.concat(
                    [
                        self.user(inputs["user_id"]),
                        self.stamp(inputs["timestamp"]),
                        tf.reshape(self.normalization(inputs["timestamp"]), (-1, 1)),
                        self.title(inputs["last_title"]),
                    ],
                    axis=1,
                )
            )

    titles = ["the matrix", "", "TOY (story)", "nothing known", "Heat part; two three four"]
    index = brute_force(UserModel())
    example = {
        "user_id": tf.constant(["u01"]),
        "timestamp": tf.constant([8.8e8], tf.float32),
        "last_title": tf.constant(["toy"]),
    }
    saved_layer(directory, index, example)
    rows = [
        (USERS[i] if i % 3 else f"who {i}", float(np.float32(8.79e8 + i * 6e5)), titles[i % 5])
        for i in range(15)
    ]
    as_inputs = lambda rows: {
        "user_id": [r[0] for r in rows],
        "timestamp": [r[1] for r in rows],
        "last_title": [r[2] for r in rows],
    }
    return [("known", as_inputs([r])) for r in rows] + [("batch", as_inputs(rows))]


@model
def text_vectorization(directory):
    """TextVectorization in its output modes (int padded, multi_hot, count, tf_idf) and splits."""
    corpus = ["red green blue", "green tea", "Blue, sky; red!", "tea time", "über café"]
    padded = layers.TextVectorization(output_sequence_length=4)
    multi_hot = layers.TextVectorization(output_mode="multi_hot", max_tokens=12, pad_to_max_tokens=True)
    count = layers.TextVectorization(output_mode="count", max_tokens=12, ngrams=2)
    weighted = layers.TextVectorization(output_mode="tf_idf", standardize="lower")
    for layer in (padded, multi_hot, count, weighted):
        layer.adapt(corpus)
    table = layers.Embedding(30, 4, mask_zero=True)
    module = tf.Module()
    module.parts = [padded, multi_hot, count, weighted, table]

    @tf.function(input_signature=[spec(tf.string, None, name="text")])
    def serve(text):
        words = padded(text)
        return {
            "words": words,
            "mean": tf.reduce_mean(table(words), axis=1),
            "multi_hot": multi_hot(text),
            "count": count(text),
            "weighted": weighted(text),
        }

    tf.saved_model.save(module, directory, signatures=serve)
    texts = ["red tea", "", "  blue   sky ", "a b c d e f", "GREEN GREEN green", "ÜBER café!", "tab\tand\nline", "it's-red"]
    return [("known", {"text": [t]}) for t in texts] + [("batch", {"text": texts})]


@model
def category_encoding(directory):
    """CategoryEncoding one_hot, multi_hot and count, with the range check as an Assert."""
    one_hot = layers.CategoryEncoding(num_tokens=6, output_mode="one_hot")
    multi_hot = layers.CategoryEncoding(num_tokens=6, output_mode="multi_hot")
    count = layers.CategoryEncoding(num_tokens=6, output_mode="count")
    dense = layers.Dense(3)
    module = tf.Module()
    module.parts = [one_hot, multi_hot, count, dense]

    @tf.function(
        input_signature=[spec(tf.int64, None, 1, name="genre"), spec(tf.int64, None, 3, name="tags")]
    )
    def serve(genre, tags):
        parts = [one_hot(genre), multi_hot(tags), count(tags)]
        return {"score": dense(tf.concat(parts, axis=1)), "tags": parts[1], "counts": parts[2]}

    tf.saved_model.save(module, directory, signatures=serve)
    return [
        ("known", {"genre": [[2]], "tags": [[0, 5, 5]]}),
        ("batch", {"genre": [[0], [5], [3]], "tags": [[1, 2, 3], [0, 0, 0], [5, 4, 5]]}),
        ("error", {"genre": [[6]], "tags": [[0, 1, 2]]}),
        ("error", {"genre": [[1]], "tags": [[0, -1, 2]]}),
    ]


@model
def tf_example(directory):
    """Serialized tf.Example in: ParseExampleV2 with string, int64 and float features, defaults."""
    tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=USERS, mask_token=None), layers.Embedding(25, 4)]
    )
    dense = layers.Dense(2)
    module = tf.Module()
    module.parts = [tower, dense]
    features = {
        "user": tf.io.FixedLenFeature([], tf.string),
        "age": tf.io.FixedLenFeature([1], tf.int64, default_value=[30]),
        "taste": tf.io.FixedLenFeature([3], tf.float32, default_value=[0.5, 0.25, -1.0]),
    }

    @tf.function(input_signature=[spec(tf.string, None, name="examples")])
    def serve(examples):
        parsed = tf.io.parse_example(examples, features)
        parts = [tower(parsed["user"]), tf.cast(parsed["age"], tf.float32) / 50.0, parsed["taste"]]
        return {"score": dense(tf.concat(parts, axis=1)), "age": parsed["age"]}

    tf.saved_model.save(module, directory, signatures=serve)

    def example(**values):
        feature = {}
        for name, value in values.items():
            if isinstance(value[0], bytes):
                feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
            elif isinstance(value[0], int):
                feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=value))
            else:
                feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
        features = tf.train.Features(feature=feature)
        return tf.train.Example(features=features).SerializeToString(deterministic=True)

    good = [
        example(user=[b"u01"], age=[44], taste=[1.0, 2.0, 3.0]),
        example(user=[b"nobody"], age=[-7]),
        example(user=[b"u02"], taste=[0.1, 0.2, 0.3], other=[b"unused"]),
        example(user=[b"u03"]),
        example(user=[b"\xff\x00"], age=[1 << 40]),
    ]
    bad = [
        example(age=[1]),
        example(user=[b"u01"], age=[1, 2]),
        example(user=[1]),
        example(user=[b"u01"], taste=[1.0]),
        b"not an example",
        good[0][:-3],
    ]
    return (
        [("known", {"examples": [e]}) for e in good]
        + [("batch", {"examples": good})]
        + [("error", {"examples": [e]}) for e in bad]
        + [("error", {"examples": [good[0], bad[0], good[1]]})]
    )


@model
def named_outputs(directory):
    """A ranking model with three named outputs and two further signatures."""
    tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=USERS, mask_token=None), layers.Embedding(25, 4)]
    )
    like, watch = layers.Dense(1, activation="sigmoid"), layers.Dense(1)
    module = tf.Module()
    module.parts = [tower, like, watch]

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        vector = tower(user)
        return {"like": like(vector), "watch_minutes": watch(vector), "user_again": user}

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def embed(user):
        return {"vector": tower(user)}

    @tf.function(input_signature=[spec(tf.float32, None, 4, name="vector")])
    def score(vector):
        return {"like": like(vector), "logit": watch(vector)}

    signatures = {"serving_default": serve, "embed": embed, "score": score}
    tf.saved_model.save(module, directory, signatures=signatures)
    return [
        *string_cases("user"),
        ("known", {"user": ["u05", "who"]}, "embed"),
        ("known", {"vector": [[0.5, -1.0, 2.0, 0.0], [1e3, -1e3, 1e3, 0.25]]}, "score"),
    ]


@model
def dense_only(directory):
    """A Keras model of dense layers alone: BatchNormalization, Dropout, several activations."""
    inputs = layers.Input((5,), name="features")
    x = layers.Dense(8, activation="gelu")(inputs)
    x = layers.BatchNormalization()(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Dense(6, activation="elu")(x)
    x = layers.LayerNormalization()(x)
    outputs = layers.Dense(3, activation="softmax", name="probabilities")(x)
    network = tf.keras.Model(inputs, outputs)
    network.layers[2].set_weights([randoms(8), randoms(8), randoms(8), np.abs(randoms(8)) + 0.1])
    serve = tf.function(lambda features: {"probabilities": network(features, training=False)})
    signature = serve.get_concrete_function(spec(tf.float32, None, 5, name="features"))
    tf.saved_model.save(network, directory, signatures=signature)
    rows = randoms(6, 5).tolist()
    return [("known", {"features": [r]}) for r in rows] + [("batch", {"features": rows})]


@model
def dcn_ranking(directory):
    """Deep and cross network of TFRS (Cross layers, full and low rank) over three lookups."""
    names = {"user_id": USERS, "movie_id": ITEMS, "gender": ["F", "M"]}
    towers = {
        name: tf.keras.Sequential(
            [layers.StringLookup(vocabulary=words, mask_token=None), layers.Embedding(len(words) + 1, 4)]
        )
        for name, words in names.items()
    }
    cross = tfrs.layers.dcn.Cross(projection_dim=None, kernel_initializer="glorot_uniform")
    low_rank = tfrs.layers.dcn.Cross(projection_dim=3, kernel_initializer="glorot_uniform")
    deep = tf.keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
    module = tf.Module()
    module.parts = [towers, cross, low_rank, deep]

    @tf.function(input_signature=[{n: spec(tf.string, None, name=n) for n in names}])
    def serve(features):
        x0 = tf.concat([towers[name](features[name]) for name in names], axis=1)
        return {"rating": deep(low_rank(x0, cross(x0)))}

    tf.saved_model.save(module, directory, signatures=serve)
    rows = [("u01", "item 01", "F"), ("u02", "item 99", "M"), ("who", "item 07", "X")]
    as_inputs = lambda rows: {n: [r[i] for r in rows] for i, n in enumerate(names)}
    return [("known", as_inputs([r])) for r in rows] + [("batch", as_inputs(rows))]


@model
def exclusions(directory):
    """TFRS BruteForce with a second signature made of query_with_exclusions."""
    tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=USERS, mask_token=None), layers.Embedding(25, 8)]
    )
    index = brute_force(tower)

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        scores, titles = index(user)
        return {"scores": scores, "titles": titles}

    @tf.function(
        input_signature=[spec(tf.string, None, name="user"), spec(tf.string, None, 3, name="seen")]
    )
    def unseen(user, seen):
        scores, titles = index.query_with_exclusions(user, seen)
        return {"scores": scores, "titles": titles}

    index(tf.constant(["u01"]))
    tf.saved_model.save(index, directory, signatures={"serving_default": serve, "unseen": unseen})
    first = [t.decode() for t in serve(tf.constant(["u04"]))["titles"].numpy()[0]]
    return [
        *string_cases("user"),
        ("known", {"user": ["u04"], "seen": [first[:3]]}, "unseen"),
        ("known", {"user": ["u04"], "seen": [["none", "of", "these"]]}, "unseen"),
        ("batch", {"user": ["u04", "u05"], "seen": [[first[0], first[2], ""], first[1:4]]}, "unseen"),
    ]


@model
def streaming(directory):
    """TFRS Streaming over a data set of candidates, k=5."""
    tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=USERS, mask_token=None), layers.Embedding(25, 8)]
    )
    index = tfrs.layers.factorized_top_k.Streaming(tower, k=5)
    table = tf.data.Dataset.from_tensor_slices((ITEMS, randoms(len(ITEMS), 8))).batch(16)
    index.index_from_dataset(table)
    saved_layer(directory, index, tf.constant(["u01"]))
    return string_cases("input_1")


@model
def list_features(directory):
    """A padded list of watched items: StringLookup with mask, masked mean of rows, BruteForce."""
    lookup = layers.StringLookup(vocabulary=ITEMS, mask_token="")
    table = layers.Embedding(42, 8)

    class History(tf.keras.Model):
        def call(self, watched):
            keys = lookup(watched)
            weights = tf.cast(tf.not_equal(keys, 0), tf.float32)[:, :, tf.newaxis]
            total = tf.reduce_sum(table(keys) * weights, axis=1)
            return total / tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)

    tower = History()
    tower.parts = [lookup, table]
    saved_layer(directory, brute_force(tower), tf.constant([["item 01", "item 02", "", ""]]))
    rows = [
        ["item 01", "item 05", "item 07", ""],
        ["", "", "", ""],
        ["unheard of", "item 39", "", ""],
        ["item 02"] * 4,
    ]
    return [("known", {"input_1": [r]}) for r in rows] + [("batch", {"input_1": rows})]


@model
def ragged_pooling(directory):
    """A list in one string, cut at "|": ragged lookup, mean of rows, dense score."""
    keys = tf.lookup.KeyValueTensorInitializer(ITEMS, np.arange(1, 41, dtype=np.int64))
    module = tf.Module()
    module.lookup = tf.lookup.StaticHashTable(keys, default_value=0)
    module.table = tf.Variable(randoms(41, 6), name="items")
    module.dense = layers.Dense(1)

    @tf.function(input_signature=[spec(tf.string, None, name="watched")])
    def serve(watched):
        words = tf.strings.split(watched, sep="|")
        keys = tf.ragged.map_flat_values(module.lookup.lookup, words)
        rows = tf.ragged.map_flat_values(lambda k: tf.gather(module.table, k), keys)
        return {"score": module.dense(tf.reduce_mean(rows, axis=1)), "count": words.row_lengths()}

    tf.saved_model.save(module, directory, signatures=serve)
    texts = ["item 01|item 05", "", "unheard of|item 39|item 00", "item 02|item 02|item 02"]
    return [("known", {"watched": [t]}) for t in texts] + [("batch", {"watched": texts})]


@model
def encoded_lookup(directory):
    """StringLookup as multi_hot and count, and the likeliest label by an inverse lookup."""
    tags = ["red", "green", "blue"]
    multi_hot = layers.StringLookup(vocabulary=tags, output_mode="multi_hot", num_oov_indices=2)
    count = layers.StringLookup(vocabulary=tags, output_mode="count")
    label = layers.StringLookup(vocabulary=["yes", "no", "maybe"], num_oov_indices=0, invert=True)
    dense = layers.Dense(3)
    module = tf.Module()
    module.parts = [multi_hot, count, label, dense]

    @tf.function(input_signature=[spec(tf.string, None, 3, name="tags")])
    def serve(tags):
        hot, counts = multi_hot(tags), count(tags)
        scores = dense(tf.concat([hot, counts], axis=1))
        return {"hot": hot, "counts": counts, "label": label(tf.argmax(scores, axis=1))}

    tf.saved_model.save(module, directory, signatures=serve)
    rows = [["red", "red", "blue"], ["pink", "green", "grey"], ["", "", ""]]
    return [("known", {"tags": [r]}) for r in rows] + [("batch", {"tags": rows})]


# --- plain tf.Module retrieval ---------------------------------------------------------------------


def module_retrieval(directory, ids):
    module = tf.Module()
    module.table = tf.Variable(randoms(25, 8), name="users")
    module.candidates = tf.Variable(randoms(len(ITEMS), 8), name="candidates", trainable=False)
    module.ids = None if ids is None else tf.Variable(ids, name="ids", trainable=False)
    keys = tf.lookup.KeyValueTensorInitializer(USERS, np.arange(1, 25, dtype=np.int64))
    module.lookup = tf.lookup.StaticHashTable(keys, default_value=0)

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        query = tf.gather(module.table, module.lookup.lookup(user))
        scores = tf.matmul(query, module.candidates, transpose_b=True)
        top = tf.math.top_k(scores, k=7)
        found = top.indices if module.ids is None else tf.gather(module.ids, top.indices)
        return {"scores": top.values, "ids": found}

    tf.saved_model.save(module, directory, signatures=serve)
    return string_cases("user")


@model
def module_int32_ids(directory):
    """tf.Module: StaticHashTable, gather, matmul, top_k, int32 identifiers."""
    return module_retrieval(directory, np.arange(40, dtype=np.int32) * 3 + 1)


@model
def module_int64_ids(directory):
    """tf.Module with int64 identifiers beyond 2^53."""
    return module_retrieval(directory, np.arange(40, dtype=np.int64) + (1 << 60))


@model
def module_no_ids(directory):
    """tf.Module without identifiers: row numbers are the answer."""
    return module_retrieval(directory, None)


@model
def module_raw_query(directory):
    """tf.Module that is given query vectors: no keyed table at all."""
    module = tf.Module()
    module.candidates = tf.Variable(randoms(len(ITEMS), 8), name="candidates")
    module.titles = tf.Variable(ITEMS, name="titles")

    @tf.function(input_signature=[spec(tf.float32, None, 8, name="query")])
    def serve(query):
        scores = tf.linalg.matmul(query, module.candidates, transpose_b=True)
        values, indices = tf.math.top_k(scores, k=6)
        return {"scores": values, "titles": tf.gather(module.titles, indices)}

    tf.saved_model.save(module, directory, signatures=serve)
    rows = randoms(4, 8).tolist()
    return [("known", {"query": [r]}) for r in rows] + [("batch", {"query": rows})]


# --- tables as TensorFlow writes large ones ----------------------------------------------------------


def user_lookup(module):
    keys = tf.lookup.KeyValueTensorInitializer(USERS, np.arange(1, 25, dtype=np.int64))
    module.lookup = tf.lookup.StaticHashTable(keys, default_value=0)
    return module.lookup.lookup


def top_titles(query, candidates, titles, k=6):
    top = tf.math.top_k(tf.matmul(query, candidates, transpose_b=True), k=k)
    return {"scores": top.values, "titles": tf.gather(titles, top.indices)}


@model
def half_tables(directory):
    """Users and a kernel in half, candidates in bfloat16, a bias that is a half constant; all cast."""
    module = tf.Module()
    rows = user_lookup(module)
    module.users = tf.Variable(tf.cast(randoms(25, 8), tf.half), name="users")
    module.kernel = tf.Variable(tf.cast(randoms(8, 7), tf.half), name="kernel")
    module.candidates = tf.Variable(tf.cast(randoms(len(ITEMS), 7), tf.bfloat16), name="candidates")
    module.titles = tf.Variable(ITEMS, name="titles")
    bias = tf.constant(randoms(7), tf.half)

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        query = tf.cast(tf.gather(module.users, rows(user)), tf.float32)
        query = tf.nn.relu(tf.matmul(query, tf.cast(module.kernel, tf.float32)) + tf.cast(bias, tf.float32))
        return top_titles(query, tf.cast(module.candidates, tf.float32), module.titles)

    tf.saved_model.save(module, directory, signatures=serve)
    return string_cases("user")


@model
def sliced_tables(directory):
    """Data files of at most 444 bytes: tables and a kernel in slices, cut by rows and by columns."""
    module = tf.Module()
    rows = user_lookup(module)
    module.users = tf.Variable(randoms(25, 9), name="users")
    module.kernel = tf.Variable(randoms(9, 11), name="kernel")
    module.candidates = tf.Variable(randoms(len(ITEMS), 11), name="candidates")
    module.numbers = tf.Variable(np.arange(40, dtype=np.int64) * 10**12, name="numbers")

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        query = tf.tanh(tf.matmul(tf.gather(module.users, rows(user)), module.kernel))
        return top_titles(query, module.candidates, module.numbers)

    policy = tf.train.experimental.MaxShardSizePolicy(max_shard_size=444)
    options = tf.saved_model.SaveOptions(experimental_sharding_callback=policy)
    tf.saved_model.save(module, directory, signatures=serve, options=options)
    return string_cases("user")


@model
def concatenated_tables(directory):
    """Candidates, their titles and users in several variables each, concatenated in the graph."""
    module = tf.Module()
    rows = user_lookup(module)
    users, candidates = randoms(25, 8), randoms(len(ITEMS), 8)
    # Row 0 is a constant of the graph, as for padding.
    module.users = [tf.Variable(users[a:b], name=f"users_{a}") for a, b in [(1, 2), (2, 20), (20, 25)]]
    module.candidates = [
        tf.Variable(candidates[a:b], name=f"candidates_{a}") for a, b in [(0, 15), (15, 30), (30, 40)]
    ]
    module.titles = [tf.Variable(ITEMS[a:b], name=f"titles_{a}") for a, b in [(0, 1), (1, 27), (27, 40)]]

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        table = tf.concat([tf.zeros([1, 8]), *module.users], axis=0)
        query = tf.gather(table, rows(user))
        return top_titles(query, tf.concat(module.candidates, 0), tf.concat(module.titles, -1))

    tf.saved_model.save(module, directory, signatures=serve)
    return string_cases("user")


@model
def sharded_variable(directory):
    """Candidates in a ShardedVariable of three shards: one tensor of the checkpoint, three variables."""
    module = tf.Module()
    rows = user_lookup(module)
    candidates = randoms(len(ITEMS), 8)
    module.users = tf.Variable(randoms(25, 8), name="users")
    shards = [tf.Variable(candidates[a:b], name=f"shard_{a}") for a, b in [(0, 14), (14, 27), (27, 40)]]
    module.candidates = ShardedVariable(shards, name="candidates")
    module.titles = tf.Variable(ITEMS, name="titles")

    @tf.function(input_signature=[spec(tf.string, None, name="user")])
    def serve(user):
        query = tf.gather(module.users, rows(user))
        return top_titles(query, tf.convert_to_tensor(module.candidates), module.titles)

    tf.saved_model.save(module, directory, signatures=serve)
    return string_cases("user")


@model
def partitioned_variables(directory):
    """TensorFlow 1: candidates and users cut by partitioners, by rows; each part a variable of its own."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        v1.enable_resource_variables()
        user = v1.placeholder(tf.int64, [None], name="user")


        def partitioned(name, values, parts):
            def rows_of_part(shape, dtype, partition_info):
                first = partition_info.var_offset[0]
                return tf.constant(values[first : first + shape[0]], dtype)

            dtype = tf.string if values.dtype.kind == "U" else tf.float32
            cut = v1.fixed_size_partitioner(parts, axis=0)
            return v1.get_variable(name, values.shape, dtype, rows_of_part, partitioner=cut)

        users = partitioned("users", randoms(25, 8), 2)
        candidates = partitioned("candidates", randoms(len(ITEMS), 8), 3)
        titles = partitioned("titles", np.array(ITEMS), 3)
        query = tf.gather(tf.convert_to_tensor(users), user)
        outputs = top_titles(query, tf.convert_to_tensor(candidates), tf.convert_to_tensor(titles))
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def({"user": user}, outputs)
        builder = v1.saved_model.Builder(directory)
        signatures = {"serving_default": signature}
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()
    rows = [0, 1, 11, 12, 13, 24]
    return [*[("known", {"user": [row]}) for row in rows], ("batch", {"user": rows[::-1]})]


# --- scores before top_k ---------------------------------------------------------------------------


SCORES = {
    # The product, in other spellings.
    "einsum": lambda m, q: tf.einsum("bd,nd->bn", q, m.items),
    "einsum_columns": lambda m, q: tf.einsum("ik,kj->ij", q, m.kernel),
    "einsum_swapped": lambda m, q: tf.einsum("nd,bd->bn", m.items, q),
    "tensordot": lambda m, q: tf.tensordot(q, m.items, axes=[[1], [1]]),
    "tensordot_columns": lambda m, q: tf.tensordot(q, m.kernel, axes=1),
    "swapped": lambda m, q: tf.transpose(tf.matmul(m.items, q, transpose_b=True)),
    "swapped_columns": lambda m, q: tf.transpose(tf.matmul(m.kernel, q, transpose_a=True, transpose_b=True)),
    "multiply_sum": lambda m, q: tf.reduce_sum(tf.expand_dims(q, 1) * m.items, axis=-1),
    "multiply_sum_both": lambda m, q: tf.reduce_sum(q[:, None, :] * m.items[None, :, :], axis=2),
    "batched": lambda m, q: tf.squeeze(tf.matmul(tf.expand_dims(q, 1), m.items, transpose_b=True), axis=1),
    "matvec": lambda m, q: tf.linalg.matvec(m.items, q),
    "reshaped": lambda m, q: tf.reshape(tf.matmul(q, m.items, transpose_b=True), [-1, 40]),
    "constant_columns": lambda m, q: tf.matmul(q, tf.transpose(tf.constant(randoms(40, 8)))),
    # Operations on the scores.
    "temperature": lambda m, q: tf.matmul(q, m.items, transpose_b=True) / 0.07,
    "learned_temperature": lambda m, q: tf.matmul(q, m.items, transpose_b=True) * tf.minimum(tf.exp(m.log_scale), 100.0),
    "variable_temperature": lambda m, q: tf.matmul(q, m.items, transpose_b=True) / m.temperature,
    "bias": lambda m, q: tf.matmul(q, m.items, transpose_b=True) + m.bias,
    "bias_first": lambda m, q: m.bias + tf.matmul(q, m.items, transpose_b=True),
    "bias_column": lambda m, q: tf.matmul(q, m.items, transpose_b=True) + tf.transpose(m.bias_column),
    "bias_of_constant": lambda m, q: tf.matmul(q, m.items, transpose_b=True) + tf.constant(randoms(40)),
    "debiased": lambda m, q: tf.matmul(q, m.items, transpose_b=True) - 0.5 * m.bias,
    "bias_after_temperature": lambda m, q: tf.matmul(q, m.items, transpose_b=True) * -2.0 + m.bias,
    "bias_before_temperature": lambda m, q: (tf.matmul(q, m.items, transpose_b=True) + m.bias) / 0.5 + 1.5,
    "two_biases": lambda m, q: tf.matmul(q, m.items, transpose_b=True) + m.bias + tf.squeeze(m.bias_column, 1),
    "user_bias": lambda m, q: tf.matmul(q, m.items, transpose_b=True) + m.bias + tf.reduce_sum(q, axis=1, keepdims=True),
    "logits": lambda m, q: tf.nn.bias_add(tf.matmul(q, m.kernel), m.bias),
    "logits_without_bias": lambda m, q: tf.matmul(q, m.kernel),
    "logits_sigmoid": lambda m, q: tf.sigmoid(tf.nn.bias_add(tf.matmul(q, m.kernel), m.bias)),
    "tanh": lambda m, q: tf.tanh(0.1 * tf.matmul(q, m.items, transpose_b=True)),
    "cosine": lambda m, q: tf.matmul(tf.nn.l2_normalize(q, 1), tf.nn.l2_normalize(m.items, axis=-1), transpose_b=True) * 20.0,
    "cosine_columns": lambda m, q: tf.matmul(q, tf.nn.l2_normalize(m.kernel, axis=0)),
    "cosine_by_norm": lambda m, q: tf.matmul(q, m.items / tf.norm(m.items, axis=1, keepdims=True), transpose_b=True) + m.bias,
    "cosine_bounded_norm": lambda m, q: tf.matmul(q, m.items / tf.maximum(tf.norm(m.items, axis=1, keepdims=True), 2.5), transpose_b=True),
    "cosine_keras3": lambda m, q: tf.matmul(q, m.items * tf.minimum(tf.math.rsqrt(tf.reduce_sum(tf.square(m.items), -1, keepdims=True)), 0.4), transpose_b=True),
    "gathered_items": lambda m, q: tf.matmul(q, tf.gather(m.items, tf.range(40)), transpose_b=True),
    # What no search gives: the values or the order depend on more than one row and the query.
    "dense_softmax": lambda m, q: tf.nn.softmax(tf.matmul(q, m.kernel)),
    "relu": lambda m, q: tf.nn.relu(tf.matmul(q, m.items, transpose_b=True) - 1.0),
    "negative_temperature": lambda m, q: tf.matmul(q, m.items, transpose_b=True) / -0.5,
    "dense_item_factor": lambda m, q: tf.matmul(q, m.items, transpose_b=True) * m.bias,
}


@model
def score_expressions(directory):
    """One signature for each spelling of scores before top_k; those named dense_ are no search."""
    module = tf.Module()
    module.items = tf.Variable(randoms(40, 8), name="items")
    module.kernel = tf.Variable(randoms(8, 40), name="kernel")
    module.bias = tf.Variable(randoms(40), name="bias")
    module.bias_column = tf.Variable(randoms(40, 1), name="bias_column")
    module.log_scale = tf.Variable(2.5, name="log_scale")
    module.temperature = tf.Variable(0.2, name="temperature")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(score):
        @tf.function(input_signature=[spec(tf.float32, None, 8, name="query")])
        def serve(query):
            values, rows = tf.math.top_k(score(module, query), k=6)
            return {"scores": values, "ids": tf.gather(module.ids, rows)}

        return serve

    signatures = {name: signature(score) for name, score in SCORES.items()}
    signatures["serving_default"] = signatures["temperature"]
    tf.saved_model.save(module, directory, signatures=signatures)
    rows = randoms(5, 8).tolist()
    return [
        (kind, {"query": query}, name)
        for name in SCORES
        for kind, query in (("known", rows[:1]), ("batch", rows[1:]))
    ]


# --- Keras 3 ---------------------------------------------------------------------------------------


@model
def keras3_two_tower(directory):
    """Keras 3 model.export(): two lookups, two towers, dot product and sigmoid."""
    k = keras3.layers
    user = keras3.Input((), dtype="string", name="user_id")
    item = keras3.Input((), dtype="string", name="movie_title")
    u = k.Embedding(25, 8)(k.StringLookup(vocabulary=USERS)(user))
    m = k.Embedding(43, 8)(k.StringLookup(vocabulary=ITEMS, num_oov_indices=3)(item))
    u, m = k.Dense(6, activation="relu")(u), k.Dense(6)(m)
    score = k.Activation("sigmoid")(k.Dot(axes=1, normalize=True)([u, m]))
    keras3.Model({"user_id": user, "movie_title": item}, score).export(directory, verbose=False)
    rows = [("u01", "item 01"), ("who", "item 99"), ("u02", "another"), ("u23", "item 39")]
    as_inputs = lambda rows: {"user_id": [r[0] for r in rows], "movie_title": [r[1] for r in rows]}
    return [("known", as_inputs([r])) for r in rows] + [("batch", as_inputs(rows))]


@model
def keras3_features(directory):
    """Keras 3 preprocessing inside a model: Hashing, IntegerLookup, Normalization, Discretization,
    CategoryEncoding, TextVectorization, HashedCrossing."""
    k = keras3.layers
    inputs = {
        "user": keras3.Input((1,), dtype="string", name="user"),
        "zip": keras3.Input((1,), dtype="int64", name="zip"),
        "age": keras3.Input((1,), dtype="float32", name="age"),
        "genre": keras3.Input((2,), dtype="int64", name="genre"),
        "title": keras3.Input((), dtype="string", name="title"),
    }
    text = k.TextVectorization(max_tokens=20, output_sequence_length=5)
    text.adapt(["red green blue", "green tea", "blue sky"])
    normalization = k.Normalization(mean=[40.0], variance=[150.0])
    ages = k.Discretization(bin_boundaries=[18.0, 25.0, 40.0, 65.0])(inputs["age"])
    parts = [
        k.Flatten()(k.Embedding(20, 3)(k.Hashing(num_bins=20)(inputs["user"]))),
        k.Flatten()(k.Embedding(6, 3)(k.IntegerLookup(vocabulary=[10, 20, 30, 40, 50])(inputs["zip"]))),
        normalization(inputs["age"]),
        k.Flatten()(k.Embedding(5, 2)(ages)),
        k.CategoryEncoding(num_tokens=8, output_mode="multi_hot")(inputs["genre"]),
        k.GlobalAveragePooling1D()(k.Embedding(20, 3)(text(inputs["title"]))),
    ]
    hidden = k.Dense(8, activation="swish")(k.Concatenate()(parts))
    outputs = {"like": k.Dense(1, activation="sigmoid")(hidden), "stars": k.Dense(1)(hidden)}
    keras3.Model(inputs, outputs).export(directory, verbose=False)
    rows = [
        ("u01", 10, 18.0, [0, 7], "red tea"),
        ("", 99, 64.9, [3, 3], ""),
        ("who", -1, 17.999, [1, 2], "Green GREEN sky!"),
        ("日本", 50, 65.0, [5, 6], "a b c d e f g"),
    ]
    as_inputs = lambda rows: {
        "user": [[r[0]] for r in rows],
        "zip": [[r[1]] for r in rows],
        "age": [[r[2]] for r in rows],
        "genre": [r[3] for r in rows],
        "title": [r[4] for r in rows],
    }
    return [("known", as_inputs([r])) for r in rows] + [("batch", as_inputs(rows))]


@model
def keras3_crossing(directory):
    """Keras 3 HashedCrossing of a string and an integer (SparseCross), one_hot and as a key."""
    k = keras3.layers
    user = keras3.Input((1,), dtype="string", name="user")
    hour = keras3.Input((1,), dtype="int64", name="hour")
    crossed = k.HashedCrossing(num_bins=40)((user, hour))
    hot = k.HashedCrossing(num_bins=5, output_mode="one_hot")((user, hour))
    parts = [k.Flatten()(k.Embedding(40, 4)(crossed)), k.Flatten()(hot)]
    score = k.Dense(1)(k.Concatenate()(parts))
    keras3.Model({"user": user, "hour": hour}, score).export(directory, verbose=False)
    rows = [("u01", 7), ("", 0), ("日本", -5), ("u01", 1 << 40)]
    as_inputs = lambda rows: {"user": [[r[0]] for r in rows], "hour": [[r[1]] for r in rows]}
    return [("known", as_inputs([r])) for r in rows] + [("batch", as_inputs(rows))]


# --- TensorFlow 1, ids by table, sparse features --------------------------------------------------


@model
def v1_reference_variables(directory):
    """TF 1 graph: reference variables, a HashTable filled from an asset by the main op."""
    v1 = tf.compat.v1
    vocabulary = pathlib.Path(tempfile.mkdtemp()) / "vocabulary.txt"
    vocabulary.write_text("\n".join(USERS) + "\n")
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        asset = tf.constant(str(vocabulary))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        table = tf.raw_ops.HashTable(key_dtype=tf.string, value_dtype=tf.int64, shared_name="users")
        filled = tf.raw_ops.InitializeTableFromTextFile(
            table_handle=table, filename=asset, key_index=-2, value_index=-1
        )

        def variable(name, *shape):
            return v1.get_variable(name, initializer=randoms(*shape), use_resource=False)

        users, items, mix = variable("tower/users", 25, 8), variable("items", 40, 8), variable("mix", 8, 8)
        user = v1.placeholder(tf.string, [None], name="user_id")
        missing = tf.constant(len(USERS), tf.int64)
        row = tf.raw_ops.LookupTableFind(table_handle=table, keys=user, default_value=missing)
        query = tf.tanh(tf.matmul(tf.raw_ops.Gather(params=users, indices=row), mix))
        scores, rows = tf.math.top_k(tf.matmul(query, items, transpose_b=True), 5)
        ids = tf.gather(tf.constant(ITEMS), rows)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": v1.saved_model.predict_signature_def({"user_id": user}, {"scores": scores, "ids": ids})},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=filled,
        )
        builder.save()
    return string_cases("user_id")


@model
def ids_by_table(directory):
    """Ids by tables from row numbers: int32 and int64 keys, and a table that lacks some rows."""
    module = tf.Module()
    module.candidates = tf.Variable(randoms(len(ITEMS), 8))

    def table(keys, values, default):
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        return tf.lookup.StaticHashTable(initializer, default)

    turned = list(range(len(ITEMS)))[::-1]
    module.names = table(tf.constant(turned, tf.int32), tf.constant(ITEMS), "none")
    module.numbers = table(tf.constant(turned, tf.int64), tf.constant([row * 10 for row in turned], tf.int64), -1)
    module.some = table(tf.constant(turned[::2], tf.int32), tf.constant(ITEMS[::2]), "none")

    def signature(lookup):
        @tf.function(input_signature=[spec(tf.float32, None, 8, name="query")])
        def serve(query):
            scores, rows = tf.math.top_k(tf.matmul(query, module.candidates, transpose_b=True), 6)
            return {"scores": scores, "ids": lookup(rows)}

        return serve

    module.serve = signature(module.names.lookup)
    module.serve_numbers = signature(lambda rows: module.numbers.lookup(tf.cast(rows, tf.int64)))
    module.serve_some = signature(module.some.lookup)
    signatures = {"serving_default": module.serve, "numbers": module.serve_numbers, "some": module.serve_some}
    tf.saved_model.save(module, directory, signatures=signatures)
    queries = [("batch", {"query": randoms(5, 8).tolist()}), ("one", {"query": randoms(1, 8).tolist()})]
    return [(*case, name) for name in signatures for case in queries]


@model
def sparse_features(directory):
    """VarLen features of tf.Examples through safe_embedding_lookup_sparse, weighted and not."""
    module = tf.Module()
    module.table = tf.Variable(randoms(50, 4))
    features = {
        "ids": tf.io.VarLenFeature(tf.int64),
        "weights": tf.io.VarLenFeature(tf.float32),
        "tags": tf.io.VarLenFeature(tf.string),
    }

    @tf.function(input_signature=[spec(tf.string, None, name="examples")])
    def serve(examples):
        parsed = tf.io.parse_example(examples, features)
        ids, weights, tags = parsed["ids"], parsed["weights"], parsed["tags"]
        hashed = tf.SparseTensor(tags.indices, tf.strings.to_hash_bucket_fast(tags.values, 50), tags.dense_shape)
        answers = {"tags": tf.sparse.to_dense(tags, default_value="-")}
        for combiner in ("mean", "sum", "sqrtn"):
            def pooled(sparse, weights=None, default=None):
                return tf.nn.safe_embedding_lookup_sparse(module.table, sparse, weights, combiner, default)

            answers[combiner] = pooled(ids)
            answers[combiner + "_weighted"] = pooled(ids, weights)
            answers[combiner + "_tags"] = pooled(hashed, default=7)
        return answers

    module.serve = serve
    tf.saved_model.save(module, directory, signatures=serve)

    def example(ids, weights, tags):
        lists = {
            "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
            "weights": tf.train.Feature(float_list=tf.train.FloatList(value=weights)),
            "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tag.encode() for tag in tags])),
        }
        full = {name: feature for name, feature in lists.items() if feature.ByteSize() > 2}
        return tf.train.Example(features=tf.train.Features(feature=full)).SerializeToString()

    full = example([3, 7, 7], [0.5, 1.5, 2.0], ["a", "b"])
    empty = example([], [], [])
    pruned = example([-1, 9, 11], [1.0, 0.0, -2.0], ["only"])
    long = example(list(range(20)), [0.25] * 20, [f"t{i}" for i in range(12)])
    batches = [[full], [empty], [pruned], [long], [empty, full, empty], [long, pruned, full, empty], [empty, empty]]
    cases = [("examples", {"examples": batch}) for batch in batches]
    return [*cases, ("error", {"examples": [example([50], [1.0], [])]})]


def record_seeded(name, build):
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(17)
    keras3.utils.set_random_seed(17)
    record(name, build)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        record_seeded(name, MODELS[name])
