// A slice exists once its second has come up: of thousands of workers that never answer there must be none.

import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RecentSeconds } from "./recent-seconds.ts";

test("slices are made when they are needed, once each, and the last ten seconds are kept", () => {
  const clock = new ManualClock();
  let made = 0;
  const seconds = new RecentSeconds(
    clock,
    () => ({ at: (made += 1), count: 0 }),
    (slice) => (slice.count = 0),
  );
  expect([made, seconds.recent()]).toEqual([0, []]);

  for (let second = 0; second < 25; second += 1) {
    seconds.now().count += second;
    clock.advance(1000);
  }

  expect(made).toBe(10);
  const counts = seconds.recent().map(({ count }) => count);
  expect(counts.toSorted((a, b) => a - b)).toEqual([16, 17, 18, 19, 20, 21, 22, 23, 24]);
});
