// Turns: small before large, equals in order, and nobody waits for ever.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { turnMsOf } from "./turn.ts";

describe("turnMsOf()", () => {
  test("lets a single query pass thousands that came before it", () => {
    const large = turnMsOf({ arrivedMs: 0, rows: 4096, deadlineMs: 30_000 });
    const small = turnMsOf({ arrivedMs: 1000, rows: 1, deadlineMs: 31_000 });

    expect(small).toBeLessThan(large);
  });

  test("leaves at least half of its time to whoever has waited for a turn", () => {
    fc.assert(
      fc.property(fc.nat(100_000), fc.nat(100_000), fc.nat(60_000), (arrivedMs, rows, leftMs) => {
        const deadlineMs = arrivedMs + leftMs;

        const turnMs = turnMsOf({ arrivedMs, rows, deadlineMs });

        expect(turnMs).toBeGreaterThanOrEqual(arrivedMs);
        expect(turnMs).toBeLessThanOrEqual(arrivedMs + leftMs / 2);
      }),
    );
  });

  test("keeps the order of equals, and puts whoever comes after a turn behind it", () => {
    fc.assert(
      fc.property(fc.nat(5000), fc.nat(5000), fc.nat(5000), (rows, otherRows, laterMs) => {
        const first = turnMsOf({ arrivedMs: 0, rows, deadlineMs: 30_000 });
        const equal = turnMsOf({ arrivedMs: laterMs, rows, deadlineMs: laterMs + 30_000 });
        const arrivedMs = first + laterMs;
        const after = turnMsOf({ arrivedMs, rows: otherRows, deadlineMs: arrivedMs + 1 });

        expect(equal).toBeGreaterThanOrEqual(first);
        expect(after).toBeGreaterThanOrEqual(first);
      }),
    );
  });

  test("a deadline that has passed is due at once", () => {
    expect(turnMsOf({ arrivedMs: 7, rows: 100, deadlineMs: 5 })).toBe(7);
  });
});
