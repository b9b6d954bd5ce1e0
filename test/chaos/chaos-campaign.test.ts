// What a campaign will run: every name once, all scenarios where there is time, brief ones first where
// there is little, the same from one seed.

import { expect, test } from "vitest";
import { type Campaign, planCampaign } from "./chaos-campaign.ts";
import { SCENARIOS } from "./scenario-list.ts";

const campaign = (more: Partial<Campaign>): Campaign => ({
  minutes: 2,
  seed: 1,
  perSecond: 100,
  only: [],
  folder: "/nowhere",
  checkout: "/nowhere",
  resumes: false,
  print: () => undefined,
  ...more,
});

const namesOf = (plan: ReturnType<typeof planCampaign>): string[] =>
  plan.scenarios.map(({ name }) => name);

test("no two scenarios share a name", () => {
  const names = SCENARIOS.map(({ name }) => name);

  expect(new Set(names).size).toBe(names.length);
});

test("with time for all, all are run, and stretched to fill it", () => {
  const plan = planCampaign(campaign({ minutes: 120 }));
  const possible = SCENARIOS.filter(({ absence }) => (absence?.() ?? "") === "");

  expect(new Set(namesOf(plan))).toEqual(new Set(possible.map(({ name }) => name)));
  expect(plan.stretch).toBeGreaterThan(2);
  expect(plan.seconds).toBeCloseTo(7200);
});

test("with little time brief scenarios are run, within it, unstretched", () => {
  const plan = planCampaign(campaign({ minutes: 2 }));

  expect(plan.scenarios.length).toBeGreaterThan(4);
  expect(plan.scenarios.filter(({ isBrief }) => isBrief !== true)).toEqual([]);
  expect(plan.stretch).toBeLessThan(1.2);
  expect(plan.seconds).toBeLessThan(121);
});

test("one seed gives one order, another seed another, and kinds of clusters stay together", () => {
  const order = (seed: number): string[] => namesOf(planCampaign(campaign({ seed, minutes: 90 })));
  const kinds = planCampaign(campaign({ minutes: 90 })).scenarios.map(({ topology }) => topology);

  expect(order(3)).toEqual(order(3));
  expect(order(4)).not.toEqual(order(3));
  expect(kinds.filter((kind, at) => kind !== kinds[at - 1])).toEqual([...new Set(kinds)]);
});

test("names choose, however long that takes", () => {
  const plan = planCampaign(campaign({ only: ["redis-kill", "scale"], minutes: 0.1 }));

  expect(new Set(namesOf(plan))).toEqual(new Set(["redis-kill", "scale"]));
});
