// Reads rows of a matrix in chunks of float32. Every reading checks that all values are finite, and
// computes the checksum share of the rows that it accounts for, over the bytes as they are stored.
// Rows come as runs of neighbours, which are read together: straight into the chunk where a piece of
// the matrix has all columns in float32, else by way of a buffer.
//
// A row that several partitions read (an OOV row is in all of them) must count once in the XOR of
// all shares, and yet every reading of it must be checked. So one partition accounts for the row.
// Every other reader adds a copy of it to its share, at a place of its own: as if the row lay
// before that many more regions of bytes. The accounting partition adds the copies of all other
// readers too. Where all have read the same bytes, each copy occurs twice in the XOR and cancels
// out.

import { WinnowError, checksumConstant, extendRegister, shiftRegister } from "@winnow/core";
import type { RowChecks } from "@winnow/core";
import type { ChunkGenerator } from "../../model-version.ts";
import { elementBytes } from "../bundle/data-type.ts";
import type { NarrowFloat } from "../bundle/data-type.ts";
import { widenInto } from "../bundle/narrow-floats.ts";
import { type MatrixPiece, type RowBand, bandAt } from "./matrix-pieces.ts";

/** Bytes of the rows in one chunk, at most; a longer row is a chunk by itself. */
export const CHUNK_BYTES_MAX: number = 4 * 2 ** 20;

/** Neighbouring rows of a matrix. */
export interface RowRun {
  readonly firstRow: number;
  readonly count: number;
  /** Whether these rows count in this reading's checksum share. */
  readonly accounted: boolean;
  /**
   * Places of the copies added: of all other readers if accounted for here, else this reader's own.
   */
  readonly copies: readonly number[];
}

/** What values are stored as; all of them are read as float32. */
type RowFormat = "float32" | NarrowFloat | "int8" | "uint8";

/** A stored matrix. */
export interface RowMatrix {
  /** Covers all rows, ascending. */
  readonly bands: readonly RowBand[];
  readonly format: RowFormat;
  /** Bytes of all pieces. */
  readonly size: number;
  readonly rows: number;
  readonly dim: number;
  /** Name of the table, for messages. */
  readonly table: string;
  readonly checks: RowChecks;
}

/** One reading of ascending runs of rows. */
export class RowReading {
  readonly #matrix: RowMatrix;
  #register = 0;
  /** Shares of copies, and of pieces of rows, which are not in the order of the register. */
  #others = 0;
  #buffer = new Int32Array();
  /** End of the bytes that the register covers or has skipped. */
  #accountedEnd = 0;
  #share: number | undefined;

  constructor(matrix: RowMatrix) {
    this.#matrix = matrix;
  }

  /** Reads all runs, of `rows` rows together, in chunks of at most 4 MiB. @throws WinnowError */
  *chunks(runs: Iterable<RowRun>, rows: number): ChunkGenerator {
    const { dim } = this.#matrix;
    this.#register = 0;
    this.#others = 0;
    this.#accountedEnd = 0;
    const capacity = Math.max(1, Math.floor(CHUNK_BYTES_MAX / (dim * 4)));
    let chunk: Chunk | undefined;
    let spent: Float32Array | undefined;
    let left = rows;
    for (const run of runs) {
      if (run.count > capacity) this.#expect(run);
      for (let done = 0; done < run.count;) {
        chunk ??= newChunk(Math.min(capacity, left), dim, spent);
        const count = Math.min(run.count - done, chunk.capacity - chunk.rows);
        this.#read(chunk, { ...run, firstRow: run.firstRow + done, count });
        chunk.rows += count;
        done += count;
        left -= count;
        if (chunk.rows < chunk.capacity) continue;
        spent = yield chunk.values;
        chunk = undefined;
      }
    }
    const { size } = this.#matrix;
    this.#share = shiftRegister(this.#register, size - this.#accountedEnd) ^ this.#others;
  }

  /** Share of the accounted rows in the checksum of the matrix; `undefined` before the end. */
  get share(): number | undefined {
    return this.#share;
  }

  /** A run of several chunks is read piece by piece, each from its first row on. */
  #expect({ firstRow, count }: RowRun): void {
    const { bands, format } = this.#matrix;
    const endRow = firstRow + count;
    let band = bandAt(bands, firstRow);
    for (let row = firstRow; row < endRow; band += 1) {
      const { pieces, endRow: bandEnd } = bands[band]!;
      const rows = Math.min(endRow, bandEnd) - row;
      for (const piece of pieces) {
        const rowBytes = piece.columns * elementBytes(format);
        piece.region.expect?.((row - piece.firstRow) * rowBytes, rows * rowBytes);
      }
      row += rows;
    }
  }

  #read(chunk: Chunk, run: RowRun): void {
    const { dim, bands, checks, format } = this.#matrix;
    const endRow = run.firstRow + run.count;
    const chunkStart = chunk.rows * dim;
    let start = chunkStart;
    let band = bandAt(bands, run.firstRow);
    for (let row = run.firstRow; row < endRow; band += 1) {
      const { pieces, endRow: bandEnd } = bands[band]!;
      const rows = { first: row, end: Math.min(endRow, bandEnd) };
      for (const piece of pieces) {
        const isWhole = piece.columns === dim;
        if (isWhole && format === "float32") this.#readStraight(chunk, { piece, rows, start, run });
        else this.#readBuffered(chunk, { piece, rows, start, run });
      }
      start += (rows.end - row) * dim;
      row = rows.end;
    }
    const wrong = checks.indexOfInfinite(chunk.words, { start: chunkStart, end: start });
    if (wrong < 0) return;
    const row = run.firstRow + Math.floor((wrong - chunkStart) / dim);
    throw notFinite(this.#matrix, row, chunk.values[wrong]!);
  }

  /** Reads rows of a piece to where they belong, and accounts for them there. */
  #readStraight(chunk: Chunk, { piece, rows, start, run }: PieceReading): void {
    const { dim, size, checks } = this.#matrix;
    const end = start + (rows.end - rows.first) * dim;
    const from = (rows.first - piece.firstRow) * dim * 4;
    piece.region.read(from, chunk.bytes.subarray(start * 4, end * 4));
    const span = { start, end };
    const offset = piece.offset + from;
    const endOffset = offset + (end - start) * 4;
    if (run.accounted) {
      this.#register = shiftRegister(this.#register, offset - this.#accountedEnd);
      this.#register = checks.extendRegister(this.#register, chunk.words, span);
      this.#accountedEnd = endOffset;
    }
    if (run.copies.length === 0) return;
    this.#addCopies(
      shiftRegister(checks.extendRegister(0, chunk.words, span), size - endOffset),
      run,
    );
  }

  /** Reads rows of a piece into a buffer, accounts for them, and puts them where they belong. */
  #readBuffered(chunk: Chunk, { piece, rows, start, run }: PieceReading): void {
    const { dim, size, format, checks } = this.#matrix;
    const { columns, firstColumn } = piece;
    const rowBytes = columns * elementBytes(format);
    const length = (rows.end - rows.first) * rowBytes;
    if (this.#buffer.byteLength < length) this.#buffer = new Int32Array(Math.ceil(length / 4));
    const words = this.#buffer;
    const bytes = new Uint8Array(words.buffer, 0, length);
    const from = (rows.first - piece.firstRow) * rowBytes;
    piece.region.read(from, bytes);
    const wholeWords = length >>> 2;
    const register = extendRegister(
      checks.extendRegister(0, words, { start: 0, end: wholeWords }),
      bytes.subarray(wholeWords * 4),
    );
    const share = shiftRegister(register, size - piece.offset - from - length);
    if (run.accounted) this.#others ^= share;
    this.#addCopies(share, run);
    for (let row = 0; row < rows.end - rows.first; row += 1) {
      const at = start + row * dim + firstColumn;
      const own = bytes.subarray(row * rowBytes, (row + 1) * rowBytes);
      readAsFloats(chunk.words.subarray(at, at + columns), own, format);
    }
  }

  #addCopies(share: number, { copies }: RowRun): void {
    for (const place of copies) {
      this.#others ^= shiftRegister(share, (place + 1) * this.#matrix.size);
    }
  }
}

/** Writes stored values as the words of float32 values. */
export function readAsFloats(words: Int32Array, stored: Uint8Array, format: RowFormat): void {
  const { buffer, byteOffset } = stored;
  const count = words.length;
  if (format === "float32") words.set(new Int32Array(buffer, byteOffset, count));
  else if (format === "int8" || format === "uint8") {
    const values = new Float32Array(words.buffer, words.byteOffset, count);
    const isSigned = format === "int8";
    values.set(
      isSigned
        ? new Int8Array(buffer, byteOffset, count)
        : new Uint8Array(buffer, byteOffset, count),
    );
  } else widenInto(words, new Uint16Array(buffer, byteOffset, count), format);
}

/** Rows of a piece to be read, and where in the chunk the first of them begins, its column 0. */
interface PieceReading {
  readonly piece: MatrixPiece;
  readonly rows: { readonly first: number; readonly end: number };
  readonly start: number;
  readonly run: RowRun;
}

/**
 * The part of a checksum that belongs to no row: its constant, which partition 0 adds to its share.
 */
export function constantShare(partition: number, checksumBytes: number): number {
  return partition === 0 ? checksumConstant(checksumBytes) : 0;
}

interface Chunk {
  readonly values: Float32Array;
  readonly words: Int32Array;
  readonly bytes: Uint8Array;
  readonly capacity: number;
  rows: number;
}

/** An empty chunk, in the memory of a spent chunk if that is large enough. */
function newChunk(rows: number, dim: number, spent: Float32Array | undefined): Chunk {
  const length = rows * dim;
  const isEnough = spent !== undefined && spent.buffer.byteLength >= length * 4;
  const buffer = isEnough ? spent.buffer : new ArrayBuffer(length * 4);
  const values = new Float32Array(buffer, 0, length);
  const words = new Int32Array(buffer, 0, length);
  const bytes = new Uint8Array(buffer, 0, length * 4);
  return { values, words, bytes, capacity: rows, rows: 0 };
}

/** Refuses a row of which some value cannot be ordered. */
export function notFinite(matrix: RowMatrix, row: number, value: number): WinnowError {
  const text = `Cannot serve table "${matrix.table}": row ${row} of ${matrix.rows} holds ${value}`;
  return new WinnowError("INVALID_ARGUMENT", `${text}; every value must be finite`);
}
