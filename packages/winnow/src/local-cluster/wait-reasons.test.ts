// What a person reads while a cluster on this machine starts.

import { expect, test } from "vitest";
import { WaitReasons } from "./wait-reasons.ts";

test("a start that takes seconds tells no reasons; a model that waits for longer has each told, not more than one in 5 s", () => {
  const reasons = new WaitReasons();
  const told = (why: string, nowMs: number): string[] =>
    reasons.news([{ model: "feed", why }], nowMs);

  const early = [told("no replica", 0), told("", 1000), told("half of it", 4900)];
  const first = told("half of it", 5000);
  const later = [told("half of it", 9000), told("most of it", 9100), told("most of it", 10_000)];
  const same = told("most of it", 60_000);

  expect(early.flat()).toEqual([]);
  expect(first).toEqual(["feed: half of it"]);
  expect(later.flat()).toEqual(["feed: most of it"]);
  expect(same).toEqual([]);
});

test("models wait apart from each other", () => {
  const reasons = new WaitReasons();
  const [a, b] = [
    { model: "a", why: "is read" },
    { model: "b", why: "is read" },
  ];

  reasons.news([a], 0);
  reasons.news([a, b], 4000);

  expect(reasons.news([a, b], 6000)).toEqual(["a: is read"]);
  expect(reasons.news([a, b], 9000)).toEqual(["b: is read"]);
});
