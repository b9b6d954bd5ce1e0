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

/** An index with its hash table. */
export interface FilledIndex extends VocabularyIndex {
  /** A position in the vocabulary, or -1, in each slot. In shared memory if the keys are. */
  readonly slots: Int32Array;
}

/** Two positions of one key. */
export interface RepeatedKey {
  readonly first: number;
  readonly second: number;
}

/** Indexes every vocabulary of a program; a key that occurs twice has its first position. */
export function indexVocabularies(vocabularies: readonly Vocabulary[]): VocabularyIndex[] {
  return vocabularies.map((vocabulary) => indexVocabulary(vocabulary));
}

/** Indexes a vocabulary, or finds its keys by the slots of another index of the same keys. */
export function indexVocabulary(vocabulary: Vocabulary, filled?: Int32Array): FilledIndex {
  const { keys, name } = vocabulary;
  const { find, repeated, slots } = finderOf(vocabulary, filled);
  return {
    vocabulary,
    repeated,
    slots,
    positionsOf: (asked) => {
      if (asked.dtype !== keys.dtype) {
        const message = `Key must be type ${keys.dtype} but got ${asked.dtype} (table ${name})`;
        throw new WinnowError("INVALID_ARGUMENT", message);
      }
      return find(asked);
    },
  };
}

function finderOf({ keys, name }: Vocabulary, filled: Int32Array | undefined): Finder {
  if (keys.dtype === "string") return stringFinder(keys.data, filled);
  if (keys.dtype === "int64") return integerFinder(keys.data, filled);
  if (keys.dtype !== "int32") {
    throw new WinnowError("UNIMPLEMENTED", `Vocabulary ${name} has ${keys.dtype} keys`);
  }
  const { find, ...rest } = integerFinder(widened(keys.data), filled);
  return { find: (asked) => find(widenedKeys(asked)), ...rest };
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
  readonly slots: Int32Array;
}

const EMPTY = -1;
const GOLDEN_RATIO = 0x9e3779b1;

/** Slots: a power of two, at least twice the keys, so that probing stays short. */
function slotsFor(keys: number, beside: ArrayBufferLike): Int32Array {
  const length = 2 ** Math.ceil(Math.log2(Math.max(2, keys * 2)));
  const bytes = length * Int32Array.BYTES_PER_ELEMENT;
  const isShared = beside instanceof SharedArrayBuffer;
  return new Int32Array(isShared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes)).fill(
    EMPTY,
  );
}

/** Puts each position into its slot. Gives both positions of the first key that occurs twice. */
function fill(
  slots: Int32Array,
  length: number,
  slotOf: (position: number) => number,
): RepeatedKey | undefined {
  let repeated: RepeatedKey | undefined;
  for (let position = 0; position < length; position += 1) {
    const slot = slotOf(position);
    if (slots[slot] === EMPTY) slots[slot] = position;
    else repeated ??= { first: slots[slot]!, second: position };
  }
  return repeated;
}

function stringFinder(column: StringColumn, filled: Int32Array | undefined): Finder {
  const slots = filled ?? slotsFor(column.length, column.bytes.buffer);
  const mask = slots.length - 1;
  /** Whether the vocabulary has this key at this position. */
  const isAt = (position: number, keys: StringColumn, at: number): boolean => {
    const [start, keyStart] = [column.offsets[position]!, keys.offsets[at]!];
    const length = column.offsets[position + 1]! - start;
    if (length !== keys.offsets[at + 1]! - keyStart) return false;
    for (let byte = 0; byte < length; byte += 1) {
      if (column.bytes[start + byte] !== keys.bytes[keyStart + byte]) return false;
    }
    return true;
  };
  /** The slot of a key, or the empty one where it is missing, from the slot of its hash on. */
  const slotFrom = (first: number, keys: StringColumn, at: number): number => {
    let slot = first;
    while (slots[slot] !== EMPTY && !isAt(slots[slot]!, keys, at)) slot = (slot + 1) & mask;
    return slot;
  };
  const repeated =
    filled === undefined
      ? fill(slots, column.length, (at) => slotFrom(hashOfString(column, at) & mask, column, at))
      : undefined;
  const find = (keys: Tensor): Int32Array => {
    const asked = keys.data as StringColumn;
    const firsts = new Int32Array(asked.length);
    for (let at = 0; at < firsts.length; at += 1) firsts[at] = hashOfString(asked, at) & mask;
    const positions = new Int32Array(asked.length);
    // What a key is compared with is read for all keys before any is compared: reads that nothing follows wait for memory
    // together. Of a large vocabulary hardly anything is in a cache.
    let read = 0;
    for (let at = 0; at < firsts.length; at += 1) {
      const position = slots[firsts[at]!]!;
      if (position !== EMPTY) read |= column.bytes[column.offsets[position]!]!;
    }
    // What is read must be used, or it need not be read; what is written here is written over.
    if (positions.length > 0) positions[0] = read;
    for (let at = 0; at < positions.length; at += 1) {
      positions[at] = slots[slotFrom(firsts[at]!, asked, at)]!;
    }
    return positions;
  };
  return { find, repeated, slots };
}

function integerFinder(ids: BigInt64Array, filled: Int32Array | undefined): Finder {
  const slots = filled ?? slotsFor(ids.length, ids.buffer);
  const mask = slots.length - 1;
  const slotFrom = (first: number, key: bigint): number => {
    let slot = first;
    while (slots[slot] !== EMPTY && ids[slots[slot]!] !== key) slot = (slot + 1) & mask;
    return slot;
  };
  const repeated =
    filled === undefined
      ? fill(slots, ids.length, (at) => slotFrom(hashOfInteger(ids[at]!) & mask, ids[at]!))
      : undefined;
  const words = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
  const find = (keys: Tensor): Int32Array => {
    const asked = keys.data as BigInt64Array;
    const firsts = new Int32Array(asked.length);
    for (let at = 0; at < firsts.length; at += 1) firsts[at] = hashOfInteger(asked[at]!) & mask;
    const positions = new Int32Array(asked.length);
    // As for strings.
    let read = 0;
    for (let at = 0; at < firsts.length; at += 1) {
      const position = slots[firsts[at]!]!;
      if (position !== EMPTY) read |= words[2 * position]!;
    }
    if (positions.length > 0) positions[0] = read;
    for (let at = 0; at < positions.length; at += 1) {
      positions[at] = slots[slotFrom(firsts[at]!, asked[at]!)]!;
    }
    return positions;
  };
  return { find, repeated, slots };
}

/** Of the bytes of one string of a column, without a view of them. */
function hashOfString({ offsets, bytes }: StringColumn, position: number): number {
  let hash = 0x811c9dc5;
  const end = offsets[position + 1]!;
  for (let at = offsets[position]!; at < end; at += 1) {
    hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  }
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
