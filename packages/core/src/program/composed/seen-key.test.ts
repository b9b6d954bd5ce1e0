// Patterns of keys, and that no value reaches beyond its place.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keyWith, parseKeyPattern } from "./seen-key.ts";
import type { KeyPart } from "./seen-key.ts";

function partsOf(pattern: string): readonly KeyPart[] {
  const found = parseKeyPattern(pattern);
  if ("fault" in found) throw new Error(found.fault);
  return found.parts;
}

const keyOf = (pattern: string, values: Readonly<Record<string, string>>): string =>
  keyWith(partsOf(pattern), (input) => Buffer.from(values[input]!));

describe("a pattern of keys", () => {
  test("puts values into their places", () => {
    expect(keyOf("seen:{shop}/{user}:v1", { shop: "7", user: "a-b_c.d" })).toBe(
      "seen:7/a-b_c.d:v1",
    );
  });

  test("encodes what is not plain in a value as encodeURIComponent does", () => {
    const value = "a:b{user}%/ é*\n";
    expect(keyOf("seen:{user}", { user: value })).toBe(`seen:${encodeURIComponent(value)}`);
  });

  test.each([
    ["seen", "no place"],
    ["{user}", "before each place"],
    ["seen{user}", "before each place"],
    ["seen%{user}", "before each place"],
    ["seen:{a}{b}", "before each place"],
    ["seen:{a}-{b}", "before each place"],
    ["seen:{user", "no place"],
    ["seen:{a}:{b", "bracket"],
    ["seen:{a}}", "bracket"],
    ["winnow:{user}", "keys of the cluster"],
    [`${"x".repeat(300)}:{user}`, "characters"],
  ])("refuses %s", (pattern, fault) => {
    expect(parseKeyPattern(pattern)).toEqual({ fault: expect.stringContaining(fault) as string });
  });

  test("gives different keys for different values, which all begin and end as it does", () => {
    const value = fc.oneof(
      fc.string({ unit: "binary", maxLength: 8 }),
      fc.string({ unit: fc.constantFrom(":", "/", "a", "%", "3", "A", "{", "}"), maxLength: 6 }),
    );
    const pattern = "seen:{a}x:{b}/end";
    fc.assert(
      fc.property(fc.tuple(value, value, value, value), ([a, b, c, d]) => {
        const [one, other] = [keyOf(pattern, { a, b }), keyOf(pattern, { a: c, b: d })];
        expect(one).toMatch(/^seen:[^:/]*x:[^:/]*\/end$/);
        const areSame =
          Buffer.from(a).equals(Buffer.from(c)) && Buffer.from(b).equals(Buffer.from(d));
        expect(one === other).toBe(areSame);
      }),
    );
  });
});
