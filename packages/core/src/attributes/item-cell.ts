// What a search returns about an item, as the bytes of one string: a JSON object of its attributes and, where vectors travel
// as bytes, the item's vector behind it. The end says how long the vector is, so that whoever joins and orders such
// strings need not know what they hold.
//
//   {"year":1990}   float32 × dim, little-endian   dim: uint32, little-endian
//
// A vector is a third longer as text, and both sides would translate it.

import { WinnowError } from "../errors/errors.ts";
import { StringColumn } from "../tensor/string-column.ts";

const VALUE_BYTES = 4;
const DIM_BYTES = 4;
const EMPTY_OBJECT = Buffer.from("{}");

/** An object with a vector behind it; `values` are the bytes of the vector. */
export function cellOf(object: Uint8Array, values: Uint8Array): Uint8Array {
  const dimAt = object.length + values.length;
  const cell = Buffer.allocUnsafe(dimAt + DIM_BYTES);
  cell.set(object);
  cell.set(values, object.length);
  cell.writeUInt32LE(values.length / VALUE_BYTES, dimAt);
  return cell;
}

/**
 * What `cellOf` gives for an empty object and each of `count` vectors, as one column. Values are copied as integers, 32 bits
 * at a time: a view of each vector takes longer than that copy, and integers keep the bits of every value.
 */
export function vectorCells(values: Float32Array, count: number): StringColumn {
  const dim = count === 0 ? 0 : values.length / count;
  const length = EMPTY_OBJECT.length + VALUE_BYTES * dim + DIM_BYTES;
  const offsets = new Uint32Array(count + 1);
  const bytes = new Uint8Array(count * length);
  const to = new DataView(bytes.buffer);
  const words = new Int32Array(values.buffer, values.byteOffset, values.length);
  let from = 0;
  let at = 0;
  for (let cell = 0; cell < count; cell += 1) {
    for (const sign of EMPTY_OBJECT) bytes[at++] = sign;
    for (const end = from + dim; from < end; from += 1, at += VALUE_BYTES) {
      to.setInt32(at, words[from]!, true);
    }
    to.setUint32(at, dim, true);
    at += DIM_BYTES;
    offsets[cell + 1] = at;
  }
  return new StringColumn(offsets, bytes);
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

/**
 * The vectors of some strings that `cellOf` made, one behind the other.
 * @throws WinnowError INTERNAL for a string without a vector, or vectors of different lengths
 */
export function vectorsOfCells(column: StringColumn): Float32Array<ArrayBuffer> {
  const dim = column.length === 0 ? 0 : (cellPartsAt(column, 0)?.dim ?? 0);
  const values = new Float32Array(column.length * dim);
  const target = new Uint8Array(values.buffer);
  const size = VALUE_BYTES * dim;
  for (let at = 0; at < column.length; at += 1) {
    const part = cellPartsAt(column, at);
    if (part?.dim !== dim) {
      throw new WinnowError("INTERNAL", "Vectors of one table have different lengths");
    }
    target.set(column.bytes.subarray(part.vectorAt, part.vectorAt + size), size * at);
  }
  return values;
}

const BRACE = "}".charCodeAt(0);

function uint32At(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  );
}
