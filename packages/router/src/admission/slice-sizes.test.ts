// How many queries a slice may hold: whoever asks for one instance waits for the scan of others' slices, so
// it is a matter of how long such scans took, and of whether anybody asks for few instances.

import type { CandidateTable } from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { SliceSizes } from "./slice-sizes.ts";

const tableOf = (name: string): CandidateTable => ({
  kind: "candidate",
  name,
  rows: 1,
  dim: 4,
  partitions: 1,
  idDtype: "string",
  sources: [],
});
const table = tableOf("movies");
const others = tableOf("others");

/** Somebody has just asked for one instance of another table. */
function besideOne(): { clock: ManualClock; sizes: SliceSizes } {
  const clock = new ManualClock();
  const sizes = new SliceSizes(clock);
  sizes.queriesMax(others, 1);
  return { clock, sizes };
}

test("beside requests of one instance, slices of a slow table are scanned in ten milliseconds", () => {
  const { clock, sizes } = besideOne();
  sizes.note(table, 256, 25.6);

  expect(sizes.queriesMax(table, 4096)).toBe(100);

  clock.advance(9999);

  expect(sizes.queriesMax(table, 4096)).toBe(100);
});

test("slices are of any size once nobody has asked for few instances for ten seconds", () => {
  const { clock, sizes } = besideOne();
  sizes.note(table, 256, 25.6);
  clock.advance(10_000);

  expect(sizes.queriesMax(table, 33)).toBe(Number.POSITIVE_INFINITY);
  expect(sizes.queriesMax(table, 4096)).toBe(Number.POSITIVE_INFINITY);

  sizes.queriesMax(table, 32);

  expect(sizes.queriesMax(table, 4096)).toBe(100);
});

test("a table without a slice so far has slices of any size, and one that is scanned in no time has large ones", () => {
  const { sizes } = besideOne();
  sizes.note(others, 256, 60);
  sizes.note(table, 63, 60);

  expect(sizes.queriesMax(table, 4096)).toBe(Number.POSITIVE_INFINITY);

  sizes.note(table, 256, 0.5);

  expect(sizes.queriesMax(table, 4096)).toBe(5120);
});

test("a slice is never smaller than what a worker scans together, and one slow scan changes little", () => {
  const { sizes } = besideOne();
  for (let slice = 0; slice < 9; slice += 1) sizes.note(table, 256, 25.6);
  sizes.note(table, 100, 20);

  expect(sizes.queriesMax(table, 4096)).toBe(80);

  for (let slice = 0; slice < 20; slice += 1) sizes.note(table, 64, 640);

  expect(sizes.queriesMax(table, 4096)).toBe(64);
});
