// The bounds on any device, not only on the one that runs the tests: the float32 lines of the
// kernels, written here once more, computed by an arithmetic that takes every liberty WGSL gives
// (https://www.w3.org/TR/WGSL/#floating-point-evaluation). The result of a sum or product is either
// neighbour of the exact one; numbers below 2^-126 may be taken as zero, before and after an
// operation; products and sums may be reassociated, and fused. Chance decides each, and the
// canonical score must stay within the bounds.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalScore, widenQueries } from "../../canonical-score.ts";
import { seededRandom } from "../../cases/exactness.cases.ts";
import { CodedQueries, rowExponent, rowLayout } from "../codes.ts";
import { BOUND_MARGIN } from "../shaders/prelude.ts";

type Random = () => number;

interface Arithmetic {
  readonly add: (one: number, other: number) => number;
  readonly times: (...factors: readonly number[]) => number;
}

const bits = new Float32Array(1);
const words = new Int32Array(bits.buffer);

/** The float32 next to this one, away from zero. */
function beyond(value: number): number {
  bits[0] = value;
  words[0]! += 1;
  return bits[0];
}

/** One of the two float32 around a number, or the number itself if it is a float32. */
function rounded(value: number, isUp: boolean): number {
  const nearest = Math.fround(value);
  if (nearest === value) return value;
  const isTooSmall = Math.abs(nearest) < Math.abs(value);
  bits[0] = nearest;
  words[0]! -= 1;
  const [small, large] = isTooSmall
    ? [nearest, nearest === 0 ? Math.sign(value) * 2 ** -149 : beyond(nearest)]
    : [bits[0], nearest];
  return isUp === value > 0 ? large : small;
}

/** The list in an order drawn by chance. */
function shuffled<T>(list: readonly T[], random: Random): T[] {
  return list
    .map((item) => [random(), item] as const)
    .toSorted(([one], [other]) => one - other)
    .map(([, item]) => item);
}

function arithmeticOf(random: Random): Arithmetic {
  // A device that always errs in one direction is worse than one that errs at random.
  const lean = Math.floor(random() * 3);
  const flushes = random();
  const isUp = (): boolean => (lean === 0 ? random() < 0.5 : lean === 1);
  const flushed = (value: number): number =>
    Math.abs(value) < 2 ** -126 && random() < flushes ? 0 : value;
  const given = (value: number): number => flushed(rounded(value, isUp()));
  const add = (one: number, other: number): number => given(flushed(one) + flushed(other));
  const times = (...factors: readonly number[]): number =>
    shuffled(factors, random).reduce((product, factor) =>
      given(flushed(product) * flushed(factor)),
    );
  return { add, times };
}

interface Case {
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly rowsExponent: number;
  /** Head of the encoded query: step, norm, norm of the rest, slack; then codes. */
  readonly head: readonly number[];
  readonly codes: Int8Array;
  /** The canonical score in the units of the kernels, exactly. */
  readonly canonical: number;
}

/** The exponent of a number's magnitude. */
function exponentOf(value: number): number {
  const exponent = Math.floor(Math.log2(value));
  return 2 ** exponent > value ? exponent - 1 : exponent;
}

/** A row and a query as the kernels see them; `undefined` if their route is not the filter. */
function caseOf(x: Float32Array, y: Float32Array): Case | undefined {
  const layout = rowLayout(x.length);
  const largest = y.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  if (largest === 0) return undefined;
  const scale = { exponentMax: exponentOf(largest), normMax: Math.hypot(...y) };
  const coded = new CodedQueries(1, { layout, scale });
  if (coded.encode(0, x) !== "filter") return undefined;
  const floats = new Float32Array(coded.words.buffer);
  const queryExponent = exponentOf(x.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
  const rowsExponent = rowExponent(scale);
  const canonical =
    canonicalScore(widenQueries(x, x.length)[0]!, y, 0) * 2 ** -queryExponent * 2 ** rowsExponent;
  const codes = new Int8Array(coded.words.buffer, 16, x.length);
  return { x, y, rowsExponent, head: [...floats.subarray(0, 4)], codes, canonical };
}

/**
 * The head that coder.ts computes for a group of one row (step, bounds of rest and codes), and
 * codes.
 */
function codedRow(y: Float32Array): { readonly head: readonly number[]; readonly codes: number[] } {
  const largest = y.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const exponent = exponentOf(largest);
  const fixed = Array.from(
    y,
    (value) => Math.sign(value) * Math.round(Math.abs(value) * 2 ** (16 - exponent)),
  );
  const step = Math.ceil(Math.max(...fixed.map(Math.abs)) / 127);
  const codes = fixed.map(
    (value) => Math.sign(value) * Math.floor((2 * Math.abs(value) + step) / (2 * step)),
  );
  const rest = Math.hypot(...fixed.map((value, j) => value - codes[j]! * step));
  const norms = [
    Math.ceil(rest) + Math.ceil(Math.sqrt(y.length) / 2),
    Math.ceil(step * Math.hypot(...codes)),
  ];
  return { head: [...[step, ...norms].map((units) => units * 2 ** -16), exponent], codes };
}

/** `boundsOf` of group-bounds.ts for a group of one row. */
function groupBounds(of: Case, { add, times }: Arithmetic): readonly [number, number] {
  const { head, codes } = codedRow(of.y);
  const power = head[3]! + of.rowsExponent;
  const factor = power >= -126 ? 2 ** power : 0;
  const [step = 0, norm = 0, restNorm = 0, slack = 0] = of.head;
  const product = codes.reduce((sum, code, j) => sum + code * of.codes[j]!, 0);
  const estimate = times(step, head[0]!, factor, product);
  const [rest, code] = [times(head[1]!, factor), times(head[2]!, factor)];
  const error = add(
    add(times(norm, rest), times(restNorm, code)),
    times(norm, add(rest, code), 2 ** -30),
  );
  const reach = add(add(error, times(add(Math.abs(estimate), error), BOUND_MARGIN)), slack);
  return [add(estimate, -reach), add(estimate, reach)];
}

/** Values of one magnitude: some far smaller, some equal but for their last bits. */
function vectorOf(random: Random, dim: number, exponent: number): Float32Array {
  const [spread, isFlat] = [random() * 40 * Math.floor(random() * 2), random() < 0.3];
  return Float32Array.from({ length: dim }, () => {
    const digits = isFlat ? 1 + Math.floor(random() * 3) * 2 ** -23 : 1 + random();
    return (random() < 0.5 ? -1 : 1) * digits * 2 ** (exponent - Math.floor(random() * spread));
  });
}

const CASE = fc.record({
  dim: fc.integer({ min: 1, max: 48 }),
  rowExponent: fc.oneof(
    fc.integer({ min: -149, max: 127 }),
    fc.constantFrom(0, 119, 120, 126, 127, -126),
  ),
  queryExponent: fc.oneof(fc.integer({ min: -149, max: 127 }), fc.constantFrom(0, -100, -148)),
  seed: fc.integer(),
});

describe("the bounds of a score", () => {
  test("hold on every device that WGSL admits", () => {
    let asked = 0;
    fc.assert(
      fc.property(CASE, ({ dim, rowExponent: rows, queryExponent, seed }) => {
        const random = seededRandom(seed);
        const of = caseOf(vectorOf(random, dim, queryExponent), vectorOf(random, dim, rows));
        if (of === undefined) return;
        asked += 1;
        for (let device = 0; device < 8; device += 1) {
          const [lower, upper] = groupBounds(of, arithmeticOf(random));

          expect(lower).toBeLessThan(of.canonical);
          expect(upper).toBeGreaterThan(of.canonical);
        }
      }),
      { numRuns: 4000 },
    );
    expect(asked).toBeGreaterThan(1000);
  });
});
