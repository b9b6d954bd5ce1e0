// Rows and queries as int8 codes with what is needed to bound the error of their products.
//
// A group of rows: y = step · code + rest, the step shared by its 128 rows; a query likewise. Then
//   |x·y − step·step'·(code·code')| ≤ ‖x‖ · max‖rest of y‖ + ‖rest of x‖ · max‖step·code of y‖
// by Cauchy and Schwarz. Rows are coded on the device, in integers (shaders/coder.ts); queries here, in
// float64, rounded up to float32. A group keeps its own power of two, so no magnitude is lost.

import { CODE_MAX, GROUP_ROWS } from "./shaders/prelude.ts";

/** Factor that covers the roundings of a float64 norm. */
const NORM_MARGIN = 1 + 2 ** -30;

/** How rows of one dim lie in buffers, in quads (16 bytes). */
export interface RowLayout {
  readonly dim: number;
  /** Quads of a row's int8 codes. */
  readonly codeQuads: number;
  /** Quads of a row's float32 values; rows are padded with zeros. */
  readonly valueQuads: number;
  /** Quads of a group's codes with their head. */
  readonly groupQuads: number;
  /** Quads of an encoded query. */
  readonly queryQuads: number;
}

/** The layout of rows of `dim` values. */
export function rowLayout(dim: number): RowLayout {
  const codeQuads = Math.ceil(dim / 16);
  const valueQuads = Math.ceil(dim / 4);
  return {
    dim,
    codeQuads,
    valueQuads,
    groupQuads: 1 + codeQuads * GROUP_ROWS,
    queryQuads: 1 + codeQuads + valueQuads,
  };
}

/** Bounds of the magnitudes of rows. */
export interface RowScale {
  /** Every value's magnitude is below 2^(exponentMax + 1); -Infinity if all values are zeros. */
  readonly exponentMax: number;
  /** No row's Euclidean norm is above this. */
  readonly normMax: number;
}

const float = new Float32Array(1);
const floatBits = new Int32Array(float.buffer);

/** The greatest integer e with 2^e ≤ value, a positive float32. */
function exponentOf(value: number): number {
  float[0] = value;
  const biased = floatBits[0]! >>> 23;
  if (biased > 0) return biased - 127;
  // A subnormal: the first bit that is set says it.
  return -118 - Math.clz32(floatBits[0]!);
}

/** The least float32 that is not below a number from 0 on. */
function roundUp(value: number): number {
  float[0] = value;
  if (float[0] < value) floatBits[0]! += 1;
  return float[0];
}

/** The way to answer a query, chosen by the magnitudes of the query and of the rows. */
export type QueryRoute = "filter" | "exact" | "host" | "zero";

/** Beyond this, a float32 sum could overflow, and many scores may be the same infinity. */
const PRODUCT_MAX = 1e37;
/** Beyond this, the slack would admit every row anyway. */
const SLACK_MAX = 1e30;
/**
 * Rows that reach beyond 2^120 have a slack that admits nearly all.
 */
const ROW_EXPONENT_MIN = -120;

/** The power of two that brings rows of this size near 1. */
export function rowExponent({ exponentMax }: RowScale): number {
  return Math.min(126, Math.max(-126, -exponentMax));
}

/** What queries are encoded for: rows of a layout, of a scale. */
export interface CodedRows {
  readonly layout: RowLayout;
  readonly scale: RowScale;
}

/** Encoded queries, one after the other, as they are sent to the device. */
export class CodedQueries {
  /** `[count, queryQuads · 4]` */
  readonly words: Uint32Array;
  readonly #floats: Float32Array;
  readonly #bytes: Int8Array;
  readonly #rows: CodedRows;
  readonly #rowsExponent: number;
  /** The slack of queries with an exponent: those of a batch mostly share it. */
  #slack = { exponent: Number.NaN, value: 0 };

  constructor(count: number, rows: CodedRows) {
    this.words = new Uint32Array(count * rows.layout.queryQuads * 4);
    this.#floats = new Float32Array(this.words.buffer);
    this.#bytes = new Int8Array(this.words.buffer);
    this.#rows = rows;
    this.#rowsExponent = rowExponent(rows.scale);
  }

  /** The words of one query. */
  wordsOf(index: number): Uint32Array {
    const length = this.#rows.layout.queryQuads * 4;
    return this.words.subarray(index * length, (index + 1) * length);
  }

  /**
   * Encodes a query and returns its route. The codes are written for "filter" alone; the values always are.
   * @param vectors `[count, dim]`
   */
  encode(index: number, vectors: Float32Array): QueryRoute {
    const { layout, scale } = this.#rows;
    const { dim, codeQuads, queryQuads } = layout;
    const first = index * dim;
    const valuesAt = (index * queryQuads + 1 + codeQuads) * 4;
    let largest = 0;
    let squares = 0;
    for (let j = 0; j < dim; j += 1) {
      const value = vectors[first + j]!;
      this.#floats[valuesAt + j] = value;
      const size = Math.abs(value);
      if (size > largest) largest = size;
      squares += value * value;
    }
    // Squares of float32 are far from float64's limits: only NaN and infinity give these.
    if (!Number.isFinite(squares)) return "host";
    if (largest === 0) return "zero";
    if (Math.sqrt(squares) * scale.normMax > PRODUCT_MAX) return "exact";
    const slack = this.#slackOf(exponentOf(largest));
    if (slack > SLACK_MAX || this.#rowsExponent < ROW_EXPONENT_MIN) return "exact";
    this.#writeCodes(index, vectors, { largest, squares, slack });
    return "filter";
  }

  /** Writes the head and the codes of a query. */
  #writeCodes(
    index: number,
    vectors: Float32Array,
    { largest, squares, slack }: QueryMeasures,
  ): void {
    const { dim, queryQuads } = this.#rows.layout;
    const [headAt, first] = [index * queryQuads * 4, index * dim];
    const codesAt = headAt * 4 + 16;
    const unit = 2 ** -exponentOf(largest);
    const step = roundUp((largest * unit) / CODE_MAX);
    let rest = 0;
    for (let j = 0; j < dim; j += 1) {
      const value = vectors[first + j]! * unit;
      const code = Math.round(value / step);
      const left = value - code * step;
      rest += left * left;
      this.#bytes[codesAt + j] = code;
    }
    this.#floats[headAt] = step;
    this.#floats[headAt + 1] = roundUp(Math.sqrt(squares) * unit * NORM_MARGIN);
    this.#floats[headAt + 2] = roundUp(Math.sqrt(rest) * NORM_MARGIN);
    this.#floats[headAt + 3] = roundUp(slack);
  }

  #slackOf(exponent: number): number {
    if (this.#slack.exponent !== exponent) {
      const value = slackOf(this.#rows.layout.dim, exponent, this.#rowsExponent);
      this.#slack = { exponent, value };
    }
    return this.#slack.value;
  }
}

/** What the codes of a query follow from: its largest magnitude, the sum of its squares, its slack. */
interface QueryMeasures {
  readonly largest: number;
  readonly squares: number;
  readonly slack: number;
}

/**
 * An absolute error, in scaled units, for what a device may do with numbers below 2^-126 (take them
 * as zero): a group's head, the products and sums of a bound; and for a canonical score that is rounded to
 * a subnormal float32. More than these need: it was made for sums of scaled float32 values, too.
 */
function slackOf(dim: number, queryExponent: number, rowsExponent: number): number {
  return (
    2 ** -100 +
    8 * dim * 2 ** (rowsExponent - 126) +
    8 * dim * 2 ** (-rowsExponent - 126) +
    dim * 2 ** -108 +
    2 ** (rowsExponent - queryExponent - 148)
  );
}
