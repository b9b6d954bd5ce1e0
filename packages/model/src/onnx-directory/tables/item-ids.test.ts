// Two ids that are alike, whatever is compared at a time, against a set.

import fc from "fast-check";
import { expect, test } from "vitest";
import { expectDistinct } from "./item-ids.ts";
import type { IdScan } from "./item-ids.ts";

const scanOf =
  (ids: readonly string[]): IdScan =>
  (visit) => {
    for (const [row, id] of ids.entries()) visit(row, Buffer.from(id));
  };

test("two ids that are alike are found however few are compared in a pass", () => {
  const ids = fc.array(fc.stringMatching(/^[ab]{0,4}$/), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(ids, fc.integer({ min: 8, max: 50 }), (all, idsPerPass) => {
      const named = { rows: all.length, where: "here", name: "ids" };
      let refusal = "";
      try {
        expectDistinct(scanOf(all), { ...named, idsPerPass });
      } catch (error) {
        refusal = String(error);
      }

      expect(/here: rows \d+ and \d+ of ids have one id/.test(refusal)).toBe(
        new Set(all).size < all.length,
      );
    }),
  );
});
