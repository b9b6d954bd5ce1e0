// The batcher against its promises: bounds, order, and that no query is lost or answered twice.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { Batcher, batchGroupOf } from "./batcher.ts";
import type { WaitingQuery } from "./batcher.ts";

interface Named extends WaitingQuery {
  readonly name: string;
}

const query = (name: string, options: Partial<Named> = {}): Named => ({
  name,
  group: "g",
  rows: 1,
  deadlineMs: 1000,
  dueMs: options.deadlineMs ?? 1000,
  ...options,
});

const namesOf = (queries: readonly Named[] | undefined): string[] =>
  (queries ?? []).map((each) => each.name);

describe("Batcher", () => {
  test("a query that finds the device idle leaves at once and alone", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 10, batchRowsMax: 4 });

    batcher.offer(query("a"));

    expect(namesOf(batcher.next(0)?.queries)).toEqual(["a"]);
    expect(batcher.next(0)).toBeUndefined();
  });

  test("queries of one group leave together, ordered by due time", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 10, batchRowsMax: 4 });
    batcher.offer(query("late", { deadlineMs: 900 }));
    batcher.offer(query("other", { group: "h", deadlineMs: 500 }));
    batcher.offer(query("early", { deadlineMs: 100 }));

    expect(namesOf(batcher.next(0)?.queries)).toEqual(["early", "late"]);
    expect(namesOf(batcher.next(0)?.queries)).toEqual(["other"]);
  });

  test("a batch stops at batchRowsMax, but one larger query travels alone", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 100, batchRowsMax: 4 });
    batcher.offer(query("big", { rows: 9, deadlineMs: 1 }));
    batcher.offer(query("a", { rows: 3, deadlineMs: 2 }));
    batcher.offer(query("b", { rows: 2, deadlineMs: 3 }));

    expect(namesOf(batcher.next(0)?.queries)).toEqual(["big"]);
    expect(namesOf(batcher.next(0)?.queries)).toEqual(["a"]);
    expect(namesOf(batcher.next(0)?.queries)).toEqual(["b"]);
  });

  test("a young query goes before a slice of hundreds, and later queries that fit pass one that does not", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 1000, batchRowsMax: 64 });
    batcher.offer(query("slice", { rows: 256, deadlineMs: 900, dueMs: 400 }));
    batcher.offer(query("young", { deadlineMs: 2000, dueMs: 104 }));
    batcher.offer(query("younger", { deadlineMs: 2500, dueMs: 604 }));

    expect(namesOf(batcher.next(100)?.queries)).toEqual(["young", "younger"]);
    expect(namesOf(batcher.next(100)?.queries)).toEqual(["slice"]);
  });

  test("(R1) a full queue refuses at once", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 4, batchRowsMax: 4 });

    expect(batcher.offer(query("a", { rows: 3 }))).toBe(true);
    expect(batcher.offer(query("b", { rows: 2 }))).toBe(false);
    expect(batcher.offer(query("c", { rows: 1 }))).toBe(true);
    expect(batcher.rows).toBe(4);
  });

  test("expired and cancelled queries never start", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 10, batchRowsMax: 10 });
    const gone = query("gone");
    batcher.offer(query("old", { deadlineMs: 50 }));
    batcher.offer(gone);
    batcher.offer(query("fresh", { deadlineMs: 51 }));

    expect(batcher.cancel(gone)).toBe(true);
    const batch = batcher.next(50);

    expect(namesOf(batch?.queries)).toEqual(["fresh"]);
    expect(namesOf(batch?.expired)).toEqual(["old"]);
    expect(batcher.cancel(gone)).toBe(false);
  });

  test("queries that come while others wait look through none of these, unless a batch is full or one expires", () => {
    const batcher = new Batcher<Named>({ queueRowsMax: 101, batchRowsMax: 4 });
    let reads = 0;
    const watched = (name: string, group: string): Named => {
      const { deadlineMs, ...rest } = query(name, { group, deadlineMs: 100 });
      return {
        ...rest,
        get deadlineMs() {
          reads += 1;
          return deadlineMs;
        },
        get group() {
          reads += 1;
          return group;
        },
      };
    };
    for (let at = 0; at < 100; at += 1) batcher.offer(watched(`${at}`, `g${at % 50}`));
    const first = batcher.nextFull(50);
    reads = 0;

    const answers = [
      batcher.offer(query("one", { group: "g0", dueMs: 2000 })),
      batcher.nextFull(50),
    ];
    const refused = [batcher.offer(query("two", { group: "g0" })), batcher.expire(99)];

    expect([first, ...answers, ...refused]).toEqual([undefined, true, undefined, false, []]);
    expect(reads).toBeLessThan(5);
    expect(batcher.nextFull(100)?.expired).toHaveLength(100);
    for (const name of ["a", "b", "c"]) batcher.offer(query(name, { group: "g0", dueMs: 3000 }));
    expect(namesOf(batcher.nextFull(100)?.queries)).toEqual(["one", "a", "b", "c"]);
  });

  test("k shares a group up to the next power of two", () => {
    expect(batchGroupOf("t", 65)).toBe(batchGroupOf("t", 128));
    expect(batchGroupOf("t", 64)).not.toBe(batchGroupOf("t", 65));
    expect(batchGroupOf("t", 1)).not.toBe(batchGroupOf("t", 2));
    expect(batchGroupOf("t", 10)).not.toBe(batchGroupOf("u", 10));
  });

  test("every query ends exactly once: refused, cancelled, expired or in one batch within bounds", () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant("offer" as const),
        group: fc.constantFrom("g", "h", "i"),
        rows: fc.integer({ min: 1, max: 9 }),
        waitMs: fc.integer({ min: 0, max: 40 }),
        lifeMs: fc.integer({ min: 0, max: 40 }),
      }),
      fc.record({ kind: fc.constant("cancel" as const), at: fc.nat(30) }),
      fc.record({
        kind: fc.constantFrom("next" as const, "nextFull" as const),
        passMs: fc.nat(15),
      }),
    );

    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const limits = { queueRowsMax: 20, batchRowsMax: 8 };
        const batcher = new Batcher<Named>(limits);
        const waiting = new Map<string, Named>();
        let nowMs = 0;
        const leave = (left: Named): void => {
          expect(waiting.delete(left.name)).toBe(true);
        };
        const takeBatch = (): void => {
          const batch = batcher.next(nowMs) ?? { queries: [], expired: [] };
          const alive = [...waiting.values()].filter(({ deadlineMs }) => deadlineMs > nowMs);
          const dueMs = Math.min(...alive.map((each) => each.dueMs));
          const rows = batch.queries.reduce((sum, each) => sum + each.rows, 0);

          expect(batch.expired.every(({ deadlineMs }) => deadlineMs <= nowMs)).toBe(true);
          expect(new Set(batch.queries.map(({ group }) => group)).size).toBe(
            Math.min(1, alive.length),
          );
          expect(batch.queries.length <= 1 || rows <= limits.batchRowsMax).toBe(true);
          expect(batch.queries[0]?.dueMs ?? Infinity).toBe(dueMs);
          for (const each of [...batch.expired, ...batch.queries]) leave(each);
        };

        const takeFullBatch = (): void => {
          const alive = [...waiting.values()].filter(({ deadlineMs }) => deadlineMs > nowMs);
          const [first] = alive.toSorted((a, b) => a.dueMs - b.dueMs);
          const group = alive.filter((each) => each.group === first?.group);
          const rows = group.reduce((sum, each) => sum + each.rows, 0);
          const batch = batcher.nextFull(nowMs) ?? { queries: [], expired: [] };

          expect(batch.queries[0]).toBe(rows >= limits.batchRowsMax ? first : undefined);
          for (const each of [...batch.expired, ...batch.queries]) leave(each);
        };

        for (const [index, each] of steps.entries()) {
          if (each.kind === "offer") {
            const name = `q${index}`;
            const { group, rows, lifeMs, waitMs } = each;
            const times = { deadlineMs: nowMs + lifeMs, dueMs: nowMs + waitMs };
            const offered = query(name, { group, rows, ...times });
            if (batcher.offer(offered)) waiting.set(name, offered);
          } else if (each.kind === "cancel") {
            const chosen = [...waiting.values()][each.at];
            if (chosen !== undefined && batcher.cancel(chosen)) leave(chosen);
          } else {
            nowMs += each.passMs;
            if (each.kind === "next") takeBatch();
            else takeFullBatch();
          }
          expect(batcher.rows).toBeLessThanOrEqual(limits.queueRowsMax);
        }
        while (waiting.size > 0) takeBatch();
        expect(batcher.rows).toBe(0);
      }),
    );
  });
});
