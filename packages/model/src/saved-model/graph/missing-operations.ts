// The operations of a signature that cannot run, all in one error, so that a team need not export again to
// find the next one. A node that only follows a missing operation is not named, because its inputs are not
// known.

import { WinnowError, excerpt } from "@winnow/core";
import type { LoweredNode, OperationNode } from "./graph-value.ts";

/** Operations named in one message. */
const NAMED_MAX = 20;

/** The refusal of an operation that runs neither on the host nor in a dense part. */
export function unsupported({ op, name }: OperationNode): WinnowError {
  const what = `operation ${excerpt(op)} (node ${excerpt(name)})`;
  return new WinnowError("UNIMPLEMENTED", `${what} is not supported`);
}

/** What a loop may do with each row, and what does the same with all rows at once. */
const OF_ALL_ROWS: readonly (readonly [ops: RegExp, hint: string])[] = [
  [
    /^Parse(Single)?Example(V2)?$/,
    "parse all examples at once, tf.io.parse_example(serialized, features), not each in tf.map_fn",
  ],
  [
    /^Decode(CSV|Raw|PaddedRaw|Base64)$/,
    "decode the whole batch at once, which takes any shape, not each row in tf.map_fn",
  ],
];

/** Refuses a loop that parses strings one by one. @throws WinnowError UNIMPLEMENTED with the way round */
export function refuseParsing(loop: string, nodes: readonly LoweredNode[]): void {
  for (const node of nodes) {
    if (node.kind !== "operation") continue;
    const [, hint] = OF_ALL_ROWS.find(([ops]) => ops.test(node.op)) ?? [];
    if (hint === undefined) continue;
    const where = `in the loop ${excerpt(loop)}, where no strings are used`;
    const what = `operation ${node.op} (node ${excerpt(node.name)}) is not supported ${where}`;
    throw new WinnowError("UNIMPLEMENTED", `${what}: ${hint}`);
  }
}

/** Collects the operations of one signature that cannot run. */
export class MissingOperations {
  readonly #refusals = new Map<LoweredNode, WinnowError>();

  add(node: OperationNode, refusal: WinnowError): void {
    this.#refusals.set(node, refusal);
  }

  /** @throws WinnowError UNIMPLEMENTED naming operations, nodes and the way round, if there are any */
  refuse(nodes: readonly LoweredNode[]): void {
    const roots = this.#roots(nodes);
    const [first] = roots;
    if (first === undefined) return;
    const refusal = this.#refusals.get(first)!;
    const hints = waysRound(roots.map(({ op }) => op));
    const text = roots.length === 1 ? refusal.message : this.#listOf(roots);
    const code = roots.length === 1 ? refusal.code : "UNIMPLEMENTED";
    throw new WinnowError(code, [text, ...hints].join(". "), { cause: refusal });
  }

  /** Refused nodes that no other refused node leads to. */
  #roots(nodes: readonly LoweredNode[]): OperationNode[] {
    const tainted = new Set<LoweredNode>();
    const roots: OperationNode[] = [];
    for (const node of nodes) {
      const follows = node.inputs.some(({ producer }) => producer && tainted.has(producer));
      const refusal = this.#refusals.get(node);
      if (refusal !== undefined || follows) tainted.add(node);
      if (refusal === undefined || node.kind !== "operation") continue;
      if (!follows || refusal.message === unsupported(node).message) roots.push(node);
    }
    return roots;
  }

  /** Each operation once, with its first node, in the order of the graph. */
  #listOf(roots: readonly OperationNode[]): string {
    const byReason = new Map<string, { readonly first: OperationNode; count: number }>();
    for (const node of roots) {
      const isKnown = this.#refusals.get(node)!.message === unsupported(node).message;
      const reason = isKnown ? node.op : `${node.op} ${node.name}`;
      const known = byReason.get(reason);
      if (known === undefined) byReason.set(reason, { first: node, count: 1 });
      else known.count += 1;
    }
    const all = [...byReason.values()];
    const named = all.slice(0, NAMED_MAX).map(({ first, count }) => {
      const { message } = this.#refusals.get(first)!;
      if (message !== unsupported(first).message) return message;
      const others = count === 1 ? "" : ` and ${count - 1} more`;
      return `${excerpt(first.op)} (node ${excerpt(first.name)}${others})`;
    });
    const rest = all.length > NAMED_MAX ? [`and ${all.length - NAMED_MAX} more`] : [];
    const what = all.length === 1 ? "1 operation is" : `${all.length} operations are`;
    return `${what} not supported: ${[...named, ...rest].join(", ")}`;
  }
}

interface WayRound {
  readonly ops: RegExp;
  readonly hint: string;
}

const WAYS_ROUND: readonly WayRound[] = [
  {
    ops: /scann/i,
    hint: `Of ScaNN, searches by dot product in an index with its original vectors (reordering) are served; \
export an exact index in place of another:
  index = tfrs.layers.factorized_top_k.BruteForce(user_model, k=100)
  index.index_from_dataset(tf.data.Dataset.zip((ids.batch(1000), items.batch(1000).map(item_model))))
  index(tf.constant(["42"])); tf.saved_model.save(index, "export/1")`,
  },
  {
    ops: /^(PyFunc|PyFuncStateless|EagerPyFunc|NumpyFunction)$/,
    hint: "tf.py_function calls Python, which a SavedModel does not hold: write it in TensorFlow operations",
  },
  {
    ops: /^(Random|StatelessRandom|Multinomial|TruncatedNormal|ParameterizedTruncated)/,
    hint: "Random numbers come of training (dropout, sampling): call the model with training=False when exporting",
  },
  {
    ops: /^(Print|PrintV2)$/,
    hint: "Leave tf.print out of the exported function",
  },
  {
    ops: /^Parse(Single)?SequenceExample(V2)?$/,
    hint: "Send sequences as inputs of the signature, or as tf.io.RaggedFeature of a tf.train.Example (tf.io.parse_example)",
  },
  {
    ops: /^XlaCallModule$/,
    hint: `For a model of JAX, write its layers in TensorFlow or Keras, with its weights (docs/models.md); up to JAX 0.7.1 \
jax2tf.convert(..., native_serialization=False, enable_xla=False) does that. A model of Keras that was trained on JAX is exported \
by TensorFlow: model.save("m.keras"), then with KERAS_BACKEND=tensorflow \
keras.saving.load_model("m.keras").export("export/1", format="tf_saved_model")`,
  },
  {
    ops: /^(Decode(Jpeg|Png|Image|Bmp|Gif|AndCropJpeg)|ResizeBilinear|ResizeNearestNeighbor)$/,
    hint: "Compute features of images before the request, and send them as numbers",
  },
  {
    ops: /^(Enter|Exit|NextIteration|LoopCond)$/,
    hint: "A loop of TensorFlow 1: export it with control flow v2 (tf.compat.v1.enable_control_flow_v2)",
  },
  {
    ops: /^(StatelessCase|Case|Switch|Merge)$/,
    hint: "A branch that the request decides: compute both sides and choose with tf.where",
  },
];

/** What to do about these operations, each advice once. */
function waysRound(ops: readonly string[]): string[] {
  return WAYS_ROUND.filter((way) => ops.some((op) => way.ops.test(op))).map(({ hint }) => hint);
}
