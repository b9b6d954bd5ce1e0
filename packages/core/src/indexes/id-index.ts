// Item ids → their rows, by open addressing: four bytes per slot, six to twelve per row, and no object per id. An id may
// have several rows; all of them are found.
//
// A slot has a row number and, in the bits that row numbers leave, a part of the id's hash:
//
//   1,000,000 rows    tag, 12 bits │ row, 20 bits         -1: an empty slot
//
// Without it, a look-up would compare its id with those of all rows up to the next empty slot: two reads from places of
// memory that no cache has, for each of them. With it, few ids but the right one are compared.

import { StringColumn } from "../tensor/string-column.ts";
import type { Tensor } from "../tensor/tensor.ts";

const EMPTY = -1;

/** Rows by id. */
export class IdIndex {
  readonly #slots: Int32Array;
  /** The bits of a slot that are its row: never all of them set, so that no slot is taken for an empty one. */
  readonly #rowMask: number;
  /** Ids by row, `2 ** #partBits` in each part but the last. */
  readonly #parts: Tensor[] = [];
  readonly #partBits: number;
  #rows = 0;

  /** An index for as many rows, whose ids `add` brings; `partBits`: the logarithm of how many at a time. */
  constructor(rows: number, partBits = 31) {
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(2, rows * 1.5)))).fill(EMPTY);
    this.#rowMask = 2 ** Math.ceil(Math.log2(rows + 1)) - 1;
    this.#partBits = partBits;
  }

  /** Indexes ids: string, int32 or int64, one per row. */
  static of(ids: Tensor): IdIndex {
    const index = new IdIndex(ids.data.length);
    index.add(ids);
    return index;
  }

  /** Indexes the ids of the next rows, all of one type. */
  add(ids: Tensor): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let position = 0; position < ids.data.length; position += 1) {
      const hash = hashAt(ids, position);
      let slot = hash & mask;
      while (slots[slot] !== EMPTY) slot = (slot + 1) & mask;
      slots[slot] = (hash & ~this.#rowMask) | (this.#rows + position);
    }
    this.#parts.push(ids);
    this.#rows += ids.data.length;
  }

  /** Bytes the index occupies beside the ids. */
  get bytes(): number {
    return this.#slots.byteLength;
  }

  /** Calls `found` with each row whose id is `wanted[position]`; `wanted` is made by `comparableIds`. */
  forEachRow(wanted: Tensor, position: number, found: (row: number) => void): void {
    const slots = this.#slots;
    const rowMask = this.#rowMask;
    const mask = slots.length - 1;
    const hash = hashAt(wanted, position);
    const tag = hash & ~rowMask;
    let slot = hash & mask;
    for (let held = slots[slot]!; held !== EMPTY; held = slots[slot]!) {
      if ((held & ~rowMask) === tag && this.#hasId(held & rowMask, wanted, position)) {
        found(held & rowMask);
      }
      slot = (slot + 1) & mask;
    }
  }

  #hasId(row: number, wanted: Tensor, position: number): boolean {
    const part = row >>> this.#partBits;
    return isSameId(this.#parts[part]!, row - part * 2 ** this.#partBits, wanted, position);
  }
}

/** Row numbers that are found in any order, some of them more than once. */
export class FoundRows {
  /** Twice as long where it is full. */
  #rows = new Uint32Array(16);
  #length = 0;

  add(row: number): void {
    if (this.#length === this.#rows.length) {
      const longer = new Uint32Array(2 * this.#length);
      longer.set(this.#rows);
      this.#rows = longer;
    }
    this.#rows[this.#length] = row;
    this.#length += 1;
  }

  /** The rows, each once. */
  ascending(): Uint32Array {
    const sorted = this.#rows.subarray(0, this.#length).toSorted();
    let length = 0;
    for (const row of sorted) {
      if (length > 0 && sorted[length - 1] === row) continue;
      sorted[length] = row;
      length += 1;
    }
    return sorted.slice(0, length);
  }
}

/**
 * Wanted ids in the form the index compares: int64 values are narrowed to an int32 table's dtype
 * (an id that does not fit is in no row). `undefined` for a string and an integer, which never
 * match.
 */
export function comparableIds(wanted: Tensor, idDtype: Tensor["dtype"]): Tensor | undefined {
  if (wanted.dtype === idDtype) return wanted;
  if (wanted.dtype !== "int64" || idDtype !== "int32") return undefined;
  const fitting = wanted.data.filter((id) => BigInt.asIntN(32, id) === id);
  const data = Int32Array.from(fitting, Number);
  return { dtype: "int32", shape: [data.length], data };
}

function hashAt(ids: Tensor, position: number): number {
  const { data } = ids;
  if (data instanceof StringColumn) {
    let hash = 0x811c9dc5;
    const end = data.offsets[position + 1]!;
    for (let index = data.offsets[position]!; index < end; index += 1) {
      hash = Math.imul(hash ^ data.bytes[index]!, 0x01000193);
    }
    return mix(hash);
  }
  const value = data[position]!;
  return mix(typeof value === "bigint" ? Number(BigInt.asIntN(32, value ^ (value >> 32n))) : value);
}

// oxlint-disable-next-line max-params -- two positions in two columns; called per probe
function isSameId(a: Tensor, aPosition: number, b: Tensor, bPosition: number): boolean {
  if (!(a.data instanceof StringColumn) || !(b.data instanceof StringColumn)) {
    return a.data instanceof StringColumn || b.data instanceof StringColumn
      ? false
      : a.data[aPosition] === b.data[bPosition];
  }
  const aStart = a.data.offsets[aPosition]!;
  const bStart = b.data.offsets[bPosition]!;
  const length = a.data.offsets[aPosition + 1]! - aStart;
  if (b.data.offsets[bPosition + 1]! - bStart !== length) return false;
  for (let index = 0; index < length; index += 1) {
    if (a.data.bytes[aStart + index] !== b.data.bytes[bStart + index]) return false;
  }
  return true;
}

function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
