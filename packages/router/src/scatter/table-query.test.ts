// Searches and lookups while workers do what they like, against brute force on the whole table.

import type { RoutingTable } from "@winnow/cluster";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Behaviour } from "../doubles/fake-cluster.ts";
import { generator, plain, QueryBench, rowKeys, twice } from "../fixtures/query-bench.ts";

describe("faults at random", () => {
  const behaviours: readonly Behaviour[] = [
    "answer",
    "silent",
    "wrong",
    "NOT_OWNER",
    "NO_VERSION",
    "OVERLOADED",
    "EXPIRED",
    "INTERNAL",
    "DISCONNECTED",
  ];

  test("L1, I2: exact while one replica of every partition answers, whatever the others do", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          seed: fc.integer(),
          partitions: fc.integer({ min: 1, max: 9 }),
          workers: fc.integer({ min: 1, max: 5 }),
          faults: fc.array(fc.constantFrom(...behaviours), { minLength: 5, maxLength: 5 }),
          delaysMs: fc.array(fc.integer({ min: 1, max: 120 }), { minLength: 5, maxLength: 5 }),
          killAfterMs: fc.integer({ min: 0, max: 60 }),
          hedge: fc.boolean(),
          queries: fc.integer({ min: 1, max: 4 }),
          k: fc.integer({ min: 1, max: 30 }),
        }),
        async (drawn) => {
          const random = generator(drawn.seed);
          // Worker 0 is healthy and holds everything; the others hold what they like.
          const all = Array.from({ length: drawn.partitions }, (_, partition) => partition);
          const held = Array.from({ length: drawn.workers }, (_, worker) =>
            all.filter(() => worker === 0 || random() < 0.6),
          );
          const bench = new QueryBench({
            held,
            partitions: drawn.partitions,
            rows: 30 + drawn.partitions,
            seed: drawn.seed,
            settings: { hedge: drawn.hedge, attemptTimeoutMs: 100 },
          });
          for (const [index, worker] of bench.workers.entries()) {
            worker.delayMs = drawn.delaysMs[index]!;
            worker.answersCancelled = random() < 0.5;
            const fault = index === 0 ? "answer" : drawn.faults[index]!;
            worker.behave = () => (random() < 0.7 ? fault : "answer");
          }
          const vectors = bench.vectors(drawn.queries);
          const keys = all.map((partition) => (partition * 7) % 30);

          const found = bench.search({ vectors, k: drawn.k });
          const looked = bench.lookup(rowKeys(keys));
          await bench.clock.advanceSettled(drawn.killAfterMs);
          if (bench.workers.length > 1) bench.kill(bench.workers[1]!);

          expect(plain(await bench.settle(found))).toEqual(bench.expected(vectors, drawn.k));
          expect((await bench.settle(looked)).data).toEqual(bench.rowsOf(keys));
          await bench.clock.advanceSettled(1000);
          expect(bench.pending).toBe(0);
          expect(bench.clock.pendingTimers).toBe(0);
        },
      ),
      { numRuns: 150 },
    );
  });
});

test("tables keep their generation while newer ones come", async () => {
  const bench = new QueryBench({ held: twice });
  const before: RoutingTable = bench.routing.table;

  bench.kill(bench.workers[0]!);
  await bench.clock.advanceSettled(20);

  expect(bench.routing.table.generation).toBeGreaterThan(before.generation);
  expect(before.workers.size).toBe(3);
});

describe("partitions that have just lost every replica", () => {
  /** Both workers that hold everything die, and the table says so. */
  async function lost(): Promise<QueryBench> {
    const bench = new QueryBench({ held: [all, all] });
    for (const worker of bench.workers) bench.kill(worker);
    await bench.clock.advanceSettled(20);
    return bench;
  }
  const all = [0, 1, 2, 3];

  test("L1: requests that begin wait for workers that come back at once", async () => {
    const bench = await lost();
    const vectors = bench.vectors(2);

    const found = bench.search({ vectors, k: 5 });
    await bench.clock.advanceSettled(100);
    bench.announce(bench.workers[0]!);

    expect(plain(await bench.settle(found))).toEqual(bench.expected(vectors, 5));
    expect(bench.clock.pendingTimers).toBe(0);
  });

  test("L1: requests that began without them go on with the table that has them again", async () => {
    const bench = await lost();
    const scope = bench.scope();
    bench.announce(bench.workers[0]!);
    await bench.clock.advanceSettled(20);
    const vectors = bench.vectors(2);

    const found = bench.search({ vectors, k: 5 }, scope);

    expect(plain(await bench.settle(found))).toEqual(bench.expected(vectors, 5));
  });

  test("wait no longer than 250 ms from the loss, all together", async () => {
    const bench = await lost();
    const vectors = bench.vectors(1);
    const beganMs = bench.clock.nowMs();

    await expect(bench.settle(bench.search({ vectors, k: 5 }))).rejects.toThrow("(no replica)");
    const firstMs = bench.clock.nowMs() - beganMs;
    await expect(bench.settle(bench.search({ vectors, k: 5 }))).rejects.toThrow("(no replica)");

    expect(firstMs).toBeLessThanOrEqual(250);
    expect(bench.clock.nowMs() - beganMs).toBeLessThanOrEqual(firstMs + 10); // One look of `settle`.
  });

  test("are not waited for by requests that take partial answers", async () => {
    const bench = new QueryBench({
      held: [
        [0, 1],
        [2, 3],
      ],
    });
    bench.kill(bench.workers[0]!);
    await bench.clock.advanceSettled(20);
    const beganMs = bench.clock.nowMs();

    const scope = bench.scope({ allowPartial: true });
    await bench.settle(bench.search({ vectors: bench.vectors(1), k: 5 }, scope));

    expect(bench.clock.nowMs() - beganMs).toBeLessThan(50);
    expect(scope).toMatchObject({ partitionsAsked: 4, partitionsAnswered: 2 });
  });
});
