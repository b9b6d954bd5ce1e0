// Reports beside each other, and files that are none.

import { describe, expect, test } from "vitest";
import { readReport } from "./bench-report.ts";
import { type BenchSettings, changedSettings, comparedLoads } from "./compared-runs.ts";

const load = (perSecond: number, p99Ms: number) => {
  const latencies = { count: 1, meanMs: 1, minMs: 1, p50Ms: 2, p90Ms: 3, p999Ms: 0, maxMs: 9 };
  return { perSecond, latencies: { ...latencies, p99Ms } };
};

describe("two runs", () => {
  test("are compared measure by measure, as a ratio of the second to the first", () => {
    const measures = comparedLoads(load(200, 8), load(300, 4));

    expect(measures[0]).toEqual({ measure: "requests/s", before: 200, after: 300, ratio: 1.5 });
    expect(measures.find(({ measure }) => measure === "p99 ms")?.ratio).toBe(0.5);
    expect(measures.find(({ measure }) => measure === "p99.9 ms")?.ratio).toBeNaN();
  });

  test("with other settings are told apart by their names", () => {
    const settings: BenchSettings = {
      models: [{ model: "movies", weight: 1 }],
      batch: 1,
      k: undefined,
      zipf: 1,
      connections: 16,
      rate: undefined,
      arrivals: "poisson",
      durationMs: 1000,
      warmupMs: 0,
      seed: 1,
    };

    expect(changedSettings(settings, { ...settings })).toEqual([]);
    expect(changedSettings(settings, { ...settings, batch: 8, k: 5 })).toEqual(["batch", "k"]);
  });
});

test.each([
  "",
  "{}",
  "[]",
  '{"format":"winnow bench, report 1","servers":[]}',
  '{"format":"winnow bench, report 1","servers":[{}]}',
])("%j is no report", (text) => {
  expect(() => readReport(text, "r.json")).toThrow("r.json is no report of winnow bench --json");
});
