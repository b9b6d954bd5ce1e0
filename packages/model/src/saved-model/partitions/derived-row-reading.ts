// Reads rows of a candidate table that are made of several stored tensors (`RowDerivation`), in
// chunks as `RowReading` gives them. A partition reads only its own rows of each tensor: of a matrix
// stored by column, its part of every column. Each tensor has its own checksum share, and the share
// of a part that lies in many places is the XOR of theirs.

import { extendRegister, shiftRegister } from "@winnow/core";
import type { RowRange } from "@winnow/core";
import type { ChunkGenerator } from "../../model-version.ts";
import { elementBytes } from "../bundle/data-type.ts";
import { bandAt } from "./matrix-pieces.ts";
import type { MatrixPiece } from "./matrix-pieces.ts";
import { RowComputing } from "./row-computation.ts";
import { normaliseRows } from "./row-normalisation.ts";
import { CHUNK_BYTES_MAX, RowReading, notFinite, readAsFloats } from "./row-reading.ts";
import type { RowMatrix } from "./row-reading.ts";
import { addedValues } from "./stored-table.ts";
import type { RowDerivation } from "./stored-table.ts";

/** Bytes of a matrix stored by column that are read before rows are made of them. */
const BAND_BYTES_MAX = 2 ** 25;

/** The tensors that rows are made of; `dim` of the matrix is that of its stored items. */
export interface DerivedRows {
  readonly matrix: RowMatrix;
  readonly derivation: RowDerivation;
  /** As `tensorsBeside(derivation)`; a vector as a matrix of one column. */
  readonly beside: readonly RowMatrix[];
}

/** Values of neighbouring rows, in memory that may be reused once they were taken. */
interface RowValues {
  readonly values: Float32Array;
  readonly firstRow: number;
  readonly dim: number;
}

/** One reading of a range of rows. */
export class DerivedRowReading {
  readonly #rows: DerivedRows;
  readonly #sharesBeside: number[];
  readonly #computing: RowComputing | undefined;
  #matrixShare: number | undefined;

  constructor(rows: DerivedRows) {
    const { computed } = rows.derivation;
    this.#rows = rows;
    this.#sharesBeside = rows.beside.map(() => 0);
    this.#computing = computed && new RowComputing(computed.steps);
  }

  /** Reads a range in chunks of at most 4 MiB. @throws WinnowError */
  *chunks(range: RowRange): ChunkGenerator {
    const { derivation, matrix } = this.#rows;
    const isWidened = addedValues(derivation) + (derivation.factors?.length ?? 0) > 0;
    this.#sharesBeside.fill(0);
    this.#matrixShare = undefined;
    const stored = derivation.isByColumn ? this.#columns(range) : this.#plainRows(range);
    let { firstRow } = range;
    let spent: Float32Array | undefined;
    for (let next = stored.next(); next.done !== true; next = stored.next(spent)) {
      const values = next.value;
      if (derivation.normalisation !== undefined) {
        normaliseRows(values, matrix.dim, derivation.normalisation);
        expectFinite(matrix, { values, firstRow, dim: matrix.dim });
      }
      const read: RowValues = { values, firstRow, dim: matrix.dim };
      if (this.#computing !== undefined) {
        yield* this.#computed(read, this.#computing, isWidened);
        spent = values;
      } else if (isWidened) {
        yield* this.#widened(read);
        spent = values;
      } else {
        spent = yield values;
      }
      firstRow += values.length / matrix.dim;
    }
  }

  /** Shares of the range in the checksums of the matrix, then of each tensor beside it. */
  get shares(): readonly number[] | undefined {
    if (this.#matrixShare === undefined) return undefined;
    return [this.#matrixShare, ...this.#sharesBeside];
  }

  *#plainRows({ firstRow, endRow }: RowRange): ChunkGenerator {
    const reading = new RowReading(this.#rows.matrix);
    const count = endRow - firstRow;
    yield* reading.chunks([{ firstRow, count, accounted: true, copies: [] }], count);
    this.#matrixShare = reading.share;
  }

  /**
   * Rows from the range's part of each column. Many rows are read at once, because what is read of a
   * column shrinks with the number of columns.
   */
  *#columns({ firstRow, endRow }: RowRange): ChunkGenerator {
    const { dim } = this.#rows.matrix;
    const bandRows = Math.min(
      endRow - firstRow,
      Math.max(1, Math.floor(BAND_BYTES_MAX / (dim * 4))),
    );
    const capacity = Math.max(1, Math.floor(CHUNK_BYTES_MAX / (dim * 4)));
    const buffer = new Float32Array(bandRows * dim);
    let share = this.#shareBeside({ firstRow, endRow });
    let spent: Float32Array | undefined;
    for (let row = firstRow; row < endRow; row += bandRows) {
      const band = buffer.subarray(0, Math.min(bandRows, endRow - row) * dim);
      share ^= this.#readBand(band, this.#firstColumn + row);
      const rows = band.length / dim;
      for (let start = 0; start < rows; start += capacity) {
        const count = Math.min(capacity, rows - start);
        const values = roomFor(count * dim, spent);
        for (let column = 0; column < dim; column += 1) {
          const from = column * rows + start;
          for (let at = 0; at < count; at += 1) values[at * dim + column] = band[from + at]!;
        }
        spent = yield values;
      }
    }
    this.#matrixShare = share;
  }

  get #firstColumn(): number {
    return this.#rows.derivation.firstColumn ?? 0;
  }

  /**
   * The share of columns that are no rows: of those before the first row, whoever reads that one accounts, and of
   * those behind the last row, whoever reads that.
   */
  #shareBeside({ firstRow, endRow }: RowRange): number {
    const { dim, rows, bands } = this.#rows.matrix;
    const columns = Math.max(...bands[0]!.pieces.map((piece) => piece.firstColumn + piece.columns));
    const end = this.#firstColumn + rows;
    let share = 0;
    if (firstRow === 0 && this.#firstColumn > 0) {
      share ^= this.#readBand(new Float32Array(this.#firstColumn * dim), 0);
    }
    if (endRow === rows && columns > end) {
      share ^= this.#readBand(new Float32Array((columns - end) * dim), end);
    }
    return share;
  }

  /** Reads neighbouring columns of the stored matrix, one value of each row of it after the other; gives their share. */
  #readBand(band: Float32Array, firstRow: number): number {
    const { matrix } = this.#rows;
    const { bands, checks, dim } = matrix;
    const rows = band.length / dim;
    const words = new Int32Array(band.buffer, 0, band.length);
    let share = 0;
    for (let column = 0; column < dim; column += 1) {
      const span = { start: column * rows, end: (column + 1) * rows };
      const part = words.subarray(span.start, span.end);
      for (const piece of bands[bandAt(bands, column)]!.pieces) {
        share ^= this.#readPiece(part, { piece, column, firstRow });
      }
      const wrong = checks.indexOfInfinite(words, span);
      if (wrong >= 0) throw notFinite(matrix, firstRow + wrong - span.start, band[wrong]!);
    }
    return share;
  }

  /** Reads what a piece holds of a part of a column; gives its share in the checksum. */
  #readPiece(
    part: Int32Array,
    { piece, column, firstRow }: { piece: MatrixPiece; column: number; firstRow: number },
  ): number {
    const { checks, format, size } = this.#rows.matrix;
    // The matrix is stored by column: the columns of a piece are rows of the table.
    const from = Math.max(firstRow, piece.firstColumn);
    const count = Math.min(firstRow + part.length, piece.firstColumn + piece.columns) - from;
    if (count <= 0) return 0;
    const place = (column - piece.firstRow) * piece.columns + from - piece.firstColumn;
    const valueBytes = elementBytes(format);
    const offset = place * valueBytes;
    const values = part.subarray(from - firstRow, from - firstRow + count);
    const bytes =
      format === "float32"
        ? new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
        : new Uint8Array(count * valueBytes);
    piece.region.read(offset, bytes);
    let register: number;
    if (format === "float32") {
      register = checks.extendRegister(0, values, { start: 0, end: count });
    } else {
      register = extendRegister(0, bytes);
      readAsFloats(values, bytes, format);
    }
    return shiftRegister(register, size - piece.offset - offset - bytes.length);
  }

  /** What is computed of rows, a part of them at a time, with what is appended. */
  *#computed(
    { values, firstRow, dim }: RowValues,
    computing: RowComputing,
    isWidened: boolean,
  ): ChunkGenerator {
    const { matrix } = this.#rows;
    const rows = values.length / dim;
    let spent: Float32Array | undefined;
    for (let start = 0; start < rows; start += computing.rowsMax) {
      const count = Math.min(computing.rowsMax, rows - start);
      const range = { firstRow: firstRow + start, endRow: firstRow + start + count };
      const own = values.subarray(start * dim, (start + count) * dim);
      const made = roomFor(count * computing.dim, spent);
      computing.compute(made, [own, ...this.#matricesBeside(range)], count);
      const row: RowValues = { values: made, firstRow: range.firstRow, dim: computing.dim };
      expectFinite(matrix, row);
      if (isWidened) yield* this.#widened(row);
      spent = isWidened ? made : yield made;
    }
  }

  /** What the matrices beside the table's own have of some rows. */
  #matricesBeside(range: RowRange): readonly Float32Array[] {
    const { derivation, beside } = this.#rows;
    const count = derivation.computed?.beside.length ?? 0;
    const first = beside.length - count;
    return beside.slice(first).map((_, at) => this.#valuesBeside(first + at, range));
  }

  /** Rows with the appended values behind them, and multiplied, in chunks that hold fewer rows. */
  *#widened({ values, firstRow, dim }: RowValues): ChunkGenerator {
    const { matrix, derivation } = this.#rows;
    const { appended, factors = [] } = derivation;
    const endRow = firstRow + values.length / dim;
    const wide = dim + addedValues(derivation);
    const capacity = Math.max(1, Math.floor(CHUNK_BYTES_MAX / (wide * 4)));
    let spent: Float32Array | undefined;
    for (let row = firstRow; row < endRow; row += capacity) {
      const count = Math.min(capacity, endRow - row);
      const chunk = roomFor(count * wide, spent);
      for (let at = 0; at < count; at += 1) {
        const from = (row - firstRow + at) * dim;
        chunk.set(values.subarray(from, from + dim), at * wide);
      }
      const range = { firstRow: row, endRow: row + count };
      for (let position = 0; position <= appended.length; position += 1) {
        for (const [at, factor] of factors.entries()) {
          if (factor.appended !== position) continue;
          const values = this.#valuesBeside(appended.length + at, range);
          multiplyRows(chunk, values, { wide, width: dim + position, ...factor });
        }
        if (position === appended.length) break;
        const added = this.#valuesBeside(position, range);
        for (let at = 0; at < count; at += 1) chunk[at * wide + dim + position] = added[at]!;
      }
      if (derivation.hasSquares === true) writeSquares(chunk, { dim, wide });
      if (derivation.hasSquares === true || factors.length > 0) {
        expectFinite(matrix, { values: chunk, firstRow: row, dim: wide });
      }
      spent = yield chunk;
    }
  }

  /** What a tensor beside the matrix has of some rows. */
  #valuesBeside(position: number, { firstRow, endRow }: RowRange): Float32Array {
    const matrix = this.#rows.beside[position]!;
    const reading = new RowReading(matrix);
    const count = endRow - firstRow;
    const values = new Float32Array(count * matrix.dim);
    let at = 0;
    for (const chunk of reading.chunks([{ firstRow, count, accounted: true, copies: [] }], count)) {
      values.set(chunk, at);
      at += chunk.length;
    }
    this.#sharesBeside[position]! ^= reading.share!;
    return values;
  }
}

/** Multiplies the first `width` values of each row with a value of its own, or divides them. */
function multiplyRows(
  chunk: Float32Array,
  factors: Float32Array,
  {
    wide,
    width,
    isDivisor,
  }: { readonly wide: number; readonly width: number; readonly isDivisor: boolean },
): void {
  for (const [row, factor] of factors.entries()) {
    const end = row * wide + width;
    for (let at = row * wide; at < end; at += 1) {
      chunk[at] = isDivisor ? chunk[at]! / factor : chunk[at]! * factor;
    }
  }
}

/** Writes the sum of squares of each item as the last value of its row, added up in float64. */
function writeSquares(
  chunk: Float32Array,
  { dim, wide }: { readonly dim: number; readonly wide: number },
): void {
  for (let start = 0; start < chunk.length; start += wide) {
    let sum = 0;
    for (let at = start; at < start + dim; at += 1) sum += chunk[at]! * chunk[at]!;
    chunk[start + wide - 1] = sum;
  }
}

/** Memory for values: that of a spent chunk if it is large enough. */
function roomFor(length: number, spent: Float32Array | undefined): Float32Array {
  const isEnough = spent !== undefined && spent.buffer.byteLength >= length * 4;
  return isEnough ? new Float32Array(spent.buffer, 0, length) : new Float32Array(length);
}

function expectFinite(matrix: RowMatrix, { values, firstRow, dim }: RowValues): void {
  const words = new Int32Array(values.buffer, values.byteOffset, values.length);
  const wrong = matrix.checks.indexOfInfinite(words, { start: 0, end: words.length });
  if (wrong >= 0) throw notFinite(matrix, firstRow + Math.floor(wrong / dim), values[wrong]!);
}
