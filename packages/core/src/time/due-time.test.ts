// Due times: small work before large, equal work in order, and no work waits for ever.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dueMsOf } from "./due-time.ts";

describe("dueMsOf()", () => {
  test("lets a single query pass thousands that came before it", () => {
    const large = dueMsOf({ arrivedMs: 0, rows: 4096, deadlineMs: 30_000 });
    const small = dueMsOf({ arrivedMs: 1000, rows: 1, deadlineMs: 31_000 });

    expect(small).toBeLessThan(large);
  });

  test("leaves at least half of its time to work that has waited until it was due", () => {
    fc.assert(
      fc.property(fc.nat(100_000), fc.nat(100_000), fc.nat(60_000), (arrivedMs, rows, leftMs) => {
        const deadlineMs = arrivedMs + leftMs;

        const dueMs = dueMsOf({ arrivedMs, rows, deadlineMs });

        expect(dueMs).toBeGreaterThanOrEqual(arrivedMs);
        expect(dueMs).toBeLessThanOrEqual(arrivedMs + leftMs / 2);
      }),
    );
  });

  test("keeps the order of equals, and puts work that comes after a due time behind it", () => {
    fc.assert(
      fc.property(fc.nat(5000), fc.nat(5000), fc.nat(5000), (rows, otherRows, laterMs) => {
        const first = dueMsOf({ arrivedMs: 0, rows, deadlineMs: 30_000 });
        const equal = dueMsOf({ arrivedMs: laterMs, rows, deadlineMs: laterMs + 30_000 });
        const arrivedMs = first + laterMs;
        const after = dueMsOf({ arrivedMs, rows: otherRows, deadlineMs: arrivedMs + 1 });

        expect(equal).toBeGreaterThanOrEqual(first);
        expect(after).toBeGreaterThanOrEqual(first);
      }),
    );
  });

  test("a deadline that has passed is due at once", () => {
    expect(dueMsOf({ arrivedMs: 7, rows: 100, deadlineMs: 5 })).toBe(7);
  });
});
