// What a search returns about an item, as the bytes of one string: a JSON object of its attributes and, where vectors travel
// as bytes, the item's vector behind it. The end says how long the vector is, so that whoever joins and orders such
// strings need not know what they hold.
//
//   {"year":1990}   float32 × dim, little-endian   dim: uint32, little-endian
//
// A vector is a third longer as text, and both sides would translate it.

import { WinnowError } from "../errors/errors.ts";
import type { StringColumn } from "../tensor/string-column.ts";

const VALUE_BYTES = 4;
const DIM_BYTES = 4;

/** An object with a vector behind it; `values` are the bytes of the vector. */
export function cellOf(object: Uint8Array, values: Uint8Array): Uint8Array {
  const dimAt = object.length + values.length;
  const cell = Buffer.allocUnsafe(dimAt + DIM_BYTES);
  cell.set(object);
  cell.set(values, object.length);
  cell.writeUInt32LE(values.length / VALUE_BYTES, dimAt);
  return cell;
}

/** The parts of a string that `cellOf` made, as positions in the bytes of its column. */
export interface CellParts {
  readonly start: number;
  /** Where the object ends and the vector begins. */
  readonly vectorAt: number;
  readonly dim: number;
}

/**
 * The parts of one string of a column; `undefined` for an empty string, as there is behind the last item of a list
 * that is shorter than others. @throws WinnowError INTERNAL where no vector can be behind an object
 */
export function cellPartsAt(column: StringColumn, position: number): CellParts | undefined {
  const [start, end] = [column.offsets[position]!, column.offsets[position + 1]!];
  if (start === end) return undefined;
  const { bytes } = column;
  const dimAt = end - DIM_BYTES;
  const dim = dimAt < start ? Infinity : uint32At(bytes, dimAt);
  const vectorAt = dimAt - VALUE_BYTES * dim;
  if (vectorAt > start && bytes[vectorAt - 1] === BRACE) return { start, vectorAt, dim };
  throw new WinnowError("INTERNAL", "A worker described an item without the vector wanted");
}

const BRACE = "}".charCodeAt(0);

function uint32At(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  );
}
