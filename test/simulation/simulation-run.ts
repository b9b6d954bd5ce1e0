// Runs one scenario from its calm beginning to its healed end, and tells what was wrong.

import { CheckedRequests } from "./checked-requests.ts";
import type { RequestCounts } from "./checked-requests.ts";
import { FaultInjection } from "./fault-injection.ts";
import { checkHealed } from "./healed-state.ts";
import type { PlannedFault, Scenario } from "./scenario.ts";
import { DRAIN_HOLD_MS_MAX } from "./simulated-workers.ts";
import { SimulatedWorld } from "./simulated-world.ts";
import type { Violation } from "./simulated-world.ts";

/** What a run showed. */
export interface SimulationReport {
  readonly violations: readonly Violation[];
  /** Equal for two runs of one scenario. */
  readonly trace: string;
  readonly counts: RequestCounts;
  readonly events: number;
  readonly virtualMs: number;
}

/** How a run is watched and varied. */
export interface RunOptions {
  /** Instead of the scenario's. */
  readonly faults?: readonly PlannedFault[];
  readonly onNote?: NonNullable<SimulatedWorld["onNote"]>;
}

/** Requests still open when asking stops end within their longest deadline. */
const LAST_REQUESTS_MS = 7000;
const ENDING_MS = 100;

const DRAIN_CHECK_MS = 100;

/**
 * A drain that began among the faults may hold on for its longest, where what it answers for can be
 * had from nobody else: the cluster begins to heal when it has ended.
 */
async function waitForDrains({ time, staff }: SimulatedWorld): Promise<void> {
  const latestMs = time.nowMs + DRAIN_HOLD_MS_MAX;
  while (staff.some(({ isLeaving }) => isLeaving) && time.nowMs < latestMs) {
    await time.runUntil(time.nowMs + DRAIN_CHECK_MS);
  }
}

/** Runs a scenario. */
export async function runScenario(
  scenario: Scenario,
  { faults = scenario.faults, onNote }: RunOptions = {},
): Promise<SimulationReport> {
  const world = new SimulatedWorld(scenario);
  world.onNote = onNote;
  const onRejection = (reason: unknown): void => {
    world.violate("bug", `unhandled: ${reason instanceof Error ? reason.stack : String(reason)}`);
  };
  process.on("unhandledRejection", onRejection);
  const requests = new CheckedRequests(world);
  const injection = new FaultInjection(world, (count) => requests.burst(count));
  for (const place of world.staff) place.start();
  for (const place of world.routers) place.start();
  injection.plan(faults);
  requests.run();
  const { calmMs, faultsMs, healedMs } = scenario;
  await world.time.runUntil(calmMs - 1);
  requests.isSuccessDue = scenario.mode === "liveness";
  await world.time.runUntil(calmMs + faultsMs);
  injection.heal();
  await waitForDrains(world);
  await world.time.runUntil(world.time.nowMs + healedMs);
  requests.stop();
  await world.time.runUntil(world.time.nowMs + LAST_REQUESTS_MS);
  if (requests.open > 0) world.violate("L2", `${requests.open} requests hang`);
  await checkHealed(world);
  for (const place of world.routers) place.close();
  await world.time.runUntil(world.time.nowMs + ENDING_MS);
  for (const place of world.routers) place.end();
  process.off("unhandledRejection", onRejection);
  return {
    violations: world.violations,
    trace: world.trace,
    counts: requests.counts,
    events: world.time.events,
    virtualMs: world.time.nowMs,
  };
}
