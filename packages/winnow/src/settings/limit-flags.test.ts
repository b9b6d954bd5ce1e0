// What a router gets to hear that shares its memory with workers.

import { expect, test, vi } from "vitest";
import { flagNameOf, lowerDefaultArguments, rangeOf } from "./limit-flags.ts";
import { limitsAndTimes } from "./limits-and-times.ts";

test("a setting that says what 0 means may be 0", () => {
  const told = limitsAndTimes.filter(({ description }) => description.includes("; 0: "));

  expect(told.length).toBeGreaterThanOrEqual(3);
  for (const each of told)
    expect([flagNameOf(each), rangeOf(each)[0]]).toEqual([flagNameOf(each), 0]);
});

test("a process with a part of the memory gets the defaults that are lower then, but for flags that were given", () => {
  vi.spyOn(process, "constrainedMemory").mockReturnValue(2 ** 32);

  const part = lowerDefaultArguments({ candidatesMax: 7 }, ["router", "http"], 2 ** 29);
  const all = lowerDefaultArguments({}, ["router", "http", "grpc", "worker"], 2 ** 32);

  expect(part).toEqual([
    `--json-values-max=${2 ** 21}`,
    `--answer-bytes-max=${2 ** 26}`,
    `--held-candidates-max=${Math.floor(2 ** 29 / 1280)}`,
    `--http-body-bytes-max=${2 ** 25}`,
    `--http-body-bytes-in-flight-max=${2 ** 26}`,
    `--http-body-reserve-bytes=${2 ** 23}`,
    `--http-answer-bytes-in-flight-max=${2 ** 26}`,
  ]);
  expect(all).toEqual([]);
});
