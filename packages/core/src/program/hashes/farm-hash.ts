// FarmHash Fingerprint64, bit for bit: TensorFlow's StringToHashBucketFast and the OOV buckets of
// StringLookup are this hash modulo a count. Source: farmhash.cc, namespace farmhashna, Hash64
// (Geoff Pike, Google, 2014, MIT licence). Each length class below keeps the names of the original.

import {
  add,
  copy,
  exclusiveOr,
  fetch,
  foldTop,
  lowOf,
  multiply,
  rotateRight,
  setSmall,
  setWord,
  swap,
  word32At,
  wordModulo,
  wordOf,
} from "./word-registers.ts";

// Registers: constants, the multiplier of a length class, then its variables.
const K0 = 0;
const K1 = 1;
const K2 = 2;
const MUL = 3;
const A = 4;
const B = 5;
const C = 6;
const D = 7;
const E = 8;
const F = 9;
const G = 10;
const H = 11;
const X = 12;
const Y = 13;
const Z = 14;
const V1 = 15;
const V2 = 16;
const W1 = 17;
const W2 = 18;
const T = 19;
const S = 20;
const P = 21;
const Q = 22;
const RESULT = 23;

setWord(K0, 0xc3a5c85c97cb3127n);
setWord(K1, 0xb492b66fbe98f273n);
setWord(K2, 0x9ae16a3b2f90404fn);

/** The fingerprint of a byte string, unsigned 64 bits. */
export function fingerprint64(bytes: Uint8Array): bigint {
  hash(bytes);
  return wordOf(RESULT);
}

/** The bucket of a byte string, as `StringToHashBucketFast` chooses it: fingerprint mod buckets. */
export function hashBucketFast(bytes: Uint8Array, buckets: number): number {
  hash(bytes);
  return wordModulo(RESULT, buckets);
}

function hash(bytes: Uint8Array): void {
  const length = bytes.length;
  if (length <= 16) return hashLen0to16(bytes);
  if (length <= 32) return hashLen17to32(bytes);
  if (length <= 64) return hashLen33to64(bytes);
  hashLong(bytes);
}

function setMultiplier(length: number): void {
  setSmall(T, length * 2);
  add(MUL, K2, T);
}

/** RESULT = HashLen16(P, Q, MUL); leaves P and Q changed. */
function hashLen16(): void {
  exclusiveOr(P, P, Q);
  multiply(P, P, MUL);
  foldTop(P, P);
  exclusiveOr(Q, Q, P);
  multiply(Q, Q, MUL);
  foldTop(Q, Q);
  multiply(RESULT, Q, MUL);
}

function hashLen0to16(bytes: Uint8Array): void {
  const length = bytes.length;
  if (length >= 8) return hashLen8to16(bytes);
  if (length >= 4) {
    setMultiplier(length);
    setSmall(A, word32At(bytes, 0));
    for (let doubling = 0; doubling < 3; doubling += 1) add(A, A, A);
    setSmall(T, length);
    add(P, T, A);
    setSmall(Q, word32At(bytes, length - 4));
    return hashLen16();
  }
  if (length === 0) return copy(RESULT, K2);
  setSmall(Y, bytes[0]! + (bytes[length >> 1]! << 8));
  setSmall(Z, length + (bytes[length - 1]! << 2));
  multiply(Y, Y, K2);
  multiply(Z, Z, K0);
  exclusiveOr(Y, Y, Z);
  foldTop(Y, Y);
  multiply(RESULT, Y, K2);
}

function hashLen8to16(bytes: Uint8Array): void {
  setMultiplier(bytes.length);
  fetch(A, bytes, 0);
  add(A, A, K2);
  fetch(B, bytes, bytes.length - 8);
  rotateRight(P, B, 37);
  multiply(P, P, MUL);
  add(P, P, A);
  rotateRight(Q, A, 25);
  add(Q, Q, B);
  multiply(Q, Q, MUL);
  hashLen16();
}

/** The start that lengths 17 to 64 share: A, B, C, D, and P and Q ready for hashLen16. */
function mixEnds(bytes: Uint8Array, multiplierOfA: number): void {
  const length = bytes.length;
  setMultiplier(length);
  fetch(A, bytes, 0);
  multiply(A, A, multiplierOfA);
  fetch(B, bytes, 8);
  fetch(C, bytes, length - 8);
  multiply(C, C, MUL);
  fetch(D, bytes, length - 16);
  multiply(D, D, K2);
  add(P, A, B);
  rotateRight(P, P, 43);
  rotateRight(T, C, 30);
  add(P, P, T);
  add(P, P, D);
  add(Q, B, K2);
  rotateRight(Q, Q, 18);
  add(Q, Q, A);
  add(Q, Q, C);
}

function hashLen17to32(bytes: Uint8Array): void {
  mixEnds(bytes, K1);
  hashLen16();
}

function hashLen33to64(bytes: Uint8Array): void {
  const length = bytes.length;
  mixEnds(bytes, K2);
  copy(Y, P);
  hashLen16();
  copy(Z, RESULT);
  fetch(E, bytes, 16);
  multiply(E, E, MUL);
  fetch(F, bytes, 24);
  fetch(G, bytes, length - 32);
  add(G, G, Y);
  multiply(G, G, MUL);
  fetch(H, bytes, length - 24);
  add(H, H, Z);
  multiply(H, H, MUL);
  add(P, E, F);
  rotateRight(P, P, 43);
  rotateRight(T, G, 30);
  add(P, P, T);
  add(P, P, H);
  add(Q, F, A);
  rotateRight(Q, Q, 18);
  add(Q, Q, E);
  add(Q, Q, G);
  hashLen16();
}

function hashLong(bytes: Uint8Array): void {
  const end = Math.floor((bytes.length - 1) / 64) * 64;
  const tail = (bytes.length - 1) & 63;
  seedLong(bytes);
  copy(MUL, K1);
  for (let at = 0; at < end; at += 64) mixBlock(bytes, at, 1);
  setSmall(T, (lowOf(Z) & 0xff) << 1);
  add(MUL, K1, T);
  setSmall(T, tail);
  add(W1, W1, T);
  add(V1, V1, W1);
  add(W1, W1, V1);
  mixBlock(bytes, end + tail - 63, 9);
  finishLong();
}

/** x, y, z, v and w before the first block, from the seed 81. */
function seedLong(bytes: Uint8Array): void {
  setSmall(S, 113);
  setSmall(X, 81);
  multiply(Y, X, K1);
  add(Y, Y, S);
  multiply(Z, Y, K2);
  add(Z, Z, S);
  foldTop(Z, Z);
  multiply(Z, Z, K2);
  for (const register of [V1, V2, W1, W2]) setSmall(register, 0);
  fetch(T, bytes, 0);
  multiply(X, X, K2);
  add(X, X, T);
}

/** One round over 64 bytes; the last round weighs w.second and v.first by 9 instead of 1. */
function mixBlock(bytes: Uint8Array, at: number, weight: number): void {
  setSmall(S, weight);
  add(X, X, Y);
  add(X, X, V1);
  addFetched(X, bytes, at + 8);
  rotateRight(X, X, 37);
  multiply(X, X, MUL);
  add(Y, Y, V2);
  addFetched(Y, bytes, at + 48);
  rotateRight(Y, Y, 42);
  multiply(Y, Y, MUL);
  multiply(T, W2, S);
  exclusiveOr(X, X, T);
  multiply(T, V1, S);
  add(Y, Y, T);
  addFetched(Y, bytes, at + 40);
  add(Z, Z, W1);
  rotateRight(Z, Z, 33);
  multiply(Z, Z, MUL);
  multiply(A, V2, MUL);
  add(B, X, W1);
  weakHash(bytes, at);
  copy(V1, A);
  copy(V2, B);
  add(A, Z, W2);
  copy(B, Y);
  addFetched(B, bytes, at + 16);
  weakHash(bytes, at + 32);
  copy(W1, A);
  copy(W2, B);
  swap(Z, X);
}

function addFetched(to: number, bytes: Uint8Array, at: number): void {
  fetch(T, bytes, at);
  add(to, to, T);
}

/** (A, B) = WeakHashLen32WithSeeds(bytes at `at`, A, B) */
function weakHash(bytes: Uint8Array, at: number): void {
  addFetched(A, bytes, at);
  fetch(D, bytes, at + 24);
  add(B, B, A);
  add(B, B, D);
  rotateRight(B, B, 21);
  copy(C, A);
  addFetched(A, bytes, at + 8);
  addFetched(A, bytes, at + 16);
  rotateRight(T, A, 44);
  add(B, B, T);
  add(A, A, D);
  add(B, B, C);
}

function finishLong(): void {
  copy(P, V1);
  copy(Q, W1);
  hashLen16();
  foldTop(T, Y);
  multiply(T, T, K0);
  add(E, RESULT, T);
  add(E, E, Z);
  copy(P, V2);
  copy(Q, W2);
  hashLen16();
  add(Q, RESULT, X);
  copy(P, E);
  hashLen16();
}
