// What the console makes of the timeline that a router tells.

import { describe, expect, test } from "vitest";
import { timelineLanes } from "./timeline.ts";

describe("a timeline", () => {
  test("has a lane for each stage and each worker that was asked, second attempts named", () => {
    const told = [
      { name: "topK", fromMs: 0.2, toMs: 9 },
      { name: "ask worker", fromMs: 0.4, toMs: 3, worker: "w0", partitions: 2, attempt: "first" },
      { name: "ask worker", fromMs: 5, toMs: 8, worker: "w1", partitions: 1, attempt: "hedge" },
      { name: "ask worker", fromMs: 1, toMs: 8, worker: "w2", attempt: "first", fault: "left" },
    ];

    const lanes = timelineLanes(JSON.stringify(told));

    expect(lanes.map(({ name }) => name)).toEqual([
      "topK",
      "w0, 2 partitions",
      "w1, 1 partition (hedge)",
      "w2",
    ]);
    expect(lanes.map(({ isWorker }) => isWorker)).toEqual([false, true, true, true]);
    expect(lanes[3]!.fault).toBe("left");
  });

  test.each([undefined, "", "{}", "[{}]", "[", '[{"name":1,"fromMs":0,"toMs":1}]'])(
    "of %j is empty",
    (text) => {
      expect(timelineLanes(text)).toEqual([]);
    },
  );
});
