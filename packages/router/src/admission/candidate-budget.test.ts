// Large answers are bounded together; small ones are not kept out by them.

import fc from "fast-check";
import { expect, test } from "vitest";
import { CandidateBudget } from "./candidate-budget.ts";

test("(R1) refuses the large request that is one too many, until another one is answered", () => {
  const refusals: string[] = [];
  const budget = new CandidateBudget({ heldCandidatesMax: 20_000 }, (reason) => {
    refusals.push(reason);
  });
  const give = budget.take(10_000);
  budget.take(10_000);

  expect(() => budget.take(5000)).toThrow(
    "This router is busy with 20000 candidates of answers; try again later",
  );
  budget.take(4096);
  give();
  budget.take(5000);

  expect(refusals).toEqual(["candidates"]);
  expect(budget.held).toBe(19_096);
});

test("takes one request of any size while none is held", () => {
  const budget = new CandidateBudget({ heldCandidatesMax: 10 });

  const give = budget.take(1_000_000);

  expect(() => budget.take(5000)).toThrow(/busy/);
  give();
  expect(() => budget.take(5000)).not.toThrow();
});

test("holds what has been taken and not given back, and no large request beyond its most", () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.integer({ min: 4097, max: 9000 }), fc.constant(-1))),
      (acts) => {
        const budget = new CandidateBudget({ heldCandidatesMax: 20_000 });
        const taken: { readonly size: number; readonly give: () => void }[] = [];
        for (const act of acts) {
          if (act < 0) taken.shift()?.give();
          else {
            try {
              taken.push({ size: act, give: budget.take(act) });
            } catch {
              // Refused: it holds nothing.
            }
          }
          expect(budget.held).toBe(taken.reduce((sum, { size }) => sum + size, 0));
          expect(budget.held).toBeLessThanOrEqual(20_000);
        }
      },
    ),
  );
});
