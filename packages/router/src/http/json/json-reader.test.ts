// The reader against RapidJSON 1.1.0 itself (answers recorded from a C++ program with the parse
// flags TensorFlow Serving sets) and against JSON.parse on valid documents.

import { readFileSync } from "node:fs";
import path from "node:path";
import { WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dumpValue } from "./json-dump.ts";
import { JsonReader, KIND } from "./json-reader.ts";
import { JsonSyntaxError } from "./json-syntax-error.ts";

interface Recorded {
  readonly body: string;
  /** Sentence and offset: `Invalid value.@3`. */
  readonly error?: string;
  /** Events in order: kinds, strings in hex, numbers as the bits of a float64. */
  readonly tokens?: string;
  readonly dump?: string;
}

const recorded: readonly Recorded[] = readFileSync(
  path.join(import.meta.dirname, "recorded/rapidjson-answers.ndjson"),
  "utf8",
)
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);

const parsed = (text: string | Uint8Array, valuesMax = 1e6): JsonReader => {
  const reader = new JsonReader({ valuesMax });
  reader.parse(Buffer.from(text));
  return reader;
};

function errorOf(text: string | Uint8Array): string {
  try {
    parsed(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return `${error.message}@${error.offset}`;
    throw error;
  }
  return "none";
}

const bits = new BigUint64Array(1);
const floats = new Float64Array(bits.buffer);

function bitsOf(value: number): string {
  floats[0] = value;
  return Number.isNaN(value) ? "7ff8000000000000" : bits[0]!.toString(16).padStart(16, "0");
}

/** Events of a value, as the recording program wrote them. */
function tokensOf(reader: JsonReader, value: number): string {
  const kind = reader.kinds[value]!;
  if (kind === KIND.string) return `s${Buffer.from(reader.bytesOf(value)).toString("hex")} `;
  if (kind === KIND.integer) return `i${bitsOf(reader.numbers[value]!)} `;
  if (kind === KIND.double) return `d${bitsOf(reader.numbers[value]!)} `;
  if (kind === KIND.object || kind === KIND.array) {
    const [open, close] = kind === KIND.array ? ["[", "]"] : ["{", "}"];
    return `${open} ${reader
      .children(value)
      .map((child) => tokensOf(reader, child))
      .join("")}${close}${reader.from[value]} `;
  }
  return `${["n", "f", "t"][kind]} `;
}

/** The value as JSON.parse would give it. */
function valueOf(reader: JsonReader, value: number): unknown {
  const kind = reader.kinds[value]!;
  if (kind === KIND.string) return Buffer.from(reader.bytesOf(value)).toString("utf8");
  if (kind === KIND.array) {
    return reader.children(value).map((child) => valueOf(reader, child));
  }
  if (kind === KIND.object) {
    const children = reader.children(value).map((child) => valueOf(reader, child));
    const members = children.flatMap((key, index) =>
      index % 2 === 0 ? [[key as string, children[index + 1]] as const] : [],
    );
    return Object.fromEntries(members);
  }
  const words = [null, false, true];
  return kind === KIND.integer || kind === KIND.double ? reader.numbers[value] : words[kind];
}

/** Equal; numbers to the last place but one, which is RapidJSON's and not ECMAScript's. */
function isSame(one: unknown, other: unknown): boolean {
  if (typeof one === "number" && typeof other === "number") {
    return Math.abs(one - other) <= Math.abs(other) * 2 ** -50;
  }
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    return one === other;
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => isSame(one[key as keyof typeof one], other[key as keyof typeof other]))
  );
}

describe("JsonReader", () => {
  test("reads, refuses and dumps what RapidJSON reads, refuses and dumps", () => {
    const wrong = recorded.filter(({ body, error, tokens, dump }) => {
      const bytes = Buffer.from(body, "base64");
      if (error !== undefined) return errorOf(bytes) !== error;
      const reader = parsed(bytes);
      return tokensOf(reader, 0).trim() !== tokens || dumpValue(reader, 0) !== dump;
    });

    expect(recorded.length).toBeGreaterThan(500);
    expect(wrong).toEqual([]);
  });

  test("gives the values JSON.parse gives", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false, maxDepth: 6 }), (value) => {
        const text = JSON.stringify(value);

        const reader = parsed(text);

        expect(isSame(valueOf(reader, 0), JSON.parse(text))).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  test("reads numbers of at most 15 digits exactly as JSON.parse does", () => {
    const digits = fc.integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 });
    fc.assert(
      fc.property(digits, fc.integer({ min: -22, max: 22 }), (significand, power) => {
        const text = `[${significand}e${power}]`;

        expect(parsed(text).numbers[1]).toBe((JSON.parse(text) as number[])[0]);
      }),
      { numRuns: 5000 },
    );
  });

  test("is never further than two units in the last place from JSON.parse", () => {
    const double = fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e300, max: 1e300 });
    fc.assert(
      fc.property(double, (value) => {
        const read = parsed(JSON.stringify([value])).numbers[1]!;

        expect(Math.abs(read - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -50);
      }),
      { numRuns: 5000 },
    );
  });

  test.each([
    ["NInf", Infinity],
    ["-NaN", NaN],
    ["NaN.5", 0.5],
    ["-Inf.25e1", -2.5],
    ["InfE5", 0],
  ])("takes %s for %d, as RapidJSON does", (text, value) => {
    expect(parsed(text).numbers[0]).toBe(value);
  });

  test("passes bytes that are not UTF-8 on as they are", () => {
    const body = Buffer.from([0x22, 0xff, 0x80, 0xc3, 0x22]);

    expect([...parsed(body).bytesOf(0)]).toEqual([0xff, 0x80, 0xc3]);
  });

  test("undoes escapes in place without touching what follows", () => {
    const reader = parsed(String.raw`["a\u00e9\n\ud83c\udfac\/b", "c\"d", 5]`);

    expect(valueOf(reader, 0)).toEqual(["aé\n🎬/b", 'c"d', 5]);
  });

  test("finds the first of two members of one name", () => {
    const reader = parsed('{"a": [1, {"b": 2}], "b": 3, "b": 4}');

    expect(reader.numbers[reader.member(0, Buffer.from("b"))]).toBe(3);
    expect(reader.member(0, Buffer.from("c"))).toBe(-1);
  });

  test("treats names like __proto__ as names", () => {
    const reader = parsed('{"__proto__": 1, "constructor": 2}');

    expect(reader.numbers[reader.member(0, Buffer.from("constructor"))]).toBe(2);
    expect(({} as Record<string, unknown>)["1"]).toBeUndefined();
  });

  test("reads a million nested lists without a stack", () => {
    const depth = 1_000_000;

    const reader = parsed("[".repeat(depth) + "]".repeat(depth), depth);

    expect(reader.from[depth - 1]).toBe(0);
    expect(reader.to[0]).toBe(depth);
    expect(errorOf("[".repeat(depth))).toBe(`Invalid value.@${depth}`);
  });

  test.each([
    ["one number of a million digits", "9".repeat(1e6)],
    ["a fraction of a million digits", `0.${"9".repeat(1e6)}`],
    ["an exponent of a million digits", `1e-${"9".repeat(1e6)}`],
    ["a million escapes", `"${String.raw`\n`.repeat(1e6)}"`],
    ["a million spaces", `${" ".repeat(1e6)}0`],
  ])("takes no more than seconds of processor time for %s", (_, text) => {
    const before = process.cpuUsage();

    errorOf(text);

    expect(process.cpuUsage(before).user).toBeLessThan(5e6);
  });

  test("refuses more values than allowed, and then reads on", () => {
    const reader = new JsonReader({ valuesMax: 10 });

    expect(() => reader.parse(Buffer.from(`[${"1,".repeat(9)}1]`))).toThrow(WinnowError);
    expect(() => reader.parse(Buffer.from(`[${"1,".repeat(8)}1]`))).not.toThrow();
  });

  test("keeps integers of 64 bits exact in the text", () => {
    const reader = parsed("[9223372036854775807, 18446744073709551615, -9223372036854775809]");

    expect(reader.children(0).map((value) => reader.kinds[value])).toEqual([
      KIND.integer,
      KIND.integer,
      KIND.double,
    ]);
    expect(Buffer.from(reader.bytesOf(2)).toString()).toBe("18446744073709551615");
  });
});

describe("dumpValue()", () => {
  test("ends at the first token after 256 bytes", () => {
    const reader = parsed(JSON.stringify(Array.from({ length: 100 }, () => "x".repeat(50))));

    expect(dumpValue(reader, 0)).toBe(
      `[${Array(5)
        .fill(`"${"x".repeat(50)}"`)
        .join(", ")}`,
    );
  });

  test("ends at a number that is not finite", () => {
    expect(dumpValue(parsed("[1, NaN, 2]"), 0)).toBe("[1, ");
  });

  test("is bounded even where one string is not", () => {
    expect(dumpValue(parsed(`"${"x".repeat(1e6)}"`), 0).length).toBeLessThan(5000);
  });

  test("lays numbers out as RapidJSON does", () => {
    const text = "[1e20, 1e21, 1.5e-7, 0.00012, -0.0, 12345678.5, 18446744073709551615]";

    expect(dumpValue(parsed(text), 0)).toBe(
      "[100000000000000000000.0, 1e21, 1.5e-7, 0.00012, -0.0, 12345678.5, 18446744073709551615]",
    );
  });
});
