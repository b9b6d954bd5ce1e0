// Item ids → their rows, by open addressing: four bytes per slot, six to twelve per row, and no object per id. An id may
// have several rows; all of them are found.
//
// A slot has a row number and, in the bits that row numbers leave, a part of the id's hash:
//
//   1,000,000 rows    tag, 12 bits │ row, 20 bits         -1: an empty slot
//
// Without it, a look-up would compare its id with those of all rows up to the next empty slot: two reads from places of
// memory that no cache has, for each of them. With it, few ids but the right one are compared.
//
// Rows of one id have one slot and are linked from its row on: a table of which many rows have one id, as an empty one,
// is indexed in the time of any other.

import { StringColumn } from "../tensor/string-column.ts";
import type { Tensor } from "../tensor/tensor.ts";

const EMPTY = -1;

/** Two rows of one id. */
export interface RepeatedId {
  readonly first: number;
  readonly second: number;
}

/** Rows by id. */
export class IdIndex {
  readonly #slots: Int32Array;
  /** The bits of a slot that are its row: never all of them set, so that no slot is taken for an empty one. */
  readonly #rowMask: number;
  /** Ids by row, `2 ** #partBits` in each part but the last. */
  readonly #parts: Tensor[] = [];
  readonly #partBits: number;
  #rows = 0;
  /** Another row of the same id, by row; `undefined` as long as no id has two. */
  #next: Int32Array | undefined;
  readonly #rowsMax: number;
  #repeated: RepeatedId | undefined;

  /** An index for as many rows, whose ids `add` brings; `partBits`: the logarithm of how many at a time. */
  constructor(rows: number, partBits = 31) {
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(2, rows * 1.5)))).fill(EMPTY);
    this.#rowMask = 2 ** Math.ceil(Math.log2(rows + 1)) - 1;
    this.#partBits = partBits;
    this.#rowsMax = rows;
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
    const firstRow = this.#rows;
    this.#parts.push(ids);
    for (let position = 0; position < ids.data.length; position += 1) {
      const hash = hashAt(ids, position);
      const slot = this.#slotOf(hash, ids, position);
      const held = slots[slot]!;
      if (held === EMPTY) slots[slot] = (hash & ~this.#rowMask) | (firstRow + position);
      else this.#link(held & this.#rowMask, firstRow + position);
    }
    this.#rows += ids.data.length;
  }

  /** Puts a row behind the first one of its id. */
  #link(first: number, row: number): void {
    this.#next ??= new Int32Array(this.#rowsMax).fill(EMPTY);
    this.#next[row] = this.#next[first]!;
    this.#next[first] = row;
    this.#repeated ??= { first, second: row };
  }

  /** Bytes the index occupies beside the ids. */
  get bytes(): number {
    return this.#slots.byteLength + (this.#next?.byteLength ?? 0);
  }

  /** The first row whose id has occurred before, and the row where it occurred first. */
  get repeated(): RepeatedId | undefined {
    return this.#repeated;
  }

  /** Calls `found` with each row whose id is `wanted[position]`; `wanted` is made by `comparableIds`. */
  forEachRow(wanted: Tensor, position: number, found: (row: number) => void): void {
    for (let row = this.rowOf(wanted, position); row !== EMPTY; row = this.nextRow(row)) found(row);
  }

  /** The first row whose id is `wanted[position]`, or -1. */
  rowOf(wanted: Tensor, position: number): number {
    const held = this.#slots[this.#slotOf(hashAt(wanted, position), wanted, position)]!;
    return held === EMPTY ? EMPTY : held & this.#rowMask;
  }

  /** Another row of the same id, or -1, until all were given, from the first one on. */
  nextRow(row: number): number {
    return this.#next === undefined ? EMPTY : this.#next[row]!;
  }

  /** The slot of an id, or the empty one where it would be. */
  #slotOf(hash: number, wanted: Tensor, position: number): number {
    const slots = this.#slots;
    const rowMask = this.#rowMask;
    const mask = slots.length - 1;
    const tag = hash & ~rowMask;
    let slot = hash & mask;
    for (let held = slots[slot]!; held !== EMPTY; held = slots[slot]!) {
      if ((held & ~rowMask) === tag && this.#hasId(held & rowMask, wanted, position)) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #hasId(row: number, wanted: Tensor, position: number): boolean {
    const part = row >>> this.#partBits;
    return isSameId(this.#parts[part]!, row - part * 2 ** this.#partBits, wanted, position);
  }
}

/** An index of the rows from `firstRow` on. */
interface IndexedRows {
  readonly index: IdIndex;
  readonly firstRow?: number;
}

/** Row numbers that are found in any order, some of them more than once. */
export class FoundRows {
  /** Twice as long where it is full. */
  #rows = new Uint32Array(16);
  #length = 0;
  /** The first rows of those ids that have several. */
  readonly #firsts = new Set<number>();

  /**
   * Adds the rows whose id is `wanted[position]`, each plus `firstRow`. Those of an id that was added before are not
   * added again: they may be very many.
   */
  addRows({ index, firstRow = 0 }: IndexedRows, wanted: Tensor, position: number): void {
    let row = index.rowOf(wanted, position);
    if (row === EMPTY) return;
    if (index.nextRow(row) !== EMPTY) {
      if (this.#firsts.has(firstRow + row)) return;
      this.#firsts.add(firstRow + row);
    }
    for (; row !== EMPTY; row = index.nextRow(row)) this.add(firstRow + row);
  }

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
