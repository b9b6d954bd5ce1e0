// An id table beside a Map, which is what it means.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { IdTable } from "./id-table.ts";

/** Ids near each other, ids that share their lowest 32 bits, and the largest there are. */
const anyId = fc.oneof(
  fc.nat(40),
  fc.nat(5).map((high) => high * 2 ** 32 + 7),
  fc.nat(5).map((down) => Number.MAX_SAFE_INTEGER - down),
);

describe("values by ids", () => {
  test("are what a Map would hold, however they come and go", () => {
    const step = fc.tuple(fc.constantFrom("set", "set", "delete"), anyId);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const table = new IdTable<{ readonly number: number }>();
        const expected = new Map<number, { readonly number: number }>();
        for (const [number, [action, id]] of steps.entries()) {
          const isThere = { table: true, expected: true };
          if (action === "set") {
            table.set(id, { number });
            expected.set(id, { number });
          } else {
            isThere.table = table.delete(id);
            isThere.expected = expected.delete(id);
          }
          expect(isThere.table).toBe(isThere.expected);
          expect(table.size).toBe(expected.size);
          expect(table.has(id)).toBe(expected.has(id));
        }
        const held = table.ids().toSorted((a, b) => a - b);
        expect(held).toEqual([...expected.keys()].toSorted((a, b) => a - b));
        expect(held.map((id) => table.get(id))).toEqual(held.map((id) => expected.get(id)));
      }),
    );
  });

  test("are found again after many others have come and gone", () => {
    const table = new IdTable<object>();
    const straggler = {};
    table.set(3, straggler);
    for (let id = 4; id < 100_000; id++) {
      table.set(id, {});
      table.delete(id - 20 > 3 ? id - 20 : id);
    }

    expect(table.get(3)).toBe(straggler);
    expect(table.size).toBeLessThan(30);
  });
});
