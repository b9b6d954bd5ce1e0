// Keys to values: hash tables that travel with the program, and hash functions in place of a table.

import { inputAt, scalarAt, stringsAt } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { hashBucketFast } from "../../hashes/farm-hash.ts";
import { hashBucketOld } from "../../hashes/murmur-hash.ts";
import { invalid } from "../../node-error.ts";
import { joined, takeValues } from "../element-positions.ts";
import { hashBucketStrong } from "../../hashes/sip-hash.ts";
import type { SipKey } from "../../hashes/sip-hash.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import type { VocabularyIndex } from "../../vocabulary-index.ts";
import { tensorOf } from "../tensor-memory.ts";

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

/** Inputs: keys, and the value of a missing key. */
function find(call: HostCall): Tensor {
  const index = vocabularyOf(call);
  const keys = inputAt(call, 0);
  const missing = index.vocabulary.values.data.length;
  const positions = index.positionsOf(keys).map((at) => (at < 0 ? missing : at));
  return takeValues(joined([index.vocabulary.values, scalarAt(call, 1)]), positions, keys.shape);
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
