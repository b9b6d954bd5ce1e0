// Up to where a file that is appended to is held: each worker chooses from what it sees and hears, and all come to one length
// after the other, whatever the order of their looks and how late they hear of each other.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { growingStamp, hasGrown, heldGrowth, updateBytesOf } from "./growing-file.ts";
import type { GrowthFacts, HeldGrowth } from "./growing-file.ts";

const OTHERS = "0".repeat(64);
const stampOf = (size: number, ino = 7, changedMs = size): string =>
  growingStamp(OTHERS, { ino, size, mtimeMs: changedMs, ctimeMs: changedMs });
const facts = (given: Partial<GrowthFacts> = {}): GrowthFacts => ({
  nowMs: 0,
  endOf: () => undefined,
  told: [],
  ...given,
});

describe("a file of item updates", () => {
  test("has grown where nothing but its length is another one", () => {
    expect(hasGrown(stampOf(10), stampOf(11))).toBe(true);
    expect(hasGrown(stampOf(10), stampOf(10))).toBe(false);
    expect(hasGrown(stampOf(10), stampOf(10, 7, 99))).toBe(false);
    expect(hasGrown(stampOf(11), stampOf(10))).toBe(false);
    expect(hasGrown(stampOf(10), stampOf(11, 8))).toBe(false);
    expect(hasGrown(stampOf(10), stampOf(11).replace(OTHERS, "1".repeat(64)))).toBe(false);
    expect(hasGrown(OTHERS, stampOf(11))).toBe(false);
    expect(hasGrown(OTHERS, OTHERS)).toBe(false);
  });

  test("is in no stamp of a directory that cannot be read, nor of an object store, whatever these hold", () => {
    const reasons = ["unreadable: EACCES '/models/a+1+2+3'", `${OTHERS}+7+x+1 1`, "a+1+2+", "+++"];

    expect(reasons.map((stamp) => updateBytesOf(stamp))).toEqual(reasons.map(() => undefined));
  });

  test("is held as it was found, where nobody has begun another length", () => {
    const held = heldGrowth(undefined, stampOf(10), facts());

    expect(held?.stamp).toBe(stampOf(10));
    expect(updateBytesOf(held!.stamp)).toBe(10);
    expect(heldGrowth(undefined, OTHERS, facts())).toBeUndefined();
  });

  test("is held no further while that length is awaited, and as it is once it is the default", () => {
    const held = heldGrowth(undefined, stampOf(10), facts());

    const awaited = heldGrowth(held, stampOf(20), facts({ nowMs: 5000 }));
    const followed = heldGrowth(awaited, stampOf(20), facts({ endOf: () => "default" }));

    expect(awaited).toEqual(held);
    expect(followed?.stamp).toBe(stampOf(20));
  });

  test("is held up to where another worker has begun, if that is less", () => {
    const shorter = heldGrowth(undefined, stampOf(20), facts({ told: [12, 15, 30] }));
    const later = heldGrowth(shorter, stampOf(25), facts({ told: [11] }));
    const own = heldGrowth(undefined, stampOf(20), facts({ told: [30] }));

    expect(updateBytesOf(shorter!.stamp)).toBe(12);
    expect(hasGrown(shorter!.stamp, stampOf(20))).toBe(true);
    expect(hasGrown(shorter!.stamp, stampOf(12))).toBe(true);
    expect(updateBytesOf(later!.stamp)).toBe(11);
    expect(own?.stamp).toBe(stampOf(20));
  });

  test("that was replaced, or got shorter, is held as it was found", () => {
    const held = heldGrowth(undefined, stampOf(10), facts());

    expect(heldGrowth(held, stampOf(20, 8), facts())?.stamp).toBe(stampOf(20, 8));
    expect(heldGrowth(held, stampOf(5), facts())?.stamp).toBe(stampOf(5));
    expect(heldGrowth(held, stampOf(10, 7, 99), facts())?.stamp).toBe(stampOf(10, 7, 99));
  });

  test("is not held for ever at a length that fails, or that never becomes the default", () => {
    const held = heldGrowth(undefined, stampOf(20), facts({ told: [12] }));

    const failed = heldGrowth(held, stampOf(20), facts({ told: [12], endOf: () => "failed" }));
    const late = heldGrowth(held, stampOf(20), facts({ told: [12], nowMs: 600_000 }));

    expect(failed?.stamp).toBe(stampOf(20));
    expect(late?.stamp).toBe(stampOf(20));
    expect(heldGrowth(failed, stampOf(20), facts({ endOf: () => "failed" }))).toEqual(failed);
  });
});

const WORKERS = [0, 1, 2] as const;
/** Turns that a worker takes to load a content. */
const LOAD_TURNS = 5;
const TURNS = 400;

/** A worker that holds a length, loads it, and derives the default from what it has heard. */
class SimulatedWorker {
  growth: HeldGrowth | undefined;
  length = 0;
  turns = 0;
  default = 0;
  readonly heard = new Map<SimulatedWorker, Told>();

  get told(): Told {
    return { length: this.length, isReady: this.turns >= LOAD_TURNS, default: this.default };
  }

  look(bytes: number, nowMs: number): void {
    const others = [...this.heard.values()];
    const begun = others.map(({ length }) => length);
    this.growth = heldGrowth(this.growth, stampOf(bytes), {
      nowMs,
      endOf: (stamp) => (updateBytesOf(stamp) === this.default ? "default" : undefined),
      told: begun.filter((length) => length > 0 && length !== this.default),
    });
    const length = updateBytesOf(this.growth!.stamp)!;
    this.turns = length === this.length ? this.turns + 1 : 0;
    this.length = length;
    const areReady = others.every((each) => each.isReady && each.length === length);
    const isFollowed = others.some((each) => each.default === length);
    if (this.told.isReady && (areReady || isFollowed)) this.default = length;
  }
}

interface Told {
  readonly length: number;
  readonly isReady: boolean;
  readonly default: number;
}

/** By how much the file grows in a turn, which workers look, and what each hears of the others by then. */
const turnShape = fc.record({
  grows: fc.integer({ min: 0, max: 3 }),
  looks: fc.tuple(...WORKERS.map(() => fc.boolean())),
  hears: fc.tuple(...WORKERS.map(() => fc.tuple(...WORKERS.map(() => fc.boolean())))),
});

test("three workers come to one length after the other while lines are appended", () => {
  fc.assert(
    fc.property(fc.array(turnShape, { minLength: 20, maxLength: 20 }), (shapes) => {
      let bytes = 1;
      const workers = WORKERS.map(() => new SimulatedWorker());
      const defaults: number[] = [];
      for (let turn = 0; turn < TURNS; turn += 1) {
        const { grows, looks, hears } = shapes[turn % shapes.length]!;
        bytes += grows;
        // In each round of turns everybody looks and hears once.
        const isForAll = turn % shapes.length === 0;
        const now = new Map(workers.map((worker) => [worker, worker.told]));
        for (const [at, worker] of workers.entries()) {
          for (const [from, other] of workers.entries()) {
            const isHeard = isForAll || hears[at]![from]! || !worker.heard.has(other);
            if (other !== worker && isHeard) worker.heard.set(other, now.get(other)!);
          }
          if (isForAll || looks[at]!) worker.look(bytes, turn);
        }
        defaults.push(Math.min(...workers.map((each) => each.default)));
      }
      const isStill = shapes.every(({ grows }) => grows === 0);

      // All have one default after the other, and none of them waits for the file to rest.
      expect(new Set(defaults).size).toBeGreaterThan(isStill ? 1 : 2);
      expect(defaults).toEqual(defaults.toSorted((a, b) => a - b));
    }),
    { numRuns: 300 },
  );
});
