// Keys to values: hash tables that travel with the program, and hash functions in place of a table.

import { inputAt, scalarAt, stringsAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { hashBucketFast } from "../../hashes/farm-hash.ts";
import { hashBucketOld } from "../../hashes/murmur-hash.ts";
import { invalid } from "../../node-error.ts";
import { hashBucketStrong } from "../../hashes/sip-hash.ts";
import type { SipKey } from "../../hashes/sip-hash.ts";
import type { StringColumn } from "../../../tensor/string-column.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import type { VocabularyIndex } from "../../vocabulary-index.ts";
import { stringsMade, tensorOf, zeros } from "../tensor-memory.ts";

/** Lookups and hashes, by TensorFlow's name. */
export const lookupOperations: HostOperations = {
  LookupTableFindV2: (call) => [find(call)],
  LookupTableSizeV2: (call) => [size(call)],
  StringToHashBucket: (call) => [hashed(call, hashBucketOld)],
  StringToHashBucketFast: (call) => [hashed(call, hashBucketFast)],
  StringToHashBucketStrong: (call) => [strongHashed(call)],
};

function vocabularyOf(call: HostCall): VocabularyIndex {
  if (call.vocabulary === undefined) throw invalid(`${call.op} has no table`);
  return call.vocabulary;
}

/** Inputs: keys, and the value of a missing key. Only values that were asked for are read: there may be millions. */
function find(call: HostCall): Tensor {
  const index = vocabularyOf(call);
  const { values } = index.vocabulary;
  const keys = inputAt(call, 0);
  const missing = scalarAt(call, 1);
  if (missing.dtype !== values.dtype) {
    throw invalid(`Cannot join ${values.dtype} and ${missing.dtype} values`);
  }
  const positions = index.positionsOf(keys);
  if (values.dtype === "string") {
    const other = (missing.data as StringColumn).at(0);
    return stringsMade(keys.shape, (key) => {
      const at = positions[key]!;
      return at < 0 ? other : values.data.at(at);
    });
  }
  const data = zeros(values.dtype, keys.shape);
  const source = values.data as Float64Array;
  const target = data as unknown as Float64Array;
  const other = (missing.data as Float64Array)[0]!;
  for (let key = 0; key < positions.length; key += 1) {
    const at = positions[key]!;
    target[key] = at < 0 ? other : source[at]!;
  }
  return tensorOf(values.dtype, keys.shape, data);
}

function size(call: HostCall): Tensor {
  const count = vocabularyOf(call).vocabulary.keys.data.length;
  return tensorOf("int64", [], BigInt64Array.of(BigInt(count)));
}

function bucketsOf(call: HostCall): number {
  const buckets = Number(call.attributes["num_buckets"] ?? 0);
  if (!Number.isSafeInteger(buckets) || buckets < 1)
    throw invalid(`num_buckets is ${buckets}, must be > 0`);
  return buckets;
}

function hashed(call: HostCall, hash: (bytes: Uint8Array, buckets: number) => number): Tensor {
  const { data, shape } = stringsAt(call, 0);
  const buckets = bucketsOf(call);
  const bins = new BigInt64Array(data.length);
  for (let at = 0; at < bins.length; at += 1) bins[at] = BigInt(hash(data.at(at), buckets));
  return tensorOf("int64", shape, bins);
}

/** Hashes with a key of two words: each a number, or a decimal text beyond 2⁵³. */
function strongHashed(call: HostCall): Tensor {
  const words = call.attributes["key"];
  if (!Array.isArray(words) || words.length !== 2) throw invalid("Key must have 2 elements");
  const [low, high] = (words as readonly (number | string)[]).map((word) => BigInt(word));
  const key: SipKey = [BigInt.asUintN(64, low!), BigInt.asUintN(64, high!)];
  return hashed(call, (bytes, buckets) => hashBucketStrong(bytes, key, buckets));
}
