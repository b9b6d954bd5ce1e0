"""Makes SavedModels whose searches ask for more than a fixed k of all items, one for Classify and Regress, and
one of no search at all, under savedmodels/, and records what TensorFlow answers for them.

    TF_ENABLE_ONEDNN_OPTS=0 python record_searches.py [name ...]

Needs tensorflow 2.21; Winnow itself does not. The weights are random. The format is that of
record_savedmodels.py.
"""

import base64
import json
import pathlib
import sys

from recording import randoms, record, spec

import numpy as np
import tensorflow as tf

MODELS = {}
ITEMS = [f"item {i:02d}" for i in range(40)]


def model(build):
    MODELS[build.__name__] = build
    return build


QUERY = spec(tf.float32, None, 8, name="query")
ROWS = randoms(5, 8).tolist()


def signatures_of(module, functions):
    """One signature for each function of a module and its inputs: those are (inputs, function)."""

    def signature(inputs, function):
        return tf.function(lambda *values: function(module, *values), input_signature=inputs)

    return {name: signature(*parts) for name, parts in functions.items()}


# --- k in the request ------------------------------------------------------------------------------


def top(module, query, k, final=tf.identity):
    scores, rows = tf.math.top_k(final(tf.matmul(query, module.items, transpose_b=True)), k=k)
    return {"scores": scores, "ids": tf.gather(module.ids, rows)}


K = spec(tf.int32, name="k")
DEPTHS = {
    "serving_default": ([QUERY, K], top),
    "at_most_ten": ([QUERY, K], lambda m, q, k: top(m, q, tf.minimum(k, 10))),
    "int64": ([QUERY, spec(tf.int64, name="k")], lambda m, q, k: top(m, q, tf.cast(k, tf.int32))),
    "largest_of_batch": ([QUERY, spec(tf.int32, None, 1, name="k")], lambda m, q, k: top(m, q, tf.reduce_max(k))),
    "first_of_batch": ([QUERY, spec(tf.int32, None, name="k")], lambda m, q, k: top(m, q, k[0] + 1)),
    "sigmoid": ([QUERY, K], lambda m, q, k: top(m, q, k, tf.sigmoid)),
    "beside_listed": ([QUERY, spec(tf.string, None, None, name="listed")], lambda m, q, listed: top(m, q, 3 + tf.shape(listed)[1])),
    "as_many_as_queries": ([QUERY], lambda m, q: top(m, q, 2 * tf.shape(q)[0])),
}


@model
def requested_k(directory):
    """k as an input: a scalar, bounded, of another type, one for each instance."""
    module = tf.Module()
    module.items = tf.Variable(randoms(40, 8), name="items")
    module.ids = tf.Variable(ITEMS, name="ids")
    tf.saved_model.save(module, directory, signatures=signatures_of(module, DEPTHS))
    cases = []
    for name in ("serving_default", "at_most_ten", "int64", "sigmoid"):
        cases += [("known", {"query": ROWS[:1], "k": 1}, name), ("batch", {"query": ROWS, "k": 7}, name)]
        cases += [("none", {"query": ROWS[:2], "k": 0}, name), ("error", {"query": ROWS[:1], "k": -1}, name)]
    cases += [("all", {"query": ROWS, "k": 40}, "serving_default"), ("error", {"query": ROWS, "k": 41}, "serving_default")]
    cases += [("bounded", {"query": ROWS, "k": 41}, "at_most_ten")]
    for ks in ([3], [2, 5, 1], [0, 0]):
        query = ROWS[: len(ks)]
        cases.append(("batch", {"query": query, "k": [[k] for k in ks]}, "largest_of_batch"))
        cases.append(("batch", {"query": query, "k": ks}, "first_of_batch"))
    cases.append(("error", {"query": ROWS[:1], "k": []}, "first_of_batch"))
    cases.append(("batch", {"query": ROWS[:2], "listed": [["a", "b"], ["c", ""]]}, "beside_listed"))
    cases.append(("none", {"query": ROWS[:1], "listed": [[]]}, "beside_listed"))
    cases.append(("error", {"query": ROWS[:1], "listed": [["a"] * 38]}, "beside_listed"))
    cases += [("batch", {"query": ROWS[:many]}, "as_many_as_queries") for many in (1, 3)]
    return cases


# --- masks -----------------------------------------------------------------------------------------

HIDDEN = -np.inf
FLAGS = [float(i % 3 > 0) for i in range(40)]


def products(m, q):
    return tf.matmul(q, m.items, transpose_b=True)


def kept(m, scores, k=12):
    values, rows = tf.math.top_k(scores, k=k)
    return {"scores": values, "ids": tf.gather(m.ids, rows)}


def wanted(dtype, *shape):
    return spec(dtype, None, *shape, name="wanted")


def listed(m, w):
    return tf.reduce_any(m.numbers[None, None, :] == w[:, :, None], axis=1)


def blend(scores, flags):
    return scores * flags + (1.0 - flags) * -1.5


def bonus_where(condition, scores):
    return tf.where(condition, scores, scores - 1.5)


def factor_where(condition, scores):
    return tf.where(condition, scores * 2.0, scores)


def without(scores, seen):
    return scores * (1.0 - seen) + seen * -2.5


def seen(w):
    return tf.reduce_max(tf.one_hot(w, 40), axis=1)


def of_first(m, w):
    """Items of the genre that is the first of a list."""
    return m.genre == w[:, 0][:, None]


def factors_where(condition, scores):
    return tf.where(condition, scores * 1.5, scores * 0.75)


def number_of(condition):
    return tf.cast(condition, tf.float32)


def bonuses(m, w, scores, count=5):
    """A bonus for each of some conditions."""
    for at, number in enumerate([0.5, 0.25, 0.75, 1.5, 2.5][: count - 1]):
        scores += number * tf.cast(m.genre == w[:, None] + at, tf.float32)
    return scores + 0.125 * tf.cast(m.numbers == w[:, None], tf.float32)


def nested(scores, first, second):
    return tf.where(first & second, scores, tf.where(first, scores - 2.5, HIDDEN))


def changed(scores, first, second):
    return tf.where(first, tf.where(second, scores + 0.5, scores - 0.75), scores)


MASKS = {
    "serving_default": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(m.genre[None, :] == w[:, None], products(m, q), HIDDEN))),
    "genre_hidden": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(w[:, None] == m.genre, tf.fill([tf.shape(q)[0], 40], HIDDEN), products(m, q) / 0.3))),
    "language": ([QUERY, wanted(tf.string)], lambda m, q, w: kept(m, tf.where(tf.equal(tf.expand_dims(m.language, 0), tf.expand_dims(w, 1)), products(m, q), -1e9))),
    "price_and_stock": ([QUERY, wanted(tf.float32)], lambda m, q, w: kept(m, tf.where((m.price[None, :] <= w[:, None]) & m.stock, products(m, q) + m.bias, tf.float32.min))),
    "dearer": ([QUERY, wanted(tf.float32)], lambda m, q, w: kept(m, tf.where(w[:, None] < m.price, products(m, q), HIDDEN))),
    # Rows that are masked score more than some that are kept.
    "worth_nothing": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.not_equal(m.genre, w[:, None]), products(m, q), tf.zeros_like(products(m, q))), 40)),
    "in_stock": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(m.stock, products(m, q), HIDDEN))),
    "two_masks": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(m.stock, tf.where(m.genre == w[:, None], products(m, q), HIDDEN), HIDDEN))),
    "not_seen": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(listed(m, w), HIDDEN, products(m, q)))),
    "only_listed": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(tf.reduce_any(w[:, None, :] == m.numbers[:, None], axis=-1), products(m, q), HIDDEN))),
    "not_seen_one_hot": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(tf.reduce_max(tf.one_hot(w, 40), axis=1) > 0, HIDDEN, products(m, q)))),
    "not_seen_counted": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(tf.equal(tf.reduce_sum(tf.one_hot(w, 40), axis=1), 0.0), products(m, q), tf.ones_like(products(m, q)) * -1e9))),
    "masked_sigmoid": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(m.genre == w[:, None], tf.sigmoid(products(m, q)), 0.0))),
    "penalty": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1e9 * tf.reduce_max(tf.one_hot(w, 40), axis=1))),
    "penalty_of_genre": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q) + tf.cast(m.genre != w[:, None], tf.float32) * -2.5), 40)),
    "penalty_of_rest": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, (1.0 - tf.cast(m.genre == w[:, None], tf.float32)) * -1e9 + products(m, q) / 0.5, 40)),
    "small_penalty": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1.5 * tf.reduce_max(tf.one_hot(w, 40), axis=1), 40)),
    "not_seen_any": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(tf.reduce_any(tf.one_hot(w, 40, on_value=True, off_value=False), axis=1), HIDDEN, products(m, q)))),
    "not_itself": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.one_hot(w, 40) > 0, HIDDEN, products(m, q)), 40)),
    "itself_last": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) - 1e9 * tf.one_hot(w, 40), 40)),
    "blended": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, without(products(m, q), tf.reduce_max(tf.one_hot(w, 40), axis=1)), 40)),
    "blended_of_genre": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, blend(products(m, q), tf.cast(m.genre == w[:, None], tf.float32)), 40)),
    "blended_seen": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, blend(products(m, q), 1.0 - tf.reduce_max(tf.one_hot(w, 40), axis=1)), 40)),
    "bonus": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) + tf.where(m.genre[None, :] == w[:, None], 2.5, 0.0), 40)),
    "malus_of_rest": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q) - tf.where(m.genre == w[:, None], 0.0, 1.25)), 40)),
    "bonus_where": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, bonus_where(m.genre == w[:, None], products(m, q)), 40)),
    "factor": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) * tf.where(m.genre == w[:, None], 1.25, 1.0), 40)),
    "factor_of_flags": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, (1.0 - 0.5 * tf.reduce_max(tf.one_hot(w, 40), 1)) * tf.sigmoid(products(m, q)), 40)),
    "factor_where": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, factor_where(m.genre == w[:, None], products(m, q) + m.bias) / 0.5, 40)),
    "factor_before_softmax": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.nn.softmax(products(m, q) * tf.where(m.genre == w[:, None], 1.0, 0.25)))),
    "opposite_of_factor": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, -(products(m, q) * tf.where(m.genre == w[:, None], 2.0, 1.0)), 40)),
    "times_flags": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q)) * tf.cast(m.genre == w[:, None], tf.float32), 40)),
    "sigmoid_times_stock": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q)) * tf.cast(m.stock, tf.float32), 40)),
    "sigmoid_times_flags": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q)) * tf.constant(FLAGS), 40)),
    "relu_less_stored": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.nn.relu(products(m, q)) - tf.where(m.stock, 0.0, 1.5), 40)),
    "stored_and_seen": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(listed(m, w), HIDDEN, products(m, q) - tf.where(m.stock, 0.0, 1.5)))),
    "logarithm_of_flags": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) + tf.math.log(tf.cast(m.genre == w[:, None], tf.float32) + 1e-9), 40)),
    "logarithm_hides": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) + tf.math.log(tf.cast(m.genre == w[:, None], tf.float32)))),
    "genre_or_all": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where((m.genre == w[:, None]) | (w == 9)[:, None], products(m, q), HIDDEN))),
    "not_if_none": ([QUERY, wanted(tf.string)], lambda m, q, w: kept(m, tf.where((m.language != w[:, None]) & (tf.strings.length(w) > 0)[:, None], -1e9, products(m, q)))),
    "two_numbers_behind": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(listed(m, w), -1e9, tf.where(of_first(m, w), products(m, q), HIDDEN)), 40)),
    "penalty_of_hidden": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(of_first(m, w), products(m, q), HIDDEN) - 1e9 * seen(w))),
    "hidden_behind_penalty": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(of_first(m, w), products(m, q) - 1.5 * seen(w), HIDDEN))),
    "two_penalties": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1.5 * seen(w) - 2.5 * tf.cast(of_first(m, w), tf.float32), 40)),
    "penalty_of_stock_and_seen": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q)) - 1.5 * tf.cast(m.stock, tf.float32) - 1e9 * seen(w), 40)),
    "bonus_and_mask": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(listed(m, w), HIDDEN, products(m, q) + tf.where(of_first(m, w), 0.5, 0.0)))),
    "bonus_and_malus": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) + tf.where(m.genre == w[:, None], 0.5, -0.75), 40)),
    "factors_where": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, factors_where(m.genre == w[:, None], tf.sigmoid(products(m, q))), 40)),
    "sigmoid_between": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(listed(m, w), 0.5, tf.sigmoid(tf.where(of_first(m, w), products(m, q), -1.0))), 40)),
    "softmax_of_two": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.nn.softmax(tf.where(of_first(m, w), products(m, q), -1.0) - 1.5 * seen(w)))),
    "three_masks": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(listed(m, w), HIDDEN, products(m, q) + tf.where(m.genre == w[:, 1][:, None], 1.25, 0.0)) - 2.5 * tf.cast(of_first(m, w), tf.float32) + m.bias)),
    # A row of a table of flags, which the request picks.
    "shown": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.gather(m.shown, w), products(m, q), HIDDEN))),
    "visible": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.gather(m.visible, w) > 0, products(m, q), HIDDEN))),
    "visible_penalty": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) - 2.5 * (1.0 - tf.gather(m.visible, w)), 40)),
    "visible_logarithm": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) + tf.math.log(tf.gather(m.visible, w)))),
    "visible_times_sigmoid": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q)) * tf.gather(m.visible, w), 40)),
    "visible_one_hot": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) - 2.5 * (1.0 - tf.matmul(tf.one_hot(w - 1, 10), m.visible)), 40)),
    "not_visible_one_hot": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.matmul(tf.one_hot(w - 1, 10), m.visible) < 0.5, products(m, q), -1.5), 40)),
    "shown_in_stock": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.gather(m.shown, w) & m.stock & (m.genre != w[:, None]), products(m, q), HIDDEN))),
    "price_of_country": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.gather(m.prices, w) <= 0.5, products(m, q), -1e9))),
    "shown_of_slice": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.gather(m.shown, w), products(m, q), HIDDEN)[:, 3:])),
    "shown_of_columns": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(tf.transpose(tf.gather(m.countries, w, axis=1)), products(m, q), HIDDEN))),
    "visible_of_columns": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) - 2.5 * (1.0 - tf.matmul(tf.one_hot(w - 1, 10), number_of(m.countries), transpose_b=True)), 40)),
    # Flags that are added, compared, or the greatest of some.
    "flags_added": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1.5 * (seen(w) + (1.0 - tf.cast(m.stock, tf.float32))), 40)),
    "flags_of_three": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1e9 * (seen(w) + number_of(~m.stock) + number_of(of_first(m, w))), 40)),
    "flags_any": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(seen(w) + number_of(~m.stock) > 0, HIDDEN, products(m, q)))),
    "flags_both": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(seen(w) + number_of(of_first(m, w)) > 1.5, -1.0, products(m, q)), 40)),
    "flags_capped": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1.5 * tf.minimum(seen(w) + number_of(of_first(m, w)), 1.0), 40)),
    "flags_of_integers": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(tf.cast(seen(w), tf.int32) + tf.cast(~m.stock, tf.int32) == 0, products(m, q), -1e9), 40)),
    "flags_stacked": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1.5 * tf.reduce_max(tf.stack([seen(w), number_of(of_first(m, w))]), axis=0), 40)),
    "all_of_stack": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.where(tf.reduce_all(tf.stack([~listed(m, w), of_first(m, w)], axis=-1), axis=-1), products(m, q), HIDDEN))),
    "flags_weighed": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) + (0.5 * number_of(of_first(m, w)) - 0.75 * seen(w)) + m.bias, 40)),
    "flags_as_factors": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, tf.sigmoid(products(m, q)) * (1.0 + 0.25 * (seen(w) + number_of(of_first(m, w)))), 40)),
    "flags_none_kept": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) + tf.where(of_first(m, w), 0.25, tf.where(listed(m, w), -1.5, 0.5)), 40)),
    "five_bonuses": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, bonuses(m, w, products(m, q)), 40)),
    "choice_in_choice": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, nested(products(m, q), of_first(m, w), m.stock))),
    "changes_in_choice": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, changed(products(m, q), of_first(m, w), listed(m, w)), 40)),
    "five_masks": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, bonuses(m, w[:, 0], tf.where(listed(m, w), HIDDEN, products(m, q)), 4))),
    # No rules over columns, or too many: these stay dense.
    "two_factors": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) * tf.where(m.genre == w[:, None], 1.5, 0.75), 40)),
    "dense_turned_genre": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) * tf.where(m.genre == w[:, None], -1.0, 1.0), 40)),
    "dense_blend_of_two": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, blend(products(m, q), tf.where(m.genre == w[:, None], 2.0, 0.0)), 40)),
    "dense_six_bonuses": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, bonuses(m, w, products(m, q), 6), 40)),
    # Of hidden items no number is left behind a product with 0.
    "dense_blend_of_hidden": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, blend(tf.where(of_first(m, w), products(m, q), HIDDEN), seen(w)), 40)),
    "dense_weight_of_country": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, products(m, q) + tf.gather(m.prices, w), 40)),
    "dense_counts": ([QUERY, wanted(tf.int64, None)], lambda m, q, w: kept(m, products(m, q) - 1.5 * tf.reduce_sum(tf.one_hot(w, 40), axis=1), 40)),
    "two_scores": ([QUERY, wanted(tf.int64)], lambda m, q, w: kept(m, tf.where(m.stock, tf.where(m.genre == w[:, None], products(m, q), -1.0), HIDDEN))),
}
WANTED = {
    tf.int64: [[1], [3, 9, 0, 1, 2]],
    tf.string: [["en"], ["de", "zz", "", "fr", "日本"]],
    tf.float32: [[0.5], [5.0, -1.0, 0.25, 1.0, 0.125]],
}
LISTS = [[[3, 1, 39]], [[0, 1], [39, 39], [99, -1], [7, 8], [20, 0]]]


@model
def masked_searches(directory):
    """where(condition, scores, number) before top_k: by genre, language, price, stock, and by lists of items.
    Signatures named dense_ are no search."""
    module = tf.Module()
    module.items = tf.Variable(randoms(40, 8), name="items")
    module.ids = tf.Variable(ITEMS, name="ids")
    module.bias = tf.Variable(randoms(40), name="bias")
    module.genre = tf.Variable([i % 4 for i in range(40)], dtype=tf.int64, name="genre")
    module.numbers = tf.Variable(range(40), dtype=tf.int64, name="numbers")
    module.language = tf.Variable([["en", "de", "fr", "日本"][i * 7 % 5 % 4] for i in range(40)], name="language")
    module.stock = tf.Variable([i % 5 != 0 for i in range(40)], name="stock")
    module.price = tf.Variable([(i * 13 % 16) / 8 for i in range(40)], name="price")
    flags = np.random.default_rng(7).integers(0, 2, (10, 40))
    module.shown = tf.Variable(flags, dtype=tf.bool, name="shown")
    module.countries = tf.Variable(flags.T, dtype=tf.bool, name="countries")
    module.visible = tf.Variable(1 - flags, dtype=tf.float32, name="visible")
    module.prices = tf.Variable(np.random.default_rng(8).integers(0, 5, (10, 40)) / 4, dtype=tf.float32, name="prices")
    tf.saved_model.save(module, directory, signatures=signatures_of(module, MASKS))
    refused = ["shown", "visible", "visible_penalty", "shown_of_columns"]
    cases = [("error", {"query": ROWS[:1], "wanted": [10]}, name) for name in refused]
    for name, ((_, values), _) in MASKS.items():
        if name == "dense_blend_of_hidden":
            continue
        for want in LISTS if values.shape.rank == 2 else WANTED[values.dtype]:
            cases.append(("batch", {"query": ROWS[: len(want)], "wanted": want}, name))
    return cases


# --- equal scores ----------------------------------------------------------------------------------


def scored(m, q):
    return tf.matmul(q, m.items, transpose_b=True)


def of_genre(m, w, yes, no):
    return tf.where(m.genre == w[:, None], yes, no)


def above(x, threshold, rest):
    return tf.where(x > threshold, x, rest)


def unless_below(x, threshold, rest):
    return tf.where(x < threshold, rest, x)


TIED = {
    "serving_default": lambda m, q, w: tf.sigmoid(scored(m, q)),
    "tanh": lambda m, q, w: tf.tanh(scored(m, q)),
    "relu": lambda m, q, w: tf.nn.relu(scored(m, q) - 20.0),
    "relu6": lambda m, q, w: tf.nn.relu6(scored(m, q)),
    "rounded": lambda m, q, w: tf.round(scored(m, q) / 12.0),
    "floor": lambda m, q, w: tf.math.floor(scored(m, q) * 0.125),
    "masked_rint": lambda m, q, w: of_genre(m, w, tf.math.rint(scored(m, q) / 12.0), -1.0),
    "ceil": lambda m, q, w: tf.math.ceil(scored(m, q) * 0.125),
    "clipped": lambda m, q, w: tf.clip_by_value(scored(m, q), -9.0, 3.0),
    "at_most_of_query": lambda m, q, w: tf.minimum(scored(m, q), q[:, :1] * 4.0),
    "at_least": lambda m, q, w: tf.maximum(7.0, scored(m, q)),
    "beside_a_large_number": lambda m, q, w: scored(m, q) + q[:, 1:2] * 3e8,
    "beside_a_larger_number": lambda m, q, w: scored(m, q) - 1e30,
    "tiny": lambda m, q, w: tf.exp(scored(m, q) * -3.0),
    "softplus": lambda m, q, w: tf.nn.softplus(scored(m, q) - 95.0),
    "elu": lambda m, q, w: tf.nn.elu(scored(m, q) - 60.0),
    "selu": lambda m, q, w: tf.nn.selu(scored(m, q) - 60.0),
    "leaky_relu": lambda m, q, w: tf.nn.leaky_relu(scored(m, q) - 10.0, 0.125),
    "falling": lambda m, q, w: tf.sigmoid(-scored(m, q)),
    "sigmoid_of_bias": lambda m, q, w: tf.sigmoid(scored(m, q) * 2.0 + m.bias),
    "masked_sigmoid": lambda m, q, w: of_genre(m, w, tf.sigmoid(scored(m, q)), 0.0),
    "masked_by_the_best": lambda m, q, w: of_genre(m, w, tf.sigmoid(scored(m, q)), 1.0),
    "sigmoid_of_masked": lambda m, q, w: tf.sigmoid(of_genre(m, w, scored(m, q), -1e9)),
    "relu_of_masked_relu": lambda m, q, w: tf.nn.relu(of_genre(m, w, tf.minimum(scored(m, q), 8.0), -7.0) + 2.0),
    "of_query_of_masked": lambda m, q, w: tf.maximum(of_genre(m, w, scored(m, q), -np.inf), q[:, :1]),
    "threshold": lambda m, q, w: above(scored(m, q), 20.0, -np.inf),
    "threshold_of_query": lambda m, q, w: above(scored(m, q), q[:, :1] * 8.0, -np.inf),
    "threshold_of_sigmoid": lambda m, q, w: above(tf.sigmoid(scored(m, q) / 8.0), 0.5, 0.0),
    "threshold_of_bias": lambda m, q, w: unless_below(scored(m, q) + m.bias, 12.0, tf.float32.min) * 0.5,
    "threshold_of_opposite": lambda m, q, w: above(-scored(m, q), 4.0, -np.inf),
    "opposite_of_threshold": lambda m, q, w: -above(scored(m, q), -30.0, -np.inf),
    "threshold_or_zero": lambda m, q, w: unless_below(scored(m, q), 9.0, tf.zeros_like(scored(m, q))),
    "at_threshold": lambda m, q, w: (lambda x: tf.where(x <= 12.0, -1.0, x))(scored(m, q)),
    "softmax_of_threshold": lambda m, q, w: tf.nn.softmax(above(scored(m, q), 3.0, -np.inf) / 16.0),
    "masked_threshold": lambda m, q, w: of_genre(m, w, above(scored(m, q), 6.0, -np.inf), -np.inf),
    "threshold_of_masked": lambda m, q, w: above(of_genre(m, w, scored(m, q), -1e9), 2.0, -2.0),
    "cube": lambda m, q, w: tf.pow(scored(m, q), 3.0),
    "cube_of_masked": lambda m, q, w: of_genre(m, w, scored(m, q), -3.0) ** 3,
    "square_of_relu": lambda m, q, w: tf.square(tf.nn.relu(scored(m, q) + 2.0)),
    "power_of_sigmoid": lambda m, q, w: tf.sigmoid(scored(m, q) / 4.0) ** 1.5,
    "root_of_relu": lambda m, q, w: tf.pow(tf.nn.relu(scored(m, q)), 0.5),
    # These do not keep the order.
    "dense_square": lambda m, q, w: tf.square(scored(m, q)),
    "dense_better_rest": lambda m, q, w: above(scored(m, q), -5.0, 7.0),
    "dense_below_threshold": lambda m, q, w: unless_below(-scored(m, q), q[:, :1], -1e9),
    "dense_square_of_masked": lambda m, q, w: of_genre(m, w, tf.nn.relu(scored(m, q)), -3.0) ** 2,
}


@model
def tied_scores(directory):
    """Functions that keep the order of scores and make many of them equal, which TensorFlow ranks by row. All scores
    before the functions are small integers, so nothing depends on rounding. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(3)
    module.items = tf.Variable(numbers.integers(-6, 7, (40, 8)), dtype=tf.float32, name="items")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.genre = tf.Variable([i % 3 for i in range(40)], dtype=tf.int64, name="genre")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=9)
            return {"scores": values, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY, wanted(tf.int64)])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in TIED.items()})
    query = numbers.integers(-4, 5, (6, 8)).astype(float)
    query[4], query[5] = 0.0, [9.0, -3.0, 8.0, 7.0, -9.0, 5.0, 6.0, -8.0]
    asked = {"query": query.tolist(), "wanted": [0, 1, 2, 3, 1, 0]}
    return [("batch", asked, name) for name in TIED]


# --- several query vectors -------------------------------------------------------------------------


INTERESTS = spec(tf.float32, None, 3, 8, name="interests")


def each_of(m, q):
    """[queries, vectors, items]"""
    return tf.einsum("bvd,nd->bvn", q, m.items)


BEST_OF = {
    "serving_default": lambda m, q, w: tf.reduce_max(each_of(m, q), axis=1),
    "matmul": lambda m, q, w: tf.reduce_max(tf.matmul(q, m.items, transpose_b=True), axis=1),
    "tensordot": lambda m, q, w: tf.reduce_max(tf.tensordot(q, m.items, [[2], [1]]), axis=1),
    "items_before_vectors": lambda m, q, w: tf.reduce_max(tf.einsum("bvd,nd->bnv", q, m.items), axis=-1),
    "turned_items": lambda m, q, w: tf.reduce_max(tf.linalg.matmul(q, tf.transpose(m.items)), axis=-2),
    "multiplied": lambda m, q, w: tf.reduce_max(tf.reduce_sum(q[:, :, None, :] * m.items, axis=3), axis=1),
    "cosine": lambda m, q, w: tf.reduce_max(tf.einsum("bvd,nd->bvn", tf.math.l2_normalize(q, -1), tf.math.l2_normalize(m.items, -1)), axis=1),
    "bias": lambda m, q, w: tf.reduce_max(each_of(m, q), axis=1) * 2.0 + m.bias,
    "sigmoid": lambda m, q, w: tf.sigmoid(tf.reduce_max(each_of(m, q), axis=1) / 0.25),
    "opposite": lambda m, q, w: tf.reduce_max(-each_of(m, q), axis=1),
    "scaled_each": lambda m, q, w: tf.reduce_max(each_of(m, q) / 0.07, axis=1),
    "bias_of_each": lambda m, q, w: tf.reduce_max(each_of(m, q) + m.bias, axis=1),
    "sigmoid_of_each": lambda m, q, w: tf.reduce_max(tf.sigmoid(each_of(m, q)), axis=1),
    "masked": lambda m, q, w: of_genre(m, w, tf.reduce_max(each_of(m, q), axis=1), -np.inf),
    "masked_sigmoid": lambda m, q, w: of_genre(m, w, tf.sigmoid(tf.reduce_max(each_of(m, q), axis=1)), 0.5),
    "penalised": lambda m, q, w: tf.reduce_max(each_of(m, q), axis=1) - 30.0 * tf.cast(m.genre == w[:, None], tf.float32),
    # The best of all queries, and the least of the vectors, are other questions.
    "dense_least": lambda m, q, w: tf.reduce_min(each_of(m, q), axis=1),
    "dense_falling": lambda m, q, w: -tf.reduce_max(each_of(m, q), axis=1),
    "items_on_the_left": lambda m, q, w: tf.reduce_max(tf.matmul(m.items, q, transpose_b=True), axis=-1),
    "turned_vectors": lambda m, q, w: tf.reduce_max(tf.matmul(m.items[None], tf.transpose(q, [0, 2, 1])), axis=2),
    "turned_scores": lambda m, q, w: tf.reduce_max(tf.transpose(each_of(m, q), [0, 2, 1]), axis=2),
    "kept_axis": lambda m, q, w: tf.squeeze(tf.reduce_max(each_of(m, q), axis=1, keepdims=True), 1) + m.bias,
    "sum": lambda m, q, w: tf.reduce_sum(each_of(m, q) * 0.5, axis=1) + m.bias,
    "mean": lambda m, q, w: tf.nn.relu(tf.reduce_mean(each_of(m, 3.0 * q), axis=1)),
    "dense_sum_of_bounded": lambda m, q, w: tf.reduce_sum(tf.nn.relu(each_of(m, q)), axis=1),
}


@model
def several_interests(directory):
    """The best of several query vectors for each item, before top_k. All products are of small integers except those
    named cosine, so many scores tie. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(5)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.genre = tf.Variable([i % 3 for i in range(40)], dtype=tf.int64, name="genre")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(function):
        def serve(interests, wanted):
            values, rows = tf.math.top_k(function(module, interests, wanted), k=9)
            return {"scores": values, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[INTERESTS, wanted(tf.int64)])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in BEST_OF.items()})
    interests = numbers.integers(-3, 4, (5, 3, 8)).astype(float)
    interests[3], interests[4, 1:] = 0.0, interests[4, 0]
    asked = {"interests": interests.tolist(), "wanted": [0, 1, 2, 3, 1]}
    one = {"interests": interests[:1].tolist(), "wanted": [2]}
    return [("batch", each, name) for name in BEST_OF for each in (asked, one)]


# --- items that changed after the export -----------------------------------------------------------


CHANGED = randoms(46, 8)


def normal_rows(x):
    return tf.math.l2_normalize(x, axis=1)


def layered(m, x):
    return tf.nn.relu(tf.matmul(x, m.kernel) + m.offset)


UPDATED_ITEMS = {
    "serving_default": lambda m, q: products(m, q),
    "cosine": lambda m, q: tf.matmul(normal_rows(q), normal_rows(m.items), transpose_b=True),
    "distance": lambda m, q: -tf.reduce_sum(tf.math.squared_difference(tf.expand_dims(q, 1), m.items), -1),
    "tower": lambda m, q: tf.matmul(q, layered(m, m.items), transpose_b=True),
    "softmax": lambda m, q: tf.nn.softmax(products(m, q)),
}


def with_items(directory, names, rows):
    """Saves a model of these items."""
    module = tf.Module()
    module.items = tf.Variable(rows, name="items")
    module.kernel = tf.Variable(randoms(8, 8), name="kernel")
    module.offset = tf.Variable(randoms(8), name="offset")
    module.ids = tf.Variable(names, name="ids")

    def signature(function):
        def serve(query):
            values, found = tf.math.top_k(function(module, query), k=9)
            return {"scores": values, "ids": tf.gather(module.ids, found)}

        return tf.function(serve, input_signature=[QUERY])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in UPDATED_ITEMS.items()})


@model
def updated_items(directory):
    """TensorFlow was asked with all items as they are in the end. What is served is the model of before with a file of
    changes to its items: three are new, two have other vectors, and one is gone."""
    order = [i for i in range(40) if i not in (0, 3, 17, 31)] + [3, 40, 17, 41, 42, 0]
    vectors = CHANGED.copy()
    vectors[[3, 17]] = CHANGED[[43, 44]]
    with_items(directory, [f"item {i:02d}" for i in order], vectors[order])
    return [("batch", {"query": rows}, name) for name in UPDATED_ITEMS for rows in (ROWS, ROWS[:1])]


def before_updates(directory):
    with_items(directory, ITEMS, CHANGED[:40])
    changes = [(3, 45), (40, 45), (3, 43), (40, 40), (31, None), (17, 44), (41, 41), (42, 42), (0, None), (0, 0)]
    beside = pathlib.Path(directory) / "assets.extra"
    beside.mkdir()
    with open(beside / "item-updates.jsonl", "w") as file:
        for item, row in changes:
            change = {"removed": True} if row is None else {"vector": CHANGED[row].tolist()}
            file.write(json.dumps({"id": f"item {item:02d}", **change}) + "\n")


updated_items.served = before_updates


# --- distances -------------------------------------------------------------------------------------


def squares(x, keepdims=False):
    return tf.reduce_sum(tf.square(x), axis=1, keepdims=keepdims)


def apart(m, q):
    """[queries, items, dim]"""
    return tf.expand_dims(q, 1) - tf.expand_dims(m.items, 0)


def expanded(m, q):
    return squares(q, True) - 2.0 * scored(m, q) + squares(m.items)


def direct(m, q):
    return tf.reduce_sum(tf.square(apart(m, q)), axis=2)


DISTANCES = {
    "serving_default": lambda m, q: -direct(m, q),
    "expanded": lambda m, q: -expanded(m, q),
    "without_query": lambda m, q: 2.0 * scored(m, q) - squares(m.items)[None, :],
    "squares_first": lambda m, q: -(squares(m.items)[None, :] + squares(q, True) - 2.0 * scored(m, q)),
    "squares_by_product": lambda m, q: scored(m, q) * 2 - tf.reduce_sum(m.items * m.items, -1),
    "turned": lambda m, q: -(squares(q, True) - 2.0 * tf.matmul(q, m.items, transpose_b=True) + tf.transpose(squares(m.items, True))),
    "halved": lambda m, q: scored(m, q) - 0.5 * squares(m.items),
    "euclidean": lambda m, q: -tf.sqrt(direct(m, q)),
    "euclidean_of_expanded": lambda m, q: -tf.sqrt(tf.maximum(expanded(m, q), 0.0)),
    "norm": lambda m, q: -tf.norm(apart(m, q), axis=-1),
    "norm_squared": lambda m, q: tf.negative(tf.reduce_sum(tf.math.squared_difference(q[:, tf.newaxis, :], m.items[tf.newaxis]), -1)),
    "items_first": lambda m, q: -tf.reduce_sum((m.items - q[:, None]) ** 2, axis=-1),
    "similarity": lambda m, q: 1.0 / (1.0 + direct(m, q)),
    "similarity_of_root": lambda m, q: 1.0 / (1.0 + tf.sqrt(direct(m, q))),
    "similarity_of_norm": lambda m, q: tf.math.reciprocal(tf.norm(apart(m, q), axis=2) / 4.0 + 1.0),
    # By its terms a distance may be below 0.
    "dense_similarity_of_terms": lambda m, q: 1.0 / (1.0 + expanded(m, q)),
    "gaussian": lambda m, q: tf.exp(-direct(m, q) / 64.0),
    "biased": lambda m, q: m.bias - direct(m, q),
    "opposite_sigmoid": lambda m, q: -tf.sigmoid(direct(m, q) / 40.0 - 1.0),
    "bias_of_row": lambda m, q: scored(m, q) + m.bias[tf.newaxis, :],
    "of_columns": lambda m, q: -(squares(q, True) - 2.0 * tf.matmul(q, m.kernel) + tf.reduce_sum(m.kernel**2, 0)),
    "farthest": lambda m, q: direct(m, q),
    "dense_city_block": lambda m, q: -tf.reduce_sum(tf.abs(apart(m, q)), axis=2),
}


@model
def distances(directory):
    """The nearest items: squared and plain distances, expanded or of differences. Items and queries have integers, so
    squares are exact. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(11)
    items = numbers.integers(-3, 4, (40, 8))
    module.items = tf.Variable(items, dtype=tf.float32, name="items")
    module.kernel = tf.Variable(items.T, dtype=tf.float32, name="kernel")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(function):
        def serve(query):
            values, rows = tf.math.top_k(function(module, query), k=9)
            return {"scores": values, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in DISTANCES.items()})
    query = numbers.integers(-3, 4, (5, 8)).astype(float)
    # Itself an item, nothing, and far from all.
    query[2], query[3], query[4] = items[7], 0.0, 100.0
    return [("batch", {"query": each.tolist()}, name) for name in DISTANCES for each in (query, query[2:3])]


# --- hidden items ----------------------------------------------------------------------------------


HIDDEN_ITEMS = {
    "serving_default": lambda m, q, w: scored(m, q) + m.padding,
    "all": lambda m, q, w: m.padding + scored(m, q),
    "constant": lambda m, q, w: scored(m, q) + tf.constant([-np.inf] + [0.0] * 39),
    "subtracted": lambda m, q, w: scored(m, q) - tf.where(m.stock > 0.5, 0.0, np.inf),
    "logarithm": lambda m, q, w: scored(m, q) + tf.math.log(m.stock),
    "penalty": lambda m, q, w: scored(m, q) - (1.0 - m.stock) * 1e9,
    "popularity": lambda m, q, w: 0.75 * scored(m, q) + 0.25 * tf.math.log1p(m.views),
    "popularity_of_integers": lambda m, q, w: scored(m, q) + tf.sqrt(tf.cast(m.genre, tf.float32))[tf.newaxis, :],
    "scaled": lambda m, q, w: (scored(m, q) + m.padding) / 0.5 + m.views,
    "turned": lambda m, q, w: m.padding - scored(m, q),
    "of_genre": lambda m, q, w: of_genre(m, w, scored(m, q) + m.padding, -np.inf),
    "before_sigmoid": lambda m, q, w: tf.sigmoid(scored(m, q) + m.padding),
    "before_clip": lambda m, q, w: tf.maximum(scored(m, q) + m.padding, -5.0),
    # No item comes before all others, and hidden items have one score.
    "dense_first": lambda m, q, w: scored(m, q) - m.padding,
    "two_scores": lambda m, q, w: of_genre(m, w, scored(m, q) + m.padding, -1e9),
}


@model
def hidden_items(directory):
    """Biases that are minus infinity for some items, or computed of what is stored of each item. All scores but those
    of popularity are integers. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(13)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    padding = numbers.integers(-9, 9, 40).astype(np.float32)
    padding[[0, 7, 8, 39]] = -np.inf
    module.padding = tf.Variable(padding, name="padding")
    module.stock = tf.Variable([float(i % 5 != 0) for i in range(40)], name="stock")
    module.views = tf.Variable([float(i * 17 % 23) for i in range(40)], name="views")
    module.genre = tf.Variable([i % 3 for i in range(40)], dtype=tf.int64, name="genre")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(name, function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=40 if name == "all" else 12)
            return {"scores": values, "ids": tf.gather(module.ids, rows), "genres": tf.gather(module.genre, rows)}

        return tf.function(serve, input_signature=[QUERY, wanted(tf.int64)])

    signatures = {name: signature(name, function) for name, function in HIDDEN_ITEMS.items()}
    tf.saved_model.save(module, directory, signatures=signatures)
    query = numbers.integers(-3, 4, (5, 8)).astype(float)
    query[3] = 0.0
    asked = {"query": query.tolist(), "wanted": [0, 1, 2, 3, 1]}
    return [("batch", asked, name) for name in HIDDEN_ITEMS]


# --- slices of the candidates ----------------------------------------------------------------------


def best(q, items):
    return tf.math.top_k(tf.matmul(q, items, transpose_b=True), k=9)


def found(scores_and_rows, ids, offset=0):
    scores, rows = scores_and_rows
    return {"scores": scores, "rows": rows + offset, "ids": tf.gather(ids, rows + offset)}


SLICES = {
    "serving_default": lambda m, q: found(best(q, m.items[1:]), m.ids, 1),
    "ids_alike": lambda m, q: found(best(q, m.items[1:]), m.ids[1:]),
    "without_last": lambda m, q: found(best(q, m.items[:-2]), m.ids),
    "middle": lambda m, q: found(tf.math.top_k(tf.matmul(q, m.items[3:30], transpose_b=True) + m.bias[3:30], k=9), m.numbers, 3),
    "numbers": lambda m, q: found(best(q, m.items[2:, :]), m.numbers[2:]),
    "normalised": lambda m, q: found(best(q, tf.nn.l2_normalize(m.items[1:], axis=1)), m.ids, 1),
    "half": lambda m, q: found(best(q, tf.cast(m.half[1:], tf.float32)), tf.constant(ITEMS), 1),
    "in_slices": lambda m, q: found(best(q, tf.slice(m.items, [5, 0], [35, 8])[1:]), m.ids, 6),
    "all_of_it": lambda m, q: found(best(q, m.items[0:]), m.ids),
    "columns": lambda m, q: found(best(q[:, :4], m.items[:, :4]), m.ids),
    "dense_every_other": lambda m, q: found(best(q, m.items[::2]), m.ids),
}


@model
def sliced_candidates(directory):
    """Searches of a part of the stored items: without the row of a padding, without the last ones. Signatures named
    dense_ are no search."""
    module = tf.Module()
    module.items = tf.Variable(randoms(40, 8), name="items")
    module.half = tf.Variable(randoms(40, 8), dtype=tf.float16, name="half")
    module.bias = tf.Variable(randoms(40), name="bias")
    module.ids = tf.Variable(ITEMS, name="ids")
    module.numbers = tf.Variable(range(100, 140), dtype=tf.int64, name="numbers")
    functions = {name: ([QUERY], function) for name, function in SLICES.items()}
    tf.saved_model.save(module, directory, signatures=signatures_of(module, functions))
    return [("batch", {"query": ROWS}, name) for name in SLICES]


# --- items that are computed in the graph ----------------------------------------------------------


def counts(w):
    return tf.reduce_sum(tf.one_hot(w, 40), axis=1)


COMPUTED = {
    "serving_default": lambda m, q, w: tf.matmul(q, tf.matmul(m.items, m.kernel), transpose_b=True),
    "projected_columns": lambda m, q, w: tf.matmul(q, tf.matmul(m.kernel, m.items, transpose_a=True, transpose_b=True)),
    "moved": lambda m, q, w: tf.matmul(q, m.items + m.centre, transpose_b=True) * 2.0 + m.bias,
    "weighted_dimensions": lambda m, q, w: tf.matmul(q, m.items * m.centre, transpose_b=True),
    "cosine_of_all": lambda m, q, w: tf.reduce_sum(tf.math.l2_normalize(q[:, None], -1) * tf.math.l2_normalize(m.items[None], -1), -1),
    "cosine_similarity": lambda m, q, w: -tf.keras.losses.cosine_similarity(q[:, None, :], m.items[None, :, :], axis=-1),
    "dense_cosine_of_columns": lambda m, q, w: tf.reduce_sum(q[:, None] * tf.math.l2_normalize(m.items[None], 1), 2),
    "divided_dimensions": lambda m, q, w: tf.matmul(q, tf.transpose(m.items / m.scales[0])),
    "tower_of_one_layer": lambda m, q, w: tf.matmul(q, tf.nn.bias_add(tf.matmul(m.items, m.kernel), m.centre), transpose_b=True),
    "dequantised": lambda m, q, w: tf.matmul(q, tf.cast(m.codes, tf.float32) * m.scales, transpose_b=True),
    "dequantised_scores": lambda m, q, w: tf.matmul(q, tf.cast(m.codes, tf.float32), transpose_b=True) * m.scales[:, 0],
    "masked_projection": lambda m, q, w: tf.where(counts(w) > 0, -np.inf, tf.matmul(q, m.items @ m.kernel, transpose_b=True)),
    "projection_without_first": lambda m, q, w: tf.matmul(q, m.items @ m.kernel, transpose_b=True)[:, 1:],
    "logarithm_of_share": lambda m, q, w: scored(m, q) - tf.math.log((m.views + 1.0) / tf.reduce_sum(m.views + 1.0)),
    "product_of_each_query": lambda m, q, w: tf.squeeze(tf.matmul(m.items[None], q[:, :, None]), -1),
    "tiled_vectors": lambda m, q, w: tf.reduce_max(tf.matmul(tf.tile(m.centre[None, None], [tf.shape(q)[0], 3, 1]) * q[:, None], m.items, transpose_b=True), 1),
    "first_replaced": lambda m, q, w: tf.concat([tf.fill([tf.shape(q)[0], 1], -np.inf), scored(m, q)[:, 1:]], 1),
    "ends_replaced": lambda m, q, w: tf.concat([tf.fill([tf.shape(q)[0], 2], -4.0), scored(m, q)[:, 2:37], tf.fill([tf.shape(q)[0], 3], -4.0)], 1),
    "counts_up_to_one": lambda m, q, w: scored(m, q) - 1e6 * tf.minimum(counts(w), 1.0),
    "clipped_counts": lambda m, q, w: scored(m, q) - 8.0 * tf.clip_by_value(counts(w), 0.0, 1.0),
    "activation": lambda m, q, w: tf.matmul(q, tf.nn.relu(m.items), transpose_b=True),
    "two_tables": lambda m, q, w: scored(m, q) + tf.matmul(q, m.others, transpose_b=True),
    "weighed_tables": lambda m, q, w: 0.5 * scored(m, q) - q[:, :1] * tf.matmul(q[:, ::-1], m.others @ m.kernel, transpose_b=True) / 4.0,
    "two_queries": lambda m, q, w: tf.matmul(q, m.items, transpose_b=True) + 2.0 * tf.einsum("bd,nd->bn", tf.nn.relu(q), m.items) + m.bias,
    "three_tables": lambda m, q, w: tf.add_n([scored(m, q), tf.matmul(q, m.others, transpose_b=True), -tf.matmul(q @ m.kernel, m.others, transpose_b=True)])[:, 2:],
    "longer_vectors": lambda m, q, w: tf.matmul(tf.concat([q, -q], 1), tf.concat([m.items, m.others], 1), transpose_b=True),
    # No search finds the best of these.
    "dense_product_of_two": lambda m, q, w: scored(m, q) * tf.matmul(q, m.others, transpose_b=True),
    "dense_two_replaced": lambda m, q, w: tf.concat([tf.fill([tf.shape(q)[0], 1], 9.0), scored(m, q)[:, 1:39], tf.fill([tf.shape(q)[0], 1], -9.0)], 1),
}


@model
def computed_items(directory):
    """Items that the graph projects, moves, weighs or restores from int8 before the product, and scores of which some
    are replaced. All numbers are small integers or powers of 2, except those of logarithms. Signatures named dense_
    are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(17)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.others = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="others")
    module.codes = tf.Variable(numbers.integers(-127, 128, (40, 8)), dtype=tf.int8, name="codes")
    module.scales = tf.Variable(2.0 ** numbers.integers(-3, 3, (40, 1)), dtype=tf.float32, name="scales")
    module.kernel = tf.Variable(numbers.integers(-2, 3, (8, 8)), dtype=tf.float32, name="kernel")
    module.centre = tf.Variable(numbers.integers(-4, 5, 8), dtype=tf.float32, name="centre")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.views = tf.Variable([float(i * 17 % 23) for i in range(40)], name="views")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY, wanted(tf.int64, None)])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in COMPUTED.items()})
    query = numbers.integers(-3, 4, (4, 8)).astype(float)
    query[3] = 0.0
    asked = {"query": query.tolist(), "wanted": [[0, 7, 7], [39, 38, 37], [1, -1, 40], [5, 6, 5]]}
    return [("batch", asked, name) for name in COMPUTED]


# --- sequences -------------------------------------------------------------------------------------


def of_all(m, h):
    """[queries, positions, items]"""
    return tf.matmul(h, m.items, transpose_b=True)


def last(m, h):
    return tf.matmul(h[:, -1], m.items, transpose_b=True)


def side_by_side(m, q):
    return tf.concat([tf.matmul(q, m.first, transpose_b=True), tf.matmul(q, m.second, transpose_b=True)], axis=1)


def lengths(w):
    return tf.reduce_sum(tf.cast(w > 0, tf.int32), 1)


def pairs_of(w):
    queries = tf.range(tf.shape(w, tf.int64)[0])
    return tf.reshape(tf.stack([tf.repeat(queries, tf.shape(w)[1]), tf.reshape(w, [-1])], 1), [-1, 2])


def bins(w, binary=True):
    return tf.math.bincount(w, minlength=40, maxlength=40, axis=-1, binary_output=binary)


SEQUENCES = {
    "serving_default": lambda m, h, w: of_all(m, h)[:, -1, :],
    "letters": lambda m, h, w: tf.einsum("btd,nd->btn", h, m.items)[:, -1],
    "axes": lambda m, h, w: tf.tensordot(h, m.items, [[2], [1]])[:, -1, :],
    "layer": lambda m, h, w: tf.nn.bias_add(tf.tensordot(h, m.kernel, 1), m.bias)[:, -1, :],
    "flattened": lambda m, h, w: tf.reshape(tf.matmul(tf.reshape(h, [-1, 8]), m.items, transpose_b=True), [tf.shape(h)[0], -1, 40])[:, -1, :],
    "softmax_of_all": lambda m, h, w: tf.nn.softmax((of_all(m, h) + m.bias) / 16.0)[:, -1, :],
    "kept_axis": lambda m, h, w: tf.squeeze(of_all(m, h)[:, -1:, :], 1),
    "without_first_item": lambda m, h, w: of_all(m, h)[:, -1, 1:],
    "second": lambda m, h, w: tf.gather(of_all(m, h), 1, axis=1),
    "last_of_each": lambda m, h, w: tf.gather(of_all(m, h) * 0.5, lengths(w) - 1, batch_dims=1),
    "pairs": lambda m, h, w: tf.gather_nd(of_all(m, h), tf.stack([tf.range(tf.shape(h)[0]), lengths(w) - 1], 1)),
    "hidden": lambda m, h, w: (of_all(m, h) + m.padding)[:, -1],
    "masked": lambda m, h, w: tf.where(counts(w) > 0, -np.inf, of_all(m, h)[:, -1] + m.padding),
    "scattered_and_hidden": lambda m, h, w: tf.tensor_scatter_nd_update(last(m, h), pairs_of(w), tf.fill([tf.size(w)], -np.inf)) + m.padding,
    "scattered_ones": lambda m, h, w: tf.tensor_scatter_nd_update(last(m, h), pairs_of(w), tf.ones(tf.size(w)) * -1e9),
    "bins": lambda m, h, w: tf.where(bins(w) > 0, -np.inf, last(m, h)),
    "bins_as_floats": lambda m, h, w: last(m, h) - 8.0 * tf.cast(bins(w), tf.float32),
    "capped_bins": lambda m, h, w: last(m, h) - 8.0 * tf.minimum(tf.cast(bins(w, False), tf.float32), 1.0),
    "multi_hot": lambda m, h, w: last(m, h) - 1e9 * tf.keras.layers.CategoryEncoding(40, output_mode="multi_hot")(w),
    "first_padded": lambda m, h, w: tf.pad(last(m, h)[:, 1:], [[0, 0], [1, 0]], constant_values=-1e9),
    "first_of_zeros": lambda m, h, w: tf.concat([tf.zeros_like(last(m, h)[:, :1]) - 4.0, last(m, h)[:, 1:]], 1),
    "two_tables": lambda m, h, w: tf.where(bins(w) > 0, -np.inf, side_by_side(m, h[:, -1]) + m.bias),
    # Each position has a value of its own, or the best of them counts, of which there may be any number.
    "dense_by_position": lambda m, h, w: (of_all(m, h) + h[:, :, :1])[:, -1],
    "dense_best_position": lambda m, h, w: tf.reduce_max(of_all(m, h), 1),
    "dense_counts": lambda m, h, w: last(m, h) - 8.0 * tf.cast(bins(w, False), tf.float32),
}


@model
def sequence_scores(directory):
    """Scores of all positions of a sequence, of which one is ranked, and the spellings in which sequence models hide
    their padding and what a user has seen. All numbers are small integers, those of the softmax halves of them. Signatures
    named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(61)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.kernel = tf.Variable(numbers.integers(-3, 4, (8, 40)), dtype=tf.float32, name="kernel")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.first = tf.Variable(numbers.integers(-3, 4, (25, 8)), dtype=tf.float32, name="first")
    module.second = tf.Variable(numbers.integers(-3, 4, (15, 8)), dtype=tf.float32, name="second")
    padding = numbers.integers(-2, 3, 40).astype(np.float32)
    padding[[0, 7]] = -np.inf
    module.padding = tf.Variable(padding, name="padding")
    module.ids = tf.Variable(ITEMS, name="ids")

    inputs = [spec(tf.float32, None, None, 8, name="states"), wanted(tf.int64, None)]

    def signature(function):
        def serve(states, wanted):
            values, rows = tf.math.top_k(function(module, states, wanted), k=9)
            return {"scores": values, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=inputs)

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in SEQUENCES.items()})
    states = numbers.integers(-3, 4, (4, 5, 8)).astype(float)
    states[3] = 0.0
    asked = {"states": states.tolist(), "wanted": [[0, 7, 7], [39, 38, 37], [1, 0, 0], [5, 6, 5]]}
    one = {"states": states[:1, :3].tolist(), "wanted": [[12]]}
    return [("batch", each, name) for name in SEQUENCES for each in (asked, one)]


@model
def saved_layers(directory):
    """Layers of Keras 3 that tf.saved_model.save saves: each of their variables has two handles, of which the graph restores
    the other one, and layers of a subclassed model name theirs alike. TensorFlow's session loader answers FAILED_PRECONDITION
    for such an export; these answers are those of tf.saved_model.load."""
    layers = tf.keras.layers

    class Sequence(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.items, self.places = layers.Embedding(40, 8), layers.Embedding(5, 8)
            self.inner, self.outer = layers.Dense(8, activation="relu"), layers.Dense(8)

        def call(self, history):
            state = self.items(history) + self.places(tf.range(5))
            return tf.matmul(self.outer(self.inner(state)), self.items.embeddings, transpose_b=True)

    numbers = np.random.default_rng(67)
    made = Sequence()
    made(tf.zeros([1, 5], tf.int64))
    for weights in made.trainable_variables:
        weights.assign(numbers.integers(-2, 3, weights.shape))

    def serve(history):
        values, rows = tf.math.top_k(made(history)[:, -1], k=6)
        return {"scores": values, "rows": rows}

    signature = tf.function(serve, input_signature=[spec(tf.int64, None, 5, name="history")])
    tf.saved_model.save(made, directory, signatures=signature)
    return [("batch", {"history": [[0, 0, 3, 9, 39], [4, 4, 4, 4, 4]]}), ("one", {"history": [[1, 2, 3, 4, 5]]})]


# --- searches in two bytes a value -----------------------------------------------------------------


def in_half(m, q):
    return tf.matmul(tf.cast(q, tf.half), m.halves, transpose_b=True)


def in_bfloat16(m, q):
    return tf.matmul(tf.cast(q, tf.bfloat16), m.bfloats, transpose_b=True)


def layer_in(dtype, m, x):
    return tf.nn.relu(tf.matmul(x, tf.cast(m.kernel, dtype)) + tf.cast(m.centre, dtype))


NARROW_SEARCHES = {
    "serving_default": lambda m, q, w: in_half(m, q),
    "bfloat16": lambda m, q, w: in_bfloat16(m, q),
    "of_float32": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.cast(m.items, tf.half), transpose_b=True),
    "columns": lambda m, q, w: tf.matmul(tf.cast(q, tf.bfloat16), tf.transpose(m.bfloats)),
    "bfloat16_items_of_half_query": lambda m, q, w: tf.matmul(tf.cast(tf.cast(q, tf.half), tf.bfloat16), m.bfloats, transpose_b=True),
    "temperature": lambda m, q, w: in_half(m, q) / tf.cast(m.temperature, tf.half),
    "temperature_of_float32": lambda m, q, w: tf.cast(in_bfloat16(m, q), tf.float32) / m.temperature,
    "many_steps": lambda m, q, w: tf.nn.relu(in_bfloat16(m, q) / tf.cast(m.temperature, tf.bfloat16) - 3.0) * 0.25,
    "sigmoid": lambda m, q, w: tf.sigmoid(tf.cast(in_half(m, q), tf.float32) / 1024.0),
    "logarithm": lambda m, q, w: tf.math.log(tf.cast(tf.nn.relu(in_half(m, q)), tf.float32) + 1.0),
    "softmax": lambda m, q, w: tf.nn.softmax(tf.cast(in_bfloat16(m, q), tf.float32) / 1024.0),
    "half_to_half": lambda m, q, w: in_half(m, q),
    "opposite": lambda m, q, w: -in_half(m, q),
    "masked": lambda m, q, w: tf.where(counts(w) > 0, tf.constant(tf.half.min, tf.half), in_half(m, q)),
    "masked_behind": lambda m, q, w: tf.where(counts(w) > 0, -np.inf, tf.cast(in_bfloat16(m, q), tf.float32)),
    "without_first": lambda m, q, w: in_bfloat16(m, q)[:, 1:],
    "best_of_two": lambda m, q, w: tf.reduce_max(tf.einsum("bvd,nd->bvn", tf.cast(tf.stack([q, q[:, ::-1]], 1), tf.bfloat16), m.bfloats), axis=1),
    "projected": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.matmul(tf.cast(m.items, tf.half), tf.cast(m.kernel, tf.half)), transpose_b=True),
    "tower": lambda m, q, w: tf.matmul(tf.cast(q, tf.bfloat16), layer_in(tf.bfloat16, m, tf.cast(m.small, tf.bfloat16)), transpose_b=True),
    "tower_of_half": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), layer_in(tf.half, m, m.halves * 7.0), transpose_b=True),
    "normalised": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.math.l2_normalize(m.halves, 1), transpose_b=True),
    "keras_half": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), m.half_tower(tf.constant(ITEMS)), transpose_b=True),
    "keras_bfloat16": lambda m, q, w: tf.matmul(tf.cast(q, tf.bfloat16), m.bfloat16_tower(tf.constant(ITEMS)), transpose_b=True),
    "overflowing": lambda m, q, w: in_half(m, q * 30.0),
    "columns_of_float32": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.cast(m.columns, tf.half)),
    "turned_of_float32": lambda m, q, w: tf.matmul(tf.cast(q, tf.bfloat16), tf.transpose(tf.cast(m.items, tf.bfloat16))),
    "columns_without_first": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.cast(m.columns, tf.half))[:, 1:],
    "normalised_float32": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.cast(tf.math.l2_normalize(m.items, 1), tf.half), transpose_b=True),
    # Scores are rounded once, behind the bias: the products before it are whole numbers that half has.
    "bias": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.cast(m.signs, tf.half), transpose_b=True) + tf.cast(m.bias * 64.0, tf.half),
    "bias_before_mask": lambda m, q, w: tf.where(counts(w) > 0, tf.constant(-np.inf, tf.half), tf.matmul(tf.cast(q, tf.half), tf.cast(m.signs, tf.half), transpose_b=True) / 2.0 + tf.cast(m.bias * 64.0, tf.half)),
    "factor": lambda m, q, w: tf.matmul(tf.cast(q, tf.half), tf.cast(m.signs, tf.half), transpose_b=True) * tf.cast(m.bias, tf.half),
    "keras_head": lambda m, q, w: m.head(tf.cast(q, tf.half)),
    "keras_head_of_bfloat16": lambda m, q, w: m.bfloat16_head(tf.cast(q, tf.bfloat16)),
    # Nothing rounds behind this bias.
    "dense_bias": lambda m, q, w: tf.cast(in_half(m, q), tf.float32) + m.bias,
}


@model
def narrow_searches(directory):
    """Searches that the graph computes in half or bfloat16, as under Keras' policies of mixed precision. All numbers are
    integers, whose products round, and of whose scores many are equal then; between layers of bfloat16 nothing is
    rounded, since TensorFlow may put two of these together. Recorded with oneDNN (TF_ENABLE_ONEDNN_OPTS=1, TensorFlow's
    default on x86): without it, products of bfloat16 are cut instead of rounded. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(53)
    items = numbers.integers(-60, 61, (40, 8))
    module.items = tf.Variable(items, dtype=tf.float32, name="items")
    module.halves = tf.Variable(items, dtype=tf.half, name="halves")
    module.bfloats = tf.Variable(items, dtype=tf.bfloat16, name="bfloats")
    module.columns = tf.Variable(items.T, dtype=tf.float32, name="columns")
    module.signs = tf.Variable(numbers.integers(-2, 3, (40, 8)), dtype=tf.float32, name="signs")
    module.small = tf.Variable(numbers.integers(-9, 10, (40, 8)), dtype=tf.float32, name="small")
    module.kernel = tf.Variable(numbers.integers(-2, 3, (8, 8)), dtype=tf.float32, name="kernel")
    module.centre = tf.Variable(numbers.integers(-4, 5, 8), dtype=tf.float32, name="centre")
    module.temperature = tf.Variable(3.0, name="temperature")
    module.bias = tf.Variable(numbers.integers(-99, 99, 40), dtype=tf.float32, name="bias")
    module.ids = tf.Variable(ITEMS, name="ids")

    def tower(policy):
        layers = tf.keras.layers
        parts = [layers.Embedding(41, 6, dtype=policy), layers.Dense(12, activation="relu", dtype=policy), layers.Dense(8, dtype=policy)]
        made = tf.keras.Sequential([layers.StringLookup(vocabulary=ITEMS), *parts])
        made(tf.constant(ITEMS[:1]))
        for weights in made.trainable_variables:
            weights.assign(numbers.integers(-1, 2, weights.shape))
        return made

    module.half_tower = tower("mixed_float16")
    module.bfloat16_tower = tower("mixed_bfloat16")

    def head(policy):
        made = tf.keras.Sequential([tf.keras.layers.Dense(40, dtype=policy), tf.keras.layers.Activation("softmax", dtype="float32")])
        made(tf.zeros([1, 8]))
        kernel, bias = made.trainable_variables
        kernel.assign(numbers.integers(-2, 3, kernel.shape) / 512)
        bias.assign(numbers.integers(-8, 9, bias.shape) / 4)
        return made

    module.head = head("mixed_float16")
    module.bfloat16_head = head("mixed_bfloat16")

    def signature(name, function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=9)
            rows = rows + (1 if name.endswith("without_first") else 0)
            values = values if name == "half_to_half" else tf.cast(values, tf.float32)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        query = spec(tf.half, None, 8, name="query") if name == "half_to_half" else QUERY
        return tf.function(serve, input_signature=[query, wanted(tf.int64, None)])

    signatures = {name: signature(name, function) for name, function in NARROW_SEARCHES.items()}
    tf.saved_model.save(module, directory, signatures=signatures)
    query = numbers.integers(-40, 41, (5, 8)).astype(float)
    query[3] = 0.0
    asked = {"query": query.tolist(), "wanted": [[0, 7, 7], [39, 38, 37], [1, -1, 40], [5, 6, 5], [2, 3, 4]]}
    return [("batch", asked, name) for name in NARROW_SEARCHES]


# --- items that a tower computes in the graph ------------------------------------------------------


def layer_of(m, x):
    return tf.nn.relu(tf.matmul(x, m.kernel) + m.centre)


def normal(x, m):
    mean, variance = tf.nn.moments(x, [1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, m.centre, m.weights, 1e-3)


ORDER = [7 * i % 40 for i in range(40)]
TOWERS = {
    "serving_default": lambda m, q, w: tf.matmul(q, tf.matmul(layer_of(m, m.items), m.narrow), transpose_b=True),
    "keras": lambda m, q, w: tf.matmul(q, m.tower(tf.constant(ITEMS)), transpose_b=True),
    "keras_normalised": lambda m, q, w: tf.matmul(q, tf.math.l2_normalize(m.tower(tf.constant(ITEMS)), 1), transpose_b=True),
    "normalised_before": lambda m, q, w: tf.matmul(q, tf.nn.tanh(tf.math.l2_normalize(m.items, 1) @ m.kernel), transpose_b=True),
    "batch_normalisation": lambda m, q, w: tf.matmul(q, tf.nn.elu(tf.nn.batch_normalization(m.items, m.centre, m.spread, m.centre, m.weights, 1e-3)), transpose_b=True),
    "layer_normalisation": lambda m, q, w: tf.matmul(q, normal(layer_of(m, m.items), m), transpose_b=True),
    "residual": lambda m, q, w: tf.matmul(q, m.items + layer_of(m, m.items) @ m.kernel, transpose_b=True),
    "residual_behind": lambda m, q, w: tf.matmul(q, layer_of(m, m.items) @ m.kernel + m.items, transpose_b=True),
    "cross_layer": lambda m, q, w: tf.matmul(q, m.items * (m.items @ m.kernel + m.centre) + m.items, transpose_b=True),
    "swish": lambda m, q, w: tf.transpose(tf.matmul(tf.nn.silu(m.items), q, transpose_b=True)),
    "two_embeddings": lambda m, q, w: tf.matmul(q, tf.nn.selu(tf.concat([m.items, m.others], 1) @ m.wide), transpose_b=True),
    "other_activations": lambda m, q, w: tf.einsum("bd,nd->bn", q, tf.nn.leaky_relu(tf.nn.softplus(m.items) - tf.nn.relu6(m.items @ m.kernel), 0.3)),
    "squares": lambda m, q, w: tf.matmul(q, tf.sqrt(tf.square(m.items) + (m.items - m.centre) ** 2), transpose_b=True),
    "bias_and_temperature": lambda m, q, w: tf.sigmoid((tf.matmul(q, layer_of(m, m.items), transpose_b=True) + m.bias) / 3.0),
    "masked": lambda m, q, w: tf.where(counts(w) > 0, -np.inf, tf.matmul(q, layer_of(m, m.items), transpose_b=True)),
    "shared": lambda m, q, w: tf.nn.softmax(tf.matmul(q, layer_of(m, m.items), transpose_b=True) / 9.0),
    "without_first": lambda m, q, w: tf.matmul(q, layer_of(m, m.items) * tf.sigmoid(m.others), transpose_b=True)[:, 1:],
    "distance": lambda m, q, w: -tf.reduce_sum((q[:, None] - layer_of(m, m.items)) ** 2, -1),
    "distance_by_terms": lambda m, q, w: 2.0 * tf.matmul(q, tf.nn.relu(m.items), transpose_b=True) - tf.reduce_sum(tf.nn.relu(m.items) ** 2, 1),
    "best_of_two": lambda m, q, w: tf.reduce_max(tf.einsum("bvd,nd->bvn", tf.stack([q, q * m.centre], 1), tf.nn.relu(m.items)), axis=1),
    "half_of_the_rows": lambda m, q, w: tf.matmul(q, tf.nn.tanh(tf.gather(m.items, tf.range(10, 30))), transpose_b=True),
    "other_order": lambda m, q, w: tf.matmul(q, tf.gather(m.items, tf.constant(ORDER)), transpose_b=True) + m.bias,
    "keras_other_order": lambda m, q, w: tf.matmul(q, m.tower(tf.gather(tf.constant(ITEMS), tf.constant(ORDER[::2]))), transpose_b=True),
    "written_sigmoid": lambda m, q, w: 1.0 / (1.0 + tf.exp(-tf.matmul(q, layer_of(m, m.items), transpose_b=True))),
    # Each of these items depends on the others, or on the request.
    "dense_softmax_of_items": lambda m, q, w: tf.matmul(q, tf.nn.softmax(m.items, 0), transpose_b=True),
    "dense_by_request": lambda m, q, w: tf.matmul(q, tf.nn.relu(m.items + tf.reduce_mean(q)), transpose_b=True),
}


@model
def item_towers(directory):
    """Items that layers within the graph compute of stored matrices. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(31)

    def variable(*shape, name):
        return tf.Variable(numbers.normal(size=shape), dtype=tf.float32, name=name)

    module.items = variable(40, 8, name="items")
    module.others = variable(40, 8, name="others")
    module.kernel = variable(8, 8, name="kernel")
    module.narrow = variable(8, 8, name="narrow")
    module.wide = variable(16, 8, name="wide")
    module.centre = variable(8, name="centre")
    module.weights = variable(8, name="weights")
    module.spread = tf.Variable(np.abs(numbers.normal(size=8)), dtype=tf.float32, name="spread")
    module.bias = variable(40, name="bias")
    module.ids = tf.Variable(ITEMS, name="ids")
    layers = tf.keras.layers
    embedding = layers.Embedding(41, 6)
    module.tower = tf.keras.Sequential(
        [layers.StringLookup(vocabulary=ITEMS), embedding, layers.Dense(12, activation="relu"), layers.BatchNormalization(), layers.Dense(8)]
    )
    module.tower(tf.constant(ITEMS[:1]))
    for weights in module.tower.trainable_variables:
        weights.assign(numbers.normal(size=weights.shape))

    def signature(function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY, wanted(tf.int64, None)])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in TOWERS.items()})
    query = numbers.normal(size=(4, 8)).astype(np.float32)
    query[3] = 0.0
    asked = {"query": query.tolist(), "wanted": [[0, 7, 7], [39, 38, 37], [1, -1, 40], [5, 6, 5]]}
    return [("batch", asked, name) for name in TOWERS]


# --- items that a tower computes of tokens and other features --------------------------------------


def pooled(x, tokens):
    """The mean of the tokens that are not 0, as GlobalAveragePooling1D has it."""
    kept = tf.cast(tf.not_equal(tokens, 0), tf.float32)[:, :, None]
    return tf.reduce_sum(x * kept, 1) / tf.reduce_sum(kept, 1)


def fused_normal(x, m):
    """Layer normalisation as tf_keras computes it."""
    parts = tf.reshape(x, [1, 40, 8, 1])
    parts = tf.compat.v1.nn.fused_batch_norm(parts, tf.ones([40]), tf.zeros([40]), epsilon=1e-3, data_format="NCHW")[0]
    return tf.reshape(parts, [40, 8]) * m.weights + m.centre


def gated(x):
    left, right = tf.split(x, 2, axis=1)
    return left * tf.sigmoid(right)


def attended(m, x):
    return tf.reduce_sum(x * tf.nn.softmax(tf.reduce_sum(x * m.centre, -1, keepdims=True), 1), 1)


def by_items(q, items):
    return tf.matmul(q, items, transpose_b=True)


TOKENS = [[1 + i % 13, 14 + i // 13, 0 if i % 3 else 18, 0, 18 + i % 4 if i % 4 else 0] for i in range(40)]
WORDS = "a red blue green story of night day man woman house".split()
TITLED = [" ".join(WORDS[(i * 7 + j * (i % 5 + 1)) % 11] for j in range(i % 4 + 1)) + f" {i % 6}" for i in range(40)]
FEATURES = {
    "serving_default": lambda m, q: by_items(q, tf.nn.relu(tf.reduce_mean(tf.gather(m.words, tf.constant(TOKENS)), 1) @ m.kernel)),
    "titles": lambda m, q: by_items(q, m.text(tf.constant(TITLED))),
    "title_tower": lambda m, q: by_items(q, m.tower(tf.concat([m.titles(tf.constant(TITLED)), m.text(tf.constant(TITLED))], 1))),
    "masked_mean": lambda m, q: by_items(q, pooled(tf.gather(m.words, m.tokens), m.tokens)),
    "bounded_mean": lambda m, q: by_items(q, tf.reduce_sum(tf.gather(m.words, m.tokens), 1) / tf.maximum(tf.reduce_sum(tf.cast(m.tokens > 2, tf.float32), 1, keepdims=True), 1.0)),
    "mean_or_nothing": lambda m, q: by_items(q, tf.math.divide_no_nan(tf.reduce_sum(tf.gather(m.words, m.tokens), 1), tf.reduce_sum(tf.cast(m.tokens > 11, tf.float32), 1, keepdims=True))),
    "layer_of_tokens": lambda m, q: by_items(q, tf.reduce_max(tf.nn.tanh(tf.tensordot(tf.gather(m.words, m.tokens), m.kernel, 1)), axis=1)),
    "attention": lambda m, q: by_items(q, attended(m, tf.gather(m.words, m.tokens))),
    "flattened": lambda m, q: by_items(q, tf.nn.relu(tf.reshape(tf.gather(m.words, m.tokens), [40, -1]) @ m.widest)),
    "first_token": lambda m, q: by_items(q, tf.nn.relu(tf.gather(m.words, m.tokens)[:, 0] + m.items)),
    "other_axes": lambda m, q: by_items(q, tf.reduce_min(tf.transpose(tf.gather(m.words, m.tokens), [0, 2, 1]), 2)),
    "exact_gelu": lambda m, q: by_items(q, tf.nn.gelu(m.items @ m.kernel + m.centre)),
    "error_function": lambda m, q: by_items(q, m.items * (1.0 + tf.math.erf(m.items / np.float32(2**0.5)))),
    "approximate_gelu": lambda m, q: by_items(q, tf.nn.gelu(m.items @ m.kernel, approximate=True)),
    "fused_layer_normalisation": lambda m, q: by_items(q, fused_normal(tf.nn.relu(m.items @ m.kernel) + m.items, m)),
    "softmax_of_values": lambda m, q: by_items(q, tf.nn.softmax(m.items @ m.kernel) * m.others),
    "gated": lambda m, q: by_items(q, gated(m.items @ m.double)),
    "stacked": lambda m, q: by_items(q, tf.reduce_mean(tf.stack([m.items, m.others, m.items], 1), 1)),
    "average": lambda m, q: by_items(q, tf.add_n([tf.nn.relu(m.items), m.others, m.items]) / 3.0),
    "chosen": lambda m, q: by_items(q, tf.where(m.items > m.others, m.items, 0.25 * tf.abs(m.others))),
    "powers": lambda m, q: by_items(q, m.items**3 - tf.sign(m.others) * tf.sqrt(tf.abs(m.others))),
    "year": lambda m, q: by_items(q, tf.nn.relu(tf.concat([m.items, (m.year[:, None] - 4.0) / 2.5], 1) @ m.nine)),
    "genre": lambda m, q: by_items(q, tf.nn.relu(tf.concat([m.items, tf.one_hot(m.genre, 5)], 1) @ m.thirteen)),
    "embedded_genre": lambda m, q: by_items(q, tf.nn.relu(tf.concat([m.items, tf.gather(m.words, m.genre)], 1) @ m.wide)),
    "embedded_year": lambda m, q: by_items(q, m.years(m.year) * m.items),
    "centred": lambda m, q: by_items(q, tf.nn.relu(m.items - tf.reduce_mean(m.items, 0, keepdims=True))),
    "counted_tokens": lambda m, q: by_items(q, tf.nn.softsign(m.items * tf.cast(tf.reduce_sum(m.tokens, 1, keepdims=True), tf.float32))),
    # The rows of these items follow from those of others, some of their values are no numbers, or they are integers towards 0.
    "dense_reversed": lambda m, q: by_items(q, tf.nn.relu(m.items[::-1])),
    "dense_turned": lambda m, q: by_items(q, tf.nn.relu(tf.reshape(tf.transpose(m.items), [40, 8]))),
    "dense_rolled": lambda m, q: by_items(q, tf.nn.relu(tf.roll(m.items, 1, 0))),
    "dense_mean_of_integers": lambda m, q: by_items(q, tf.nn.softsign(m.items * tf.cast(tf.reduce_mean(m.tokens, 1, keepdims=True), tf.float32))),
    "dense_chosen_mean": lambda m, q: by_items(q, tf.where(m.tokens[:, 4:] > 0, tf.gather(m.words, m.genre) / tf.cast(m.tokens[:, 4:], tf.float32), m.items)),
}


@model
def item_features(directory):
    """Items that layers within the graph compute of tokens, genres and years. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(37)

    def variable(*shape, name):
        return tf.Variable(numbers.normal(size=shape), dtype=tf.float32, name=name)

    for name in ("items", "others"):
        setattr(module, name, variable(40, 8, name=name))
    for name, rows in {"words": 22, "kernel": 8, "wide": 16, "nine": 9, "thirteen": 13, "widest": 40}.items():
        setattr(module, name, variable(rows, 8, name=name))
    module.double = variable(8, 16, name="double")
    module.centre = variable(8, name="centre")
    module.weights = variable(8, name="weights")
    module.tokens = tf.Variable(TOKENS, dtype=tf.int64, name="tokens")
    module.genre = tf.Variable([i * 3 % 5 for i in range(40)], dtype=tf.int32, name="genre")
    module.year = tf.Variable([float(i * 7 % 9) for i in range(40)], name="year")
    module.ids = tf.Variable(ITEMS, name="ids")
    layers = tf.keras.layers

    def built(parts, of):
        made = tf.keras.Sequential(parts)
        made(of)
        for weights in made.trainable_variables:
            weights.assign(numbers.normal(size=weights.shape))
        return made

    words = layers.TextVectorization(max_tokens=50)
    words.adapt(TITLED)
    known = list(dict.fromkeys(TITLED))
    module.text = built([words, layers.Embedding(50, 8, mask_zero=True), layers.GlobalAveragePooling1D()], tf.constant(TITLED[:1]))
    module.titles = built([layers.StringLookup(vocabulary=known), layers.Embedding(len(known) + 1, 8)], tf.constant(TITLED[:1]))
    module.tower = built([layers.Dense(12, activation="gelu"), layers.LayerNormalization(), layers.Dense(8)], tf.zeros([1, 16]))
    module.years = built([layers.Discretization([2.0, 4.0, 6.5]), layers.Embedding(4, 8)], tf.zeros([1]))

    def signature(function):
        def serve(query):
            values, rows = tf.math.top_k(function(module, query), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in FEATURES.items()})
    query = numbers.normal(size=(4, 8)).astype(np.float32)
    query[3] = 0.0
    return [("batch", {"query": query.tolist()}, name) for name in FEATURES]


def flags_of(w):
    return tf.cast((w > 0.0)[:, None], tf.float32)


WEIGHED = {
    "serving_default": lambda m, q, w: scored(m, q) + w[:, None] * m.views,
    "turned": lambda m, q, w: scored(m, q) - 0.5 * (m.views * tf.expand_dims(w, 1)),
    "blended": lambda m, q, w: w[:, None] * scored(m, q) + (1.0 - w[:, None]) * m.views,
    "of_logarithms": lambda m, q, w: scored(m, q) / 0.5 + m.bias + tf.sigmoid(w)[:, tf.newaxis] * tf.math.log1p(m.views)[None],
    "two_weights": lambda m, q, w: tf.sigmoid((scored(m, q) + m.bias * tf.reshape(w, [-1, 1]) + q[:, :1] * m.views) / 64.0),
    "shared": lambda m, q, w: tf.nn.softmax(scored(m, q) + w[:, None] * m.bias),
    "masked": lambda m, q, w: tf.where(m.views > 4.0, scored(m, q) + w[:, None] * m.views, -np.inf),
    "blended_by_flags": lambda m, q, w: flags_of(w) * scored(m, q) + (1.0 - flags_of(w)) * m.views,
    "popular_for_some": lambda m, q, w: tf.where((w > 0.0)[:, None], scored(m, q), m.views),
    "popular_for_others": lambda m, q, w: tf.where(w[:, None] > 0.25, m.views[None] * 0.5, scored(m, q) + m.bias) / 2.0,
    "opposite_for_some": lambda m, q, w: tf.where(tf.expand_dims(w, 1) > 0.0, scored(m, q), scored(m, -2.0 * q)),
    "popular_without_query": lambda m, q, w: tf.where((w > 0.0)[:, None], scored(m, q / tf.maximum(w, 0.0)[:, None]), m.views),
    "other_without_query": lambda m, q, w: tf.where((w > 0.0)[:, None], scored(m, q / tf.maximum(w, 0.0)[:, None]), scored(m, -q)),
    # Rows of their own would have to be made of these.
    "dense_popular_sigmoid": lambda m, q, w: tf.where((w > 0.0)[:, None], tf.sigmoid(scored(m, q)), m.bias),
    "dense_popular_hidden": lambda m, q, w: tf.where((w > 0.0)[:, None], scored(m, q), tf.math.log(m.views - 4.0)),
    "dense_hidden": lambda m, q, w: scored(m, q) + tf.exp(w)[:, None] * tf.math.log(m.views - 4.0),
    "dense_distance": lambda m, q, w: scored(m, q) - 0.5 * tf.abs(m.views[None] - w[:, None]),
}


@model
def weighed_biases(directory):
    """Biases of items that a request weighs for each query. All numbers are small integers or powers of 2, except
    those of functions. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(23)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.views = tf.Variable([4.0 + i * 17 % 23 for i in range(40)], name="views")
    module.ids = tf.Variable(ITEMS, name="ids")

    def signature(function):
        def serve(query, weight):
            values, rows = tf.math.top_k(function(module, query, weight), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY, spec(tf.float32, None, name="weight")])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in WEIGHED.items()})
    query = numbers.integers(-3, 4, (4, 8)).astype(float)
    query[3] = 0.0
    asked = {"query": query.tolist(), "weight": [0.5, -2.0, 0.0, 4.0]}
    return [("batch", asked, name) for name in WEIGHED]


def gated_by(m, q):
    """[queries, items, dim]"""
    return q[:, tf.newaxis, :] * m.items


GATED = {
    "serving_default": lambda m, q, w: tf.squeeze(m.layer(gated_by(m, q)), -1),
    "sliced": lambda m, q, w: m.layer(gated_by(m, q))[..., 0],
    "activated": lambda m, q, w: m.output(m.items[tf.newaxis] * tf.expand_dims(q, 1))[:, :, 0],
    "flat": lambda m, q, w: tf.reshape(m.layer(tf.keras.layers.multiply([tf.expand_dims(q, 1), m.items[None]])), [-1, 40]),
    "axes": lambda m, q, w: tf.tensordot(gated_by(m, q), m.weights, [[2], [0]]),
    "matrices": lambda m, q, w: tf.squeeze(tf.matmul(gated_by(m, q), m.weights[:, None]), axis=2) + m.bias,
    "vector": lambda m, q, w: tf.linalg.matvec(gated_by(m, q), m.weights) / 4.0,
    "summed": lambda m, q, w: tf.reduce_sum(gated_by(m, q) * m.weights, axis=-1),
    "weights_first": lambda m, q, w: tf.reduce_sum(m.weights * (m.items * q[:, None]), 2, keepdims=True)[:, :, 0],
    "letters": lambda m, q, w: tf.einsum("bnd,d->bn", gated_by(m, q), m.weights),
    "kept_letter": lambda m, q, w: tf.nn.relu(tf.einsum("bnd,do->bno", gated_by(m, q), m.weights[:, None]))[..., -1],
    "opposite": lambda m, q, w: -tf.squeeze(3.0 - m.layer(gated_by(m, q)), 2),
    "repeated": lambda m, q, w: tf.reduce_sum(tf.keras.layers.RepeatVector(40)(q) * m.items, -1) + m.bias,
    "repeated_layer": lambda m, q, w: m.output(tf.keras.layers.multiply([tf.tile(q[:, None], [1, 40, 1]), m.items[None]]))[..., 0],
    "computed_items": lambda m, q, w: tf.squeeze(tf.matmul(q[:, None] * tf.nn.relu(m.items), m.weights[:, None]), 2),
    "masked": lambda m, q, w: of_genre(m, w, tf.sigmoid(tf.squeeze(m.layer(gated_by(m, q)), -1)), -1.0),
    "softmax": lambda m, q, w: tf.nn.softmax(m.layer(gated_by(m, q))[..., 0] / 16.0),
    # Other questions: of an axis with one value, of two outputs, of a hidden layer, of weights that a request brings.
    "dense_axis": lambda m, q, w: tf.squeeze(tf.nn.softmax(m.layer(gated_by(m, q))), 2),
    "dense_outputs": lambda m, q, w: tf.tensordot(gated_by(m, q), tf.stack([m.weights, m.weights + 1.0], 1), 1)[..., 0],
    "dense_layers": lambda m, q, w: tf.squeeze(m.layer(tf.nn.relu(gated_by(m, q))), -1),
    "dense_repeated": lambda m, q, w: tf.reduce_sum(tf.tile(q[:, None], [1, 5, 1]) * m.items[:5], -1) * tf.reduce_sum(tf.tile(q[:, None], [1, 5, 1]) * m.items[5:10], -1),
    "dense_request": lambda m, q, w: tf.reduce_sum(gated_by(m, q) * tf.nn.relu(q)[:, None], -1),
}


@model
def weighed_products(directory):
    """Products of queries and items whose dimensions a layer weighs before they are summed. All numbers are small integers, except
    those of functions. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(31)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.genre = tf.Variable([i % 3 for i in range(40)], dtype=tf.int64, name="genre")
    module.ids = tf.Variable(ITEMS, name="ids")
    weights = numbers.integers(-2, 4, 8).astype(np.float32)
    module.weights = tf.Variable(weights, name="weights")

    def layer(activation):
        initial = tf.keras.initializers.Constant
        made = tf.keras.layers.Dense(1, activation, kernel_initializer=initial(weights[:, None]), bias_initializer=initial(2.0))
        made.build((None, 40, 8))
        return made

    module.layer, module.output = layer(None), layer("sigmoid")

    def signature(function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=5)
            return {"scores": values, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY, wanted(tf.int64)])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in GATED.items()})
    query = numbers.integers(-3, 4, (4, 8)).astype(float)
    query[3] = 0.0
    asked = {"query": query.tolist(), "wanted": [0, 1, 2, 1]}
    one = {"query": query[:1].tolist(), "wanted": [2]}
    return [("batch", each, name) for name in GATED for each in (asked, one)]


def turned_products(m, q):
    """What Keras' Dot makes of queries [b, dim] and items [1, items, dim]."""
    items = tf.transpose(m.items[None], [0, 2, 1])
    return tf.squeeze(tf.matmul(q[:, None], items), 1)


def one_of(vector):
    return lambda m, item: vector(m, tf.gather(m.items, m.lookup.lookup(item))[None])


ONE_QUERY = {
    "serving_default": one_of(lambda m, q: tf.reshape(turned_products(m, q), [-1])),
    "squeezed": one_of(lambda m, q: tf.squeeze(scored(m, q) + m.bias, 0)),
    "first": one_of(lambda m, q: tf.sigmoid(scored(m, tf.concat([q, -q], 0)))[0]),
    "last": one_of(lambda m, q: scored(m, tf.concat([-q, q], 0))[-1]),
    "masked": one_of(lambda m, q: tf.where(m.bias > 0.0, scored(m, q), -np.inf)[0]),
    "in_rows": one_of(turned_products),
}


@model
def one_query(directory):
    """Items like one item, which is a scalar: scores and results without an axis of queries. All numbers are small integers."""
    module = tf.Module()
    numbers = np.random.default_rng(29)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.ids = tf.Variable(ITEMS, name="ids")
    module.lookup = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(ITEMS, range(40)), 0)

    def signature(function):
        def serve(item):
            values, rows = tf.math.top_k(function(module, item), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[spec(tf.string, name="item")])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in ONE_QUERY.items()})
    return [(item, {"item": item}, name) for name in ONE_QUERY for item in ("item 07", "item 31", "unknown")]


ONE_VECTOR = {
    "serving_default": lambda m, u, seen, w: tf.linalg.matvec(m.items, u),
    "contracted": lambda m, u, seen, w: tf.tensordot(m.items, u, 1) + m.bias,
    "contracted_left": lambda m, u, seen, w: tf.tensordot(u, m.items, [[0], [1]]) / 2.0,
    "summed": lambda m, u, seen, w: tf.reduce_sum(u * m.items, axis=1),
    "summed_row": lambda m, u, seen, w: tf.sigmoid(tf.reduce_sum(m.items * u[tf.newaxis], -1) - m.bias),
    "column": lambda m, u, seen, w: tf.squeeze(tf.matmul(m.items, u[:, None]), 1),
    "column_of_row": lambda m, u, seen, w: tf.matmul(m.items, u[None], transpose_b=True)[:, 0] * 0.5 + m.bias,
    "letters": lambda m, u, seen, w: tf.einsum("nd,d->n", m.items, u),
    "letters_turned": lambda m, u, seen, w: tf.einsum("d,dn->n", u, tf.transpose(m.items)),
    "layer": lambda m, u, seen, w: tf.squeeze(m.layer(u * m.items), -1),
    "layer_of_row": lambda m, u, seen, w: tf.reshape(m.layer(m.items * tf.expand_dims(u, 0)), [-1]),
    "gated": lambda m, u, seen, w: tf.reduce_sum(m.weights * u * m.items, 1),
    "computed": lambda m, u, seen, w: tf.linalg.matvec(tf.nn.relu(m.items), u),
    "normalised": lambda m, u, seen, w: tf.linalg.matvec(tf.math.l2_normalize(m.items, 1), u),
    "softmax": lambda m, u, seen, w: tf.nn.softmax(tf.linalg.matvec(m.items, u) / 8.0),
    "masked": lambda m, u, seen, w: tf.where(m.bias > 0.0, tf.linalg.matvec(m.items, u), -np.inf),
    "squeezed": lambda m, u, seen, w: tf.squeeze(tf.matmul(u[None], m.items, transpose_b=True)) * 2.0 + m.bias,
    "first": lambda m, u, seen, w: tf.nn.relu(tf.matmul(tf.expand_dims(u, 0), m.items, transpose_b=True)[0] - 1.0),
    "weighed": lambda m, u, seen, w: w * tf.linalg.matvec(m.items, u) + (1.0 - w) * m.bias,
    "scattered": lambda m, u, seen, w: tf.tensor_scatter_nd_update(tf.linalg.matvec(m.items, u) / 2.0, seen[:, None], tf.fill(tf.shape(seen), -np.inf)),
    "scattered_behind": lambda m, u, seen, w: tf.tensor_scatter_nd_min(tf.sigmoid(tf.linalg.matvec(m.items, u) + m.bias), tf.expand_dims(seen, 1), tf.fill([tf.size(seen)], -np.inf)),
    "penalised": lambda m, u, seen, w: tf.linalg.matvec(m.items, u) - 1e9 * tf.reduce_max(tf.one_hot(seen, 40), axis=0),
    "listed": lambda m, u, seen, w: tf.where(tf.reduce_sum(tf.one_hot(seen, 40), 0) > 0.0, -1.0, tf.linalg.matvec(m.items, u)),
    "counted": lambda m, u, seen, w: tf.where(tf.math.bincount(seen, minlength=40, maxlength=40) > 0, -np.inf, tf.linalg.matvec(m.items, u)),
    "row_penalised": lambda m, u, seen, w: (tf.matmul(u[None], m.items, transpose_b=True) - 1e9 * tf.reduce_max(tf.one_hot(seen, 40), axis=0))[0],
    "row_weighed": lambda m, u, seen, w: tf.squeeze(tf.matmul(u[None], m.items, transpose_b=True) + w * m.bias, 0),
    "row_listed": lambda m, u, seen, w: tf.where(tf.reduce_sum(tf.one_hot(seen, 40), 0) > 0.0, -np.inf, tf.matmul(u[None], m.items, transpose_b=True)),
    "row_of_vector": lambda m, u, seen, w: tf.expand_dims(tf.linalg.matvec(m.items, u), 0) + m.bias,
    "dense_turned": lambda m, u, seen, w: tf.matmul(u[None], m.items, transpose_b=True)[0, ::-1] + m.bias,
    "dense_turned_column": lambda m, u, seen, w: tf.matmul(m.items, u[:, None])[::-1, 0] + m.bias,
    # Other questions: of counts, of a search in a loop, of two vectors, of a hidden layer, of no vector.
    "dense_counts": lambda m, u, seen, w: tf.linalg.matvec(m.items, u) - 8.0 * tf.reduce_sum(tf.one_hot(seen, 40), 0),
    "dense_loop": lambda m, u, seen, w: m.bias * tf.map_fn(lambda v: tf.math.top_k(tf.matmul(v[None], m.items, transpose_b=True), 2)[0][0], tf.stack([u, u]))[0, 1],
    "dense_two": lambda m, u, seen, w: tf.linalg.matvec(m.items, u) * tf.linalg.matvec(m.items, u + 1.0),
    "dense_layers": lambda m, u, seen, w: tf.squeeze(m.layer(tf.nn.relu(u * m.items)), -1),
    "dense_lengths": lambda m, u, seen, w: tf.reduce_sum(tf.abs(m.items - u), 1),
}


@model
def one_vector(directory):
    """Scores of one query that is a vector, as a function that serves one user writes them. All numbers are small integers,
    except those of functions. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(37)
    module.items = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="items")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.ids = tf.Variable(ITEMS, name="ids")
    weights = numbers.integers(-2, 4, 8).astype(np.float32)
    module.weights = tf.Variable(weights, name="weights")
    initial = tf.keras.initializers.Constant
    module.layer = tf.keras.layers.Dense(1, "sigmoid", kernel_initializer=initial(weights[:, None] / 16.0), bias_initializer=initial(0.5))
    module.layer.build((None, 8))
    module.lookup = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(ITEMS, range(40)), 0)

    def signature(function):
        def serve(item, seen, weight):
            user = tf.gather(module.items, module.lookup.lookup(item))
            values, rows = tf.math.top_k(function(module, user, seen, weight), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        inputs = [spec(tf.string, name="item"), spec(tf.int32, None, name="seen"), spec(tf.float32, name="weight")]
        return tf.function(serve, input_signature=inputs)

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in ONE_VECTOR.items()})
    asked = [("item 07", [7, 25, 7], 0.5), ("item 31", [], -2.0), ("unknown", [39, 0], 1.0)]
    # The greatest of nothing is -inf, which would make all scores infinite from which it is subtracted.
    return [
        (item, {"item": item, "seen": seen, "weight": weight}, name)
        for name in ONE_VECTOR
        for item, seen, weight in asked
        if seen or "penalised" not in name
    ]


# --- spellings of serving functions ----------------------------------------------------------------


def for_each(m, q):
    """[queries, items, dim]"""
    return tf.tile(m.items[None], [tf.shape(q)[0], 1, 1])


def by_others(m, q):
    return tf.matmul(q, m.others, transpose_b=True)


def seen_in(w):
    return tf.reduce_max(tf.one_hot(w, 40), axis=1)


def of_region(m, w):
    return tf.cast(m.region == w[:, 0][:, None], tf.float32)


def lengths_of(m, q):
    return tf.norm(q, axis=1, keepdims=True) * tf.norm(m.items, axis=1)


SERVED = {
    "serving_default": lambda m, q, w: tf.einsum("bnd,bd->bn", for_each(m, q), q),
    "tiled_on_the_right": lambda m, q, w: tf.einsum("bd,bnd->bn", q, for_each(m, q)),
    "tiled_rows": lambda m, q, w: tf.linalg.matvec(for_each(m, q), q) + m.bias,
    "tiled_product": lambda m, q, w: tf.squeeze(tf.matmul(q[:, None], for_each(m, q), transpose_b=True), 1),
    "tiled_sum": lambda m, q, w: tf.reduce_sum(for_each(m, q) * q[:, None], axis=-1),
    "broadcast": lambda m, q, w: tf.squeeze(tf.matmul(tf.broadcast_to(m.items, [tf.shape(q)[0], 40, 8]), q[:, :, None]), -1),
    "repeated": lambda m, q, w: tf.reduce_sum(tf.repeat(m.items[None], tf.shape(q)[0], axis=0) * q[:, None], -1),
    "repeated_tower": lambda m, q, w: tf.einsum("bd,bnd->bn", q, tf.broadcast_to(tf.nn.relu(m.items), [tf.shape(q)[0], 40, 8])),
    "keras_dot": lambda m, q, w: m.dot([q[:, None], for_each(m, q)])[:, 0],
    "keras_cosine": lambda m, q, w: tf.squeeze(m.cosine([q[:, None], m.items[None]]), 1),
    "ellipsis": lambda m, q, w: tf.einsum("...d,nd->...n", q, m.items) / 2.0,
    "best_of_ellipsis": lambda m, q, w: tf.reduce_max(tf.einsum("...d,nd->...n", tf.stack([q, q[:, ::-1]], 1), m.items), axis=1),
    "letters_of_genres": lambda m, q, w: scored(m, q) + tf.matmul(q, tf.einsum("ng,gd->nd", m.flags, m.genre_vectors), transpose_b=True),
    "genres_and_items": lambda m, q, w: tf.matmul(q, m.items + tf.nn.relu(tf.einsum("...g,gd->...d", m.flags, m.genre_vectors)), transpose_b=True),
    "best_of_two": lambda m, q, w: tf.maximum(scored(m, q), scored(m, q[:, ::-1])),
    "best_of_two_tables": lambda m, q, w: tf.maximum(scored(m, q), by_others(m, q)) + m.bias,
    "best_of_three": lambda m, q, w: tf.maximum(tf.maximum(scored(m, q), -by_others(m, q)), 0.5 * scored(m, q[:, ::-1])),
    "best_of_stack": lambda m, q, w: tf.where(seen_in(w) > 0, -np.inf, tf.reduce_max(tf.stack([scored(m, q), by_others(m, q)]), 0)),
    "best_of_stack_of_each": lambda m, q, w: tf.reduce_max(tf.stack([scored(m, q), by_others(m, q[:, ::-1])], axis=1), axis=1),
    "best_of_last": lambda m, q, w: tf.reduce_max(tf.stack([scored(m, q), 2.0 * by_others(m, q)], axis=-1), axis=-1),
    "best_of_interests_of_tiled": lambda m, q, w: tf.reduce_max(tf.matmul(tf.stack([q, q[:, ::-1]], 1), for_each(m, q), transpose_b=True), 1),
    "flags_and_rest": lambda m, q, w: (lambda f: scored(m, q) * f - (1.0 - f) * 1e9)(of_region(m, w)),
    "seen_and_rest": lambda m, q, w: (lambda f: scored(m, q) * (1.0 - f) - 8.0 * f)(seen_in(w)),
    "no_nan": lambda m, q, w: tf.math.multiply_no_nan(scored(m, q), 1.0 - seen_in(w)),
    "stored_numbers_as_flags": lambda m, q, w: tf.where(tf.cast(m.stock, tf.bool), scored(m, q), -np.inf),
    "equal_to_one": lambda m, q, w: tf.where(tf.equal(seen_in(w), 1.0), -1e9, scored(m, q)),
    "not_equal_to_one": lambda m, q, w: tf.where(seen_in(w) != 1.0, scored(m, q), -4.0),
    "any_of_comparisons": lambda m, q, w: tf.where(tf.reduce_any(tf.one_hot(w, 40) > 0, axis=1), -np.inf, scored(m, q)),
    "scattered_infinity": lambda m, q, w: tf.tensor_scatter_nd_add(scored(m, q), pairs_of(tf.clip_by_value(w, 0, 39)), tf.fill([tf.size(w)], -np.inf)),
    "stock_and_region": lambda m, q, w: scored(m, q) + (m.stock * of_region(m, w) - 1.0) * 1e9,
    "stock_or_region": lambda m, q, w: scored(m, q) - 8.0 * tf.maximum(m.stock, of_region(m, w)),
    "sigmoid_and_stock": lambda m, q, w: tf.sigmoid(scored(m, q)) * m.stock - (1.0 - m.stock) * 2.0,
    "seen_and_out_of_stock": lambda m, q, w: scored(m, q) - 64.0 * seen_in(w) - 32.0 * (1.0 - m.stock),
    "seen_and_boosted": lambda m, q, w: (scored(m, q) - 16.0 * seen_in(w) + q[:, :1]) + m.bias,
    "bias_of_genre": lambda m, q, w: scored(m, q) + tf.gather(m.genre_bias, m.genre),
    "bias_of_genres": lambda m, q, w: scored(m, q) - tf.reduce_sum(tf.gather(m.genre_bias, m.genres), axis=1),
    "codes": lambda m, q, w: tf.matmul(q, tf.cast(m.codes, tf.float32), transpose_b=True),
    "codes_around_zero": lambda m, q, w: tf.matmul(q, (tf.cast(m.codes, tf.float32) - 128.0) * m.scales, transpose_b=True),
    "cosine_or_nothing": lambda m, q, w: tf.math.divide_no_nan(scored(m, q), lengths_of(m, q)),
    "softmax_of_moved_region": lambda m, q, w: tf.nn.softmax((scored(m, q) / 16.0 + q[:, :1]) * tf.where(m.region == w[:, 0][:, None], 1.25, 1.0)),
    "softmax_of_stock": lambda m, q, w: tf.nn.softmax(scored(m, q) / 16.0 * (m.stock + 0.5) + q[:, :1]),
    # What is added before a factor of each item is another number for each item behind it.
    "dense_softmax_of_moved": lambda m, q, w: tf.nn.softmax((scored(m, q) / 16.0 + 2.0) * (m.stock + 0.5)),
    # These need what no search has: a mask of two changes, scores over more than a product, items of several queries.
    "bonus_beside_mask": lambda m, q, w: tf.where(seen_in(w) > 0, -np.inf, scored(m, q) + 0.5 * of_region(m, w)),
    "dense_cosine_with_epsilon": lambda m, q, w: scored(m, q) / (lengths_of(m, q) + 1e-8),
    "dense_of_activations": lambda m, q, w: tf.sigmoid(scored(m, q)) + tf.sigmoid(by_others(m, q)),
    "dense_tiled_by_seen": lambda m, q, w: tf.einsum("bd,bnd->bn", q, tf.tile(m.items[None], [tf.shape(w)[0], 1, 1])),
}


@model
def served_spellings(directory):
    """How functions that serve repeat items for each query, take the best of several products, and hide items. All numbers
    are small integers, except those of cosines. Signatures named dense_ are no search."""
    module = tf.Module()
    numbers = np.random.default_rng(71)
    items = numbers.integers(-3, 4, (40, 8))
    items[(items == 0).all(axis=1)] = 1
    module.items = tf.Variable(items, dtype=tf.float32, name="items")
    module.others = tf.Variable(numbers.integers(-3, 4, (40, 8)), dtype=tf.float32, name="others")
    module.codes = tf.Variable(numbers.integers(0, 256, (40, 8)), dtype=tf.uint8, name="codes")
    module.scales = tf.Variable(2.0 ** numbers.integers(-3, 3, (40, 1)), dtype=tf.float32, name="scales")
    module.bias = tf.Variable(numbers.integers(-9, 9, 40), dtype=tf.float32, name="bias")
    module.stock = tf.Variable([float(i % 5 != 0) for i in range(40)], name="stock")
    module.region = tf.Variable([i % 3 for i in range(40)], dtype=tf.int64, name="region")
    module.genre = tf.Variable([i * 3 % 5 for i in range(40)], dtype=tf.int32, name="genre")
    module.genres = tf.Variable([[i * 3 % 5, i % 4] for i in range(40)], dtype=tf.int32, name="genres")
    module.genre_bias = tf.Variable([3.0, -4.0, 0.0, 7.0, -1.0], name="genre_bias")
    module.flags = tf.Variable(numbers.integers(0, 2, (40, 5)), dtype=tf.float32, name="flags")
    module.genre_vectors = tf.Variable(numbers.integers(-2, 3, (5, 8)), dtype=tf.float32, name="genre_vectors")
    module.ids = tf.Variable(ITEMS, name="ids")
    module.dot = tf.keras.layers.Dot(axes=2)
    module.cosine = tf.keras.layers.Dot(axes=2, normalize=True)

    def signature(function):
        def serve(query, wanted):
            values, rows = tf.math.top_k(function(module, query, wanted), k=9)
            return {"scores": values, "rows": rows, "ids": tf.gather(module.ids, rows)}

        return tf.function(serve, input_signature=[QUERY, wanted(tf.int64, None)])

    tf.saved_model.save(module, directory, signatures={name: signature(f) for name, f in SERVED.items()})
    query = numbers.integers(-3, 4, (4, 8)).astype(float)
    query[3] = 0.0
    asked = {"query": query.tolist(), "wanted": [[0, 7, 7], [1, 38, 37], [2, -1, 40], [5, 6, 5]]}
    one = {"query": query[:1].tolist(), "wanted": [[2]]}
    return [("batch", each, name) for name in SERVED for each in (asked, one)]


# --- Classify and Regress --------------------------------------------------------------------------


@model
def example_classes(directory):
    """A classifier and a regressor of tf.Examples, as TensorFlow 1's estimators export them: signatures for
    Classify and Regress. `requests.json` has requests as TensorFlow Serving's clients write them."""
    v1 = tf.compat.v1
    features = {
        "user": tf.io.FixedLenFeature([], tf.string),
        "age": tf.io.FixedLenFeature([1], tf.int64, default_value=[30]),
        "taste": tf.io.FixedLenFeature([3], tf.float32, default_value=[0.5, 0.25, -1.0]),
    }
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        examples = v1.placeholder(tf.string, [None], name="examples")
        parsed = v1.io.parse_example(examples, features)
        table = v1.get_variable("users", initializer=randoms(20, 4), use_resource=True)
        row = tf.strings.to_hash_bucket_fast(parsed["user"], 20)
        parts = [tf.gather(table, row), tf.cast(parsed["age"], tf.float32) / 50.0, parsed["taste"]]
        values = tf.concat(parts, axis=1)
        logits = tf.matmul(values, v1.get_variable("classes", initializer=randoms(8, 3), use_resource=True))
        rating = tf.matmul(values, v1.get_variable("rating", initializer=randoms(8, 1), use_resource=True))
        labels = tf.tile(tf.constant([["drama", "war", "b\u00fccher \"x\""]]), [tf.shape(values)[0], 1])
        scores = tf.nn.softmax(logits)
        session.run(v1.global_variables_initializer())
        classify, regress = v1.saved_model.classification_signature_def, v1.saved_model.regression_signature_def
        builder = v1.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": classify(examples, labels, scores),
                "scores": classify(examples, None, scores),
                "labels": classify(examples, labels, None),
                "rating": regress(examples, rating),
                "ratings": regress(examples, tf.squeeze(rating, 1)),
                "squares": regress(examples, tf.concat([rating, rating], 1)),
                "flat": classify(examples, None, tf.squeeze(rating, 1)),
                "both": v1.saved_model.predict_signature_def({"examples": examples}, {"a": scores, "b": rating}),
            },
        )
        builder.save()

    def serialized(values):
        feature = {}
        for name, value in values.items():
            value = value if isinstance(value, list) else [value]
            if isinstance(value[0], dict):
                value = [base64.b64decode(each["b64"]) for each in value]
            if isinstance(value[0], (str, bytes)):
                value = [each.encode() if isinstance(each, str) else each for each in value]
                feature[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
            elif isinstance(value[0], float):
                feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
            else:
                feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(each) for each in value]))
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        return example.SerializeToString(deterministic=True)

    ann = {"user": "u01", "age": 44, "taste": [1.0, 2.0, 3.0]}
    bodies = [
        {"examples": [ann]},
        {"examples": [{"user": "nobody", "age": [-7]}, ann, {"user": {"b64": "/wA="}, "other": [True, False]}]},
        {"context": {"age": 61, "taste": [0.125, 1e-3, -2.5]}, "examples": [{"user": "u02"}, ann, {"user": "u03", "age": 52}]},
    ]
    requests, cases = [], []
    for signature in ["serving_default", "scores", "labels", "rating", "ratings"]:
        for body in bodies:
            common = serialized(body.get("context", {})) if "context" in body else b""
            inputs = {"inputs": [common + serialized(example) for example in body["examples"]]}
            cases.append(("known", inputs, signature))
            method = "regress" if signature.startswith("rating") else "classify"
            requests.append({"method": method, "body": json.dumps({"signature_name": signature, **body})})
    text = ",\n".join(json.dumps(request) for request in requests)
    (pathlib.Path(directory).parent / "requests.json").write_text(f"[\n{text}\n]\n")
    return [("known", cases[1][1]), *cases, ("error", {"inputs": [serialized({"age": 1})]})]


@model
def elementwise(directory):
    """Operations on one value at a time, as in TensorFlow Serving's half_plus_two: they take inputs of any shape."""
    module = tf.Module()
    module.a = tf.Variable(0.5)
    module.b = tf.Variable(2.0)

    @tf.function(input_signature=[spec(tf.float32, None, 1, name="x")])
    def serve(x):
        return {"y": module.a * x + module.b}

    @tf.function(input_signature=[spec(tf.float32, 1, name="x")])
    def one(x):
        bounded = tf.clip_by_value(x, -1.0, module.b)
        return {"y": tf.where(x > 0.0, tf.nn.sigmoid(bounded), tf.square(x)), "n": tf.cast(tf.round(x), tf.int64)}

    @tf.function(input_signature=[spec(tf.float32, None, 1, name="x"), spec(tf.float32, None, 1, name="y")])
    def pair(x, y):
        return {"z": tf.maximum(x, y) - module.a * y}

    tf.saved_model.save(module, directory, signatures={"serving_default": serve, "one": one, "pair": pair})
    shapes = [[[1.0], [2.0], [5.0]], [1.0, 2.0, 5.0], [[1.0, -2.5, 3.0], [0.0, 7.5, -0.5]], 1.5, [[[0.25]]]]
    return [
        *(("any shape", {"x": x}) for x in shapes),
        *(("any shape", {"x": x}, "one") for x in shapes),
        *(("any shape", {"x": x, "y": x}, "pair") for x in shapes),
    ]


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        record(name, MODELS[name])
