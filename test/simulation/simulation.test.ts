// Simulated clusters, a few seeds of each mode: `npm run simulate` runs thousands.
//
// Those of a mode have between them every kind of fault that the mode's first six seeds and the one run twice have, and none
// takes a processor for many seconds.

import { describe, expect, test } from "vitest";
import { reducedFaults } from "./fault-reduction.ts";
import { scenarioOf } from "./scenario.ts";
import type { Mode, PlannedFault } from "./scenario.ts";
import { failureText } from "./simulation-campaign.ts";
import { runScenario } from "./simulation-run.ts";

const SEEDS = { safety: [1, 12, 14, 51], liveness: [1, 2, 6, 2393] } as const;

async function failureOf(seed: number, mode: Mode): Promise<string | undefined> {
  const scenario = scenarioOf(seed, mode);
  const report = await runScenario(scenario);
  if (report.violations.length === 0) return undefined;
  return failureText(seed, mode, { ...report, faults: scenario.faults });
}

describe.each(["safety", "liveness"] as const)("simulated clusters in %s mode", (mode) => {
  test.each(SEEDS[mode])(
    "(S1, S2, S4, L1, L2, L4, L7) keep their promises, seed %d",
    async (seed) => {
      expect(await failureOf(seed, mode)).toBeUndefined();
    },
    240_000,
  );

  test("do the same when they are run again", async () => {
    const scenario = scenarioOf(100, mode);

    const first = await runScenario(scenario);
    const second = await runScenario(scenario);

    expect(first.violations).toEqual([]);
    expect(second.trace).toBe(first.trace);
    expect(second.counts).toEqual(first.counts);
    expect(first.counts.exact).toBeGreaterThan(0);
  }, 240_000);
});

test("of a list of faults those are kept without which nothing breaks", async () => {
  const faults = Array.from({ length: 20 }, (_, atMs): PlannedFault => ({
    kind: "crash worker",
    atMs,
    durationMs: 1,
    victim: 0,
    variant: 0,
  }));
  const breaks = async (list: readonly PlannedFault[]): Promise<boolean> =>
    [3, 17].every((atMs) => list.some((fault) => fault.atMs === atMs));

  const kept = await reducedFaults(faults, breaks, 200);

  expect(kept.map(({ atMs }) => atMs)).toEqual([3, 17]);
});
