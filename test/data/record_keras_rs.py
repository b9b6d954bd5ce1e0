"""Makes the small SavedModels keras_rs_* under savedmodels/ of layers of Keras RS, and records what TensorFlow answers
for them, as record_savedmodels.py does.

    KERAS_BACKEND=tensorflow TF_ENABLE_ONEDNN_OPTS=0 python record_keras_rs.py [name ...]

Needs tensorflow 2.21, keras 3.15 and keras_rs of commit 812d35b.
"""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from recording import randoms, record, spec

import keras
import keras_rs
import numpy as np
import tensorflow as tf

layers = keras.layers
MODELS = {}
USERS = [f"u{i:02d}" for i in range(23)]
MOVIES = 40
DIM = 8
STRANGERS = ["", "u99", "日本"]


def model(build):
    MODELS[build.__name__] = build
    return build


def towers():
    user = keras.Input((), dtype="string", name="user")
    found = layers.StringLookup(vocabulary=USERS)(user)
    vector = layers.Embedding(len(USERS) + 1, DIM, embeddings_initializer="normal")(found)
    return keras.Model(user, layers.Dense(DIM)(vector))


def ask(archive, name, function):
    archive.add_endpoint(name, function, input_signature=[spec(tf.string, None, name="user")])


@model
def keras_rs_retrieval(directory):
    """BruteForceRetrieval of Keras RS, exported by an ExportArchive: items by row number, by candidate_ids with and
    without scores, by an inverse StringLookup, for one user alone, and the query tower by itself."""
    tower = towers()
    movies = keras.Variable(randoms(MOVIES, DIM))
    ids = np.arange(1000, 1000 + MOVIES)
    by_row = keras_rs.layers.BruteForceRetrieval(movies, k=7)
    by_id = keras_rs.layers.BruteForceRetrieval(movies, candidate_ids=ids, k=7)
    ids_alone = keras_rs.layers.BruteForceRetrieval(movies, candidate_ids=ids, k=7, return_scores=False)
    titles = layers.StringLookup(vocabulary=[f"movie {i}" for i in range(1, MOVIES)], invert=True)
    archive = keras.export.ExportArchive()
    for layer in (by_row, by_id, ids_alone):
        layer(keras.ops.zeros((1, DIM)))
    titles(keras.ops.array([1]))
    for part in (tower, by_row, by_id, ids_alone, titles):
        archive.track(part)

    def named(user):
        scores, rows = by_row(tower(user))
        return {"scores": scores, "titles": titles(rows)}

    def one(user):
        scores, found = by_id(tower(user))
        return {"scores": scores[0], "ids": found[0]}

    ask(archive, "serve", lambda user: dict(zip(("scores", "ids"), by_id(tower(user)))))
    ask(archive, "by_row", lambda user: dict(zip(("scores", "rows"), by_row(tower(user)))))
    ask(archive, "ids_alone", lambda user: {"ids": ids_alone(tower(user))})
    ask(archive, "titles", named)
    ask(archive, "one", one)
    ask(archive, "query", lambda user: {"vector": tower(user)})
    archive.write_out(directory, verbose=False)
    asked = [("known", [name]) for name in USERS[:4]] + [("unknown", [name]) for name in STRANGERS]
    asked += [("batch", USERS[8:2:-1] + STRANGERS)]
    return [
        (kind, {"user": users}, signature)
        for signature in ("serve", "by_row", "ids_alone", "titles", "one", "query")
        for kind, users in asked
    ]


@model
def keras_rs_ranking(directory):
    """DotInteraction, with and without itself, gathered and masked, FeatureCross, EmbedReduce with weights and
    DistributedEmbedding on a CPU, exported by model.export."""
    user = keras.Input((), dtype="int32", name="user")
    history = keras.Input((4,), dtype="int32", name="history")
    weights = keras.Input((4,), name="weights")
    numbers = keras.Input((3,), name="numbers")
    table = keras_rs.layers.TableConfig("users", 24, 6, initializer="normal", combiner="mean")
    feature = keras_rs.layers.FeatureConfig("user", table, (None,), (None, 6))
    features = [
        keras_rs.layers.DistributedEmbedding({"user": feature})({"user": user})["user"],
        *(
            keras_rs.layers.EmbedReduce(MOVIES, 6, combiner=combiner, embeddings_initializer="normal")(
                history, weights=weights
            )
            for combiner in ("mean", "sum", "sqrtn")
        ),
        layers.Dense(6, activation="relu")(numbers),
    ]
    dots = [
        keras_rs.layers.DotInteraction(self_interaction=itself, skip_gather=masked)(features)
        for itself in (True, False)
        for masked in (True, False)
    ]
    first = layers.Concatenate()(features)
    crossed = keras_rs.layers.FeatureCross()(first, first)
    crossed = keras_rs.layers.FeatureCross(projection_dim=4, diag_scale=0.5)(first, crossed)
    rating = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([crossed, *dots]))
    inputs = {"user": user, "history": history, "weights": weights, "numbers": numbers}
    ranking = keras.Model(inputs, {"rating": rating, "dots": dots[3]})
    ranking.export(directory, format="tf_saved_model", verbose=False)
    rng = np.random.default_rng(3)

    def request(count):
        return {
            "user": rng.integers(0, 24, count).tolist(),
            "history": rng.integers(0, MOVIES, (count, 4)).tolist(),
            "weights": rng.integers(0, 5, (count, 4)).tolist(),
            "numbers": rng.integers(-3, 4, (count, 3)).tolist(),
        }

    no_weights = {**request(1), "weights": [[0, 0, 0, 0]]}
    return [("known", request(1)) for _ in range(8)] + [("known", no_weights), ("batch", request(5))]


@model
def keras_rs_features(directory):
    """A FeatureSpace before the query tower, as in the deep recommender of Keras RS: the layer for integers without a
    row for unknown ones asserts with a text that tf.strings.format makes."""
    space = keras.utils.FeatureSpace
    features = space(
        features={
            "age": space.float_discretized(num_bins=6, output_mode="int"),
            "gender": space.integer_categorical(num_oov_indices=0, output_mode="int"),
            "occupation": space.string_categorical(output_mode="int"),
        },
        crosses=[space.cross(("gender", "age"), crossing_dim=13, output_mode="int")],
        output_mode="dict",
    )
    occupations = ["artist", "doctor", "writer", "student"]
    seen = {
        "age": np.arange(10, 70, dtype=np.float32),
        "gender": np.arange(60) % 2,
        "occupation": np.array(occupations)[np.arange(60) % 4],
    }
    features.adapt(tf.data.Dataset.from_tensor_slices(seen))
    encoded = features.get_encoded_features()
    vectors = [
        layers.Flatten()(layers.Embedding(20, 5, embeddings_initializer="normal")(encoded[name]))
        for name in sorted(encoded)
    ]
    query = layers.Dense(DIM)(layers.Dense(16, activation="relu")(layers.Concatenate()(vectors)))
    retrieval = keras_rs.layers.BruteForceRetrieval(k=10)
    retrieval.update_candidates(keras.ops.convert_to_tensor(randoms(MOVIES, DIM)))
    scores, rows = retrieval(query)
    recommender = keras.Model(features.get_inputs(), {"scores": scores, "rows": rows})
    recommender.export(directory, format="tf_saved_model", verbose=False)

    def request(age, gender, occupation):
        return {"age": [[age]], "gender": [[gender]], "occupation": [[occupation]]}

    people = [("known", request(10.0 + 7 * i, i % 2, occupations[i % 4])) for i in range(8)]
    batch = {"age": [[20.0], [61.5]], "gender": [[1], [0]], "occupation": [["writer"], [""]]}
    stranger = [("unknown", request(30.0, 1, "spy")), ("error", request(30.0, 7, "artist"))]
    return [*people, *stranger, ("batch", batch)]


for name in sys.argv[1:] or MODELS:
    keras.utils.set_random_seed(1)
    record(name, MODELS[name])
