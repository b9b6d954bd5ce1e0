"""Makes savedmodels/scann, an export of a ScaNN index as TensorFlow Recommenders' layer writes it, and records what an exact
search of the same vectors answers, computed by TensorFlow.

    TF_ENABLE_ONEDNN_OPTS=0 python record_scann.py

Needs tensorflow 2.21 and g++. ScaNN's operations are declared here as its sources declare them (scann_ops.cc of version 1.2),
without their kernels, which an export does not need: the graph, the variables (`ScannState`) and the resources of a real one.
"""

import pathlib
import shutil
import subprocess
import tempfile

from recording import HERE, randoms, record, spec

import tensorflow as tf

DECLARATIONS = r"""
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
using namespace tensorflow;
#define STATE \
    .Input("scann_config: string").Input("serialized_partitioner: string") \
    .Input("datapoint_to_token: int32").Input("ah_codebook: string").Input("hashed_dataset: uint8") \
    .Input("int8_dataset: int8").Input("int8_multipliers: float").Input("dp_norms: float")
REGISTER_OP("Scann>TensorsToScann")
    .Input("x: float32") STATE
    .Attr("container: string = ''").Attr("shared_name: string = ''")
    .Output("searcher_handle: resource").SetIsStateful()
    .SetShapeFn(shape_inference::ScalarShape);
REGISTER_OP("Scann>ScannSearchBatched")
    .Input("scann_handle: resource").Input("queries: float32").Input("final_num_neighbors: int32")
    .Input("pre_reordering_num_neighbors: int32").Input("leaves_to_search: int32").Input("parallel: bool")
    .Output("indices: int32").Output("distances: float32")
    .SetShapeFn(shape_inference::UnknownShape);
"""


def library():
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "ops.cc").write_text(DECLARATIONS)
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    target = folder / "ops.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-w", "-o", target, folder / "ops.cc", *flags], check=True)
    return tf.load_op_library(str(target))


def field(number, content):
    tag = number << 3 | 2
    return bytes([tag] if tag < 128 else [tag & 127 | 128, tag >> 7]) + bytes([len(content)]) + content


def config(distance):
    """A ScannConfig: 7 neighbours, the distance, and fields that say how to search approximately."""
    return b"\x18\x07" + field(5, field(1, distance)) + field(8, b"\x08\x02") + field(17, b"\x08\x14")


class State(tf.Module):
    def __init__(self, ops, vectors, distance):
        super().__init__()
        self.ops = ops
        self.scann_config = tf.Variable(config(distance))
        self.serialized_partitioner = tf.Variable(b"\x0a\x00\xff partitioner")
        self.datapoint_to_token = tf.Variable(tf.range(len(vectors)) % 3)
        self.ah_codebook = tf.Variable(b"\x0a\x00\xff centers")
        self.hashed_dataset = tf.Variable(tf.zeros([len(vectors), 2], tf.uint8))
        self.int8_dataset = tf.Variable(tf.zeros([], tf.int8))
        self.int8_multipliers = tf.Variable(tf.zeros([]))
        self.dp_norms = tf.Variable(tf.zeros([]))
        self.dataset = tf.Variable(vectors, shape=tf.TensorShape(None))

    @tf.function(input_signature=[])
    def recreate_handle(self):
        return self.ops.scann_tensors_to_scann(
            self.dataset, self.scann_config, self.serialized_partitioner, self.datapoint_to_token,
            self.ah_codebook, self.hashed_dataset, self.int8_dataset, self.int8_multipliers, self.dp_norms)


class Index(tf.Module):
    def __init__(self, ops):
        super().__init__()
        self.ops = ops
        self.users = tf.Variable(randoms(12, 8))
        self.ids = tf.Variable([f"item {i:02d}" for i in range(40)])
        self.state = State(ops, randoms(40, 8), b"DotProductDistance")

    def query(self, user):
        return tf.gather(self.users, user)

    def searched(self, user, k, parallel):
        handle = self.state.recreate_handle()
        indices, distances = self.ops.scann_scann_search_batched(handle, self.query(user), k, -1, -1, parallel)
        return {"output_1": distances, "output_2": tf.gather(self.ids, indices)}

    def exact(self, user, k):
        scores = tf.matmul(self.query(user), randoms(40, 8), transpose_b=True)
        best, rows = tf.math.top_k(scores, k)
        return {"output_1": best, "output_2": tf.gather(self.ids, rows)}


def main():
    ops = library()
    user = spec(tf.int32, None, name="user")

    def exact(directory):
        """A ScaNN index with its original vectors, as TensorFlow Recommenders exports it: k as asked, and k of the index."""
        module = Index(ops)
        signatures = {
            "serving_default": tf.function(lambda user: module.exact(user, 5), [user]),
            "default_k": tf.function(lambda user: module.exact(user, 7), [user]),
        }
        tf.saved_model.save(module, directory, signatures)
        users = [{"user": [n]} for n in range(4)] + [{"user": [11, 4, 4, 0, 7]}]
        return [("batch", inputs, name) for name in signatures for inputs in users]

    record("scann", exact)
    directory = HERE / "scann" / "1"
    shutil.rmtree(directory)
    module = Index(ops)
    signatures = {
        "serving_default": tf.function(lambda user: module.searched(user, 5, False), [user]),
        "default_k": tf.function(lambda user: module.searched(user, -1, True), [user]),
    }
    tf.saved_model.save(module, str(directory), signatures)
    # Shapes of what ScaNN finds are unknown to the export.
    oracle = HERE / "scann" / "oracle.json"
    text = oracle.read_text()
    for k in (5, 7):
        known = f'"shape": [\n     -1,\n     {k}\n    ]'
        text = text.replace(known, '"shape": null').replace(known.replace("\n ", "\n  "), '"shape": null')
    oracle.write_text(text)


if __name__ == "__main__":
    main()
