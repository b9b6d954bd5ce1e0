// saved_model.pb (tensorflow/core/protobuf/saved_model.proto, meta_graph.proto): the graph tagged
// "serve" with its signatures, the call that restores variables, and its asset files.

import { isUtf8 } from "node:buffer";
import { WinnowError } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { messageReader } from "../../message.ts";
import { readCollection } from "./graph-collections.ts";
import type { Collection } from "./graph-collections.ts";
import { readGraph, readOperations } from "./graph-definition.ts";
import type { GraphDefinition, OperationDefinition } from "./graph-definition.ts";
import { readShape } from "./tensor-proto.ts";

/** A tensor that a signature names. */
export interface TensorInfo {
  readonly name: string;
  /** `serving_default_input_1:0`, or a bare node name for the initialiser. */
  readonly graphTensor: string;
  /** DataType number. */
  readonly type: number;
  readonly shape: readonly number[] | undefined;
}

/** A SignatureDef; inputs and outputs are sorted by name. */
export interface SignatureDefinition {
  readonly name: string;
  readonly methodName: string;
  readonly inputs: readonly TensorInfo[];
  readonly outputs: readonly TensorInfo[];
}

/** What is read of a MetaGraphDef. */
export interface MetaGraph {
  readonly tags: readonly string[];
  readonly tensorflowVersion: string;
  readonly graph: GraphDefinition;
  readonly operations: ReadonlyMap<string, OperationDefinition>;
  readonly signatures: readonly SignatureDefinition[];
  /** Node that restores all variables; empty when the model has none. */
  readonly restoreNode: string;
  /** Node that a loader runs once to fill tables; empty when the model has none. */
  readonly initialiserNode: string;
  /** File name within `assets/` by the graph tensor that stands for it. */
  readonly assets: ReadonlyMap<string, string>;
  /** The SavedObjectGraph, unread. */
  readonly objectGraph: Uint8Array | undefined;
}

/** Name of the signature that fills tables. */
export const INITIALISER_SIGNATURE = "__saved_model_init_op";

/** Collections that name the node which fills tables, in the loader's order. */
const INITIALISER_COLLECTIONS: readonly string[] = ["saved_model_main_op", "legacy_init_op"];
/** Asset files of exports that have no `asset_file_def`. */
const ASSETS_COLLECTION = "saved_model_assets";

/** Tag of the graph that is meant for serving. */
const SERVING_TAG = "serve";

/**
 * Reads the graph to serve. @throws WinnowError DATA_LOSS for a damaged file, INVALID_ARGUMENT when
 * no graph is tagged "serve"
 */
export function readServingGraph(bytes: Uint8Array, file: string): MetaGraph {
  try {
    return servingGraphIn(bytes, file);
  } catch (error) {
    if (!(error instanceof WinnowError) || !wasText(bytes)) throw error;
    const why =
      "it was copied as text (its other bytes are U+FFFD now), as by Maven's resource filtering";
    throw new WinnowError(error.code, `${error.message}; ${why}: copy it as bytes`, {
      cause: error,
    });
  }
}

/** Whether a tool has read bytes as text and written the text: what was no UTF-8 became U+FFFD. */
function wasText(bytes: Uint8Array): boolean {
  return (
    isUtf8(bytes) && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes("\uFFFD")
  );
}

function servingGraphIn(bytes: Uint8Array, file: string): MetaGraph {
  const reader = messageReader(bytes, file);
  const tags: string[][] = [];
  while (reader.next()) {
    if (reader.field !== 2) continue;
    const graphTags = readTags(reader.message());
    if (graphTags.includes(SERVING_TAG)) return readMetaGraph(reader.message(), graphTags);
    tags.push(graphTags);
  }
  const found = tags.map((names) => `[${names.join(", ")}]`).join(" ") || "none at all";
  const message = `${file} holds no graph tagged "${SERVING_TAG}"; its graphs: ${found}`;
  throw new WinnowError("INVALID_ARGUMENT", message);
}

function readTags(reader: ProtobufReader): string[] {
  const tags: string[] = [];
  while (reader.next()) {
    if (reader.field !== 1) continue;
    const info = reader.message();
    while (info.next()) if (info.field === 4) tags.push(info.text());
  }
  return tags;
}

/** What is read of a MetaInfoDef. */
type GraphInfo = Pick<MetaGraph, "operations" | "tensorflowVersion">;

const NO_INFO: GraphInfo = { operations: new Map(), tensorflowVersion: "" };

function readInfo(info: ProtobufReader): GraphInfo {
  let { operations, tensorflowVersion } = NO_INFO;
  while (info.next()) {
    if (info.field === 2) operations = readOperations(info.message());
    else if (info.field === 5) tensorflowVersion = info.text();
  }
  return { operations, tensorflowVersion };
}

function readMetaGraph(reader: ProtobufReader, tags: readonly string[]): MetaGraph {
  let graph: GraphDefinition = { nodes: new Map(), functions: new Map() };
  let { operations, tensorflowVersion } = NO_INFO;
  let restoreNode = "";
  let objectGraph: Uint8Array | undefined;
  const signatures: SignatureDefinition[] = [];
  const assets = new Map<string, string>();
  const collections = new Map<string, Collection>();
  while (reader.next()) {
    if (reader.field === 1) ({ operations, tensorflowVersion } = readInfo(reader.message()));
    else if (reader.field === 2) graph = readGraph(reader.message());
    else if (reader.field === 3) restoreNode = readRestoreNode(reader.message());
    else if (reader.field === 4) readCollection(reader, collections);
    else if (reader.field === 5) signatures.push(readSignature(reader));
    else if (reader.field === 6) readAsset(reader.message(), assets);
    else if (reader.field === 7) objectGraph = reader.view();
  }
  signatures.sort(byName);
  if (assets.size === 0) readAssetCollection(collections, assets);
  const initialiserNode = initialiserOf(signatures, collections);
  const parts = { graph, operations, signatures, assets, objectGraph };
  return { tags, tensorflowVersion, restoreNode, initialiserNode, ...parts };
}

function readAssetCollection(
  collections: ReadonlyMap<string, Collection>,
  into: Map<string, string>,
): void {
  for (const message of collections.get(ASSETS_COLLECTION)?.messages ?? []) {
    readAsset(message, into);
  }
}

/** The node that TensorFlow's loader runs: named by a signature, or by a collection of TensorFlow 1. */
function initialiserOf(
  signatures: readonly SignatureDefinition[],
  collections: ReadonlyMap<string, Collection>,
): string {
  const signature = signatures.find(({ name }) => name === INITIALISER_SIGNATURE);
  const named = INITIALISER_COLLECTIONS.flatMap((name) => collections.get(name)?.nodes ?? []);
  const tensor = signature?.outputs[0]?.graphTensor ?? named[0] ?? "";
  return tensor.replace(/:\d+$/, "");
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : Number(a.name > b.name);
}

function readRestoreNode(reader: ProtobufReader): string {
  let node = "";
  while (reader.next()) if (reader.field === 3) node = reader.text();
  return node;
}

function readSignature(reader: ProtobufReader): SignatureDefinition {
  const { key: name, value } = reader.mapEntry();
  const inputs: TensorInfo[] = [];
  const outputs: TensorInfo[] = [];
  let methodName = "";
  const signature = value?.message();
  while (signature?.next() === true) {
    if (signature.field === 1) inputs.push(...readNamedTensorInfo(signature));
    else if (signature.field === 2) outputs.push(...readNamedTensorInfo(signature));
    else if (signature.field === 3) methodName = signature.text();
  }
  return { name, methodName, inputs: inputs.toSorted(byName), outputs: outputs.toSorted(byName) };
}

/** A tensor of a signature; the three that a sparse one (COO) consists of, named after it. */
function readNamedTensorInfo(reader: ProtobufReader): readonly TensorInfo[] {
  const { key, value } = reader.mapEntry();
  const { sparse, ...info } = readTensorInfo(key, value?.message());
  if (sparse === undefined) return [info];
  const rank = info.shape?.length ?? -1;
  return [
    {
      ...info,
      name: `${key}/indices`,
      graphTensor: sparse.indices,
      type: INT64,
      shape: [-1, rank],
    },
    { ...info, name: `${key}/values`, graphTensor: sparse.values, shape: [-1] },
    {
      ...info,
      name: `${key}/dense_shape`,
      graphTensor: sparse.denseShape,
      type: INT64,
      shape: [rank],
    },
  ];
}

/** DataType of the indices and of the shape of a sparse tensor. */
const INT64 = 9;

/** Names of the tensors that a sparse one consists of. */
interface SparseInfo {
  readonly values: string;
  readonly indices: string;
  readonly denseShape: string;
}

function readTensorInfo(
  name: string,
  reader: ProtobufReader | undefined,
): TensorInfo & { readonly sparse?: SparseInfo | undefined } {
  let graphTensor = "";
  let type = 0;
  let shape: readonly number[] | undefined;
  let sparse: SparseInfo | undefined;
  while (reader?.next() === true) {
    if (reader.field === 1) graphTensor = reader.text();
    else if (reader.field === 2) type = reader.int();
    else if (reader.field === 3) shape = readShape(reader.message());
    else if (reader.field === 4) sparse = readSparse(reader.message());
  }
  return { name, graphTensor, type, shape, sparse };
}

function readSparse(reader: ProtobufReader): SparseInfo {
  let [values, indices, denseShape] = ["", "", ""];
  while (reader.next()) {
    if (reader.field === 1) values = reader.text();
    else if (reader.field === 2) indices = reader.text();
    else if (reader.field === 3) denseShape = reader.text();
  }
  return { values, indices, denseShape };
}

function readAsset(reader: ProtobufReader, into: Map<string, string>): void {
  let tensorName = "";
  let file = "";
  while (reader.next()) {
    if (reader.field === 1) tensorName = readTensorInfo("", reader.message()).graphTensor;
    else if (reader.field === 2) file = reader.text();
  }
  into.set(tensorName, file);
}
