// The bytes behind a stored tensor, so that one reading serves all: a stretch of a data file, slices
// in several of them, a constant of the graph laid out as a checkpoint stores it, or several of these
// one after the other. However many pieces there are, a table has one source with one checksum: that
// of all pieces in order, as if they lay in one region.

import {
  WinnowError,
  checksumBefore,
  combineChecksums,
  crc32c,
  elementCount,
  extendRegister,
} from "@winnow/core";
import type { TableSource, Tensor } from "@winnow/core";
import type { StoredDtype } from "../bundle/data-type.ts";
import { type Region, memoryRegion, regionWithin } from "../../storage/region.ts";
import { columnBytes, encodeStringHeader } from "../bundle/string-encoding.ts";
import type { BundlePiece, TensorBundle } from "../bundle/tensor-bundle.ts";
import { textOfStored } from "./stored-table.ts";
import type { StoredTensor } from "./stored-table.ts";

/** A piece of a stored tensor: a box within it, row-major in a region of its own. */
interface StoredPiece extends BundlePiece {
  /** Where its bytes begin among those of all pieces. */
  readonly offset: number;
}

/** A stored tensor that can be read. */
export interface StoredRegion {
  readonly dtype: StoredDtype | undefined;
  readonly shape: readonly number[];
  /** Ascending by first element. */
  readonly pieces: readonly StoredPiece[];
  /** Bytes of all pieces. */
  readonly size: number;
  /** File and tensor, for messages. */
  readonly name: string;
  readonly source: TableSource & { readonly checksum: number };
}

/**
 * Finds a stored tensor, or lays out a constant of the graph. @throws WinnowError NOT_FOUND,
 * DATA_LOSS
 */
export function storedRegionOf(stored: StoredTensor, bundle: () => TensorBundle): StoredRegion {
  switch (stored.kind) {
    case "constant":
      return constantRegion(stored.name, stored.tensor);
    case "bundle": {
      const { pieces, dtype, shape } = bundle().piecesOf(stored.key, stored.slice);
      return regionOver(pieces, { dtype, shape, tensor: textOfStored(stored) });
    }
    case "concatenated":
      return concatenated(stored.parts.map((part) => storedRegionOf(part, bundle)));
    case "rows":
      return rowsOf(storedRegionOf(stored.of, bundle), stored);
  }
}

function regionOver(
  pieces: readonly BundlePiece[],
  whole: Pick<StoredRegion, "dtype" | "shape"> & { readonly tensor: string },
): StoredRegion {
  let size = 0;
  let checksum = 0;
  const placed = pieces.map((piece): StoredPiece => {
    const offset = size;
    size += piece.region.size;
    checksum = combineChecksums(checksum, piece.checksum, piece.region.size);
    return { ...piece, offset };
  });
  const { dtype, shape, tensor } = whole;
  const [first] = pieces;
  if (first === undefined) {
    throw new WinnowError("DATA_LOSS", `Cannot read tensor "${tensor}": no slice holds any of it`);
  }
  const name =
    pieces.length === 1 ? first.region.name : `tensor "${tensor}", in ${pieces.length} pieces`;
  const source = { tensor, file: filesOf(pieces), checksum };
  return { dtype, shape, pieces: placed, size, name, source };
}

/** One file by its name, several by the first and their number. */
function filesOf(pieces: readonly BundlePiece[]): string {
  const [first = "", ...others] = new Set(pieces.map(({ region }) => region.file));
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}

/** Tensors one after the other. @throws WinnowError INVALID_ARGUMENT where they do not fit */
function concatenated(parts: readonly StoredRegion[]): StoredRegion {
  const [first] = parts;
  if (first === undefined) throw new RangeError("nothing is concatenated");
  let rows = 0;
  const pieces = parts.flatMap((part) => {
    const isAlike = part.dtype === first.dtype && sameRows(part.shape, first.shape);
    if (!isAlike) {
      const shapes = [part, first].map(({ dtype, shape }) => `${dtype} [${shape.join(",")}]`);
      const text = `Cannot read ${part.name}: it is ${shapes.join(" behind ")}`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    const firstRow = rows;
    rows += part.shape[0]!;
    return part.pieces.map((piece) => ({
      ...piece,
      start: [piece.start[0]! + firstRow, ...piece.start.slice(1)],
    }));
  });
  const tensor = `${first.source.tensor} and ${parts.length - 1} more`;
  return regionOver(pieces, { dtype: first.dtype, shape: [rows, ...first.shape.slice(1)], tensor });
}

/** Bytes that are read of a tensor beside the rows that are wanted of it, for their checksum. */
const BESIDE_BYTES_MAX = 2 ** 24;

/**
 * Neighbouring rows of a tensor. Their checksum follows from that of the tensor and the bytes beside them, which
 * are read here. @throws WinnowError UNIMPLEMENTED where these are many, or share a slice with other columns
 */
function rowsOf(
  whole: StoredRegion,
  { firstRow, rows }: { readonly firstRow: number; readonly rows: number },
): StoredRegion {
  const { dtype, shape, name, source } = whole;
  const endRow = firstRow + rows;
  let bytesLeft = BESIDE_BYTES_MAX;
  const pieces = rowPiecesOf(whole).flatMap((piece): readonly BundlePiece[] => {
    const { region, count, start } = piece;
    const from = Math.max(firstRow - piece.firstRow, 0);
    const to = Math.min(endRow - piece.firstRow, count);
    if (from >= to) return [];
    const rowBytes = region.size / count;
    bytesLeft -= (count - (to - from)) * rowBytes;
    if (bytesLeft < 0 || dtype === "string") throw tooFewRows(name, rows);
    const span = { offset: from * rowBytes, size: (to - from) * rowBytes };
    const head = readBytes(region, 0, span.offset);
    const end = span.offset + span.size;
    const tail = readBytes(region, end, region.size - end);
    const upToEnd = checksumBefore(piece.checksum, crc32c(tail), tail.length);
    // The checksum of what follows a head is that of both without the share of the head.
    const checksum = combineChecksums(crc32c(head), upToEnd, span.size);
    const firstOfPiece = Math.max(piece.firstRow, firstRow) - firstRow;
    return [
      {
        start: [firstOfPiece, ...start.slice(1)],
        shape: [to - from, ...piece.shape.slice(1)],
        checksum,
        region: regionWithin(region, span),
      },
    ];
  });
  const tensor = `${source.tensor} [${firstRow}:${endRow}]`;
  return regionOver(pieces, { dtype, shape: [rows, ...shape.slice(1)], tensor });
}

function readBytes(region: Region, offset: number, size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  if (size > 0) region.read(offset, bytes);
  return bytes;
}

function tooFewRows(name: string, rows: number): WinnowError {
  const text = `Cannot read ${name}: the graph takes ${rows} rows of it, too few of what is stored`;
  return new WinnowError("UNIMPLEMENTED", `${text}; store these rows as a variable of their own`);
}

function sameRows(a: readonly number[], b: readonly number[]): boolean {
  return a.length > 0 && a.slice(1).join() === b.slice(1).join() && a.length === b.length;
}

function constantRegion(name: string, constant: Tensor): StoredRegion {
  const { dtype, shape } = constant;
  const { bytes, checksum } =
    dtype === "string" ? stringBytes(constant) : numericBytes(constant.data);
  const region: Region = memoryRegion(bytes, "saved_model.pb", name);
  const start = shape.map(() => 0);
  return regionOver([{ start, shape, checksum, region }], { dtype, shape, tensor: name });
}

/**
 * The pieces of a matrix or vector with their place in it, where runs of whole rows follow each
 * other. @throws WinnowError DATA_LOSS unless each piece has all columns and follows the one before
 */
export function rowPiecesOf({ pieces, shape, name }: StoredRegion): readonly RowPiece[] {
  const rowElements = elementCount(shape.slice(1));
  let rows = 0;
  const runs = pieces.flatMap((piece): readonly RowPiece[] => {
    const count = piece.shape[0] ?? 0;
    const isWhole = piece.start[0] === rows && elementCount(piece.shape) === count * rowElements;
    if (!isWhole) throw notTiled(name, rows);
    rows += count;
    return count === 0 ? [] : [{ ...piece, firstRow: rows - count, count }];
  });
  if (rows !== shape[0]) throw notTiled(name, rows);
  return runs;
}

/** A piece of whole rows. */
export interface RowPiece extends StoredPiece {
  readonly firstRow: number;
  readonly count: number;
}

/** Slices that overlap or leave gaps. */
export function notTiled(name: string, row: number): WinnowError {
  const text = `Cannot read ${name}: its slices do not cover row ${row} once`;
  return new WinnowError("DATA_LOSS", text);
}

interface Checked {
  readonly bytes: Uint8Array;
  readonly checksum: number;
}

function numericBytes(data: ArrayBufferView): Checked {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { bytes, checksum: ~extendRegister(-1, bytes) >>> 0 };
}

function stringBytes(constant: Tensor & { readonly dtype: "string" }): Checked {
  const { header, register } = encodeStringHeader(constant.data);
  const data = columnBytes(constant.data);
  const bytes = new Uint8Array(header.length + data.length);
  bytes.set(header);
  bytes.set(data, header.length);
  return { bytes, checksum: ~extendRegister(register, data) >>> 0 };
}
