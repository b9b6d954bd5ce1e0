// What one search covers: the slabs of all its residents in the order of their rows, each group with
// its slot, and the way between global rows and positions (slot · 128 + row within the group).

import type { TopKQuery } from "../accelerator.ts";
import type { RowLayout, RowScale } from "./codes.ts";
import type { SearchRows, Slab } from "./rows-upload.ts";
import { GROUP_ROWS } from "./shaders/prelude.ts";

/** A slab and the slot of its first group. */
interface PlacedSlab {
  readonly slab: Slab;
  readonly firstSlot: number;
}

/** The rows of one search. */
export interface SearchScope {
  readonly slabs: readonly PlacedSlab[];
  readonly slots: number;
  readonly layout: RowLayout;
  readonly scale: RowScale;
}

/** Joins the rows of residents that do not overlap and have one dim. */
export function scopeOf(parts: readonly SearchRows[]): SearchScope {
  const slabs: PlacedSlab[] = [];
  let slots = 0;
  const ordered = parts
    .flatMap((part) => part.slabs)
    .toSorted((one, other) => one.firstRow - other.firstRow);
  for (const slab of ordered) {
    slabs.push({ slab, firstSlot: slots });
    slots += slab.groups;
  }
  const scale = {
    exponentMax: Math.max(...parts.map((part) => part.scale.exponentMax)),
    normMax: Math.max(...parts.map((part) => part.scale.normMax)),
  };
  return { slabs, slots, layout: parts[0]!.layout, scale };
}

/** The last slab that `isBefore` holds for, which it does for a first part of them; else undefined. */
function lastSlab(
  { slabs }: SearchScope,
  isBefore: (placed: PlacedSlab) => boolean,
): PlacedSlab | undefined {
  let low = 0;
  let high = slabs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(slabs[middle]!)) low = middle + 1;
    else high = middle;
  }
  return slabs[low - 1];
}

/** The global row at a position. */
export function rowAt(scope: SearchScope, position: number): number {
  const slot = Math.floor(position / GROUP_ROWS);
  const placed = lastSlab(scope, ({ firstSlot }) => firstSlot <= slot)!;
  return placed.slab.firstRow + position - placed.firstSlot * GROUP_ROWS;
}

/** Ascending positions of those of the ascending rows that the search covers. */
export function positionsOf(scope: SearchScope, rows: Uint32Array | undefined): number[] {
  const positions: number[] = [];
  for (const row of rows ?? []) {
    const placed = lastSlab(scope, ({ slab }) => slab.firstRow <= row);
    if (placed === undefined || row - placed.slab.firstRow >= placed.slab.rows) continue;
    positions.push(placed.firstSlot * GROUP_ROWS + row - placed.slab.firstRow);
  }
  return positions;
}

/** One bit per position for rows that the mask admits; bits past the end of a slab mean nothing. */
export function maskWords(scope: SearchScope, admittedRows: Uint8Array): Uint32Array {
  const perSlot = GROUP_ROWS / 32;
  const words = new Uint32Array(scope.slots * perSlot);
  for (const { slab, firstSlot } of scope.slabs) {
    for (let index = 0; index < slab.groups * perSlot; index += 1) {
      words[firstSlot * perSlot + index] = bitsFrom(admittedRows, slab.firstRow + index * 32);
    }
  }
  return words;
}

/** 32 bits of a bitmap from bit `first` on; beyond its end they are 0. */
function bitsFrom(bitmap: Uint8Array, first: number): number {
  const byte = Math.floor(first / 8);
  const shift = first % 8;
  let bits = 0;
  for (let index = 4; index >= 0; index -= 1) bits = bits * 256 + (bitmap[byte + index] ?? 0);
  return Math.floor(bits / 2 ** shift) % 2 ** 32;
}

/** Whether a query may return a row. */
export type RowTest = (row: number) => boolean;

/** The test for one query: excluded rows by search in their ascending list, then the mask. */
export function rowTest(query: TopKQuery, index: number): RowTest {
  const excluded = query.excludedRows?.[index];
  const mask = query.admittedRows;
  return (row) => {
    if (mask !== undefined && ((mask[Math.floor(row / 8)] ?? 0) & (1 << (row & 7))) === 0) {
      return false;
    }
    return excluded === undefined || !holds(excluded, row);
  };
}

function holds(rows: Uint32Array, row: number): boolean {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows[middle]! < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row;
}
