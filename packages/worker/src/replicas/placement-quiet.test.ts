// The wait until the list of workers has not changed for a while, on a clock that behaves like a
// busy machine. If the step that ends the wait were missed, the worker would never load.

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { Timer } from "@winnow/core";
import { expect, test } from "vitest";

import { FakeCluster } from "./doubles/fake-cluster.ts";
import { fakeTable } from "../compute/doubles/fake-compute.ts";

/** A clock whose time passes while something is decided, and whose timers fire a little early. */
class RestlessClock extends ManualClock {
  readonly #stepMs: number;
  readings = 0;

  constructor(stepMs: number) {
    super();
    this.#stepMs = stepMs;
  }

  override nowMs(): number {
    this.readings += 1;
    return super.nowMs() + this.readings * this.#stepMs;
  }

  override setTimer(delayMs: number, run: () => void): Timer {
    return super.setTimer(delayMs - 1, run);
  }
}

test("loading begins after the quiet time though no news comes then, however slowly it is decided", async () => {
  for (let step = 1; step <= 200; step += 1) {
    const cluster = new FakeCluster({ placementQuietMs: 20 }, new RestlessClock(step / 100));
    cluster.setVersions({ 1: [fakeTable("movies", 2)] });
    const worker = cluster.add("w0");

    worker.control.setView(cluster.view());
    await cluster.clock.advanceSettled(1000);

    expect(worker.control.isSettled, `readings ${step / 100} ms apart`).toBe(true);
  }
});

test("views that come in the rest after a long step are planned for together", async () => {
  const clock = new RestlessClock(5);
  const cluster = new FakeCluster({ placementQuietMs: 20 }, clock);
  cluster.setVersions({ 1: [fakeTable("movies", 2)] });
  const worker = cluster.add("w0");
  const before = clock.readings;

  for (let view = 0; view < 100; view += 1) worker.control.setView(cluster.view());

  // A view reads the clock once, a step four times: 500 if each view were a step.
  expect(clock.readings - before).toBeLessThan(350);
  await clock.advanceSettled(1000);
  expect(worker.control.isSettled).toBe(true);
  expect(clock.pendingTimers).toBe(0);
});
