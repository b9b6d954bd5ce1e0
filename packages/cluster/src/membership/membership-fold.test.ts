// A store that is empty, flushed or lying removes no worker; a worker that withdraws is removed.

import { incarnation, workerId } from "@winnow/core";
import type { Incarnation, WorkerId } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced } from "../fixtures/announcement-words.ts";
import type { WorkerWords } from "../fixtures/announcement-words.ts";
import { foldFailure, foldReading, initialMembership } from "./membership-fold.ts";
import type { MembershipReading, MembershipState } from "./membership-fold.ts";

const settings = { placementSettleMs: 60_000, forgottenMs: 5000, leaseMs: 3000 };

interface ReadingWords {
  readonly announced?: readonly (string | WorkerWords)[];
  /** Ms that every lease has left; not known if absent. */
  readonly leftMs?: number;
  readonly withdrawn?: Readonly<Record<string, number>>;
  /** Ids under which the store holds no valid record. */
  readonly spoilt?: readonly string[];
  /** Ids that the store lists beside the announced ones. */
  readonly listed?: readonly string[];
}

function reading(words: ReadingWords): MembershipReading {
  const list = (words.announced ?? []).map((each) =>
    announced(typeof each === "string" ? { id: each } : each),
  );
  return {
    announced: list,
    leftMs: new Map(list.map((each) => [each.workerId, words.leftMs ?? 0])),
    withdrawn: new Map(
      Object.entries(words.withdrawn ?? {}).map(([id, life]): [WorkerId, Incarnation] => [
        workerId(id),
        incarnation(life),
      ]),
    ),
    spoilt: new Set((words.spoilt ?? []).map((id) => workerId(id))),
    listed: new Set([
      ...list.map((each) => each.workerId),
      ...(words.spoilt ?? []).map((id) => workerId(id)),
      ...(words.listed ?? []).map((id) => workerId(id)),
    ]),
  };
}

/** The state after a course of readings, each at its time. */
function fold(
  days: readonly (readonly [atMs: number, words: ReadingWords | "failure"])[],
  from: MembershipState = initialMembership,
): MembershipState {
  return days.reduce(
    (state, [nowMs, words]) =>
      words === "failure"
        ? foldFailure(state)
        : foldReading(state, reading(words), { nowMs, settings }),
    from,
  );
}

const shown = ({ view }: MembershipState): string =>
  `${view.workers.map((worker) => worker.workerId).join("")}|${view.placementWorkers.join("")}`;

const four = { announced: ["a", "b", "c", "d"] };

describe("foldReading()", () => {
  test("shows who is announced, ascending by id", () => {
    expect(shown(fold([[0, { announced: ["b", "a"] }]]))).toBe("ab|ab");
  });

  test("leaves out a worker whose lease ran out, and keeps its place for the settle time", () => {
    const dead: ReadingWords = { announced: ["a", "b", "c"], listed: ["d"] };
    const days = [
      [0, four],
      [400, dead],
    ] as const;

    expect(shown(fold(days))).toBe("abc|abcd");
    expect(shown(fold([...days, [60_399, dead]]))).toBe("abc|abcd");
    expect(shown(fold([...days, [60_400, dead]]))).toBe("abc|abc");
  });

  test("keeps a worker whose record is gone until its lease would have ended", () => {
    const gone: ReadingWords = { announced: ["a", "b", "c"], listed: ["d"], leftMs: 2900 };
    const days = [
      [0, { ...four, leftMs: 2900 }],
      [400, gone],
      [2899, gone],
    ] as const;

    expect(shown(fold(days))).toBe("abcd|abcd");
    expect(shown(fold([...days, [2900, gone]]))).toBe("abc|abcd");
    const withdrawn = { ...gone, listed: [], withdrawn: { d: 1 } };
    expect(shown(fold([days[0], [400, withdrawn]]))).toBe("abc|abc");
  });

  test("lets a worker that withdrew go at once, from placement too", () => {
    const state = fold([
      [0, four],
      [400, { announced: ["a", "b", "c"], withdrawn: { d: 1 }, listed: ["d"] }],
    ]);

    expect(shown(state)).toBe("abc|abc");
  });

  test("lets all workers go when all withdrew", () => {
    const state = fold([
      [0, { announced: ["a", "b"] }],
      [400, { withdrawn: { a: 1, b: 1 } }],
    ]);

    expect(shown(state)).toBe("|");
  });

  test("a newer life of a worker that withdrew is a member again", () => {
    const state = fold([
      [0, four],
      [400, { announced: ["a", "b", "c"], withdrawn: { d: 1 } }],
      [800, { announced: ["a", "b", "c", { id: "d", incarnation: 2 }] }],
    ]);

    expect(shown(state)).toBe("abcd|abcd");
  });

  test("does not place on a draining worker, unless all are", () => {
    const drained: WorkerWords = { id: "b", state: "draining" };

    expect(shown(fold([[0, { announced: ["a", drained] }]]))).toBe("ab|a");
    expect(shown(fold([[0, { announced: [drained] }]]))).toBe("b|b");
  });

  test("a draining worker that vanishes gets no place back", () => {
    const state = fold([
      [0, { announced: ["a", "b", "c", { id: "d", state: "draining" }] }],
      [400, { announced: ["a", "b", "c"], listed: ["d"] }],
    ]);

    expect(shown(state)).toBe("abc|abc");
  });

  test("never shrinks to nothing, however often the store says so", () => {
    const days = [100, 200, 300, 400, 100_000, 200_000].map(
      (atMs) => [atMs, { listed: ["a", "b", "c", "d"] }] as const,
    );

    expect(shown(fold([[0, four], ...days]))).toBe("abcd|abcd");
  });

  test("asks twice more before it lets more than a third go", () => {
    const lost: ReadingWords = { announced: ["a", "b"], listed: ["c", "d"] };

    expect(
      shown(
        fold([
          [0, four],
          [1, lost],
          [2, lost],
        ]),
      ),
    ).toBe("abcd|abcd");
    expect(
      shown(
        fold([
          [0, four],
          [1, lost],
          [2, lost],
          [3, lost],
        ]),
      ),
    ).toBe("ab|abcd");
    expect(
      shown(
        fold([
          [0, four],
          [1, lost],
          [2, four],
          [3, lost],
          [4, lost],
        ]),
      ),
    ).toBe("abcd|abcd");
  });

  test("gives workers that a flushed store forgot time to say themselves again", () => {
    const flushed = fold([
      [0, four],
      [400, {}],
      [800, { announced: ["a"] }],
      [1200, { announced: ["a", "b", "c"] }],
    ]);

    expect(shown(flushed)).toBe("abcd|abcd");
    expect(shown(fold([[5399, { announced: ["a", "b", "c"] }]], flushed))).toBe("abcd|abcd");
    expect(shown(fold([[5400, { announced: ["a", "b", "c"] }]], flushed))).toBe("abc|abcd");
  });

  test("a failed reading changes health and nothing else, for ever", () => {
    const state = fold([
      [0, four],
      [400, "failure"],
      [1e9, "failure"],
    ]);

    expect(shown(state)).toBe("abcd|abcd");
    expect(state.view).toMatchObject({ healthy: false, readAtMs: 0 });
  });

  const incarnations = ({ view }: MembershipState): string =>
    view.workers.map((worker) => `${worker.workerId}${worker.incarnation}`).join(" ");
  const withLife = (life: number): ReadingWords => ({
    announced: ["a", { id: "b", incarnation: life }],
  });

  test("I3: an older process that writes over its successor's record is not believed", () => {
    const state = fold([
      [0, withLife(5)],
      [400, withLife(4)],
      [800, withLife(5)],
      [3700, withLife(4)],
    ]);

    expect(incarnations(state)).toBe("a1 b5");
    expect(state.view.contacts.map(({ incarnation: life }) => life)).toEqual([1, 4]);
  });

  test("L3: a lower incarnation that keeps its record is the worker once the other's lease is over", () => {
    const days = [
      [0, withLife(5)],
      [400, withLife(4)],
      [2999, withLife(4)],
    ] as const;

    expect(incarnations(fold(days))).toBe("a1 b5");
    expect(incarnations(fold([...days, [3000, withLife(4)]]))).toBe("a1 b4");
  });

  test("L3: a worker that left and comes back with its clock set back is a member at once", () => {
    const state = fold([
      [0, withLife(5)],
      [400, { announced: ["a"], withdrawn: { b: 5 } }],
      [800, withLife(4)],
    ]);

    expect(incarnations(state)).toBe("a1 b4");
  });

  test("the withdrawal of an older process takes its successor nothing away", () => {
    const state = fold([
      [0, withLife(5)],
      [400, { announced: ["a"], withdrawn: { b: 4 }, listed: ["b"] }],
    ]);

    expect(incarnations(state)).toBe("a1 b5");
  });

  test("what is no record takes a worker nothing away before its lease would have run out", () => {
    const spoilt: ReadingWords = { announced: ["a", "c", "d"], spoilt: ["b"] };
    const days = [
      [0, four],
      [400, spoilt],
      [2999, spoilt],
    ] as const;

    expect(shown(fold(days))).toBe("abcd|abcd");
    expect(shown(fold([...days, [3000, spoilt]]))).toBe("acd|abcd");
  });

  test("keeps the same lists while nothing changes", () => {
    const once = foldReading(initialMembership, reading(four), { nowMs: 0, settings });
    const same = reading(four);
    const again = foldReading(
      once,
      { ...same, announced: once.view.workers },
      { nowMs: 400, settings },
    );

    expect(again.view.workers).toBe(once.view.workers);
    expect(again.view.placementWorkers).toBe(once.view.placementWorkers);
  });

  test("loses nobody who did not withdraw to a single reading that drops more than a third", () => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    fc.assert(
      fc.property(fc.subarray(ids), fc.subarray(ids), (kept, listed) => {
        const before = fold([[0, { announced: ids }]]);

        const after = fold([[400, { announced: kept, listed }]], before);

        const lost = ids.length - after.view.workers.length;
        expect(lost).toBeLessThanOrEqual(2);
        expect(after.view.placementWorkers).toEqual(ids);
      }),
    );
  });
});
