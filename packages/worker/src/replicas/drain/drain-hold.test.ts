// When a worker in drain may send its routers away: never because of a dead worker's announcement.

import type { Announcement, VersionHolding } from "@winnow/cluster";
import { fingerprint, incarnation, workerId } from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { drainHold } from "./drain-hold.ts";
import type { DrainHold } from "./drain-hold.ts";

const [w0, w1, w2] = ["w0", "w1", "w2"].map(workerId) as [WorkerId, WorkerId, WorkerId];
const holding: VersionHolding = {
  model: "m",
  version: 1,
  fingerprint: fingerprint("a"),
  state: "ready",
  error: undefined,
  tables: [{ table: 0, partitions: 1, held: [{ partition: 0, shares: [] }] }],
  serving: true,
};

function announcement(id: WorkerId, life: number, isHolding: boolean): Announcement {
  return {
    workerId: id,
    incarnation: incarnation(life),
    address: id,
    state: "ready",
    accelerator: "",
    device: "",
    memoryUsedBytes: 0,
    memoryCapacityBytes: 0,
    versions: isHolding ? [holding] : [],
  };
}

interface HoldFacts {
  readonly placed: readonly WorkerId[];
  /** What w0 holds. */
  readonly own: VersionHolding;
  /** Until when w0's version serves. */
  readonly servesUntilMs: number;
  /** Until when w0's version counts as one that served lately. */
  readonly latelyUntilMs: number;
  /** From when on every version is complete. */
  readonly completeAtMs: number;
}

/** Looks every 50 ms at the hold of w0, whose one partition w1 is to hold too; gives its end. */
function endOfHold(
  othersAt: (nowMs: number) => readonly Announcement[],
  {
    placed = [w0, w1],
    own = holding,
    servesUntilMs = Infinity,
    latelyUntilMs = 0,
    completeAtMs = 0,
  }: Partial<HoldFacts> = {},
): number {
  let hold: DrainHold = { isOver: false, uncovered: 0, coveredSinceMs: undefined };
  for (let nowMs = 0; ; nowMs += 50) {
    const others = othersAt(nowMs);
    const holders = others.filter(({ versions }) =>
      versions.some((each) => each.tables.length > 0 && each.fingerprint === own.fingerprint),
    );
    const answerers = new Map(
      holders.length === 0 ? [] : [[0, new Map(holders.map((each) => [each.workerId, []]))]],
    );
    const heard = new Set(others.map(({ workerId: id }) => id));
    hold = drainHold({
      nowMs,
      startedAtMs: 0,
      settings: { drainSettleMs: 2000, drainAbsentMs: 5000, drainHoldMsMax: 60_000 },
      others,
      absent: new Set(placed.filter((id) => id !== w0 && !heard.has(id))),
      coveredSinceMs: hold.coveredSinceMs,
      holdings: [{ ...own, serving: own.serving === true && nowMs < servesUntilMs }],
      ownersOf: () => [[w0, w1]],
      answerersOf: () => answerers,
      lastAnswerersOf: () => answerers,
      servedLately: () => nowMs < latelyUntilMs,
      isComplete: () => nowMs >= completeAtMs,
      isFollower: () => false,
    });
    if (hold.isOver) return nowMs;
  }
}

describe("I5: the hold of a drain", () => {
  test("lasts for the settle time even when everything is covered at once", () => {
    expect(endOfHold(() => [announcement(w1, 1, true)])).toBe(2000);
  });

  test.each([
    { title: "only seen", state: "loading" as const },
    { title: "refused", state: "failed" as const },
  ])("is over at once where every version is $title, whoever is away", ({ state }) => {
    const own = { ...holding, state, tables: [], serving: false };

    expect(endOfHold(() => [], { own })).toBe(0);
    expect(endOfHold(() => [announcement(w1, 1, false)], { own, placed: [w0, w1, w2] })).toBe(0);
  });

  test("waits for partitions that are held of a version that is still being loaded", () => {
    expect(endOfHold(() => [], { own: { ...holding, state: "loading" } })).toBe(5000);
  });

  test("does not end on the announcement of a life that turns out to be over", () => {
    const end = endOfHold((nowMs) => {
      if (nowMs < 1500) return [announcement(w1, 1, true)];
      return [announcement(w1, 2, nowMs >= 9000)];
    });

    expect(end).toBe(11_000);
  });

  test("waits for the other owner of a partition that is away, while somebody else is there", () => {
    const end = endOfHold(
      (nowMs) => [
        announcement(w2, 1, false),
        ...(nowMs < 5000 ? [] : [announcement(w1, 2, nowMs >= 7000)]),
      ],
      { placed: [w0, w1, w2] },
    );

    expect(end).toBe(9000);
  });

  test("waits for the only other worker where it is away, and no time where there is none", () => {
    expect(endOfHold(() => [])).toBe(5000);
    expect(endOfHold(() => [], { placed: [w0] })).toBe(0);
  });

  test("does not wait for a version that serves no more and that the others have given up", () => {
    const own = { ...holding, serving: false };
    const unloading = {
      ...announcement(w1, 1, false),
      versions: [{ ...holding, state: "unloading" as const, tables: [] }],
    };

    expect(endOfHold(() => [announcement(w1, 1, false)], { own })).toBe(2000);
    expect(
      endOfHold((nowMs) => [nowMs < 1000 ? announcement(w1, 1, false) : unloading], { own }),
    ).toBe(2000);
  });

  test("does not wait for an owner that cannot load a version, whoever else has parts of it", () => {
    const own = { ...holding, serving: false };
    const saying = (state: "failed" | "ready", id: WorkerId): Announcement => ({
      ...announcement(id, 1, false),
      versions: [{ ...own, state, tables: [] }],
    });

    expect(endOfHold(() => [saying("failed", w1)], { own })).toBe(2000);
    expect(endOfHold(() => [saying("failed", w1), saying("ready", w2)], { own })).toBe(2000);
    expect(endOfHold(() => [saying("ready", w1), saying("failed", w2)], { own })).toBe(60_000);
  });

  test("waits for an owner that cannot load the version that serves", () => {
    const failed = { ...holding, state: "failed" as const, tables: [] };
    const others = [{ ...announcement(w1, 1, false), versions: [failed] }];

    expect(endOfHold(() => others)).toBe(60_000);
  });

  test("waits for a version that serves no more while another worker is to keep it", () => {
    const own = { ...holding, serving: false };
    const loading = { ...holding, state: "loading" as const, tables: [] };
    const end = endOfHold(
      (nowMs) => [
        nowMs < 7000
          ? { ...announcement(w1, 1, false), versions: [loading] }
          : announcement(w1, 1, true),
      ],
      { own },
    );

    expect(end).toBe(9000);
  });

  describe("of a content that nobody can read again", () => {
    const next = { ...holding, fingerprint: fingerprint("b"), serving: false };
    const others = [{ ...announcement(w1, 1, false), versions: [next] }];
    const unloading = { ...holding, state: "unloading" as const };

    test("lasts until another one serves, and while routers may still ask for it", () => {
      expect(endOfHold(() => others)).toBe(60_000);
      expect(endOfHold(() => others, { servesUntilMs: 5000 })).toBe(7000);
      expect(endOfHold(() => others, { servesUntilMs: 5000, latelyUntilMs: 9000 })).toBe(11_000);
      expect(endOfHold(() => others, { own: unloading, servesUntilMs: 5000 })).toBe(7000);
    });

    test("lasts until its replacement is complete, where another version serves", () => {
      const own = { ...holding, serving: false };

      expect(endOfHold(() => others, { own, completeAtMs: 4000 })).toBe(6000);
    });

    test("is over where nothing is to follow: its directory was taken away for good", () => {
      expect(endOfHold(() => [announcement(w1, 1, false)], { own: unloading })).toBe(2000);
    });
  });

  test("ends at its limit, covered or not", () => {
    expect(endOfHold(() => [announcement(w1, 1, false)])).toBe(60_000);
  });
});
