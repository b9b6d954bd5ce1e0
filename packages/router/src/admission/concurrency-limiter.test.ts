// The limiter against its promises: bounds, order by due time, a reserve for small slices, nobody kept out.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConcurrencyLimiter } from "./concurrency-limiter.ts";

const limits = { rowsMax: 1024, reserve: 256 };

/** A limiter and what has gone in, by name. */
function watched(given = limits) {
  const inside = new Map<string, () => void>();
  const limiter = new ConcurrencyLimiter(given, () => undefined);
  const enter = async (
    name: string,
    entrant: { readonly rows: number; readonly dueMs: number },
    signal: AbortSignal = new AbortController().signal,
  ): Promise<void> => {
    inside.set(name, await limiter.enter(entrant, signal));
  };
  const leave = async (name: string): Promise<void> => {
    inside.get(name)!();
    inside.delete(name);
    await settled();
  };
  return { limiter, inside, enter, leave };
}

/** All that promises have to say has been said. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("ConcurrencyLimiter", () => {
  test("(R1) lets in so many rows, and the next by due time when one leaves", async () => {
    const { inside, enter, leave } = watched();
    for (const name of ["a", "b", "c"]) void enter(name, { rows: 256, dueMs: 0 });
    void enter("late", { rows: 256, dueMs: 20 });
    void enter("early", { rows: 256, dueMs: 10 });
    await settled();

    expect([...inside.keys()]).toEqual(["a", "b", "c"]);
    await leave("b");

    expect([...inside.keys()]).toEqual(["a", "c", "early"]);
  });

  test("keeps room for the small while the large wait", async () => {
    const { inside, enter } = watched();
    for (const name of ["a", "b", "c", "d"]) void enter(name, { rows: 256, dueMs: 0 });

    void enter("one", { rows: 1, dueMs: 1000 });
    await settled();

    expect([...inside.keys()]).toEqual(["a", "b", "c", "one"]);
  });

  test("lets the large in although the small never end", async () => {
    const { inside, enter, leave } = watched();
    for (let at = 0; at < 32; at += 1) void enter(`s${at}`, { rows: 32, dueMs: 0 });
    void enter("large", { rows: 256, dueMs: 10 });
    for (let at = 32; at < 64; at += 1) void enter(`s${at}`, { rows: 32, dueMs: 20 });
    await settled();

    expect(inside.size).toBe(32);
    for (let at = 0; at < 8; at += 1) await leave(`s${at}`);

    expect(inside.has("large")).toBe(true);
  });

  test("a slice that is larger than all room goes alone", async () => {
    const { inside, enter, leave } = watched({ rowsMax: 10, reserve: 5 });
    void enter("huge", { rows: 40, dueMs: 0 });
    void enter("next", { rows: 40, dueMs: 0 });
    await settled();

    expect([...inside.keys()]).toEqual(["huge"]);
    await leave("huge");

    expect([...inside.keys()]).toEqual(["next"]);
  });

  test("whoever is given up while it waits makes way, and hears why", async () => {
    const { limiter, inside, enter } = watched({ rowsMax: 40, reserve: 8 });
    const abort = new AbortController();
    void enter("a", { rows: 30, dueMs: 0 });
    const blocking = enter("blocking", { rows: 30, dueMs: 1 }, abort.signal);
    void enter("fits", { rows: 2, dueMs: 2 });
    await settled();

    abort.abort(new Error("left"));

    await expect(blocking).rejects.toThrow("left");
    await expect(enter("b", { rows: 30, dueMs: 0 }, abort.signal)).rejects.toThrow("left");
    expect([...inside.keys()]).toEqual(["a", "fits"]);
    expect(limiter.waiting).toBe(0);
  });

  test("says whether something waited all the time between two that left", async () => {
    const told: [number, boolean][] = [];
    const limiter = new ConcurrencyLimiter(limits, (rows, wasBusy) => told.push([rows, wasBusy]));
    const { signal } = new AbortController();
    const entries = Array.from({ length: 5 }, () => limiter.enter({ rows: 256, dueMs: 0 }, signal));

    for (const entry of entries) (await entry)();

    expect(told).toEqual([
      [256, false],
      [256, true],
      [256, false],
      [256, false],
      [256, false],
    ]);
  });

  test("keeps its bounds, its order, and lets everybody in once", async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("enter" as const), rows: fc.integer({ min: 1, max: 70 }) }),
      fc.record({ kind: fc.constant("leave" as const), at: fc.nat(20) }),
      fc.record({ kind: fc.constant("abort" as const), at: fc.nat(20) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(step, fc.nat(50)), { maxLength: 60 }), async (steps) => {
        const bounds = { rowsMax: 128, reserve: 40 };
        const limiter = new ConcurrencyLimiter(bounds, () => undefined);
        const isSmall = (rows: number): boolean => rows <= 5;
        const inside: { rows: number; leave: () => void }[] = [];
        const waiting = new Map<AbortController, { rows: number; dueMs: number }>();
        const rowsOf = (wanted: boolean): number =>
          inside.reduce((sum, { rows }) => sum + (isSmall(rows) === wanted ? rows : 0), 0);
        const check = (): void => {
          const [small, large] = [rowsOf(true), rowsOf(false)];
          expect(limiter.rows).toBe(small + large);
          expect(limiter.waiting).toBe(waiting.size);
          expect(small + large).toBeLessThanOrEqual(bounds.rowsMax);
          expect(large).toBeLessThanOrEqual(bounds.rowsMax - bounds.reserve);
          const first = [...waiting.values()].toSorted((a, b) => a.dueMs - b.dueMs)[0];
          if (first === undefined) return;
          const taken = large + Math.max(0, small - bounds.reserve);
          const room = isSmall(first.rows)
            ? bounds.rowsMax - small - large
            : bounds.rowsMax - bounds.reserve - taken;
          expect(first.rows).toBeGreaterThan(room);
        };
        const enter = async (rows: number, dueMs: number): Promise<void> => {
          const abort = new AbortController();
          waiting.set(abort, { rows, dueMs });
          try {
            const leave = await limiter.enter({ rows, dueMs }, abort.signal);
            const alike = [...waiting.values()].filter(
              (other) => isSmall(other.rows) === isSmall(rows),
            );
            expect(Math.min(...alike.map((other) => other.dueMs))).toBe(dueMs);
            inside.push({ rows, leave });
          } catch {
            // Aborted: it never goes in.
          }
          waiting.delete(abort);
        };
        for (const [{ kind, ...more }, dueMs] of steps) {
          if (kind === "enter" && "rows" in more) void enter(more.rows, dueMs);
          if (kind === "leave" && "at" in more) inside.splice(more.at, 1)[0]?.leave();
          if (kind === "abort" && "at" in more) [...waiting.keys()][more.at]?.abort();
          await settled();
          check();
        }
        while (inside.length > 0) {
          inside.shift()!.leave();
          await settled();
          check();
        }
        expect([limiter.rows, limiter.waiting, waiting.size]).toEqual([0, 0, 0]);
      }),
      { numRuns: 60 },
    );
  });
});
