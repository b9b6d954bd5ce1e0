// Workers that come and go for good.

import type { Scenario, Stage } from "../scenario.ts";

async function grow(stage: Stage, names: readonly string[]): Promise<void> {
  stage.inject(`${names.join(", ")} join`);
  const before = stage.cluster.workers.length;
  await Promise.all(names.map((name) => stage.cluster.addWorker(name)));
  stage.expectWorkers(before + names.length);
  await stage.whole();
}

async function shrink(stage: Stage, names: readonly string[]): Promise<void> {
  stage.inject(`SIGTERM ${names.join(", ")}`);
  const before = stage.cluster.workers.length;
  await Promise.all(names.map((name) => stage.terminate(name)));
  stage.expectWorkers(before - names.length);
  await stage.whole();
}

/** Scenarios of this theme. */
export const SCALING: readonly Scenario[] = [
  {
    name: "scale",
    title: "3 → 4 → 8 → 7 → 3 workers",
    group: "scale",
    topology: "redis",
    seconds: 75,
    rateShare: 0.5,
    wholeWithinMs: 120_000,
    run: async (stage) => {
      await grow(stage, ["w3"]);
      await stage.hold(2);
      await grow(stage, ["w4", "w5", "w6", "w7"]);
      await stage.hold(2);
      await shrink(stage, ["w7"]);
      await stage.hold(2);
      await shrink(stage, ["w3", "w4", "w5", "w6"]);
    },
  },
];
