// Machines that come back with a wrong clock.

import type { TopologyName } from "../chaos-cluster.ts";
import { type Scenario, shuffled } from "../scenario.ts";

const HOUR_MS = 3_600_000;

/** A worker comes back with its clock set back, and its partitions soon depend on it. */
const clockBack = (topology: TopologyName): Scenario => ({
  name: `clock-back-${topology}`,
  title: `a worker restarts with its clock an hour back, then another one dies (${topology === "list" ? "list" : "Redis"})`,
  group: "machine",
  topology,
  seconds: 16,
  isBrief: topology === "redis",
  run: async (stage) => {
    const [first, second] = shuffled(stage.cluster.workers, stage.random) as [string, string];
    stage.inject(`kill -9 ${first}, which returns with its clock an hour back`);
    await stage.cluster.process(first).kill();
    await stage.hold(1);
    stage.cluster.process(first).restart({ CHAOS_CLOCK_SHIFT_MS: String(-HOUR_MS) });
    await stage.whole();
    stage.inject(`kill -9 ${second}`);
    await stage.cluster.process(second).kill();
    await stage.hold(3);
    stage.cluster.process(second).restart();
    await stage.whole();
  },
});

/** Scenarios of this theme. */
export const MACHINE_FAULTS: readonly Scenario[] = [clockBack("list"), clockBack("redis")];
