// Rows of a float32 matrix in chunks, with what every reading of rows owes: finite values and the
// checksum share of the rows it accounts for. Rows come as runs of neighbours, each one system call;
// a run that is read but accounted for elsewhere (an OOV row, present in every partition) is marked.

import { WinnowError, checksumConstant, extendRegisterByWords, shiftRegister } from "@winnow/core";
import type { Region } from "./region.ts";

const CHUNK_BYTES_MAX = 4 * 2 ** 20;
/** All exponent bits set: infinite or not a number. */
const EXPONENT = 0x7f80_0000;
const EXPONENT_ONE = 0x0080_0000;

/** Neighbouring rows of a matrix. */
export interface RowRun {
  readonly firstRow: number;
  readonly count: number;
  /** Whether these rows count in this reading's checksum share. */
  readonly accounted: boolean;
}

/** A matrix in a region. */
export interface RowMatrix {
  readonly region: Region;
  readonly rows: number;
  readonly dim: number;
  /** For messages. */
  readonly table: string;
}

/** One reading of ascending runs of rows. */
export class RowReading {
  readonly #matrix: RowMatrix;
  #register = 0;
  /** End of the bytes the register has run over or skipped. */
  #accountedEnd = 0;
  #share: number | undefined;

  constructor(matrix: RowMatrix) {
    this.#matrix = matrix;
  }

  /** The `rows` rows of all runs, at most 4 MiB a chunk, each in a fresh array. @throws WinnowError */
  *chunks(runs: Iterable<RowRun>, rows: number): Generator<Float32Array, void, undefined> {
    const { dim } = this.#matrix;
    this.#register = 0;
    this.#accountedEnd = 0;
    const capacity = Math.max(1, Math.floor(CHUNK_BYTES_MAX / (dim * 4)));
    let chunk: Chunk | undefined;
    let left = rows;
    for (const run of runs) {
      for (let done = 0; done < run.count;) {
        chunk ??= newChunk(Math.min(capacity, left), dim);
        const count = Math.min(run.count - done, chunk.capacity - chunk.rows);
        this.#read(chunk, { firstRow: run.firstRow + done, count, accounted: run.accounted });
        chunk.rows += count;
        done += count;
        left -= count;
        if (chunk.rows < chunk.capacity) continue;
        yield chunk.values;
        chunk = undefined;
      }
    }
    const { size } = this.#matrix.region;
    this.#share = shiftRegister(this.#register, size - this.#accountedEnd);
  }

  /** Share of the accounted rows in the checksum of the matrix; `undefined` before the end. */
  get share(): number | undefined {
    return this.#share;
  }

  #read(chunk: Chunk, run: RowRun): void {
    const { dim, region } = this.#matrix;
    const rowBytes = dim * 4;
    const start = chunk.rows * dim;
    const end = start + run.count * dim;
    const offset = run.firstRow * rowBytes;
    region.read(offset, chunk.bytes.subarray(start * 4, end * 4));
    const wrong = indexOfInfinite(chunk.words, start, end);
    if (wrong >= 0) {
      const row = run.firstRow + Math.floor((wrong - start) / dim);
      throw notFinite(this.#matrix, row, chunk.values[wrong]!);
    }
    if (!run.accounted) return;
    this.#register = shiftRegister(this.#register, offset - this.#accountedEnd);
    this.#register = extendRegisterByWords(this.#register, chunk.words, { start, end });
    this.#accountedEnd = offset + run.count * rowBytes;
  }
}

/** The part of a share that belongs to no row: the checksum's own constant, told by partition 0. */
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

function newChunk(rows: number, dim: number): Chunk {
  const values = new Float32Array(rows * dim);
  const words = new Int32Array(values.buffer);
  return { values, words, bytes: new Uint8Array(values.buffer), capacity: rows, rows: 0 };
}

/** Position of the first value that is infinite or not a number; -1 if there is none. */
function indexOfInfinite(words: Int32Array, start: number, end: number): number {
  // Adding one to a full exponent carries into the sign bit; one test per chunk of rows suffices.
  let carried = 0;
  for (let at = start; at < end; at += 1) carried |= (words[at]! & EXPONENT) + EXPONENT_ONE;
  if (carried >= 0) return -1;
  return words
    .subarray(0, end)
    .findIndex((word, at) => at >= start && (word & EXPONENT) === EXPONENT);
}

function notFinite(matrix: RowMatrix, row: number, value: number): WinnowError {
  const text = `Cannot serve table "${matrix.table}": row ${row} of ${matrix.rows} holds ${value}`;
  return new WinnowError("INVALID_ARGUMENT", `${text}; every value must be finite`);
}
