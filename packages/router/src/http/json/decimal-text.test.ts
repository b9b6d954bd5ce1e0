// The number writer against C's printf (answers recorded from a C program that applies TensorFlow
// Serving's rule with snprintf and strtof) and against an obvious twin on random bit patterns.

import { readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { writeFloat32, writeFloat64 } from "./decimal-text.ts";

const EXACT_DIGITS = 60;
const buffer = Buffer.alloc(64);
const float32Text = (value: number): string =>
  buffer.toString("latin1", 0, writeFloat32(buffer, 0, value));
const float64Text = (value: number): string =>
  buffer.toString("latin1", 0, writeFloat64(buffer, 0, value));

const float32 = new Float32Array(1);
const float32Bits = new Uint32Array(float32.buffer);
const fromBits = (bits: number): number => {
  float32Bits[0] = bits;
  return float32[0]!;
};

const recorded = readFileSync(path.join(import.meta.dirname, "recorded/printf-answers.txt"), "utf8")
  .trimEnd()
  .split("\n");

/** `%.6g`, else `%.9g`, by toPrecision. Its halves go away from zero, printf's to even. */
function twin(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "-Infinity" : "Infinity";
  const short = percentG(value, 6);
  const text = Math.fround(Number(short)) === value ? short : percentG(value, 9);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function percentG(value: number, digits: number): string {
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const text = evenHalf(value, digits);
  const [mantissa = "", power = "0"] = Number(text).toExponential().split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) {
    const fixed = Number(text).toFixed(Math.max(0, digits - 1 - exponent));
    return fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed;
  }
  return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

function evenHalf(value: number, digits: number): string {
  const up = value.toExponential(digits - 1);
  const exact = BigInt(Math.round(Math.abs(value) * 2 ** 40));
  const isShort = Number(exact) / 2 ** 40 === Math.abs(value);
  const tail = isShort ? value.toExponential(EXACT_DIGITS).split("e")[0]!.replace(/[-.]/g, "") : "";
  if (!/^50*$/.test(tail.slice(digits))) return up;
  const [mantissa = "", power = ""] = up.split("e");
  const last = Number(mantissa.at(-1));
  return last % 2 === 0 ? up : `${mantissa.slice(0, -1)}${last - 1}e${power}`;
}

describe("writeFloat32() and writeFloat64()", () => {
  test("print what printf prints", () => {
    const bits = new BigUint64Array(1);
    const float64 = new Float64Array(bits.buffer);
    const wrong = recorded.filter((line) => {
      const [code = "", text] = line.split(" ");
      if (code.startsWith("f")) return float32Text(fromBits(Number(code.slice(1)))) !== text;
      bits[0] = BigInt(code.slice(1));
      return float64Text(float64[0]!) !== text;
    });

    expect(recorded.length).toBeGreaterThan(2500);
    expect(wrong).toEqual([]);
  });

  test("print every kind of float32 as the twin does", () => {
    const wrong: number[] = [];
    let state = 1;
    for (let count = 0; count < 300_000; count++) {
      state = Math.imul(state, 1_664_525) + 1_013_904_223;
      const value = fromBits((state ^ (state >>> 13)) >>> 0);
      if (float32Text(value) !== twin(value)) wrong.push(value);
    }

    expect(wrong).toEqual([]);
  });

  test("print scores with few binary digits as the twin does, halves included", () => {
    const score = fc
      .tuple(fc.integer({ min: -(2 ** 24), max: 2 ** 24 }), fc.integer({ min: 0, max: 24 }))
      .map(([whole, shift]) => Math.fround(whole / 2 ** shift));
    fc.assert(
      fc.property(score, (value) => {
        expect(float32Text(value)).toBe(twin(value));
      }),
      { numRuns: 20_000 },
    );
  });

  test("print text that reads back as the same float32", () => {
    fc.assert(
      fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Math.fround(Number(float32Text(value)))).toBe(value);
      }),
      { numRuns: 20_000 },
    );
  });

  test.each([
    [0, "0.0"],
    [-0, "-0.0"],
    [1, "1.0"],
    [9_000_000, "9e+06"],
    [100_000, "100000.0"],
    [999_999, "999999.0"],
    [1_000_000, "1e+06"],
    [123_456.789, "123456.789"],
    [0.7, "0.7"],
    [0.1 * 7, "0.7"],
    [0.000_1, "0.0001"],
    [0.000_03, "3e-05"],
    [513 / 512, "1.00195312"],
    [3.402_823_466_385_288_6e38, "3.40282347e+38"],
    [1e-45, "1.4013e-45"],
    [NaN, "NaN"],
    [Infinity, "Infinity"],
    [-Infinity, "-Infinity"],
  ])("print float32 %d as %s", (value, text) => {
    expect(float32Text(Math.fround(value))).toBe(text);
  });

  test.each([
    [0.1, "0.1"],
    [0.1 + 0.2, "0.30000000000000004"],
    [1e22, "1e+22"],
    [16_235_056_474_059_202, "16235056474059202.0"],
    [NaN, "NaN"],
  ])("print float64 %d as %s", (value, text) => {
    expect(float64Text(value)).toBe(text);
  });
});
