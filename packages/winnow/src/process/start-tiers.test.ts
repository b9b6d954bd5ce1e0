// V8's flags of a start hold until it ends, or for half a minute.

import { readFileSync } from "node:fs";
import { cachedDataVersionTag } from "node:v8";

import { expect, test } from "vitest";

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { startsInLowerTiers } from "./start-tiers.ts";

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

test("the bundle's loader, which keeps what V8 makes under these flags, names the same ones", () => {
  const flagsIn = (file: string): string[] => {
    const text = readFileSync(new URL(file, import.meta.url), "utf8");
    return [...new Set(text.match(/"--[a-z-]+(?:=\d+)?"/g))].toSorted();
  };

  const loader = flagsIn("../../scripts/bundle-loader.cjs");

  expect(loader).toHaveLength(4);
  expect(flagsIn("start-tiers.ts")).toEqual(loader);
});
