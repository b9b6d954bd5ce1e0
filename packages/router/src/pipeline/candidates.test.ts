// The order of candidates against the comparison that defines it.

import { tensor } from "@winnow/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { reordered } from "./candidates.ts";

const score = fc.oneof(
  fc.float({ noDefaultInfinity: true, noNaN: true }),
  fc.constantFrom(NaN, Infinity, -Infinity, 0, -0, 1, 1.401298464324817e-45, -1),
);

test("lists are ordered by score, of equals the first before, and NaN comes last", () => {
  const lists = fc.array(fc.array(score, { maxLength: 40 }), { maxLength: 3 });
  // One list is longer than what is sorted at once.
  const long = fc.array(score, { minLength: 2000, maxLength: 2100 }).map((list) => [list]);
  fc.assert(
    fc.property(fc.oneof({ weight: 50, arbitrary: lists }, long), (drawn) => {
      const count = drawn.flat().length;
      const ids = tensor("int32", [count], new Int32Array(count));
      let first = 0;
      const before = drawn.map((scores) => {
        const from = first;
        first += scores.length;
        return { positions: scores.map((_, at) => from + at), scores };
      });
      const given = { ids, lists: before, named: new Map() };
      const flat = Float32Array.from(drawn.flat());

      const steps = reordered(given, flat);
      let step = steps.next();
      while (step.done !== true) step = steps.next();

      const expected = before.map(({ positions }) => {
        const order = positions.toSorted((a, b) => {
          const [one, other] = [flat[a]!, flat[b]!];
          if (Number.isNaN(one) || Number.isNaN(other)) {
            return Number(Number.isNaN(one)) - Number(Number.isNaN(other)) || a - b;
          }
          return other - one || a - b;
        });
        return { positions: order, scores: order.map((at) => flat[at]!) };
      });
      expect(step.value.lists).toEqual(expected);
    }),
  );
});
