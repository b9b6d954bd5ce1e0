// Keys that stand twice, against the list of keys that was written.

import fc from "fast-check";
import { expect, test } from "vitest";
import { keysWritten, repeatedKey } from "./repeated-keys.ts";

/** Texts with what separates keys, so that they look like more keys than there are. */
const text = fc.string({
  unit: fc.constantFrom('"', "\\", ":", "{", "}", ",", " ", "a"),
  maxLength: 6,
});
const space = fc.constantFrom("", " ", "\t", " \r ");
const value = fc.oneof(text, fc.array(text, { maxLength: 2 }), fc.constant({ a: 1 }), fc.integer());
const members = fc.array(fc.tuple(text, space, value), { maxLength: 5 });

test("the key that stands twice is found, and keys are never counted too low", () => {
  fc.assert(
    fc.property(members, (written) => {
      const names = written.map(([name]) => name);
      const json = `{${written.map(([name, between, held]) => `${JSON.stringify(name)}${between}:${JSON.stringify(held)}`).join(",")}}`;
      const parsed = JSON.parse(json) as Record<string, unknown>;

      expect(repeatedKey(json)).toBe(names.find((name, at) => names.indexOf(name) < at));
      expect(keysWritten(json)).toBeGreaterThanOrEqual(names.length);
      expect(Object.keys(parsed)).toHaveLength(new Set(names).size);
    }),
  );
});

test("of plain objects, exactly their keys are counted", () => {
  expect(
    keysWritten('{"id": "Heat: 1995", "at" :"12:30","genres":["a:b","\\\\"],"x":"\\":"}\n{"id":1}'),
  ).toBe(5);
});
