// tf.train.Example as bytes (tensorflow/core/example/example.proto and feature.proto), read without
// a protobuf library: three nested messages, and lists that may be packed or not.
//
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }
//   Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }, each { repeated value = 1 }

import { ProtobufReader } from "../../../protobuf/protobuf-reader.ts";
import type { ProtobufRules } from "../../../protobuf/protobuf-reader.ts";
import { WIRE } from "../../../protobuf/wire-format.ts";

/** The values of one feature. */
export type Feature =
  | { readonly dtype: "string"; readonly values: readonly Uint8Array[] }
  | { readonly dtype: "float32"; readonly values: readonly number[] }
  | { readonly dtype: "int64"; readonly values: readonly bigint[] };

/** The features of one example by the bytes of their names, see `featureName`. */
export type Example = ReadonlyMap<string, Feature>;

/** A feature's name as a map key: one character per byte. */
export function featureName(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

/** Reads a serialized example; `undefined` if malformed. The last of equal names counts. */
export function readExample(bytes: Uint8Array): Example | undefined {
  try {
    return exampleOf(bytes);
  } catch (error) {
    if (error instanceof MalformedMessage) return undefined;
    throw error;
  }
}

class MalformedMessage extends Error {}

/** How TensorFlow reads examples: tags are cut to 32 bits, groups are refused. */
const RULES: ProtobufRules = {
  refuse: () => new MalformedMessage(),
  decoder: new TextDecoder(),
  groups: "refused",
  prefixes: "cut",
};

function exampleOf(bytes: Uint8Array): Example {
  const features = new Map<string, Feature>();
  const example = new ProtobufReader(bytes, RULES);
  while (example.next()) if (example.field === 1) readFeatures(example.message(), features);
  return features;
}

/** Adds the entries of a Features message. */
function readFeatures(message: ProtobufReader, into: Map<string, Feature>): void {
  while (message.next()) {
    if (message.field !== 1) continue;
    const entry = message.message();
    let name = "";
    let feature: Feature | undefined;
    while (entry.next()) {
      if (entry.wire !== WIRE.bytes) continue;
      if (entry.field === 1) name = featureName(entry.view());
      else if (entry.field === 2) feature = featureOf(entry.message());
    }
    if (feature === undefined) into.delete(name);
    else into.set(name, feature);
  }
}

/** The list of a feature; `undefined` for a feature without a list, which counts as missing. */
function featureOf(message: ProtobufReader): Feature | undefined {
  let feature: Feature | undefined;
  while (message.next()) {
    if (message.field > 3) continue;
    const list = message.message();
    if (message.field === 1) feature = { dtype: "string", values: stringsOf(list) };
    else if (message.field === 2) feature = { dtype: "float32", values: floatsOf(list) };
    else feature = { dtype: "int64", values: integersOf(list) };
  }
  return feature;
}

function stringsOf(list: ProtobufReader): Uint8Array[] {
  const values: Uint8Array[] = [];
  while (list.next()) if (list.field === 1) values.push(list.view());
  return values;
}

function floatsOf(list: ProtobufReader): number[] {
  const values: number[] = [];
  while (list.next()) if (list.field === 1) list.floats(values);
  return values;
}

function integersOf(list: ProtobufReader): bigint[] {
  const values: bigint[] = [];
  while (list.next()) if (list.field === 1) list.int64s(values);
  return values;
}
