// How long scans of a table are expected to take.

import { expect, test } from "vitest";

import { ScanPace } from "./scan-pace.ts";

test("a scan is expected to take as long as those before it, by its size", () => {
  const pace = new ScanPace();

  const unknown = pace.predictMs(1);
  pace.note(1000, 2);
  const known = [pace.predictMs(1000), pace.predictMs(3000)];

  expect([unknown, ...known]).toEqual([Number.POSITIVE_INFINITY, 2, 6]);
});

test("one that was interrupted counts little, a slower machine more with each scan", () => {
  const pace = new ScanPace();
  pace.note(1000, 1);

  pace.note(1000, 9);
  const afterOne = pace.predictMs(1000);
  for (let scan = 0; scan < 30; scan += 1) pace.note(1000, 9);

  expect(afterOne).toBe(2);
  expect(pace.predictMs(1000)).toBeGreaterThan(8.8);
});
