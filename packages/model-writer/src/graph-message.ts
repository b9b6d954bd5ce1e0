// TensorFlow's graph messages as plain data, and their bytes: NodeDef, FunctionDef, SignatureDef and
// MetaGraphDef (tensorflow/core/framework/*.proto, core/protobuf/meta_graph.proto), as far as the
// writer of models needs them.

import { ProtobufWriter, type Dtype, type Tensor } from "@winnow/core";
import { numberOfDtype } from "@winnow/model";
import { type GraphType, numberOfType } from "./graph-type.ts";
import { writeOperations } from "./operation-definition.ts";

/** An attribute of a node. */
export type WrittenAttribute =
  | { readonly type: GraphType }
  | { readonly types: readonly GraphType[] }
  | { readonly int: number }
  | { readonly bool: boolean }
  | { readonly text: string }
  | { readonly shape: readonly number[] }
  | { readonly tensor: Tensor }
  | { readonly functionName: string };

/** A node; a graph and a function body have different forms of input references. */
export interface WrittenNode {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly attributes: Readonly<Record<string, WrittenAttribute>>;
}

/** A named argument or result. */
export interface WrittenArgument {
  readonly name: string;
  readonly type: GraphType;
}

/** A function of the library. */
export interface WrittenFunction {
  readonly name: string;
  readonly arguments: readonly WrittenArgument[];
  /** `value` names a body tensor: `Identity:output:0`. */
  readonly results: readonly (WrittenArgument & { readonly value: string })[];
  readonly nodes: readonly WrittenNode[];
  /** Nodes that must run even if no result needs them. */
  readonly effects: readonly string[];
}

/** An input or output of a signature. */
export interface WrittenSignatureTensor {
  readonly name: string;
  readonly graphTensor: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** What a SavedModel holds beside its variables. */
export interface WrittenModel {
  readonly nodes: readonly WrittenNode[];
  readonly functions: readonly WrittenFunction[];
  readonly inputs: readonly WrittenSignatureTensor[];
  readonly outputs: readonly WrittenSignatureTensor[];
  readonly assets: readonly { readonly graphTensor: string; readonly file: string }[];
  readonly initNode: string;
  readonly saver: { readonly filename: string; readonly save: string; readonly restore: string };
}

const METHOD = "tensorflow/serving/predict";
const INIT = "__saved_model_init_op";
/** GraphDef version of TensorFlow 2.15: old enough for every server in use. */
const GRAPH_PRODUCER = 1645;
const SAVER_VERSION_2 = 2;

/** `saved_model.pb`. */
export function encodeModel(model: WrittenModel): Uint8Array {
  return new ProtobufWriter()
    .int(1, 1)
    .message(2, (meta) => {
      meta.message(1, (info) =>
        info
          .message(2, (list) => writeOperations(list, operationsOf(model)))
          .text(4, "serve")
          .text(5, "2.15.0")
          .int(7, 1),
      );
      meta.message(2, (graph) => writeGraph(graph, model));
      meta.message(3, (saver) =>
        saver
          .text(1, `${model.saver.filename}:0`)
          .text(2, `${model.saver.save}:0`)
          .text(3, model.saver.restore)
          .int(7, SAVER_VERSION_2),
      );
      meta.entry(4, "saved_model_main_op", (collection) =>
        collection.message(1, (nodes) => nodes.text(1, model.initNode)),
      );
      meta.entry(5, "serving_default", (signature) => writeSignature(signature, model));
      meta.entry(5, INIT, (signature) =>
        signature.entry(2, INIT, (info) =>
          info.text(1, model.initNode).message(3, (shape) => shape.int(3, 1)),
        ),
      );
      for (const { graphTensor, file } of model.assets) {
        meta.message(6, (asset) =>
          asset.message(1, (info) => info.text(1, graphTensor)).text(2, file),
        );
      }
    })
    .finish();
}

function operationsOf(model: WrittenModel): string[] {
  const bodies = model.functions.flatMap((item) => item.nodes);
  return [...model.nodes, ...bodies].map((node) => node.op);
}

function writeGraph(graph: ProtobufWriter, model: WrittenModel): void {
  for (const node of model.nodes) graph.message(1, (message) => writeNode(message, node));
  graph.message(2, (library) => {
    for (const item of model.functions)
      library.message(1, (message) => writeFunction(message, item));
  });
  graph.message(4, (versions) => versions.int(1, GRAPH_PRODUCER).int(2, 12));
}

function writeNode(message: ProtobufWriter, node: WrittenNode): void {
  message.text(1, node.name).text(2, node.op);
  for (const input of node.inputs) message.text(3, input);
  for (const [name, attribute] of Object.entries(node.attributes)) {
    message.entry(5, name, (value) => writeAttribute(value, attribute));
  }
}

function writeAttribute(value: ProtobufWriter, attribute: WrittenAttribute): void {
  if ("type" in attribute) value.int(6, numberOfType(attribute.type));
  else if ("types" in attribute) {
    value.message(1, (list) => {
      for (const type of attribute.types) list.int(6, numberOfType(type));
    });
  } else if ("int" in attribute) value.int(3, attribute.int);
  else if ("bool" in attribute) value.int(5, attribute.bool ? 1 : 0);
  else if ("text" in attribute) value.text(2, attribute.text);
  else if ("shape" in attribute) value.message(7, (shape) => writeShape(shape, attribute.shape));
  else if ("tensor" in attribute)
    value.message(8, (tensor) => writeTensor(tensor, attribute.tensor));
  else value.message(10, (called) => called.text(1, attribute.functionName));
}

function writeTensor(message: ProtobufWriter, tensor: Tensor): void {
  message
    .int(1, numberOfDtype(tensor.dtype))
    .message(2, (shape) => writeShape(shape, tensor.shape));
  if (tensor.dtype === "string") {
    for (let index = 0; index < tensor.data.length; index += 1) {
      message.bytes(8, tensor.data.at(index));
    }
  } else {
    const { buffer, byteOffset, byteLength } = tensor.data;
    message.bytes(4, new Uint8Array(buffer, byteOffset, byteLength));
  }
}

function writeShape(message: ProtobufWriter, shape: readonly number[]): void {
  for (const size of shape) message.message(2, (dimension) => dimension.int(1, size));
}

function writeFunction(message: ProtobufWriter, item: WrittenFunction): void {
  message.message(1, (signature) => {
    signature.text(1, item.name);
    for (const { name, type } of item.arguments) {
      signature.message(2, (argument) => argument.text(1, name).int(3, numberOfType(type)));
    }
    for (const { name, type } of item.results) {
      signature.message(3, (result) => result.text(1, name).int(3, numberOfType(type)));
    }
    signature.int(17, 1);
    for (const name of item.effects) signature.text(20, name);
  });
  for (const node of item.nodes) message.message(3, (body) => writeNode(body, node));
  for (const { name, value } of item.results) {
    message.message(4, (entry) => entry.text(1, name).text(2, value));
  }
  for (const name of item.effects) message.message(6, (entry) => entry.text(1, name).text(2, name));
}

function writeSignature(signature: ProtobufWriter, model: WrittenModel): void {
  const write = (field: number, item: WrittenSignatureTensor): void => {
    signature.entry(field, item.name, (info) =>
      info
        .text(1, item.graphTensor)
        .int(2, numberOfType(item.dtype))
        .message(3, (shape) => writeShape(shape, item.shape)),
    );
  };
  for (const input of model.inputs) write(1, input);
  for (const output of model.outputs) write(2, output);
  signature.text(3, METHOD);
}
