// The default version moves forward only when the next fault cannot take it away, and never back.

import { fingerprint } from "@winnow/core";
import type { VersionKey } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced, printOf } from "../fixtures/announcement-words.ts";
import type { HoldingWords, WorkerWords } from "../fixtures/announcement-words.ts";
import { rolloutsOf, servingVersion } from "./rollout.ts";

const key = (version: number, print = printOf(version)): VersionKey => ({
  model: "movies",
  version,
  fingerprint: fingerprint(print),
});
const choose = (workers: readonly WorkerWords[], current?: number, replication = 2) =>
  servingVersion("movies", workers.map(announced), {
    current: current === undefined ? undefined : key(current),
    replication,
  })?.version;

const v = (version: number, more: Partial<HoldingWords> = {}): HoldingWords => ({
  version,
  ...more,
});
const loading = (version: number, held: readonly number[] = []): HoldingWords =>
  v(version, { state: "loading", held });

describe("servingVersion() with a version that serves", () => {
  test("moves to a newer version that every worker is ready for", () => {
    expect(
      choose(
        [
          { id: "a", versions: [v(1), v(2)] },
          { id: "b", versions: [v(1), v(2)] },
        ],
        1,
      ),
    ).toBe(2);
  });

  test("stays while one announced worker is not ready, even if all is replicated without it", () => {
    const workers: WorkerWords[] = [
      { id: "a", versions: [v(1), v(2)] },
      { id: "b", versions: [v(1), v(2)] },
    ];

    expect(choose([...workers, { id: "c", versions: [v(1), loading(2)] }], 1)).toBe(1);
    expect(choose([...workers, { id: "c", state: "starting" }], 1)).toBe(1);
  });

  test("stays while a partition lacks its full replication", () => {
    const workers: WorkerWords[] = [
      { id: "a", versions: [v(1), v(2)] },
      { id: "b", versions: [v(1), v(2, { held: [0, 1, 2] })] },
    ];

    expect(choose(workers, 1)).toBe(1);
    expect(choose(workers, 1, 1)).toBe(2);
  });

  test("does not wait for a worker in drain, and does not count its replicas", () => {
    const drained: WorkerWords = { id: "c", state: "draining", versions: [v(1)] };

    expect(
      choose(
        [{ id: "a", versions: [v(1), v(2)] }, { id: "b", versions: [v(1), v(2)] }, drained],
        1,
      ),
    ).toBe(2);
    expect(
      choose(
        [
          { id: "a", versions: [v(1), v(2)] },
          { id: "b", versions: [v(1), v(2, { held: [0, 1] })] },
          { ...drained, versions: [v(1), v(2)] },
        ],
        1,
      ),
    ).toBe(1);
  });

  test("follows a worker that has moved on, though a drain has taken replicas since", () => {
    const drained: WorkerWords = { id: "c", state: "draining", versions: [v(1), v(2)] };
    const beside: WorkerWords = { id: "b", versions: [v(1), v(2, { held: [0, 1] })] };
    const choice = (second: Partial<HoldingWords>, ...more: WorkerWords[]) =>
      choose([{ id: "a", versions: [v(1), v(2, second)] }, beside, drained, ...more], 1);

    expect([choice({}), choice({ serving: true })]).toEqual([1, 2]);
    // Not while a partition has no replica, nor while a worker is not ready.
    expect(choice({ serving: true, held: [0, 1] })).toBe(1);
    expect(choice({ serving: true }, { id: "d", versions: [loading(2)] })).toBe(1);
  });

  test("never moves to a version that failed on any worker", () => {
    const unread = v(2, { state: "failed", print: undefined });

    for (const failure of [v(2, { state: "failed" }), unread]) {
      expect(
        choose(
          [
            { id: "a", versions: [v(1), v(2)] },
            { id: "b", versions: [v(1), v(2)] },
            { id: "c", versions: [v(1), failure] },
          ],
          1,
        ),
      ).toBe(1);
    }
  });

  test("never goes back, not even when an older version is the better replicated one", () => {
    expect(
      choose(
        [
          { id: "a", versions: [v(1), loading(2)] },
          { id: "b", versions: [v(1), v(2)] },
        ],
        2,
      ),
    ).toBe(2);
  });

  test("keeps the version through an empty view", () => {
    expect(choose([], 2)).toBe(2);
    expect(choose([{ id: "a", state: "starting" }], 2)).toBe(2);
  });

  test("goes back when the directory is gone everywhere, once an older version is complete", () => {
    const gone = v(2, { state: "unloading" });

    expect(
      choose(
        [
          { id: "a", versions: [gone, v(1)] },
          { id: "b", versions: [v(2), v(1)] },
        ],
        2,
      ),
    ).toBe(2);
    expect(
      choose(
        [
          { id: "a", versions: [gone, v(1)] },
          { id: "b", versions: [gone, loading(1)] },
        ],
        2,
      ),
    ).toBe(2);
    expect(
      choose(
        [
          { id: "a", versions: [gone, v(1)] },
          { id: "b", versions: [gone, v(1)] },
        ],
        2,
      ),
    ).toBe(1);
  });

  test("treats other content under the same number as another version", () => {
    const workers = ["a", "b"].map((id) => ({
      id,
      versions: [v(1), v(1, { print: "f".repeat(64) })],
    }));

    expect(
      servingVersion("movies", workers.map(announced), { current: key(1), replication: 2 }),
    ).toEqual(key(1));
  });

  test("looks at the newest incarnation of a worker alone (I3)", () => {
    expect(
      choose(
        [
          { id: "a", versions: [v(1), v(2)] },
          { id: "b", versions: [v(1), v(2)], incarnation: 1 },
          { id: "b", versions: [v(1)], incarnation: 2 },
        ],
        1,
      ),
    ).toBe(1);
  });
});

describe("servingVersion() of a process that has just started", () => {
  test("follows what workers say serves, against what looks better", () => {
    expect(
      choose([
        { id: "a", versions: [v(1), loading(2)] },
        { id: "b", versions: [v(1), v(2, { serving: true })] },
      ]),
    ).toBe(2);
    expect(
      choose([
        { id: "a", versions: [v(1, { serving: true }), loading(2, [0])] },
        { id: "b", versions: [v(1), v(2)] },
      ]),
    ).toBe(1);
  });

  test("takes the newest fully replicated version", () => {
    expect(
      choose([
        { id: "a", versions: [v(1), v(2), loading(3, [0, 1])] },
        { id: "b", versions: [v(1), v(2), loading(3, [2, 3])] },
      ]),
    ).toBe(2);
  });

  test("serves the first version that can answer rather than nothing", () => {
    expect(
      choose([
        { id: "a", versions: [loading(1, [0, 1])] },
        { id: "b", versions: [loading(1, [2])] },
      ]),
    ).toBeUndefined();
    expect(
      choose([
        { id: "a", versions: [loading(1, [0, 1])] },
        { id: "b", versions: [loading(1, [2, 3])] },
      ]),
    ).toBe(1);
  });

  test("waits for a sound version rather than serve one that failed somewhere", () => {
    const failed = v(2, { state: "failed", held: [] });

    expect(
      choose([
        { id: "a", versions: [loading(1), v(2)] },
        { id: "b", versions: [loading(1), failed] },
      ]),
    ).toBeUndefined();
  });

  test("serves a version that failed on one worker if there is no other to wait for", () => {
    const failed = v(2, { state: "failed", held: [] });

    expect(
      choose([
        { id: "a", versions: [v(2)] },
        { id: "b", versions: [failed] },
      ]),
    ).toBe(2);
  });

  test("skips a version this process refuses", () => {
    const workers = ["a", "b"].map((id) => announced({ id, versions: [v(1), v(2)] }));

    const serving = servingVersion("movies", workers, {
      current: undefined,
      replication: 2,
      refused: new Set([fingerprint(printOf(2))]),
    });

    expect(serving).toEqual(key(1));
  });

  test("serves a version without tables as soon as a worker has it", () => {
    const dense = v(1, { held: [], partitions: 0 });

    expect(choose([{ id: "a", versions: [dense] }])).toBe(1);
  });
});

const anyHolding = fc.record({
  version: fc.integer({ min: 1, max: 3 }),
  state: fc.constantFrom("loading" as const, "ready" as const, "failed" as const),
  held: fc.subarray([0, 1, 2, 3]),
});
const anyWorkers = fc
  .array(fc.uniqueArray(anyHolding, { selector: (each) => each.version, maxLength: 3 }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((lists) => lists.map((versions, index) => ({ id: `w${index}`, versions })));

test("a default that moves, moves forward, to a version that no single loss can break", () => {
  fc.assert(
    fc.property(anyWorkers, fc.integer({ min: 1, max: 3 }), (workers, current) => {
      const announcements = workers.map(announced);
      const after = choose(workers, current);
      const present = workers.some(({ versions }) =>
        versions.some((each) => each.version === current && each.state !== "failed"),
      );
      if (after === current || !present) return;

      expect(after).toBeGreaterThan(current);
      const rollout = rolloutsOf("movies", announcements, { replication: 2 }).find(
        (each) => each.key.version === after,
      )!;
      expect(rollout.failed + rollout.waiting).toBe(0);
      expect(rollout.lastingReplicasMin).toBeGreaterThanOrEqual(Math.min(2, workers.length));
    }),
    { numRuns: 1000 },
  );
});
