// Serialized tf.Examples to tensors: ParseExampleV2, ParseExample and ParseSingleExample, with
// dense features (fixed and variable length), sparse and ragged ones. Error messages are those of
// tensorflow/core/util/example_proto_fast_parsing.cc.

import { excerpt } from "../../../errors/errors.ts";
import type { StringColumn } from "../../../tensor/string-column.ts";
import { elementCount } from "../../../tensor/tensor.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { reshaped, stringList } from "../element-positions.ts";
import { featureName, readExample } from "./example-message.ts";
import type { Example, Feature } from "./example-message.ts";
import { dtypeOfName, inputAt, numberAttribute, stringsAt, textsAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { outputCount } from "../tensor-memory.ts";
import { listTensor, raggedFeature, sparseFeature } from "./example-lists.ts";
import type { ExampleBatch } from "./example-lists.ts";

/** tf.Example parsing, by TensorFlow's name. */
export const exampleOperations: HostOperations = {
  ParseExampleV2: parseV2,
  ParseExample: parseV1,
  ParseSingleExample: parseSingle,
};

type DenseDtype = Feature["dtype"];

interface DenseFeature {
  readonly key: string;
  readonly dtype: DenseDtype;
  /** The first size may be -1: then it is that of the longest example of the batch. */
  readonly shape: readonly number[];
  /** Default: one example's values, or one value for all. Empty: the feature is required. */
  readonly fallback: Tensor;
}

interface Wanted {
  readonly sparse: readonly { readonly key: string; readonly dtype: DenseDtype }[];
  readonly dense: readonly DenseFeature[];
  readonly ragged: readonly {
    readonly key: string;
    readonly dtype: DenseDtype;
    readonly isNarrow: boolean;
  }[];
}

function parseV2(call: HostCall): Tensor[] {
  const keys = [2, 3, 4].map((at) => namesOf(stringsAt(call, at).data));
  const [sparseKeys, denseKeys, raggedKeys] = keys as [string[], string[], string[]];
  const splitTypes = textsAttribute(call, "ragged_split_types");
  const wanted: Wanted = {
    sparse: listFeatures(call, sparseKeys, "sparse_types"),
    dense: denseFeatures(call, denseKeys, 5),
    ragged: listFeatures(call, raggedKeys, "ragged_value_types").map(({ key, dtype }, at) => {
      return { key, dtype, isNarrow: dtypeOfName(splitTypes[at] ?? "int64") === "int32" };
    }),
  };
  return parsed(readBatch(call), wanted);
}

/** ParseExample, which has one scalar input per key. */
function parseV1(call: HostCall): Tensor[] {
  const sparseCount = numberAttribute(call, "Nsparse", 0);
  const denseCount = numberAttribute(call, "Ndense", 0);
  const keyAt = (at: number): string => featureName(stringsAt(call, at).data.at(0));
  const sparseKeys = Array.from({ length: sparseCount }, (_, at) => keyAt(2 + at));
  const denseKeys = Array.from({ length: denseCount }, (_, at) => keyAt(2 + sparseCount + at));
  const wanted: Wanted = {
    sparse: listFeatures(call, sparseKeys, "sparse_types"),
    dense: denseFeatures(call, denseKeys, 2 + sparseCount + denseCount),
    ragged: [],
  };
  return parsed(readBatch(call), wanted);
}

/** ParseSingleExample: keys are attributes, and outputs have no batch axis. */
function parseSingle(call: HostCall): Tensor[] {
  const batch = batchOf(stringList(stringsAt(call, 0).data), []);
  const wanted: Wanted = {
    sparse: listFeatures(call, latinKeys(call, "sparse_keys"), "sparse_types"),
    dense: denseFeatures(call, latinKeys(call, "dense_keys"), 1),
    ragged: [],
  };
  if (wanted.sparse.length > 0) throw invalid("ParseSingleExample with sparse features");
  return parsed(batch, wanted).map((tensor) => reshaped(tensor, tensor.shape.slice(1)));
}

const encoder = new TextEncoder();

function latinKeys(call: HostCall, attribute: string): string[] {
  return textsAttribute(call, attribute).map((key) => featureName(encoder.encode(key)));
}

function namesOf(column: StringColumn): string[] {
  return stringList(column).map(featureName);
}

function featureDtype(name: string): DenseDtype {
  const dtype = dtypeOfName(name);
  if (dtype === "string" || dtype === "float32" || dtype === "int64") return dtype;
  throw invalid(`A feature of an example cannot be ${dtype}`);
}

function listFeatures(
  call: HostCall,
  keys: readonly string[],
  attribute: string,
): { readonly key: string; readonly dtype: DenseDtype }[] {
  const types = textsAttribute(call, attribute);
  return keys.map((key, at) => ({ key, dtype: featureDtype(types[at] ?? "") }));
}

function denseFeatures(
  call: HostCall,
  keys: readonly string[],
  firstDefault: number,
): DenseFeature[] {
  const types = textsAttribute(call, "Tdense");
  const shapes = textsAttribute(call, "dense_shapes");
  return keys.map((key, at) => ({
    key,
    dtype: featureDtype(types[at] ?? inputAt(call, firstDefault + at).dtype),
    shape: (shapes[at] ?? "").split(",").filter(Boolean).map(Number),
    fallback: inputAt(call, firstDefault + at),
  }));
}

function readBatch(call: HostCall): ExampleBatch {
  const serialized = stringsAt(call, 0);
  if (serialized.shape.length > 1) {
    throw invalid(
      `Input serialized must be a scalar or a vector, got shape [${serialized.shape.join(",")}]`,
    );
  }
  return batchOf(stringList(serialized.data), stringsAt(call, 1).data.toText());
}

function batchOf(serialized: readonly Uint8Array[], names: readonly string[]): ExampleBatch {
  const examples = serialized.map((bytes) => {
    const example = readExample(bytes);
    if (example !== undefined) return example;
    const text = excerpt(new TextDecoder().decode(bytes.subarray(0, 1024)));
    throw invalid(`Could not parse example input, value: '${text}'`);
  });
  return { examples, nameOf: (at) => names[at] ?? "<unknown>" };
}

function parsed(batch: ExampleBatch, { sparse, dense, ragged }: Wanted): Tensor[] {
  const sparseParts = sparse.map((feature) => sparseFeature(batch, feature));
  const denseValues = dense.map((feature) => denseFeature(batch, feature));
  const raggedParts = ragged.map((feature) => raggedFeature(batch, feature));
  return [
    ...sparseParts.map(({ indices }) => indices),
    ...sparseParts.map(({ values }) => values),
    ...sparseParts.map(({ shape }) => shape),
    ...denseValues,
    ...raggedParts.map(({ values }) => values),
    ...raggedParts.map(({ splits }) => splits),
  ];
}

function denseFeature(batch: ExampleBatch, feature: DenseFeature): Tensor {
  const isVariable = feature.shape[0] === -1;
  const stride = elementCount(isVariable ? feature.shape.slice(1) : feature.shape);
  const rows = batch.examples.map((example, at) => {
    return rowOf(example, feature, { stride, isVariable, name: batch.nameOf(at), index: at });
  });
  const longest = rows.reduce((most, row) => Math.max(most, row.length), isVariable ? 0 : stride);
  const width = isVariable ? longest / Math.max(1, stride) : 0;
  const sizes = isVariable ? [width, ...feature.shape.slice(1)] : feature.shape;
  const shape = [rows.length, ...sizes];
  outputCount(shape);
  const padding = paddingOf(feature);
  const values = rows.flatMap((row) => {
    return Array.from({ length: longest }, (_, place) => row[place] ?? padding);
  });
  return listTensor(feature.dtype, shape, values);
}

interface RowPlace {
  readonly stride: number;
  readonly isVariable: boolean;
  readonly name: string;
  readonly index: number;
}

type Values = readonly (number | bigint | Uint8Array)[];

function rowOf(example: Example, feature: DenseFeature, place: RowPlace): Values {
  const found = example.get(feature.key);
  if (found === undefined) return fallbackOf(feature, place);
  const at = `Name: ${place.name}, Key: ${textOf(feature.key)}, Index: ${place.index}.`;
  checkDtype(found, feature.dtype, at);
  const count = found.values.length;
  const kind =
    feature.dtype === "float32" ? "float" : feature.dtype === "string" ? "bytes" : "int64";
  if (place.isVariable && count % Math.max(1, place.stride) !== 0) {
    throw invalid(
      `${at}  Number of ${kind} values is not a multiple of stride length. Values size: ${count} but stride length: ${place.stride}`,
    );
  }
  if (!place.isVariable && count !== place.stride) {
    const shape = `[${feature.shape.join(",")}]`;
    throw invalid(
      `${at}  Number of ${kind} values != expected.  Values size: ${count} but output shape: ${shape}`,
    );
  }
  return found.values;
}

/** Refuses a feature of another dtype than the graph declares. */
function checkDtype(found: Feature, dtype: DenseDtype, at: string): void {
  if (found.dtype === dtype) return;
  const names = { float32: "float", int64: "int64", string: "string" };
  throw invalid(
    `${at}  Data types don't match. Data type: ${names[found.dtype]} but expected type: ${names[dtype]}`,
  );
}

function fallbackOf(feature: DenseFeature, { stride, isVariable, name }: RowPlace): Values {
  if (isVariable) return [];
  const values = valuesOf(feature.fallback);
  if (values.length === 0 && stride > 0) {
    const type = feature.dtype === "float32" ? "float" : feature.dtype;
    throw invalid(
      `Name: ${name}, Feature: ${textOf(feature.key)} (data type: ${type}) is required but could not be found.`,
    );
  }
  return values.length === stride ? values : Array.from({ length: stride }, () => values[0]!);
}

function paddingOf({ fallback, dtype }: DenseFeature): number | bigint | Uint8Array {
  const [padding] = valuesOf(fallback);
  return padding ?? (dtype === "string" ? new Uint8Array() : dtype === "int64" ? 0n : 0);
}

function valuesOf(tensor: Tensor): Values {
  return tensor.dtype === "string"
    ? stringList(tensor.data)
    : Array.from(tensor.data as ArrayLike<number | bigint>);
}

function textOf(key: string): string {
  return excerpt(Buffer.from(key, "latin1").toString());
}
