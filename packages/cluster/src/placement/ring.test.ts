// The ring gives the package few points and answers as the package would with all of them, in clusters of all sizes.

import { createHash } from "node:crypto";
import { workerId } from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import ConsistentHash from "consistent-hash";
import { afterEach, expect, test, vi } from "vitest";
import { Ring } from "./ring.ts";

afterEach(() => void vi.restoreAllMocks());

const workersNamed = (count: number): WorkerId[] =>
  Array.from({ length: count }, (_, at) => workerId(`w${at}`));

/** Words of sha256, as the recipe of control points says. */
function pointsOf(worker: string): number[] {
  const points = new Set<number>();
  for (let round = 0; points.size < 160; round += 1) {
    const digest = createHash("sha256").update(`${worker}#${round}`).digest();
    for (let at = 0; at < 32 && points.size < 160; at += 4)
      points.add(digest.readUInt32BE(at) >>> 3);
  }
  return [...points];
}

/** All workers in the package's own order, with all points of all workers. */
function wholeOrder(workers: readonly WorkerId[], name: string): readonly (string | undefined)[] {
  const ring = new ConsistentHash({ range: 2 ** 29 });
  for (const worker of workers.toSorted()) ring.add(worker, 160, pointsOf(worker));
  const hash = createHash("sha256").update(name).digest().readUIntBE(0, 3);
  const key = String.fromCodePoint(hash >>> 8, (hash >>> 4) & 15, hash & 15);
  return ring.get(key, workers.length) ?? [];
}

test.each([1, 2, 3, 7, 40, 200])("of %i workers the order is that of all their points", (count) => {
  const workers = workersNamed(count);
  const ring = new Ring(workers.toReversed());

  for (let partition = 0; partition < 10; partition += 1) {
    const name = `movies/items/p${partition}`;
    expect([...ring.preferenceOf(name)]).toEqual(wholeOrder(workers, name));
  }
});

test("a ring of thousands of workers gives the package a few points of each look-up", () => {
  const add = vi.spyOn(ConsistentHash.prototype, "add");
  const ring = new Ring(workersNamed(3000));

  for (let partition = 0; partition < 8; partition += 1) {
    const [first] = ring.preferenceOf(`movies/items/p${partition}`);
    expect(first).toBeDefined();
  }

  const points = add.mock.calls.reduce((sum, [, , given]) => sum + given.length, 0);
  expect(points).toBeLessThanOrEqual(8 * 64);
});

test("a ring of no workers has no order, and one of too many is refused", () => {
  expect([...new Ring([]).preferenceOf("movies/items/p0")]).toEqual([]);
  const tooMany = Array.from({ length: 2 ** 16 + 1 }, () => workerId("w0"));
  expect(() => new Ring(tooMany)).toThrow(RangeError);
});
