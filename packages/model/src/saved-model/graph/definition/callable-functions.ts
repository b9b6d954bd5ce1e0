// What a SavedModel holds in place of a signature: the functions of its root object
// (tensorflow/core/protobuf/saved_object_graph.proto). Keras `save` of a model that was never called
// writes functions without a graph and no signature, and then a client has nothing to call.

import { WinnowError, excerpt } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { messageReader } from "../../message.ts";
import type { MetaGraph } from "./meta-graph.ts";

/** Functions named in one message. */
const NAMED_MAX = 20;

const REMEDY = `Export it with a signature, in Python:
  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="user_id")])
  def serve(user_id): return dict(zip(["scores", "ids"], model(user_id)))
  tf.saved_model.save(model, "export/1", signatures={"serving_default": serve})`;

/** The refusal of a model without a signature that can be called: what it has, what to do. */
export function noSignature(meta: MetaGraph, file: string): WinnowError {
  const functions = meta.objectGraph === undefined ? [] : rootFunctions(meta.objectGraph, file);
  const named = functions
    .slice(0, NAMED_MAX)
    .map(({ name, isTraced }) => `${excerpt(name)}${isTraced ? "" : " (never called)"}`);
  const rest = functions.length > NAMED_MAX ? ", …" : "";
  const signatures = meta.signatures.map(({ name }) => excerpt(name)).join(", ");
  const found = [
    `its signatures: ${signatures === "" ? "none" : signatures}`,
    `its functions: ${named.length === 0 ? "none" : named.join(", ") + rest}`,
  ];
  const text = `${file} has no signature that can be called; ${found.join("; ")}`;
  return new WinnowError("UNIMPLEMENTED", `${text}. ${REMEDY}`);
}

interface RootFunction {
  readonly name: string;
  /** Whether it has a graph; one that was never called has none. */
  readonly isTraced: boolean;
}

function rootFunctions(objectGraph: Uint8Array, file: string): RootFunction[] {
  const children = new Map<number, string>();
  const functions: RootFunction[] = [];
  const reader = messageReader(objectGraph, file);
  for (let node = 0; reader.next();) {
    if (reader.field !== 1) continue;
    const object = reader.message();
    const name = children.get(node);
    while (object.next()) {
      if (node === 0 && object.field === 1) readChild(object.message(), children);
      else if (object.field === 6 && name !== undefined) {
        functions.push({ name, isTraced: object.message().next() });
      }
    }
    node += 1;
  }
  return functions;
}

function readChild(reference: ProtobufReader, into: Map<number, string>): void {
  let node = 0;
  let name = "";
  while (reference.next()) {
    if (reference.field === 1) node = reference.int();
    else if (reference.field === 2) name = reference.text();
  }
  into.set(node, name);
}
