// How much a worker scans at once, by the counts that it tells.

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { expect, test } from "vitest";
import { ScanWindow } from "./scan-window.ts";

test("scans are those of the last ten seconds, however often the worker tells its counts", () => {
  const clock = new ManualClock();
  const window = new ScanWindow(clock);
  const counts = { batches: 5, queries: 50 };
  const told: unknown[] = [window.recent()];
  window.note({ ...counts });
  told.push(window.recent());

  for (let tenth = 0; tenth < 200; tenth += 1) {
    clock.advance(100);
    counts.batches += 1;
    counts.queries += 4;
    window.note({ ...counts });
  }
  told.push(window.recent());
  for (let tenth = 0; tenth < 200; tenth += 1) {
    clock.advance(100);
    window.note({ ...counts });
  }

  expect(told).toEqual([undefined, undefined, { batches: 100, queries: 400 }]);
  expect(window.recent()).toBeUndefined();
});

test("a worker that restarted counts from the start, one that is away or of another release not at all", () => {
  const clock = new ManualClock();
  const window = new ScanWindow(clock);
  window.note({ batches: 100, queries: 200 });
  clock.advance(1000);
  window.note({ batches: 2, queries: 3 });
  clock.advance(1000);
  const fresh = window.recent();
  window.note({ batches: 4, queries: 13 });
  const further = window.recent();
  window.note(undefined);

  expect([fresh, further, window.recent()]).toEqual([
    undefined,
    { batches: 2, queries: 10 },
    undefined,
  ]);
});
