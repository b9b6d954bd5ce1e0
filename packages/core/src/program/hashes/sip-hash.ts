// SipHash-2-4 with a key, bit for bit: TensorFlow's StringToHashBucketStrong, which Keras' Hashing
// layer uses when it has a salt. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF",
// 2012. The key is two 64-bit words, k0 first.

import { add, exclusiveOr, fetch, rotateRight, setWord, wordModulo } from "./word-registers.ts";

const V0 = 32;
const V1 = 33;
const V2 = 34;
const V3 = 35;
const WORD = 36;

/** The two words of a SipHash key. */
export type SipKey = readonly [bigint, bigint];

/** The bucket of a byte string, as `StringToHashBucketStrong` chooses it: SipHash mod buckets. */
export function hashBucketStrong(bytes: Uint8Array, key: SipKey, buckets: number): number {
  start(key);
  const whole = bytes.length - (bytes.length % 8);
  for (let at = 0; at < whole; at += 8) {
    fetch(WORD, bytes, at);
    compress();
  }
  const last = new Uint8Array(8);
  last.set(bytes.subarray(whole));
  last[7] = bytes.length & 0xff;
  fetch(WORD, last, 0);
  compress();
  setWord(WORD, 0xffn);
  exclusiveOr(V2, V2, WORD);
  for (let round = 0; round < 4; round += 1) mix();
  exclusiveOr(V0, V0, V1);
  exclusiveOr(V2, V2, V3);
  exclusiveOr(WORD, V0, V2);
  return wordModulo(WORD, buckets);
}

function start([first, second]: SipKey): void {
  setWord(V0, 0x736f6d6570736575n ^ first);
  setWord(V1, 0x646f72616e646f6dn ^ second);
  setWord(V2, 0x6c7967656e657261n ^ first);
  setWord(V3, 0x7465646279746573n ^ second);
}

function compress(): void {
  exclusiveOr(V3, V3, WORD);
  mix();
  mix();
  exclusiveOr(V0, V0, WORD);
}

/** One SipRound; a rotation to the left by n is one to the right by 64 - n. */
function mix(): void {
  add(V0, V0, V1);
  rotateRight(V1, V1, 64 - 13);
  exclusiveOr(V1, V1, V0);
  rotateRight(V0, V0, 32);
  add(V2, V2, V3);
  rotateRight(V3, V3, 64 - 16);
  exclusiveOr(V3, V3, V2);
  add(V0, V0, V3);
  rotateRight(V3, V3, 64 - 21);
  exclusiveOr(V3, V3, V0);
  add(V2, V2, V1);
  rotateRight(V1, V1, 64 - 17);
  exclusiveOr(V1, V1, V2);
  rotateRight(V2, V2, 32);
}
