// A directory that is copied file by file is reported when its files are still, and one that is
// renamed into place almost at once. No sequence of changes hides a directory for ever.

import { silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { observed } from "./directory-stillness.ts";
import type { ObservedDirectory } from "./directory-stillness.ts";
import { growingStamp } from "./growing-file.ts";
import { VersionWatch } from "./version-watch.ts";
import type { FoundModel } from "./version-watch.ts";

const settings = { stillMs: 300, copyMsMax: 60_000 };

/** A watch over version directories: number → stamp, `undefined` where there is no model file. */
function watching(pollIntervalMs = 1000) {
  const clock = new ManualClock();
  const disk = new Map<number, string | undefined>();
  const findings: { readonly atMs: number; readonly model: FoundModel | undefined }[] = [];
  let isReadable = true;
  const storage = {
    directories: async () => {
      if (!isReadable) throw new Error("EIO");
      return [...disk.keys()].map(String);
    },
    stamp: async (directory: string) => disk.get(Number(directory.split("/").at(-1))),
    join: (directory: string, name: string) => `${directory}/${name}`,
    realPath: async (name: string) => name,
  };
  const policy = { kind: "latest", count: 1 } as const;
  const watch = new VersionWatch(
    { storage, clock, log: silentLogger },
    {
      models: [{ model: "m", basePath: "/m", policy }],
      modelsPath: undefined,
      policy,
      pollIntervalMs,
      stillLookMs: 0,
      ...settings,
    },
    (models) => findings.push({ atMs: clock.nowMs(), model: models[0] }),
  );
  const now = () => ({
    still: (findings.at(-1)?.model?.versions ?? []).map(
      ({ version, stamp }) => `${version}@${stamp}`,
    ),
    copying: (findings.at(-1)?.model?.copying ?? []).map(({ version }) => version),
  });
  const setReadable = (value: boolean): void => void (isReadable = value);
  return { clock, disk, watch, findings, now, setReadable };
}

describe("a version directory", () => {
  test("that is there from the start is told of with the first finding, after a moment", async () => {
    const { clock, disk, watch, findings, now } = watching();
    disk.set(1, "a");

    await watch.run();
    expect(findings).toEqual([]);
    await clock.advanceSettled(300);

    expect(now()).toEqual({ still: ["1@a"], copying: [] });
    expect(findings).toHaveLength(1);
    watch.close();
  });

  test("that is renamed into place waits for no more than a moment, and is not called a copy", async () => {
    const { clock, disk, watch, findings, now } = watching();
    disk.set(1, "a");
    await watch.run();
    await clock.advanceSettled(1000);

    disk.set(2, "b");
    await clock.advanceSettled(1000 + 300);

    expect(now()).toEqual({ still: ["1@a", "2@b"], copying: [] });
    expect(findings.flatMap(({ model }) => model?.copying ?? [])).toEqual([]);
    watch.close();
  });

  test("that changes from look to look is told of as a copy until it is still", async () => {
    const { clock, disk, watch, now } = watching();
    disk.set(1, "a");
    await watch.run();
    await clock.advanceSettled(1000);

    for (let file = 0; file < 20; file += 1) {
      disk.set(2, `file ${file}`);
      await clock.advanceSettled(250);
      expect(now().still).toEqual(["1@a"]);
    }
    expect(now().copying).toEqual([2]);
    await clock.advanceSettled(1000);

    expect(now()).toEqual({ still: ["1@a", "2@file 19"], copying: [] });
    watch.close();
  });

  test("that is written anew counts as what it held, also while it is empty, until it is still", async () => {
    const { clock, disk, watch, now } = watching();
    disk.set(1, "a");
    await watch.run();
    await clock.advanceSettled(1000);

    disk.set(1, undefined);
    await clock.advanceSettled(5000);
    expect(now().still).toEqual(["1@a"]);
    for (const stamp of ["b", "bc", "bcd"]) {
      disk.set(1, stamp);
      await clock.advanceSettled(400);
      expect(now().still.filter((each) => each.startsWith("1@"))).toHaveLength(1);
    }
    await clock.advanceSettled(1000);

    expect(now()).toEqual({ still: ["1@bcd"], copying: [] });
    watch.close();
  });

  test("that one look misses and the next finds otherwise was replaced, not taken away", async () => {
    const { clock, disk, watch, findings, now } = watching();
    disk.set(1, "a");
    await watch.run();
    await clock.advanceSettled(1000);

    disk.delete(1);
    await clock.advanceSettled(1000);
    disk.set(1, "b");
    await clock.advanceSettled(2000);

    expect(now().still).toEqual(["1@b"]);
    expect(findings.every(({ model }) => model?.versions.length === 1)).toBe(true);
    watch.close();
  });

  test("that never comes to rest is told of all the same after a while, so that its error shows", async () => {
    const { clock, disk, watch, findings } = watching();
    await watch.run();
    await clock.advanceSettled(1000);
    for (let atMs = 0; atMs < 130_000; atMs += 100) {
      disk.set(1, `change ${atMs}`);
      await clock.advanceSettled(100);
    }

    const stamps = findings.flatMap(({ model }) => model?.versions.map(({ stamp }) => stamp) ?? []);
    expect(new Set(stamps).size).toBe(2);
    watch.close();
  });

  test("whose file of item updates is appended to all the time is told of every second, and not called a copy", async () => {
    const { clock, disk, watch, findings, now } = watching();
    const append = (size: number): void =>
      void disk.set(
        1,
        growingStamp("0".repeat(64), { ino: 1, size, mtimeMs: size, ctimeMs: size }),
      );
    append(0);
    await watch.run();
    await clock.advanceSettled(300);
    const before = findings.length;
    for (let size = 1; size <= 40; size += 1) {
      append(size);
      await clock.advanceSettled(200);
      expect(now().copying).toEqual([]);
    }

    expect(findings.length - before).toBeGreaterThan(3);
    expect(findings.length - before).toBeLessThan(10);
  });

  test("is looked at again though looks were to end with the first, and no longer than need be", async () => {
    const { clock, disk, watch, now } = watching(0);
    disk.set(1, "a");
    await watch.run();
    await clock.advanceSettled(100);
    disk.set(1, "b");
    await clock.advanceSettled(2000);

    expect(now().still).toEqual(["1@b"]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("on a disk that fails meanwhile is not looked at without end", async () => {
    const { clock, disk, watch, setReadable, now } = watching();
    disk.set(1, "a");
    await watch.run();
    setReadable(false);
    await clock.advanceSettled(3000);
    setReadable(true);
    await clock.advanceSettled(1300);

    expect(now().still).toEqual(["1@a"]);
    watch.close();
  });
});

describe("observed()", () => {
  const looks = fc.array(
    fc.record({ stamp: fc.constantFrom("a", "b", "c"), passMs: fc.integer({ min: 1, max: 700 }) }),
    { minLength: 1, maxLength: 60 },
  );

  test("calls still what has looked alike for long enough, and nothing else", () => {
    fc.assert(
      fc.property(looks, (course) => {
        let nowMs = 0;
        let directory: ObservedDirectory | undefined;
        let alikeSinceMs = 0;
        let last = "";
        for (const { stamp, passMs } of course) {
          nowMs += passMs;
          if (stamp !== last) [last, alikeSinceMs] = [stamp, nowMs];
          const before = directory;
          directory = observed(
            directory,
            { version: 1, directory: "/m/1", stamp },
            { nowMs, settings },
          );

          const isAlikeLongEnough = nowMs - alikeSinceMs >= settings.stillMs;
          const wasStill = before?.still?.stamp === stamp && before.unrest === undefined;
          expect(directory.unrest === undefined).toBe(isAlikeLongEnough || wasStill);
          // `still` is what a look has found when it was last still, and is never forgotten.
          const isStill = directory.unrest === undefined;
          expect(directory.still?.stamp).toBe(isStill ? stamp : before?.still?.stamp);
        }
      }),
    );
  });
});
