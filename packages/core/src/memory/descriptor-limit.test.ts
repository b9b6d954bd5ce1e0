// Bounds of connections that follow from how many descriptors the process may have.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  assertDescriptors,
  descriptorLimit,
  descriptorsIn,
  fittingConnections,
} from "./descriptor-limit.ts";

const LIMITS = `Limit                     Soft Limit           Hard Limit           Units     
Max processes             15000                15000                processes 
Max open files            1024                 4096                 files     
Max locked memory         8388608              8388608              bytes     
`;

test("the soft limit counts", () => {
  expect(descriptorsIn(LIMITS)).toBe(1024);
});

test.each(["", LIMITS.replace("1024", "unlimited")])("what names no number is no limit", (text) => {
  expect(descriptorsIn(text)).toBe(Infinity);
});

test.skipIf(process.platform !== "linux")("this process has one", () => {
  expect(descriptorLimit()).toBe(descriptorsIn(readFileSync("/proc/self/limits", "utf8")));
  expect(descriptorLimit()).toBeGreaterThan(0);
});

test.each([
  ["without a limit", Infinity, 10_000],
  ["with enough", 65_536, 10_000],
  ["with few, leaving some to the process", 1024, 480],
  ["with hardly any: routers need some of a worker", 65, 8],
  ["with fewer than the process itself may need", 32, 8],
])("connections %s", (_, descriptors, fitting) => {
  expect(fittingConnections(10_000, 1 / 2, descriptors)).toBe(fitting);
});

test("a process that has too few to serve at all is refused, with what would do", () => {
  for (const enough of [64, 1024, Infinity]) expect(() => assertDescriptors(enough)).not.toThrow();
  expect(() => assertDescriptors(63)).toThrow(
    /may have 63 files and connections open \(ulimit -n\), and needs 64 .*raise the limit to 1024 or more/,
  );
});
