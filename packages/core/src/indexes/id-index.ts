// Item ids → their rows, by open addressing over row numbers: eight to sixteen bytes per row and no object
// per id. An id may have several rows; all of them are found.

import { StringColumn } from "../tensor/string-column.ts";
import type { Tensor } from "../tensor/tensor.ts";

const EMPTY = -1;

/** Rows by id. */
export class IdIndex {
  readonly #ids: Tensor;
  readonly #slots: Int32Array;

  /** Indexes ids: string, int32 or int64, one per row. */
  constructor(ids: Tensor) {
    this.#ids = ids;
    const rows = ids.data.length;
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(2, rows * 1.5)))).fill(EMPTY);
    const mask = this.#slots.length - 1;
    for (let row = 0; row < rows; row += 1) {
      let slot = hashAt(ids, row) & mask;
      while (this.#slots[slot] !== EMPTY) slot = (slot + 1) & mask;
      this.#slots[slot] = row;
    }
  }

  /** Bytes the index occupies beside the ids. */
  get bytes(): number {
    return this.#slots.byteLength;
  }

  /** Calls `found` with each row whose id is `wanted[position]`; `wanted` is made by `comparableIds`. */
  forEachRow(wanted: Tensor, position: number, found: (row: number) => void): void {
    const mask = this.#slots.length - 1;
    let slot = hashAt(wanted, position) & mask;
    for (let row = this.#slots[slot]!; row !== EMPTY; row = this.#slots[slot]!) {
      if (isSameId(this.#ids, row, wanted, position)) found(row);
      slot = (slot + 1) & mask;
    }
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
