// For how long workers that live are silent, and what that says of one that is silent now.

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { expect, test } from "vitest";
import { Silences, missesUntilSilent } from "./silences.ts";

test("the longest silence of the last ten seconds counts", () => {
  const clock = new ManualClock();
  const silences = new Silences(clock);
  const seen = [silences.longestMs()];

  silences.add(30);
  silences.add(250);
  silences.add(40);
  seen.push(silences.longestMs());
  clock.advance(5000);
  silences.add(90);
  seen.push(silences.longestMs());
  clock.advance(5000);
  seen.push(silences.longestMs());
  clock.advance(10_000);
  seen.push(silences.longestMs());

  expect(seen).toEqual([undefined, 250, 250, 90, undefined]);
});

test.each([
  { othersMs: [], until: 3, why: "nobody else is known" },
  { othersMs: [1, 2, 3], until: 3, why: "the others are quick" },
  { othersMs: [150], until: 3, why: "twice what is usual is no more than the settings say" },
  { othersMs: [210, 1, 220], until: 5, why: "half of the others were silent for 210 ms" },
  { othersMs: [1, 1, 900], until: 3, why: "one alone hung" },
  { othersMs: [1, 900], until: 3, why: "one of two hung" },
  { othersMs: [900, 5000, 700], until: 9, why: "nobody is waited for without end" },
])("a worker is silent after $until pings where $why", ({ othersMs, until }) => {
  expect(missesUntilSilent({ pingIntervalMs: 100, misses: 3, othersMs })).toBe(until);
});
