// Scans yield to event loops: the system is asked for that once, for the compute thread and those it starts.

import { readFileSync, readdirSync } from "node:fs";
import os from "node:os";
import { silentLogger } from "@winnow/core";
import { expect, test } from "vitest";
import { yieldToEventLoops } from "./compute-priority.ts";
import { startComputeThread } from "./compute-start.ts";

/** What a system with this niceness is told. */
function told(platform: NodeJS.Platform, niceness: number): number[] {
  const set: number[] = [];
  const setPriority = (to: number): void => void set.push(to);
  yieldToEventLoops({ platform, getPriority: () => niceness, setPriority });
  return set;
}

test("is added to what the process was started with, as far as there is more", () => {
  expect([told("linux", 0), told("linux", 10), told("linux", 17)]).toEqual([[5], [15], [19]]);
  expect([told("darwin", 0), told("win32", 0)]).toEqual([[], []]);
});

test("a system that refuses is left alone", () => {
  const setPriority = (): void => {
    throw new Error("EACCES");
  };

  expect(() => {
    yieldToEventLoops({ platform: "linux", getPriority: () => 0, setPriority });
  }).not.toThrow();
});

/** Niceness of each thread of this process, by the number of the thread. */
function nicenessOfThreads(): Map<string, number> {
  const threads = new Map<string, number>();
  for (const thread of readdirSync("/proc/self/task")) {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, "utf8");
    threads.set(thread, Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]));
  }
  return threads;
}

test.skipIf(process.platform !== "linux")(
  "the compute thread is nicer than all that were there before it",
  async () => {
    const own = os.getPriority();
    const before = nicenessOfThreads();
    const compute = await startComputeThread(
      {
        device: { kind: "cpu", capacityBytes: 2 ** 20, threads: 2 },
        reader: { partitionBytes: 2 ** 20, uncutBytesMax: 2 ** 20, modelCache: undefined },
        exclusionBytesMax: 2 ** 20,
        filterBytesMax: 2 ** 20,
        inlineScanValuesMax: 0,
      },
      silentLogger,
    );
    const after = nicenessOfThreads();
    await compute.shutdown();

    const wanted = Math.min(19, own + 5);
    const changed = [...before.keys()].filter((each) => after.get(each) === wanted);
    const started = [...after].filter(
      ([each, niceness]) => !before.has(each) && niceness === wanted,
    );
    expect(own < wanted ? changed : []).toEqual([]);
    // The thread itself and, where the native scan was built, its helper.
    expect(started.length).toBeGreaterThanOrEqual(1);
  },
);
