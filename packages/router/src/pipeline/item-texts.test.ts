// Objects that describe items, taken apart, against JSON.parse.

import { StringColumn, stringTensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { elementsOfText, membersOfText, withMembers } from "./item-texts.ts";

const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
const value = fc.oneof(scalar, fc.array(scalar, { maxLength: 4 }));
const object = fc.dictionary(fc.string(), value, { maxKeys: 5, noNullPrototype: true });

describe("an object that describes an item", () => {
  test("has the members that JSON.parse finds, as they are written", () => {
    fc.assert(
      fc.property(object, (given) => {
        const members = membersOfText(JSON.stringify(given));

        const texts = Object.entries(given).map(([name, each]) => [name, JSON.stringify(each)]);
        expect([...members]).toEqual(texts);
        for (const [name, text] of members) {
          const own = given[name];
          const elements = own === null ? [] : Array.isArray(own) ? own : [own];
          expect(elementsOfText(text)).toEqual(elements.map((each) => JSON.stringify(each)));
        }
      }),
      { numRuns: 500 },
    );
  });

  test("keeps the digits of numbers that JavaScript does not have, and infinite ones", () => {
    const texts = stringTensor(['{"a":9007199254740993,"b":[-Infinity,1e-7]}', ""]);

    const { data } = withMembers(texts, ["b", "a"]);

    if (!(data instanceof StringColumn)) throw new Error("no texts");
    expect(data.toText()).toEqual(['{"b":[-Infinity,1e-7],"a":9007199254740993}', ""]);
  });
});
