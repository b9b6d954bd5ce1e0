// Finds keys in a vocabulary, by open addressing over the column of keys: no object per key, and no
// `Map`, which is limited to 16.7 million entries.

import { WinnowError } from "../errors/errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { StringColumn } from "../tensor/string-column.ts";
import type { Vocabulary } from "./program.ts";

/** A vocabulary and the hash index of its keys. */
export interface VocabularyIndex {
  readonly vocabulary: Vocabulary;
  /**
   * Positions in the vocabulary of each key of a tensor of the vocabulary's key dtype; -1 for a
   * missing key. @throws WinnowError INVALID_ARGUMENT for keys of another dtype
   */
  positionsOf(keys: Tensor): Int32Array;
  /** Both positions of the first key that occurs twice in the vocabulary. */
  readonly repeated: RepeatedKey | undefined;
}

/** Two positions of one key. */
export interface RepeatedKey {
  readonly first: number;
  readonly second: number;
}

/** Indexes every vocabulary of a program; a key that occurs twice has its first position. */
export function indexVocabularies(vocabularies: readonly Vocabulary[]): VocabularyIndex[] {
  return vocabularies.map(indexOf);
}

function indexOf(vocabulary: Vocabulary): VocabularyIndex {
  const { keys, name } = vocabulary;
  const { find, repeated } = finderOf(vocabulary);
  return {
    vocabulary,
    repeated,
    positionsOf: (asked) => {
      if (asked.dtype !== keys.dtype) {
        const message = `Key must be type ${keys.dtype} but got ${asked.dtype} (table ${name})`;
        throw new WinnowError("INVALID_ARGUMENT", message);
      }
      return find(asked);
    },
  };
}

function finderOf({ keys, name }: Vocabulary): Finder {
  if (keys.dtype === "string") return stringFinder(keys.data);
  if (keys.dtype === "int64") return integerFinder(keys.data);
  if (keys.dtype !== "int32") {
    throw new WinnowError("UNIMPLEMENTED", `Vocabulary ${name} has ${keys.dtype} keys`);
  }
  const { find, repeated } = integerFinder(widened(keys.data));
  return { find: (asked) => find(widenedKeys(asked)), repeated };
}

function widened(keys: Int32Array): BigInt64Array {
  return BigInt64Array.from(keys, BigInt);
}

function widenedKeys({ data, shape }: Tensor): Tensor {
  return { dtype: "int64", shape, data: widened(data as Int32Array) };
}

interface Finder {
  readonly find: (keys: Tensor) => Int32Array;
  readonly repeated: RepeatedKey | undefined;
}

const EMPTY = -1;
const GOLDEN_RATIO = 0x9e3779b1;

/** Slots: a power of two, at least twice the keys, so that probing stays short. */
function slotsFor(keys: number): Int32Array {
  return new Int32Array(2 ** Math.ceil(Math.log2(Math.max(2, keys * 2)))).fill(EMPTY);
}

function stringFinder(column: StringColumn): Finder {
  const slots = slotsFor(column.length);
  const mask = slots.length - 1;
  const slotOf = (key: Uint8Array): number => {
    let slot = hashOfBytes(key) & mask;
    while (slots[slot] !== EMPTY && !isEqual(column.at(slots[slot]!), key))
      slot = (slot + 1) & mask;
    return slot;
  };
  let repeated: RepeatedKey | undefined;
  for (let position = 0; position < column.length; position += 1) {
    const slot = slotOf(column.at(position));
    if (slots[slot] === EMPTY) slots[slot] = position;
    else repeated ??= { first: slots[slot]!, second: position };
  }
  const find = (keys: Tensor): Int32Array => {
    const asked = keys.data as StringColumn;
    const positions = new Int32Array(asked.length);
    for (let at = 0; at < positions.length; at += 1) positions[at] = slots[slotOf(asked.at(at))]!;
    return positions;
  };
  return { find, repeated };
}

function integerFinder(ids: BigInt64Array): Finder {
  const slots = slotsFor(ids.length);
  const mask = slots.length - 1;
  const slotOf = (key: bigint): number => {
    let slot = hashOfInteger(key) & mask;
    while (slots[slot] !== EMPTY && ids[slots[slot]!] !== key) slot = (slot + 1) & mask;
    return slot;
  };
  let repeated: RepeatedKey | undefined;
  for (let position = 0; position < ids.length; position += 1) {
    const slot = slotOf(ids[position]!);
    if (slots[slot] === EMPTY) slots[slot] = position;
    else repeated ??= { first: slots[slot]!, second: position };
  }
  const find = (keys: Tensor): Int32Array => {
    const asked = keys.data as BigInt64Array;
    const positions = new Int32Array(asked.length);
    for (let at = 0; at < positions.length; at += 1) positions[at] = slots[slotOf(asked[at]!)]!;
    return positions;
  };
  return { find, repeated };
}

function hashOfBytes(key: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1) hash = Math.imul(hash ^ key[at]!, 0x01000193);
  return mixed(hash);
}

function hashOfInteger(key: bigint): number {
  const low = Number(BigInt.asIntN(32, key));
  const high = Number(BigInt.asIntN(32, key >> 32n));
  return mixed(low ^ Math.imul(high, 0x85ebca6b));
}

/** Every input bit reaches the low bits that choose the slot. */
function mixed(value: number): number {
  const hash = Math.imul(value ^ (value >>> 15), GOLDEN_RATIO);
  return (hash ^ (hash >>> 15)) >>> 0;
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at += 1) if (a[at] !== b[at]) return false;
  return true;
}
