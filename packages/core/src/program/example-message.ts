// tf.train.Example as bytes (tensorflow/core/example/example.proto and feature.proto), read without a
// protobuf library: three nested messages, and lists that may be packed or not.
//
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }
//   Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }, each { repeated value = 1 }

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

/** Reads a serialized example; `undefined` if the bytes are not one. A repeated name: the last wins. */
export function readExample(bytes: Uint8Array): Example | undefined {
  try {
    return exampleOf(bytes);
  } catch (error) {
    if (error instanceof MalformedMessage) return undefined;
    throw error;
  }
}

class MalformedMessage extends Error {}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

interface Field {
  readonly number: number;
  readonly wire: number;
  /** Of a length-delimited field. */
  readonly bytes: Uint8Array;
  /** Of a varint. */
  readonly integer: bigint;
  /** Of a fixed32, read as a float. */
  readonly float: number;
}

const NOTHING = new Uint8Array();

/** The fields of a message, in order. @throws MalformedMessage */
function* fieldsOf(message: Uint8Array): Generator<Field> {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  let at = 0;
  while (at < message.length) {
    const tag = varintAt(message, at);
    at = tag.end;
    const wire = Number(tag.value & 7n);
    const number = Number(BigInt.asUintN(32, tag.value) >> 3n);
    if (number === 0) throw new MalformedMessage();
    const field = { number, wire, bytes: NOTHING, integer: 0n, float: 0 };
    if (wire === VARINT) {
      const { value, end } = varintAt(message, at);
      at = end;
      yield { ...field, integer: BigInt.asIntN(64, value) };
      continue;
    }
    const start = wire === BYTES ? varintAt(message, at) : { value: 0n, end: at };
    const end = start.end + (wire === BYTES ? Number(start.value) : sizeOfWire(wire));
    if (end > message.length) throw new MalformedMessage();
    at = end;
    if (wire === FIXED32) yield { ...field, float: view.getFloat32(start.end, true) };
    else yield { ...field, bytes: message.subarray(start.end, end) };
  }
}

function sizeOfWire(wire: number): number {
  if (wire === FIXED64) return 8;
  if (wire === FIXED32) return 4;
  throw new MalformedMessage();
}

function varintAt(
  bytes: Uint8Array,
  from: number,
): { readonly value: bigint; readonly end: number } {
  const first = bytes[from];
  if (first !== undefined && first < 0x80) return { value: BigInt(first), end: from + 1 };
  let value = 0n;
  for (let at = from; at < from + 10 && at < bytes.length; at += 1) {
    value |= BigInt(bytes[at]! & 0x7f) << BigInt(7 * (at - from));
    if (bytes[at]! < 0x80) return { value: BigInt.asUintN(64, value), end: at + 1 };
  }
  throw new MalformedMessage();
}

function exampleOf(bytes: Uint8Array): Example {
  const features = new Map<string, Feature>();
  for (const example of messagesOf(bytes, 1)) {
    for (const entry of messagesOf(example, 1)) {
      let name = "";
      let feature: Feature | undefined;
      for (const field of fieldsOf(entry)) {
        if (field.wire !== BYTES) continue;
        if (field.number === 1) name = featureName(field.bytes);
        else if (field.number === 2) feature = featureOf(field.bytes);
      }
      if (feature === undefined) features.delete(name);
      else features.set(name, feature);
    }
  }
  return features;
}

function* messagesOf(message: Uint8Array, number: number): Generator<Uint8Array> {
  for (const field of fieldsOf(message)) {
    if (field.number !== number) continue;
    if (field.wire !== BYTES) throw new MalformedMessage();
    yield field.bytes;
  }
}

/** The list a feature holds; `undefined` for a feature without a kind, which counts as missing. */
function featureOf(message: Uint8Array): Feature | undefined {
  let feature: Feature | undefined;
  for (const { number, wire, bytes } of fieldsOf(message)) {
    if (number > 3) continue;
    if (wire !== BYTES) throw new MalformedMessage();
    if (number === 1) feature = { dtype: "string", values: [...messagesOf(bytes, 1)] };
    else if (number === 2) feature = { dtype: "float32", values: floatsOf(bytes) };
    else feature = { dtype: "int64", values: integersOf(bytes) };
  }
  return feature;
}

function floatsOf(list: Uint8Array): number[] {
  const values: number[] = [];
  for (const { number, wire, bytes, float } of fieldsOf(list)) {
    if (number !== 1) continue;
    if (wire === FIXED32) values.push(float);
    else if (wire === BYTES && bytes.length % 4 === 0) appendFloats(values, bytes);
    else throw new MalformedMessage();
  }
  return values;
}

function appendFloats(values: number[], packed: Uint8Array): void {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  for (let at = 0; at < packed.length; at += 4) values.push(view.getFloat32(at, true));
}

function integersOf(list: Uint8Array): bigint[] {
  const values: bigint[] = [];
  for (const { number, wire, bytes, integer } of fieldsOf(list)) {
    if (number !== 1) continue;
    if (wire === VARINT) values.push(integer);
    else if (wire === BYTES) appendIntegers(values, bytes);
    else throw new MalformedMessage();
  }
  return values;
}

function appendIntegers(values: bigint[], packed: Uint8Array): void {
  let at = 0;
  while (at < packed.length) {
    const { value, end } = varintAt(packed, at);
    values.push(BigInt.asIntN(64, value));
    at = end;
  }
}
