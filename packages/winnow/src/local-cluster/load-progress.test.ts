// The progress of loading counts replicas once per worker that holds them.

import type { Announcement } from "@winnow/cluster";
import { fingerprint, incarnation, workerId } from "@winnow/core";
import { expect, test } from "vitest";
import { ForwardProgress, heldReplicas, unopened } from "./load-progress.ts";

function announcing(id: string, held: readonly number[]): Announcement {
  const parts = held.map((partition) => ({ partition, shares: [] }));
  return {
    workerId: workerId(id),
    incarnation: incarnation(1),
    address: `${id}:1`,
    state: "starting",
    accelerator: "cpu",
    device: "",
    memoryUsedBytes: 0,
    memoryCapacityBytes: 0,
    versions: [
      {
        model: "m",
        version: 1,
        fingerprint: fingerprint("00"),
        state: "loading",
        error: undefined,
        tables: [{ table: 0, partitions: 4, held: parts }],
      },
    ],
  };
}

test("progress counts replicas held by all workers against partitions × replication", () => {
  const announcements = [announcing("w0", [0, 1, 2]), announcing("w1", [0])];

  expect(heldReplicas(announcements, [], () => 2)).toEqual({ held: 4, wanted: 8 });
  const more = [...announcements, announcing("w2", [0, 1, 2, 3])];
  expect(heldReplicas(more, [], () => 1)).toEqual({ held: 4, wanted: 4 });
  expect(heldReplicas([], [], () => 2)).toEqual({ held: 0, wanted: 0 });
});

test("progress is not told before every awaited version is known, as it would run backwards", () => {
  const known = { model: "m", version: 1 };
  const unknown = { model: "n", version: 1 };
  const announcements = [announcing("w0", [0, 1])];
  const announcedToo = (state: "failed" | "ready" | "loading"): Announcement[] =>
    announcements.map((each) => ({
      ...each,
      versions: [...each.versions, { ...each.versions[0]!, ...unknown, state, tables: [] }],
    }));

  expect(heldReplicas(announcements, [known], () => 1)).toEqual({ held: 2, wanted: 4 });
  expect(heldReplicas(announcements, [known, unknown], () => 1)).toBeUndefined();
  expect(heldReplicas(announcedToo("loading"), [known, unknown], () => 1)).toBeUndefined();
  expect(unopened(announcedToo("loading"), [known, unknown])).toEqual([unknown]);
  // One that failed, or a pipeline, which is ready without tables.
  for (const state of ["failed", "ready"] as const) {
    const counted = heldReplicas(announcedToo(state), [known, unknown], () => 1);
    expect(counted).toEqual({ held: 2, wanted: 4 });
  }
});

test("progress never runs backwards, whether a worker misses a question, restarts, or a version is added", () => {
  const forward = new ForwardProgress();
  const look = (...answers: readonly (readonly [string, Announcement | undefined])[]) => {
    forward.take(answers);
    const replicas = heldReplicas(forward.announcements, [], () => 2)!;
    return [replicas.held, forward.advance(replicas)];
  };

  const both = look(["w0", announcing("w0", [0, 1, 2])], ["w1", announcing("w1", [0])]);
  const missed = look(["w0", undefined], ["w1", announcing("w1", [0, 1])]);
  const restarted = look(["w0", announcing("w0", [])], ["w1", announcing("w1", [0, 1])]);
  const again = look(["w0", announcing("w0", [0, 1, 2])], ["w1", announcing("w1", [0, 1, 2])]);

  expect([both, missed, restarted, again]).toEqual([
    [4, true],
    [5, true],
    [2, false],
    [6, true],
  ]);
  expect(forward.advance({ held: 6, wanted: 16 })).toBe(false);
  expect(forward.shown).toEqual({ held: 6, wanted: 8 });
});
