// Where a ramp bends.

import { describe, expect, test } from "vitest";
import { type RampStep, beyondKnee, kneeOf } from "./knee.ts";

const step = (offered: number, changes: Partial<RampStep> = {}): RampStep => {
  return { offered, achieved: offered, p99Ms: 5, failedFraction: 0, ...changes };
};

describe("the knee", () => {
  test("is the last step that the server took as it came", () => {
    const steps = [
      step(100),
      step(200),
      step(300, { p99Ms: 19 }),
      step(400, { achieved: 340 }),
      step(500, { p99Ms: 900 }),
    ];

    expect(kneeOf(steps)).toBe(steps[2]);
  });

  test("is not one bad step between good ones", () => {
    const steps = [step(100), step(200, { p99Ms: 300 }), step(300), step(400, { achieved: 300 })];

    expect(kneeOf(steps)).toBe(steps[2]);
  });

  test("is none where the first step is beyond it already, and nothing is without steps", () => {
    expect(kneeOf([step(100, { achieved: 50 }), step(200, { achieved: 50 })])).toBeUndefined();
    expect(kneeOf([])).toBeUndefined();
  });

  test.each([
    [{ failedFraction: 0.002 }, "0.2 % of the requests failed"],
    [{ achieved: 94 }, "94.0 % of the rate was reached"],
    [{ p99Ms: 20.1 }, "p99 is 20.1 ms, above 20.0"],
  ] as const)("is passed by a step of %j, which says why", (changes, text) => {
    expect(beyondKnee(step(100, changes), step(10))).toBe(text);
    expect(beyondKnee(step(100), step(10))).toBeUndefined();
  });

  test("is where p99 passes the bound that was named, whatever the first step had", () => {
    expect(beyondKnee(step(100, { p99Ms: 49 }), step(10), { p99MsMax: 50 })).toBeUndefined();
    expect(beyondKnee(step(100, { p99Ms: 51 }), step(10), { p99MsMax: 50 })).toContain(
      "above 50.0",
    );
  });
});
