"""Makes the small PyTorch exports under torch/ and records what PyTorch answers for them.

    python record_torch.py [name ...]

Needs torch 2.13, onnx 1.23, onnxscript 0.7, safetensors 0.8, numpy and pyarrow; Winnow itself needs
none of them. The models `books` and `books-ranking` are those of docs/pytorch.md: its Python is run
as it stands there. Each folder gets the model as version 1 and `oracle.json`, in the format that
record_savedmodels.py tells.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file
from torch import nn

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

HERE = pathlib.Path(__file__).parent / "torch"
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pytorch.md"
MODELS = {}
K = 10


def model(name):
    def register(build):
        MODELS[name] = build
        return build

    return register


def documented():
    """What the Python of the page leaves behind: its variables, and models/ in the working folder."""
    variables = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(block, variables)
    return variables


def listed(values):
    if isinstance(values, torch.Tensor):
        return listed(values.detach().tolist())
    if isinstance(values, list):
        return [listed(value) for value in values]
    if isinstance(values, float):
        return float(np.float32(values))
    return values


def ranked(query, items, ids, k=K):
    """PyTorch's scores, best first, equal ones by row; next_score is that of the first item left out."""
    scores, rows = torch.sort(query @ items.T, dim=1, descending=True, stable=True)
    found = [[ids[row] for row in of] for of in rows[:, :k].tolist()]
    return {"scores": listed(scores[:, :k]), "ids": found}, listed(scores[:, k])


def retrieval_case(kind, inputs, query, items, ids):
    outputs, next_score = ranked(query, items, ids)
    return {"kind": kind, "inputs": inputs, "outputs": outputs, "next_score": next_score}


def refused(kind, inputs):
    return {"kind": kind, "inputs": inputs, "error": {"code": "INVALID_ARGUMENT", "message": ""}}


def export(module, inputs, names, outputs, version, legacy=False):
    if legacy:
        axes = {name: {0: "batch"} for name in [*names, *outputs]}
        torch.onnx.export(module, inputs, version / "model.onnx", input_names=names, output_names=outputs,
                          dynamo=False, opset_version=17, dynamic_axes=axes)
    else:
        batch = torch.export.Dim("batch")
        torch.onnx.export(module, inputs, version / "model.onnx", input_names=names, output_names=outputs,
                          dynamic_shapes=tuple({0: batch} for _ in inputs))


def describe(version, **description):
    (version / "winnow.json").write_text(json.dumps(description, indent=2) + "\n")


@model("books")
def books(version):
    of = documented()
    shutil.copytree("models/books/1", version, dirs_exist_ok=True)
    towers, readers = of["towers"], of["readers"]
    cases = []
    for kind, rows in (("one", [7]), ("many", [0, 39, 3, 3, 21]), ("none", [])):
        query = towers(torch.tensor(rows, dtype=torch.int64))
        inputs = {"reader": [readers[row] for row in rows]}
        if rows:
            cases.append(retrieval_case(kind, inputs, query, towers.items.weight, of["books"]))
    return cases + [refused("a reader that users.txt does not list", {"reader": ["reader 40"]})]


@model("books-ranking")
def books_ranking(version):
    ranking = documented()["ranking"]
    shutil.copytree("models/books-ranking/1", version, dirs_exist_ok=True)
    return ranking_cases(ranking)


def ranking_cases(ranking):
    cases = []
    generator = torch.Generator().manual_seed(5)
    for kind, count in (("one", 1), ("many", 9)):
        reader = torch.randint(40, (count,), generator=generator)
        book = torch.randint(300, (count,), generator=generator)
        context = torch.randn(count, 3, generator=generator)
        click, rating = ranking(reader, book, context)
        inputs = {"reader": reader.tolist(), "book": book.tolist(), "context": listed(context)}
        cases.append({"kind": kind, "inputs": inputs, "outputs": {"click": listed(click), "rating": listed(rating)}})
    strange = {"reader": [40], "book": [0], "context": [[0.0, 0.0, 0.0]]}
    return cases + [refused("a reader beyond the embedding", strange)]


@model("ranking_legacy")
def ranking_legacy(version):
    ranking = documented()["ranking"]
    examples = (torch.tensor([0, 1]), torch.tensor([0, 1]), torch.zeros(2, 3))
    export(ranking, examples, ["reader", "book", "context"], ["click", "rating"], version, legacy=True)
    return ranking_cases(ranking)


class Recurrent(nn.Module):
    """A GRU over the last books, and a loop in the graph: scripted, it becomes ONNX's Loop."""

    def __init__(self):
        super().__init__()
        self.books = nn.Embedding(50, 8, padding_idx=0)
        self.cell = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, history):
        state = self.cell(self.books(history))[1][0]
        return self.head(decayed(state, history))


@torch.jit.script
def decayed(state: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
    for step in range(history.size(1)):
        state = state * 0.9 + float(step) * 0.01
    return state


@model("recurrent_ranking")
def recurrent_ranking(version):
    torch.manual_seed(3)
    recurrent = Recurrent().eval()
    axes = {"history": {0: "batch", 1: "steps"}, "score": {0: "batch"}}
    torch.onnx.export(recurrent, (torch.ones(2, 4, dtype=torch.int64),), version / "model.onnx",
                      input_names=["history"], output_names=["score"], dynamo=False, opset_version=17,
                      dynamic_axes=axes)
    cases = []
    for kind, rows in (("short", [[4, 9]]), ("longer", [[4, 9, 0, 1, 2, 49], [1, 1, 1, 0, 0, 0]])):
        answer = recurrent(torch.tensor(rows))
        cases.append({"kind": kind, "inputs": {"history": rows}, "outputs": {"score": listed(answer)}})
    return cases


def user_tower(seed, dim, users=20):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Embedding(users, dim), nn.Linear(dim, dim), nn.Tanh()).eval()


class WithUnknown(nn.Module):
    """Row 0 is for readers whom nobody knows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.readers = nn.Embedding(21, 12)
        self.age = nn.Linear(1, 12)

    def forward(self, reader, age):
        return self.readers(reader) + self.age(age)


@model("cosine_half_npy")
def cosine_half_npy(version):
    """Items of half precision in .npy with ids of numpy's unicode strings; scores are cosines."""
    tower = WithUnknown().eval()
    export(tower, (torch.tensor([0, 1]), torch.zeros(2, 1)), ["reader", "age"], ["query"], version)
    items = torch.randn(120, 12).half()
    items[17] = 0
    ids = [f"日本 {row}" if row % 10 == 0 else f"id-{row}" for row in range(120)]
    np.save(version / "items.npy", items.numpy())
    np.save(version / "ids.npy", np.array(ids))
    (version / "readers.txt").write_text("<unknown>\n" + "".join(f"r{number}\n" for number in range(20)))
    describe(version, inputs={"reader": {"vocabulary": "readers.txt", "unknown": 0}},
             retrieval={"items": {"file": "items.npy"}, "ids": {"file": "ids.npy"}, "similarity": "cosine",
                        "k": K, "outputs": {"scores": "output_1", "ids": "output_2"}})
    cases = []
    for kind, readers in (("known", ["r3", "r19"]), ("unknown too", ["r0", "nobody", ""])):
        rows = [int(reader[1:]) + 1 if re.fullmatch(r"r\d+", reader) else 0 for reader in readers]
        age = torch.linspace(-1, 1, len(rows)).reshape(-1, 1)
        query = nn.functional.normalize(tower(torch.tensor(rows), age), dim=1)
        inputs = {"reader": readers, "age": listed(age)}
        case = retrieval_case(kind, inputs, query, nn.functional.normalize(items.float(), dim=1), ids)
        case["outputs"] = {"output_1": case["outputs"]["scores"], "output_2": case["outputs"]["ids"]}
        cases.append(case)
    return cases


@model("bfloat16_safetensors")
def bfloat16_safetensors(version):
    """Items of bfloat16 and int64 ids as two tensors of one file, beside others."""
    tower = user_tower(6, 16)
    export(tower, (torch.tensor([0, 1]),), ["reader"], ["query"], version, legacy=True)
    items = torch.randn(90, 16).bfloat16()
    ids = torch.randperm(90) * 1_000_003 + 2**53
    save_file({"items": items, "ids": ids, "another": torch.zeros(3), "bias": torch.zeros(90)},
              version / "tables.safetensors")
    describe(version, retrieval={"items": {"file": "tables.safetensors", "tensor": "items"},
                                 "ids": {"file": "tables.safetensors", "tensor": "ids"}, "k": K})
    names = [str(number) for number in ids.tolist()]
    return [retrieval_case(kind, {"reader": rows}, tower(torch.tensor(rows)), items.float(), names)
            for kind, rows in (("one", [5]), ("many", [0, 19, 5]))]


@model("rows_without_ids")
def rows_without_ids(version):
    """Two inputs of numbers, float32 items in .npy, no ids: the answer is the row."""
    torch.manual_seed(7)
    tower = nn.Linear(6, 10).eval()
    export(tower, (torch.zeros(2, 6),), ["features"], ["vector"], version)
    items = torch.randn(64, 10)
    items[40:] = items[:24]
    np.save(version / "items.npy", items.numpy())
    describe(version, retrieval={"items": {"file": "items.npy"}, "query": "vector", "k": K})
    features = torch.randn(4, 6)
    return [retrieval_case("features", {"features": listed(features)}, tower(features), items, list(range(64)))]


@model("parquet")
def parquet(version):
    """Items and ids as two columns of one Parquet file, in row groups and pages that no partition ends at."""
    tower = user_tower(8, 8)
    export(tower, (torch.tensor([0, 1]),), ["reader"], ["query"], version)
    items = torch.randn(200, 8)
    ids = [f"item {row}" if row % 7 else f"日本 {row}" for row in range(200)]
    table = pa.table({"title": ["x"] * 200, "id": ids, "embedding": pa.array(list(items.numpy()))})
    pq.write_table(table, version / "items.parquet", row_group_size=64, data_page_size=256,
                   write_batch_size=16, compression="snappy")
    describe(version, retrieval={"items": {"file": "items.parquet"},
                                 "ids": {"file": "items.parquet", "tensor": "id"}, "k": K})
    return [retrieval_case(kind, {"reader": rows}, tower(torch.tensor(rows)), items, ids)
            for kind, rows in (("one", [5]), ("many", [0, 19, 5]))]


class Interests(nn.Module):
    """Three vectors for each reader: the score of an item is that of the nearest."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.readers = nn.Embedding(20, 3 * 8)

    def forward(self, reader):
        return self.readers(reader).reshape(-1, 3, 8)


@model("interests")
def interests(version):
    tower = Interests().eval()
    export(tower, (torch.tensor([0, 1]),), ["reader"], ["query"], version)
    items = torch.randn(70, 8)
    np.save(version / "items.npy", items.numpy())
    describe(version, retrieval={"items": {"file": "items.npy"}, "similarity": "cosine", "k": K})
    cases = []
    for kind, rows in (("one", [5]), ("many", [0, 19, 5])):
        vectors = nn.functional.normalize(tower(torch.tensor(rows)), dim=-1)
        scores = (vectors @ nn.functional.normalize(items, dim=1).T).max(dim=1).values
        # The scores are those of the unit matrix.
        cases.append(retrieval_case(kind, {"reader": rows}, scores, torch.eye(70), list(range(70))))
    return cases


@model("bag")
def bag(version):
    """An EmbeddingBag, which becomes a Loop that ends by a condition."""
    torch.manual_seed(11)
    tower = nn.EmbeddingBag(30, 8, mode="mean").eval()
    export(tower, (torch.ones(2, 4, dtype=torch.int64),), ["history"], ["query"], version)
    items = torch.randn(70, 8)
    np.save(version / "items.npy", items.numpy())
    describe(version, retrieval={"items": {"file": "items.npy"}, "k": K})
    return [retrieval_case(kind, {"history": rows}, tower(torch.tensor(rows)), items, list(range(70)))
            for kind, rows in (("one", [[5, 5, 29, 1]]), ("many", [[7, 0, 0, 0], [1, 2, 3, 4], [0, 9, 0, 29]]))]


class Halves(nn.Module):
    """
    Inputs and outputs of half precision, and a temperature for all instances. ONNX Runtime computes in float32 and
    rounds as it likes, so all values are such that no result is rounded.
    """

    def __init__(self):
        super().__init__()
        torch.manual_seed(10)
        self.readers = nn.Embedding.from_pretrained(torch.randint(-127, 128, (20, 4)) / 64)

    def forward(self, reader, age, temperature):
        return self.readers(reader) + age, (self.readers(reader) / temperature).bfloat16()


@model("halves")
def halves(version):
    module = Halves().half().eval()
    examples = (torch.tensor([0, 1]), torch.zeros(2, 1).half(), torch.tensor(1.0).half())
    axes = {name: {0: "batch"} for name in ("reader", "age", "sum", "ratio")}
    torch.onnx.export(module, examples, version / "model.onnx", input_names=["reader", "age", "temperature"],
                      output_names=["sum", "ratio"], dynamo=False, opset_version=17, dynamic_axes=axes)
    cases = []
    for kind, rows in (("one", [5]), ("many", [0, 19, 5])):
        age = torch.arange(len(rows)).reshape(-1, 1) / 8 - 1
        total, ratio = module(torch.tensor(rows), age.half(), torch.tensor(0.5).half())
        inputs = {"reader": rows, "age": listed(age), "temperature": 0.5}
        cases.append({"kind": kind, "inputs": inputs,
                      "outputs": {"sum": listed(total.float()), "ratio": listed(ratio.float())}})
    return cases


def record(name):
    HERE.mkdir(exist_ok=True)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    version = folder / "1"
    version.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        with torch.no_grad() if name not in ("books", "books-ranking", "ranking_legacy") else torch.enable_grad():
            cases = MODELS[name](version)
    for file in version.glob("*.data"):
        if file.stat().st_size == 0:
            file.unlink()
    oracle = {"model": name, "recorded_with": {"torch": torch.__version__}, "signature_name": "serving_default",
              "cases": cases}
    (folder / "oracle.json").write_text(json.dumps(oracle, ensure_ascii=False, indent=1) + "\n")
    print(name, len(cases), sorted(file.name for file in version.iterdir()))


for wanted in sys.argv[1:] or MODELS:
    record(wanted)
