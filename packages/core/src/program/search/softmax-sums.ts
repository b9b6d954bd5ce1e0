// The sum of eˢ over the scores s of all rows, by which a softmax before a top-k divides. Workers sum over
// the rows of their partitions, a router over the workers' sums. Integers are summed, so the result has the
// same bits however the rows are cut, batched and joined:
//
//   eˢ = 2^(8 b) · t,  b = ⌊s / (8 ln 2)⌋,  1 ≤ t < 256        of each b: Σ round(t · 2⁴⁴)
//
// Only the highest eight b count: all others together are below 2⁻⁵⁶ of the sum for each row. A part whose
// highest b is lower than that of another one has dropped nothing that would count. From 2³⁰ on, different
// float32 scores are so far apart that rows of one score alone count: their part has a number of its own, and
// t is 1.

import { WinnowError, excerpt } from "../../errors/errors.ts";

/** Binary digits between two neighbouring parts of a sum. */
const DIGITS = 8;
const WIDTH = DIGITS * Math.LN2;
/** Binary digits of a term after the point. */
const PRECISION = 44;
const SCALE = 2 ** PRECISION;
const PARTS_MAX = 8;
const HALF = 2 ** 26;
/** Terms whose halves are added up before they are carried: their sums stay exact. */
const TERMS_MAX = 2 ** 20;
/** The text of an undefined sum. */
const NO_SUM = "null";
/** One part as text; there are at most eight. */
const PART = String.raw`-?\d{1,40},"\d{1,40}"`;
const SUM = new RegExp(String.raw`^\[(?:${PART}(?:,${PART}){0,${PARTS_MAX - 1}})?\]$`);

/** From here on neighbouring scores differ by 64 or more. */
const FAR_MIN = 2 ** 30;
/** The parts of such scores have numbers above those of all others. */
const FAR_NUMBER_MIN = 2 ** 40;
const bits = new DataView(new ArrayBuffer(4));

/** The number of the part for a single such score, in the order of scores and far from its neighbours. */
function farNumber(score: number): number {
  bits.setFloat32(0, Math.abs(score));
  return Math.sign(score) * (FAR_NUMBER_MIN + 2 * PARTS_MAX * bits.getUint32(0));
}

interface Part {
  /** Terms `high · 2²⁶ + low` that are not carried yet. */
  high: number;
  low: number;
  whole: bigint;
}

/** A sum of exponentials of scores. */
export class PowerSum {
  readonly #parts = new Map<number, Part>();
  /** Whether some score, NaN or ∞, has no finite exponential. */
  #isUndefined = false;
  #terms = 0;

  /** Adds the exponential of a score. */
  add(score: number): void {
    if (!(score < Infinity)) this.#isUndefined = true;
    if (!Number.isFinite(score)) return;
    const isFar = Math.abs(score) >= FAR_MIN;
    const number = isFar ? farNumber(score) : Math.floor(score / WIDTH);
    const term = isFar ? SCALE : Math.round(Math.exp(score - number * WIDTH) * SCALE);
    const part = this.#part(number);
    const high = Math.floor(term / HALF);
    part.high += high;
    part.low += term - high * HALF;
    this.#terms += 1;
    if (this.#terms === TERMS_MAX) this.#carry();
  }

  /** Adds a sum in text form. @throws WinnowError INTERNAL for a text of another form */
  addText(text: string): void {
    if (text === NO_SUM) this.#isUndefined = true;
    else for (const [number, whole] of partsOf(text)) this.#part(number).whole += whole;
  }

  /** The sum as JSON: its highest parts, alternately number and sum; `null` if it is undefined. */
  toText(): string {
    if (this.#isUndefined) return NO_SUM;
    return JSON.stringify(this.#highest().flatMap(([number, whole]) => [number, String(whole)]));
  }

  /** Σ e^(s − best); NaN if the sum is undefined. */
  relativeTo(best: number): number {
    if (this.#isUndefined) return NaN;
    let sum = 0;
    for (const [number, whole] of this.#highest()) {
      if (Math.abs(number) >= FAR_NUMBER_MIN) return sum + Number(whole) / SCALE;
      sum += (Number(whole) / SCALE) * Math.exp(number * WIDTH - best);
    }
    return sum;
  }

  #part(number: number): Part {
    let part = this.#parts.get(number);
    if (part === undefined) {
      part = { high: 0, low: 0, whole: 0n };
      this.#parts.set(number, part);
    }
    return part;
  }

  #carry(): void {
    this.#terms = 0;
    for (const part of this.#parts.values()) {
      part.whole += BigInt(part.high) * BigInt(HALF) + BigInt(part.low);
      part.high = 0;
      part.low = 0;
    }
  }

  /** The parts that count, the highest first. */
  #highest(): readonly (readonly [number, bigint])[] {
    this.#carry();
    const numbers = [...this.#parts.keys()].toSorted((a, b) => b - a);
    const [first = 0] = numbers;
    const counted = numbers.filter((number) => number > first - PARTS_MAX);
    return counted.map((number) => [number, this.#parts.get(number)!.whole] as const);
  }
}

function partsOf(text: string): readonly (readonly [number, bigint])[] {
  if (!SUM.test(text)) throw new WinnowError("INTERNAL", `${excerpt(text)} is no sum of powers`);
  const parts = JSON.parse(text) as readonly (number | string)[];
  return Array.from({ length: parts.length / 2 }, (_, at) => {
    return [Number(parts[2 * at]), BigInt(parts[2 * at + 1]!)] as const;
  });
}

/** What a softmax needs of the scores of some rows, for each query. */
export interface SoftmaxSums {
  /** The best score; -∞ where there are no rows. */
  readonly best: Float32Array;
  /** Σ e^(s − best): 0 where there are no rows, NaN where a score has no power. */
  readonly sum: Float64Array;
}

/** The sums of two kinds of rows, together. */
export function joinedSums(left: SoftmaxSums, right: SoftmaxSums): SoftmaxSums {
  const best = left.best.map((each, query) => Math.max(each, right.best[query]!));
  const sum = left.sum.map((_, query) => {
    return [left, right].reduce((total, each) => {
      const own = each.sum[query]!;
      return own === 0 ? total : total + own * Math.exp(each.best[query]! - best[query]!);
    }, 0);
  });
  return { best, sum };
}
