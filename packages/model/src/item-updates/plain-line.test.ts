// Lines that are read from their bytes, compared with `JSON.parse`: whatever the reader takes has the same meaning there, and
// it takes what programs write. A line that it leaves costs time only.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PlainLineReader } from "./plain-line.ts";

const DIM = 2;

interface Meaning {
  readonly id: unknown;
  readonly vector: readonly number[] | undefined;
}

/** What the reader finds in a line that others surround, if it takes it. */
function plain(line: string, round: (value: number) => number = (value) => value) {
  const before = `{"id":"before","removed":true}\n`;
  const bytes = Buffer.from(`${before}${line}\n0]}`);
  const reader = new PlainLineReader(DIM, round);
  const from = Buffer.byteLength(before);
  if (!reader.read(bytes, from, bytes.length - "\n0]}".length)) return undefined;
  const { id, isRemoved, vector } = reader;
  return { id, vector: isRemoved ? undefined : [...vector] } satisfies Meaning;
}

/** By `JSON.parse`; `undefined` for a line that is no change of an item. */
function meaning(line: string): Meaning | undefined {
  const value = parsedOrNot(line);
  if (typeof value !== "object" || value === null) return undefined;
  const { id, vector, removed, ...others } = value as Record<string, unknown>;
  const hasId = typeof id === "string" || Number.isSafeInteger(id);
  if (!hasId || Object.keys(others).length > 0) return undefined;
  if (removed === true && vector === undefined) return { id, vector: undefined };
  const values = removed === undefined && Array.isArray(vector) ? vector.map(floatOf) : [];
  return values.length === DIM && values.every(Number.isFinite)
    ? { id, vector: values }
    : undefined;
}

const floatOf = (value: unknown): number => (typeof value === "number" ? Math.fround(value) : NaN);

function parsedOrNot(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Whether the reader takes a line, with the meaning that `JSON.parse` finds. */
function takesLine(line: string): boolean {
  const found = plain(line);
  const same = found && meaning(line);
  expect({ line, found }).toEqual({ line, found: same });
  return found !== undefined;
}

/** Whether it takes a number in a vector. */
const takes = (number: string): boolean => takesLine(`{"id":"a","vector":[${number},1]}`);

const float32 = fc.float({ noNaN: true, noDefaultInfinity: true });
const double = fc.double({ noNaN: true, noDefaultInfinity: true });
const digits = (minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.integer({ min: 0, max: 9 }).map(String), minLength, maxLength });

describe("a number", () => {
  test("that is a float32 is taken as any program prints it", () => {
    const printed = float32
      .filter((value) => value === 0 || (Math.abs(value) >= 1e-4 && Math.abs(value) < 1e9))
      .chain((value) =>
        fc.constantFrom(String(value), value.toPrecision(9), value.toExponential(8)),
      );

    fc.assert(fc.property(printed, takes));
  });

  test("of any kind has the float32 that JSON.parse leads to, if it is taken", () => {
    const written = fc
      .tuple(
        fc.constantFrom("", "-", "+", "--"),
        fc.oneof(digits(0, 3), digits(0, 25)),
        fc.oneof(
          fc.constant(""),
          digits(0, 40).map((places) => `.${places}`),
        ),
        fc.constantFrom(
          "",
          "",
          "e",
          "e5",
          "E+7",
          "e-12",
          "e-38",
          "E-44",
          "e38",
          "e60",
          "e400",
          "e-400",
        ),
      )
      .map((parts) => parts.join(""));

    fc.assert(
      fc.property(fc.oneof(written, double.map(String)), (number) => void takes(number)),
      {
        numRuns: 3000,
      },
    );
  });

  test("near the middle of two float32s has the one that JSON.parse leads to", () => {
    const nearMiddle = fc
      .tuple(
        fc.float({ min: 2 ** -20, max: 2 ** 20, noNaN: true }),
        fc.integer({ min: -3, max: 3 }),
      )
      .map(([value, steps]) => {
        const bits = new Uint32Array(Float32Array.of(value).buffer);
        const above = new Float32Array(Uint32Array.of(bits[0]! + 1).buffer)[0]!;
        const middle = (value + above) / 2;
        return String(middle * (1 + steps * Number.EPSILON));
      });

    fc.assert(fc.property(nearMiddle, (number) => void takes(number)));
  });

  test.each([
    "1e400",
    "-1e400",
    "3.5e38",
    "01",
    "-",
    ".5",
    "1.",
    "1e",
    "1e+",
    "0x1",
    "1_0",
    "- 1",
    "١",
    "Infinity",
    "NaN",
    "1 2",
  ])("%j is left to JSON.parse", (number) => {
    expect(takes(number)).toBe(false);
  });

  test.each([
    "0",
    "-0",
    "0.0",
    "-0.0e5",
    "1e-50",
    "-1e-50",
    "1e-45",
    "3.4028234663852886e38",
    "0.1",
    "1e+2",
    "0.000001",
  ])("%j is taken", (number) => {
    expect(takes(number)).toBe(true);
  });

  test("is what the table stores of it", () => {
    const found = plain('{"id":"a","vector":[0.3,2.6]}', Math.round);

    expect(found?.vector).toEqual([0, 3]);
  });
});

describe("a line", () => {
  const spaces = fc.constantFrom("", "", " ", "\t", "  ", "\r", "\n", "\u00a0");
  const pieces = fc.oneof(
    fc.constantFrom('"id"', '"vector"', '"removed"', '"more"', "true", "false", "null"),
    fc.constantFrom("{", "}", "[", "]", ",", ":", '"'),
    fc.oneof(fc.string(), fc.string({ unit: "grapheme" })).map((text) => JSON.stringify(text)),
    fc.oneof(fc.integer(), fc.maxSafeInteger(), double).map(String),
  );
  const field = fc.oneof(
    pieces.map((id) => ['"id"', ":", id]),
    fc.tuple(double, double).map(([a, b]) => ['"vector"', ":", "[", `${a}`, ",", `${b}`, "]"]),
    pieces.map((value) => ['"vector"', ":", "[", value, ",", "1", "]"]),
    fc.constantFrom("true", "false", "1").map((value) => ['"removed"', ":", value]),
  );
  const tokens = fc
    .array(field, { minLength: 1, maxLength: 3 })
    .map((fields) =>
      ["{"].concat(...fields.map((each, at) => (at > 0 ? [","] : []).concat(each)), "}"),
    );
  /** Mostly an object with a token in another one's place, or behind it. */
  const spoiled = fc
    .tuple(tokens, fc.nat(), fc.option(pieces), fc.boolean())
    .map(([all, at, piece, isMore]) =>
      piece === null ? all : all.toSpliced(at % all.length, isMore ? 0 : 1, piece),
    );
  const written = fc
    .tuple(spoiled, fc.array(spaces, { minLength: 1 }))
    .map(([all, between]) =>
      all.map((token, at) => `${between[at % between.length]}${token}`).join(""),
    );

  test("that is taken means the same by JSON.parse", () => {
    fc.assert(
      fc.property(written, (line) => void takesLine(line)),
      { numRuns: 5000 },
    );
  });

  test.each([
    ['{"id":"a","vector":[1,2]}', { id: "a", vector: [1, 2] }],
    ['{"id": "a b", "vector": [1.5, -2]}', { id: "a b", vector: [1.5, -2] }],
    ['{"vector":[1,2],"id":"ä 🎬"}\r', { id: "ä 🎬", vector: [1, 2] }],
    ['{"id":12345678901234,"removed":true}', { id: 12_345_678_901_234, vector: undefined }],
    [' { "removed" : true , "id" : -5 } ', { id: -5, vector: undefined }],
    ['{"id":"","removed":true}', { id: "", vector: undefined }],
  ])("%j is taken", (line, expected) => {
    expect(plain(line)).toEqual(expected);
  });

  test.each([
    "",
    "{}",
    '{"id":"a"}',
    '{"vector":[1,2]}',
    '{"id":"a","vector":[1]}',
    '{"id":"a","vector":[1,2,3]}',
    '{"id":"a","vector":[1,2],"removed":true}',
    '{"id":"a","vector":[1,2],"removed":false}',
    '{"id":"a","id":"b","vector":[1,2]}',
    '{"id":"a","vector":[1,2],"vector":[1,2]}',
    '{"id":"a","removed":true,"removed":true}',
    '{"id":"a","vector":[1,2],"more":1}',
    '{"id":"a","vector":[1,2]',
    '{"id":"a","vector":[1,2]}}',
    '{"id":"a","vector":[1,2]},',
    '{"id":"a","vector":[1,2',
    '{"id":"a","vector":[1,',
    '{"id":"a\\u0062","removed":true}',
    '{"id":"a\tb","removed":true}',
    '{"id":"a',
    '{"id":1234567890123456,"removed":true}',
    '{"id":1.5,"removed":true}',
    '{"id":01,"removed":true}',
    '{"id":null,"removed":true}',
  ])("%j is left to JSON.parse", (line) => {
    expect(plain(line)).toBeUndefined();
  });
});

test("where no line may have a vector, one that has is left", () => {
  const bytes = Buffer.from('{"id":"a","vector":[]}');

  expect(new PlainLineReader(0, Math.fround).read(bytes, 0, bytes.length)).toBe(false);
});
