"""What a service in Python does without a pipeline: two calls over one connection that stays open, and the choice by
maximal marginal relevance in NumPy. A user comes on each line of the input; the answer and its milliseconds go out.

    pipeline_client.py HOST PORT CANDIDATES COUNT BALANCE FILTER
"""

import http.client
import json
import sys
import time

import numpy as np

host, port, candidates, count, balance, condition = sys.argv[1:]
candidates, count, balance = int(candidates), int(count), float(balance)
connection = http.client.HTTPConnection(host, int(port))


def ask(model, body):
    connection.request("POST", f"/v1/models/{model}:predict", json.dumps(body))
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise RuntimeError(text)
    return json.loads(text)["predictions"]


def chosen(scores, vectors):
    """Places by score, descending, of which maximal marginal relevance takes some."""
    order = np.argsort(-scores, kind="stable")
    vectors = vectors[order].astype(np.float64)
    values = scores[order].astype(np.float64)
    least, most = values[-1], values[0]
    relevance = (values - least) / (most - least) if most > least else np.ones(len(values))
    norms = np.sqrt((vectors * vectors).sum(axis=1))
    likeness = np.full(len(values), -np.inf)
    open_places = np.ones(len(values), dtype=bool)
    taken = []
    while len(taken) < min(count, len(values)):
        unlike = (1 - balance) * likeness if taken else 0
        best = int(np.argmax(np.where(open_places, balance * relevance - unlike, -np.inf)))
        open_places[best] = False
        taken.append(best)
        np.maximum(likeness, vectors @ vectors[best] / (norms * norms[best]), out=likeness)
    return order[taken]


def feed(user):
    wanted = {"k": candidates, "filter": json.loads(condition), "return_vectors": True}
    (found,) = ask("movies", {"instances": [user], **wanted})
    ids = found["output_2"]
    instances = [{"user_id": user, "movie_title": item} for item in ids]
    answers = ask("ranking", {"instances": instances})
    scores = np.array(answers).reshape(-1)
    places = chosen(scores, np.array(found["vectors"], dtype=np.float32))
    return {
        "output_1": [float(scores[place]) for place in places],
        "output_2": [ids[place] for place in places],
    }


for line in sys.stdin:
    began = time.perf_counter()
    answer = feed(line.strip())
    elapsed = 1000 * (time.perf_counter() - began)
    print(json.dumps({"answer": answer, "elapsed": elapsed}), flush=True)
