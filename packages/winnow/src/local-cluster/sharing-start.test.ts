// A router that is started again beside others: no connection comes to it before it can answer, but it does not hide for
// ever; and who started it learns when it can.

import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { READY_MESSAGE, readyToListen, tellReady } from "./sharing-start.ts";

/** What has happened, in order. */
function started() {
  const clock = new ManualClock();
  const router = { ready: false };
  const events: string[] = [];
  void readyToListen(router, clock).then(() => events.push("listens"));
  void tellReady(router, clock, { send: (message) => void events.push(message) });
  return { clock, router, events };
}

test("a router listens when it is ready", async () => {
  const { clock, router, events } = started();
  await clock.advanceSettled(5000);
  expect(events).toEqual([]);
  router.ready = true;
  await clock.advanceSettled(100);

  expect(events.toSorted()).toEqual(["listens", READY_MESSAGE]);
});

test("a router that cannot answer listens after a while, and is not said to be ready", async () => {
  const { clock, router, events } = started();
  await clock.advanceSettled(31_000);
  expect(events).toEqual(["listens"]);
  router.ready = true;
  await clock.advanceSettled(100);

  expect(events).toEqual(["listens", READY_MESSAGE]);
});
