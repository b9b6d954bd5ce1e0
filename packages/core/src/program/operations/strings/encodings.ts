// Bytes of strings as other values: numbers in their memory form (DecodeRaw), and base64 as in URLs.

import { dtypeArrays } from "../../../tensor/dtype.ts";
import type { NumericDtype } from "../../../tensor/dtype.ts";
import {
  booleanAttribute,
  dtypeAttribute,
  integerAt,
  stringsAt,
  wrongDtype,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { stringList } from "../element-positions.ts";
import { stringsOf, tensorOf, zeros } from "../tensor-memory.ts";

/** Encodings of bytes, by TensorFlow's name. */
export const encodingOperations: HostOperations = {
  DecodeBase64: (call) => [mapStrings(call, decodeBase64)],
  DecodePaddedRaw: (call) => [decodePaddedRaw(call)],
  DecodeRaw: (call) => [decodeRaw(call)],
  EncodeBase64: (call) => [encodeBase64(call)],
};

function mapStrings(call: HostCall, change: (bytes: Uint8Array) => Uint8Array): Tensor {
  const { data, shape } = stringsAt(call, 0);
  return stringsOf(shape, stringList(data).map(change));
}

/** All strings have the length of the first, which is a whole number of values. */
function decodeRaw(call: HostCall): Tensor {
  const strings = stringList(stringsAt(call, 0).data);
  const length = strings[0]?.length ?? 0;
  const other = strings.findIndex((bytes) => bytes.length !== length);
  if (other >= 0) {
    const sizes = `but element ${other} has size ${strings[other]!.length} != ${length}`;
    throw invalid(`DecodeRaw requires input strings to all be the same size, ${sizes}`);
  }
  const { dtype, width } = elementOf(call);
  if (length % width !== 0) {
    const what = `is not a multiple of ${width}, the size of ${dtype}`;
    throw invalid(`Input to DecodeRaw has length ${length} that ${what}`);
  }
  return numbersOf(call, length);
}

/** Each string is cut, or filled with zeros, to a length that the graph or the request says. */
function decodePaddedRaw(call: HostCall): Tensor {
  const { dtype, width } = elementOf(call);
  const length = integerAt(call, 1);
  if (length <= 0 || length % width !== 0) {
    const what = `must be positive and a multiple of ${width}, the size of ${dtype}`;
    throw invalid(`DecodePaddedRaw: fixed_length ${length} ${what}`);
  }
  return numbersOf(call, length);
}

function elementOf(call: HostCall): { readonly dtype: NumericDtype; readonly width: number } {
  const dtype = dtypeAttribute(call, "out_type", "uint8");
  if (dtype === "string") throw wrongDtype(call, stringsAt(call, 0));
  return { dtype, width: dtypeArrays[dtype].BYTES_PER_ELEMENT };
}

/** The first `length` bytes of each string as numbers; bytes that a string lacks are 0. */
function numbersOf(call: HostCall, length: number): Tensor {
  const { data, shape: own } = stringsAt(call, 0);
  const { dtype, width } = elementOf(call);
  const shape = [...own, length / width];
  const out = zeros(dtype, shape);
  const bytes = new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
  for (const [at, string] of stringList(data).entries()) {
    bytes.set(string.subarray(0, length), at * length);
  }
  if (!booleanAttribute(call, "little_endian", true)) reverseEach(bytes, width);
  // A bool is 0 or 1 everywhere else.
  if (dtype === "bool") for (const [at, byte] of bytes.entries()) bytes[at] = Number(byte !== 0);
  return tensorOf(dtype, shape, out);
}

function reverseEach(bytes: Uint8Array, width: number): void {
  for (let at = 0; at < bytes.length; at += width) bytes.subarray(at, at + width).reverse();
}

const BASE64_URL = /^[\w-]*$/;
const BLOCK = 4;

/**
 * Base64 with `-` and `_`, padded to whole blocks or not at all. Bits beyond the last byte are passed over, as
 * TensorFlow does.
 */
function decodeBase64(bytes: Uint8Array): Uint8Array {
  const text = latin1Of(bytes);
  const bare = text.length % BLOCK === 0 ? text.replace(/={1,2}$/, "") : text;
  if (!BASE64_URL.test(bare)) throw invalid("Invalid character found in base64.");
  if (bare.length % BLOCK === 1) throw invalid("Base64 string length cannot be 1 modulo 4.");
  return Buffer.from(bare, "base64url");
}

function latin1Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function encodeBase64(call: HostCall): Tensor {
  const isPadded = booleanAttribute(call, "pad", false);
  return mapStrings(call, (bytes) => {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(
      "base64url",
    );
    const length = isPadded ? Math.ceil(text.length / BLOCK) * BLOCK : text.length;
    return Buffer.from(text.padEnd(length, "="), "latin1");
  });
}
