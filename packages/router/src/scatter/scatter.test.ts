// A search over workers that die, stall, refuse and lie: asked elsewhere, never mixed, never hanging.

import { incarnation, stringTensor, WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { plain, QueryBench, twice } from "../fixtures/query-bench.ts";

/** Three partitions on two of three workers each: every search asks all three. */
const allAsked = {
  held: [
    [0, 1],
    [1, 2],
    [2, 0],
  ],
  partitions: 3,
};
const noSecondAttempts = { secondAttemptRatio: 0, secondAttemptsPerSecond: 0 };

describe("a search over faulty workers", () => {
  test("survives a worker that dies while it is asked (L1)", async () => {
    const bench = new QueryBench({ held: twice });
    const vectors = bench.vectors(2);
    for (const worker of bench.workers) worker.delayMs = 20;

    const answer = bench.search({ vectors, k: 5 });
    await bench.clock.advanceSettled(5);
    bench.kill(bench.workers[0]!);

    expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
  });

  test("leaves a silent worker after the attempt timeout and cancels its question", async () => {
    const bench = new QueryBench({ held: twice, settings: { attemptTimeoutMs: 100 } });
    const silent = bench.workers[1]!;
    silent.behave = () => "silent";

    const answer = bench.search({ vectors: bench.vectors(1), k: 5 });
    await bench.settle(answer, 200);

    expect(silent.cancelled).toBe(1);
    expect(bench.pending).toBe(0);
  });

  test("waits for a busy worker that makes progress, and asks nobody twice", async () => {
    const bench = new QueryBench({ ...allAsked, settings: { attemptTimeoutMs: 150 } });
    for (const worker of bench.workers) worker.delayMs = 950;
    const vectors = bench.vectors(1);

    const answer = bench.search({ vectors, k: 5 });
    for (let progress = 1; progress <= 9; progress += 1) {
      for (const peer of bench.peers.values()) {
        peer.onPong({ sequence: 1, queueRows: 0, progress, stalled: false });
      }
      await bench.clock.advanceSettled(100);
    }

    expect(plain(await bench.settle(answer, 100))).toEqual(bench.expected(vectors, 5));
    expect(bench.workers.map(({ asked }) => asked.length)).toEqual([1, 1, 1]);
    expect([...bench.peers.values()].every(({ trusted }) => trusted)).toBe(true);
  });

  test("asks another worker when a busy one has taken busyTimeoutMs", async () => {
    const settings = { attemptTimeoutMs: 100, busyTimeoutMs: 300 };
    const bench = new QueryBench({ held: twice, settings });
    const busy = bench.workers[1]!;
    busy.delayMs = 4000;
    const vectors = bench.vectors(1);

    const answer = bench.search({ vectors, k: 5 });
    for (let progress = 1; progress <= 5; progress += 1) {
      bench.peers.get(busy.id)!.onPong({ sequence: 1, queueRows: 9, progress: 1, stalled: false });
      await bench.clock.advanceSettled(100);
    }

    expect(plain(await bench.settle(answer, 500))).toEqual(bench.expected(vectors, 5));
    expect(busy.cancelled).toBe(1);
  });

  test("does not hedge while slices wait in the limiter", async () => {
    const settings = { hedge: true, searchRowsMax: 4, sliceQueriesMax: 2, slicesAtOnce: 8 };
    const hedged: string[] = [];
    const observer = { secondAttempt: (kind: string) => hedged.push(kind) };
    const bench = new QueryBench({ ...allAsked, settings, observer });
    bench.workers[0]!.delayMs = 200;
    const vectors = bench.vectors(8);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    // The last of four slices alone, behind which nothing waits.
    expect(hedged).toEqual(["hedge"]);
  });

  test("leaves a silent worker as soon as pings say so", async () => {
    const bench = new QueryBench({ held: twice, settings: { attemptTimeoutMs: 5000 } });
    bench.workers[1]!.behave = () => "silent";
    const vectors = bench.vectors(1);

    const answer = bench.search({ vectors, k: 5 });
    for (let tick = 0; tick < 4; tick += 1) {
      await bench.clock.advanceSettled(100);
      for (const [id, peer] of bench.peers) {
        if (id !== "w1") peer.onPong({ sequence: 1, queueRows: 0, progress: 1, stalled: false });
        peer.tick();
      }
    }

    expect(plain(await bench.settle(answer, 100))).toEqual(bench.expected(vectors, 5));
  });

  test("waits for the first worker when no other holds its partitions (panic rule)", async () => {
    const bench = new QueryBench({
      held: [
        [0, 1],
        [2, 3],
      ],
      settings: { attemptTimeoutMs: 50 },
    });
    bench.workers[0]!.delayMs = 400;
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    expect(bench.workers[0]!.asked).toHaveLength(1);
  });

  test("takes NOT_OWNER as a reason to ask another replica", async () => {
    const bench = new QueryBench({ held: twice });
    bench.workers[0]!.held.delete(0);
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
  });

  test("S1: asks no later life of a worker by a table that was made of a former one", async () => {
    const bench = new QueryBench({ held: twice });
    const vectors = bench.vectors(1);
    const restarted = bench.workers[0]!;
    const anew = { ...restarted.announcement(), incarnation: incarnation(2) };
    bench.peers.get(restarted.id)!.onAnnouncement(anew);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    expect(restarted.asked).toEqual([]);
  });

  test("I1: a generation that cannot finish is left whole, for the current one", async () => {
    const bench = new QueryBench({ held: [[0, 1], [2, 3], []] });
    const vectors = bench.vectors(1);
    const scope = bench.scope();
    for (const worker of bench.workers) worker.delayMs = 20;

    const answer = bench.search({ vectors, k: 5 }, scope);
    await bench.clock.advanceSettled(5);
    for (const partition of [0, 1]) bench.workers[2]!.held.add(partition);
    bench.announce(bench.workers[2]!);
    bench.kill(bench.workers[0]!);

    expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
    expect(scope.table.generation).toBeGreaterThan(1);
    const again = bench.workers[1]!.asked.map((question) => Array.from(question.partitions));
    expect(again).toEqual([
      [2, 3],
      [2, 3],
    ]);
  });

  test("refuses at once when partitions have had no replica for a while, naming them", async () => {
    const bench = new QueryBench({ held: twice });
    bench.kill(bench.workers[0]!);
    bench.kill(bench.workers[1]!);
    await bench.clock.advanceSettled(300);

    const answer = bench.search({ vectors: bench.vectors(1), k: 5 });

    await expect(bench.settle(answer, 20)).rejects.toThrow(
      'No worker answers for partitions 1–2 of table "candidates" of model movies version 7 ' +
        "(no replica); try again",
    );
    await expect(bench.settle(answer, 20)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("S6: answers partially only on request, and says how much is missing", async () => {
    const bench = new QueryBench({ held: twice });
    bench.kill(bench.workers[0]!);
    bench.kill(bench.workers[1]!);
    await bench.clock.advanceSettled(20);
    const scope = bench.scope({ allowPartial: true });

    const answer = await bench.settle(bench.search({ vectors: bench.vectors(1), k: 5 }, scope));

    const rows = plain(answer).rows;
    expect(rows).toHaveLength(5);
    expect(rows.every((row) => row < 10 || row >= 30)).toBe(true);
    expect(scope.partitionsAnswered / scope.partitionsAsked).toBe(0.5);
  });

  test("S10: an answer of the wrong shape is no answer", async () => {
    const bench = new QueryBench({ held: twice });
    bench.workers[1]!.behave = () => "wrong";
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
  });

  test("S8: a late reply of a worker that was left is ignored", async () => {
    const late: string[] = [];
    const bench = new QueryBench({
      held: twice,
      settings: { attemptTimeoutMs: 50 },
      observer: { lateReply: (worker) => late.push(worker) },
    });
    const slow = bench.workers[1]!;
    slow.delayMs = 70;
    slow.answersCancelled = true;
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));
    await bench.clock.advanceSettled(200);

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    expect(late).toEqual(["w1"]);
  });

  test("asks another replica early when hedging is on, and takes the first answer", async () => {
    const kinds: string[] = [];
    const bench = new QueryBench({
      held: twice,
      settings: { hedge: true, hedgeDelayMaxMs: 10 },
      observer: { secondAttempt: (kind) => kinds.push(kind) },
    });
    const slow = bench.workers[1]!;
    const vectors = bench.vectors(1);
    await bench.settle(bench.search({ vectors, k: 5 }));
    slow.delayMs = 300;

    const answer = await bench.settle(bench.search({ vectors, k: 5 }), 40);

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    expect(kinds).toEqual(["hedge"]);
    expect(slow.cancelled).toBe(1);
  });

  test("no worker is late before it or its replica has answered anything: processes that begin are slow", async () => {
    const kinds: string[] = [];
    const bench = new QueryBench({
      held: twice,
      settings: { hedge: true, hedgeDelayMaxMs: 10 },
      observer: { secondAttempt: (kind) => kinds.push(kind) },
    });
    for (const worker of bench.workers) worker.delayMs = 90;
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }), 100);

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    expect(kinds).toEqual([]);
  });

  test.each([
    { meanwhile: "answers another question", kinds: [] },
    { meanwhile: "answers nothing", kinds: ["hedge"] },
  ])("a worker that is late and $meanwhile meanwhile is hedged: $kinds", async ({ kinds }) => {
    const { bench, vectors, found } = await knownAsQuick();
    const [late] = bench.workers;
    late!.delayMs = 18;
    const first = bench.search({ vectors, k: 5 });
    await bench.clock.advanceSettled(5);
    late!.delayMs = kinds.length > 0 ? 18 : 3;
    const second = bench.search({ vectors, k: 5 });

    expect(plain(await bench.settle(first, 40))).toEqual(bench.expected(vectors, 5));
    expect(plain(await bench.settle(second, 40))).toEqual(bench.expected(vectors, 5));
    expect(found.slice(0, 1)).toEqual(kinds);
  });

  test.each([
    { worker: "goes on", lateMs: 14, hedgedMs: 30, hedges: 1 },
    { worker: "stands still", lateMs: 300, hedgedMs: 3, hedges: 8 },
  ])(
    "of eight questions for a late worker one is hedged, the others after it: $worker",
    async ({ lateMs, hedgedMs, hedges }) => {
      const { bench, vectors, found } = await knownAsQuick();
      const [late, ...others] = bench.workers;
      late!.delayMs = lateMs;
      const answers = Array.from({ length: 8 }, () => bench.search({ vectors, k: 5 }));
      await bench.clock.advanceSettled(5);
      for (const other of others) other.delayMs = hedgedMs;
      await bench.clock.advanceSettled(20);

      expect(found).toHaveLength(hedges);
      for (const answer of answers) {
        expect(plain(await bench.settle(answer, 10))).toEqual(bench.expected(vectors, 5));
      }
    },
  );

  test("stops second attempts when the budget is spent", async () => {
    const spent: string[] = [];
    const bench = new QueryBench({
      ...allAsked,
      settings: { secondAttemptRatio: 0, secondAttemptsPerSecond: 0.1, replanWaitMs: 10 },
      observer: { budgetSpent: (kind) => spent.push(kind) },
    });
    bench.workers[0]!.behave = () => "OVERLOADED";

    const first = await bench.settle(bench.search({ vectors: bench.vectors(1), k: 5 }));
    const second = bench.settle(bench.search({ vectors: bench.vectors(1), k: 5 }));

    expect(first.scores?.shape).toEqual([1, 5]);
    await expect(second).rejects.toThrow("the budget for second attempts is spent");
    expect(spent).not.toEqual([]);
  });

  test("asks again without a budget where a connection broke: nobody else will answer", async () => {
    const bench = new QueryBench({ held: twice, settings: noSecondAttempts });
    for (const worker of bench.workers) worker.delayMs = 20;
    const vectors = bench.vectors(1);

    const answers = Array.from({ length: 50 }, () => bench.search({ vectors, k: 5 }));
    await bench.clock.advanceSettled(5);
    bench.kill(bench.workers[0]!);

    for (const answer of answers) {
      expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
    }
  });

  test("plans again without a budget after a connection broke", async () => {
    const held = [[0, 1], [2, 3], []];
    const bench = new QueryBench({ held, settings: noSecondAttempts });
    for (const worker of bench.workers) worker.delayMs = 20;
    const vectors = bench.vectors(1);

    const answer = bench.search({ vectors, k: 5 });
    await bench.clock.advanceSettled(5);
    for (const partition of [0, 1]) bench.workers[2]!.held.add(partition);
    bench.announce(bench.workers[2]!);
    bench.kill(bench.workers[0]!);

    expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
  });

  test("plans again without a budget where a slow worker was left waiting and then died", async () => {
    const settings = { ...noSecondAttempts, attemptTimeoutMs: 20 };
    const held = [
      [0, 1],
      [0, 1],
      [2, 3],
    ];
    const bench = new QueryBench({ held, settings });
    const [silent, former, successor] = bench.workers;
    silent!.behave = () => "silent";
    former!.behave = () => "silent";
    const vectors = bench.vectors(1);

    const answer = bench.search({ vectors, k: 5 });
    await bench.clock.advanceSettled(60);
    for (const partition of [0, 1]) successor!.held.add(partition);
    bench.announce(successor!);
    bench.kill(silent!);
    await bench.clock.advanceSettled(5);
    bench.kill(former!);

    expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
  });

  test("gives a request up that has lost too many workers: it may be what kills them", async () => {
    const settings = { ...noSecondAttempts, lostWorkersMax: 2 };
    const everywhere = Array.from({ length: 5 }, () => [0]);
    const bench = new QueryBench({ held: everywhere, partitions: 1, settings });
    const killed: string[] = [];
    for (const worker of bench.workers) {
      worker.behave = () => {
        killed.push(worker.id);
        queueMicrotask(() => bench.kill(worker));
        return "silent";
      };
    }

    const answer = bench.settle(bench.search({ vectors: bench.vectors(1), k: 5 }));

    await expect(answer).rejects.toThrow("lost 2 workers");
    expect(killed).toHaveLength(2);
  });

  describe("with more excluded ids than are sent twice", () => {
    const settings = {
      hedge: true,
      hedgeDelayMaxMs: 10,
      resendBytesMax: 20,
      attemptTimeoutMs: 100,
    };
    const exclude = [stringTensor(["an id of more than twenty bytes"])];
    const askedOf = (bench: QueryBench): number[] => bench.workers.map(({ asked }) => asked.length);

    test("asks nobody twice while a worker is slow or silent, and blames nobody", async () => {
      const quick = { ejectAfterFailures: 1, ejectMs: 60_000 };
      const bench = new QueryBench({ ...allAsked, settings: { ...settings, ...quick } });
      for (const worker of bench.workers) worker.delayMs = 3000;
      const vectors = bench.vectors(1);

      const answer = bench.search({ vectors, k: 5, exclude });
      for (let tick = 0; tick < 5; tick += 1) {
        await bench.clock.advanceSettled(100);
        for (const peer of bench.peers.values()) peer.tick();
      }
      const suspects = [...bench.peers.values()].filter(({ trusted }) => !trusted).length;

      expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
      expect([suspects, askedOf(bench)]).toEqual([3, [1, 1, 1]]);
      for (const peer of bench.peers.values()) peer.tick();
      await bench.clock.advanceSettled(1000);
      expect([...bench.peers.values()].map(({ trusted }) => trusted)).toEqual([true, true, true]);
    });

    test.each(["OVERLOADED", "INTERNAL"] as const)("asks nobody after %s", async (reason) => {
      const bench = new QueryBench({ held: twice, settings });
      for (const worker of bench.workers) worker.behave = () => reason;

      const answer = bench.settle(bench.search({ vectors: bench.vectors(1), k: 5, exclude }));

      await expect(answer).rejects.toMatchObject({ code: "UNAVAILABLE" });
      expect(askedOf(bench).every((count) => count <= 1)).toBe(true);
    });

    test("gives what it has where partial answers are allowed", async () => {
      const bench = new QueryBench({ held: twice, settings });
      bench.workers[1]!.behave = () => "OVERLOADED";
      const scope = bench.scope({ allowPartial: true });

      await bench.settle(bench.search({ vectors: bench.vectors(1), k: 5, exclude }, scope));

      expect(scope.partitionsAnswered).toBeLessThanOrEqual(scope.partitionsAsked);
      expect(Math.max(...askedOf(bench))).toBeLessThanOrEqual(2);
    });

    test("asks again where a connection broke: nobody else will answer (L1)", async () => {
      const bench = new QueryBench({ held: twice, settings });
      for (const worker of bench.workers) worker.delayMs = 20;
      const vectors = bench.vectors(1);

      const answer = bench.search({ vectors, k: 5, exclude });
      await bench.clock.advanceSettled(5);
      bench.kill(bench.workers[0]!);

      expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
    });
  });

  test("ends at once when its client leaves, and cancels what it asked", async () => {
    const bench = new QueryBench({ held: twice });
    for (const worker of bench.workers) worker.behave = () => "silent";
    const abort = new AbortController();

    const answer = bench.search({ vectors: bench.vectors(1), k: 5 }, bench.scope(), abort.signal);
    await bench.clock.advanceSettled(5);
    abort.abort(new WinnowError("CANCELLED", "gone"));

    await expect(answer).rejects.toThrow("gone");
    expect(bench.pending).toBe(0);
    expect(bench.clock.pendingTimers).toBe(0);
  });
});

describe("a search over workers that share a machine", () => {
  const everything = [0, 1, 2, 3];
  const neighbours = { held: [everything, everything, everything], machine: "m" };

  test("asks one of them, always the same, and another one once that is lost", async () => {
    const bench = new QueryBench(neighbours);
    const vectors = bench.vectors(1);
    for (let turn = 0; turn < 40; turn += 1) {
      expect(plain(await bench.settle(bench.search({ vectors, k: 5 })))).toEqual(
        bench.expected(vectors, 5),
      );
    }
    expect(bench.workers.map(({ asked }) => asked.length)).toEqual([40, 0, 0]);

    for (const worker of bench.workers) worker.delayMs = 20;
    const answer = bench.search({ vectors, k: 5 });
    await bench.clock.advanceSettled(5);
    bench.kill(bench.workers[0]!);

    expect(plain(await bench.settle(answer))).toEqual(bench.expected(vectors, 5));
    expect(bench.workers.map(({ asked }) => asked.length)).toEqual([41, 1, 0]);
  });

  test("leaves a silent one for another", async () => {
    const bench = new QueryBench({ ...neighbours, settings: { attemptTimeoutMs: 100 } });
    bench.workers[0]!.behave = () => "silent";
    const vectors = bench.vectors(1);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }), 200);

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    expect(bench.workers.map(({ asked }) => asked.length)).toEqual([1, 1, 0]);
  });
});

/** Workers that are all known to be as quick, and the second attempts beside them. */
async function knownAsQuick() {
  const found: string[] = [];
  const bench = new QueryBench({
    ...allAsked,
    settings: { hedge: true, hedgeDelayMinMs: 10, hedgeDelayMaxMs: 10 },
    observer: { secondAttempt: (kind) => found.push(kind) },
  });
  const vectors = bench.vectors(1);
  for (const worker of bench.workers) worker.delayMs = 3;
  for (let turn = 0; turn < 20; turn += 1) await bench.settle(bench.search({ vectors, k: 5 }));
  await bench.clock.advanceSettled(250);
  return { bench, vectors, found };
}
