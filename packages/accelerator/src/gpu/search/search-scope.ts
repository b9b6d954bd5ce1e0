// What one search covers: the groups of its residents, slab by slab, each with a slot number; and
// the mapping of global rows to positions (slot · 128 + row within the group). A slab may hold rows
// of other residents, which have no slot.

import type { RowSet } from "../../queries/row-admission.ts";
import type { RowLayout, RowScale } from "../codes.ts";
import { GROUP_ROWS, RANGE_WORDS } from "../shaders/prelude.ts";
import type { Extent, Slab } from "../memory/slab.ts";
import type { SearchRows } from "../memory/slab-pool.ts";

/** Bytes of a mask for one group. */
const GROUP_BYTES = GROUP_ROWS / 8;

/** An extent and the slot of its first group. */
interface PlacedExtent {
  readonly extent: Extent;
  readonly firstSlot: number;
}

/** The part of a slab that is searched; its slots are consecutive. */
interface ScopeSlab {
  readonly slab: Slab;
  readonly firstSlot: number;
  readonly groups: number;
}

/** The rows of one search. */
export interface SearchScope {
  readonly slabs: readonly ScopeSlab[];
  /** Ascending by row. */
  readonly extents: readonly PlacedExtent[];
  /** `struct Range` for each extent, ascending by slot. */
  readonly rangeWords: Uint32Array;
  readonly slots: number;
  readonly layout: RowLayout;
  readonly scale: RowScale;
}

/** The scope of residents whose rows do not overlap and have one dim. */
export function scopeOf(parts: readonly SearchRows[]): SearchScope {
  const bySlab = new Map<Slab, Extent[]>();
  for (const extent of parts.flatMap((part) => part.extents)) {
    const known = bySlab.get(extent.slab);
    if (known === undefined) bySlab.set(extent.slab, [extent]);
    else known.push(extent);
  }
  const slabs: ScopeSlab[] = [];
  const placed: PlacedExtent[] = [];
  let slots = 0;
  for (const [slab, extents] of bySlab) {
    const firstSlot = slots;
    for (const extent of extents.toSorted((one, other) => one.firstGroup - other.firstGroup)) {
      placed.push({ extent, firstSlot: slots });
      slots += extent.groups;
    }
    slabs.push({ slab, firstSlot, groups: slots - firstSlot });
  }
  return {
    slabs,
    extents: placed.toSorted((one, other) => one.extent.firstRow - other.extent.firstRow),
    rangeWords: rangeWords(placed),
    slots,
    layout: parts[0]!.layout,
    scale: {
      exponentMax: Math.max(...parts.map((part) => part.scale.exponentMax)),
      normMax: Math.max(...parts.map((part) => part.scale.normMax)),
    },
  };
}

function rangeWords(placed: readonly PlacedExtent[]): Uint32Array {
  const words = new Uint32Array(placed.length * RANGE_WORDS);
  for (const [index, { extent, firstSlot }] of placed.entries()) {
    const { firstGroup, rows, firstRow } = extent;
    words.set([firstSlot, firstGroup, rows, firstRow], index * RANGE_WORDS);
  }
  return words;
}

/** Ascending positions of these ascending rows, without the rows that the search does not cover. */
export function positionsOf(scope: SearchScope, rows: Uint32Array | undefined): Uint32Array {
  const positions = new Uint32Array(rows?.length ?? 0);
  let count = 0;
  for (const row of rows ?? []) {
    const placed = extentOf(scope, row);
    if (placed === undefined) continue;
    positions[count] = placed.firstSlot * GROUP_ROWS + row - placed.extent.firstRow;
    count += 1;
  }
  return positions.subarray(0, count).toSorted();
}

/** The extent that holds a global row; `undefined` if the search does not cover the row. */
function extentOf({ extents }: SearchScope, row: number): PlacedExtent | undefined {
  let low = 0;
  let high = extents.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (extents[middle]!.extent.firstRow <= row) low = middle + 1;
    else high = middle;
  }
  const placed = extents[low - 1];
  return placed !== undefined && row - placed.extent.firstRow < placed.extent.rows
    ? placed
    : undefined;
}

/** Where a piece of a filter's bitmap belongs in the mask of a search, which has one bit per position. */
export interface MaskPiece {
  readonly bits: Uint8Array;
  /** Its first byte in the bitmap, and in the mask. */
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

/**
 * The mask for rows that are admitted, a piece per extent; bits past the end of an extent have no
 * meaning. All extents of a resident but its last are whole groups, so pieces are whole groups.
 */
export function maskPieces(scope: SearchScope, { parts }: RowSet): MaskPiece[] {
  let at = 0;
  return scope.extents.map(({ extent, firstSlot }) => {
    const { firstRow, groups } = extent;
    while (firstRow >= parts[at]!.resident.firstRow + parts[at]!.resident.rows) at += 1;
    const { resident, bits } = parts[at]!;
    const from = (firstRow - resident.firstRow) / 8;
    return { bits, from, to: firstSlot * GROUP_BYTES, bytes: groups * GROUP_BYTES };
  });
}

/** The pieces put together. */
export function maskBytes(scope: SearchScope, pieces: readonly MaskPiece[]): Uint8Array {
  const mask = new Uint8Array(scope.slots * GROUP_BYTES);
  for (const { bits, from, to, bytes } of pieces) mask.set(bits.subarray(from, from + bytes), to);
  return mask;
}
