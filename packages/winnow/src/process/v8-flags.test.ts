// V8's flags of a start hold until it ends, or for half a minute; those of a process that serves hold for good.

import { cachedDataVersionTag, setFlagsFromString } from "node:v8";

import { expect, test } from "vitest";

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { setServingFlags, startsInLowerTiers } from "./v8-flags.ts";

test.each([
  ["when a worker is ready", (end: () => void) => end()],
  ["after half a minute", (_end: () => void, clock: ManualClock) => clock.advance(30_000)],
])("a start ends %s", (_title, wait) => {
  const clock = new ManualClock();

  const end = startsInLowerTiers(clock);
  const during = cachedDataVersionTag();
  clock.advance(29_999);
  const late = cachedDataVersionTag();
  wait(end, clock);
  const after = cachedDataVersionTag();
  end();

  expect(late).toBe(during);
  expect(after).not.toBe(during);
  expect(cachedDataVersionTag()).toBe(after);
  expect(clock.pendingTimers).toBe(0);
});

test("a process that serves may grow its heap to four times what was alive, and pretenures nothing", () => {
  setServingFlags();
  const served = cachedDataVersionTag();

  setFlagsFromString("--no-allocation-site-pretenuring --heap-growing-percent=300");
  const same = cachedDataVersionTag();
  setFlagsFromString("--allocation-site-pretenuring --heap-growing-percent=0");

  expect(served).toBe(same);
  expect(cachedDataVersionTag()).not.toBe(served);
});
