// Queries of routers against a fake compute side: every check, batching, cancel, overload, and that
// each query gets exactly one reply, or none if its router is gone.

import { WinnowError, fingerprint } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { BESIDE, HANDLE, HANDLE_BESIDE, KEY, answering, query } from "./fixtures/answering.ts";
import type { QueryOptions } from "./fixtures/answering.ts";

const other = { ...KEY, fingerprint: fingerprint("other content") };

describe("checks", () => {
  test.each<[string, QueryOptions, string]>([
    ["(S10) other content under the same number", { version: other }, "1 NO_VERSION"],
    ["(S10) a partition that is still loading", { partitions: [0, 2] }, "1 NOT_OWNER"],
    ["(S10) a partition that was never held", { partitions: [3] }, "1 NOT_OWNER"],
    ["no time left", { remainingMs: 0 }, "1 EXPIRED"],
    ["no partitions", { partitions: [] }, "1 INTERNAL"],
    ["a table that does not exist", { table: 9 }, "1 INTERNAL"],
    ["a search in a keyed table", { table: 1, partitions: [0] }, "1 INTERNAL"],
    ["vectors of another dim", { vectorValues: 3 }, "1 INTERNAL"],
    ["k of zero", { k: 0 }, "1 INTERNAL"],
    ["too large a k", { k: 101 }, "1 INTERNAL"],
    ["too many query vectors", { queries: 7 }, "1 INTERNAL"],
    ["too large an answer", { queries: 4, k: 100 }, "1 INTERNAL"],
    ["too many excluded ids", { excluded: [4] }, "1 INTERNAL"],
    ["exclusion lists that do not fit", { queries: 3, excluded: [1, 1] }, "1 INTERNAL"],
  ])("%s is refused before any work", (_, options, reason) => {
    const { handlers, reasons, scans } = answering();

    handlers.onQueries([query(options)]);

    expect(reasons()).toEqual([reason]);
    expect(scans).toHaveLength(0);
  });

  test("a lookup in a candidate table is refused", () => {
    const { handlers, reasons } = answering();
    const keys = { dtype: "int64" as const, shape: [1], data: new BigInt64Array(1) };

    handlers.onQueries([{ ...query(), ask: { kind: "lookup", keys } }]);

    expect(reasons()).toEqual(["1 INTERNAL"]);
  });

  test("a replica on its way out still answers", async () => {
    const { handlers, reasons, scans, clock } = answering();

    handlers.onQueries([query({ partitions: [1] })]);
    scans[0]?.finish();
    await clock.advanceSettled(0);

    expect(reasons()).toEqual(["1 topK"]);
  });
});

describe("two contents of one number", () => {
  test("(S4) are searched apart: a query is answered by the content it names, or not at all", async () => {
    const { handlers, scans, clock } = answering();

    handlers.onQueries([query({ id: 1 }), query({ id: 2, version: BESIDE }), query({ id: 3 })]);
    for (let scan = 0; scan < 2; scan += 1) {
      scans[scan]?.finish();
      await clock.advanceSettled(0);
    }

    const asked = scans.map(({ batch }) => [batch.target.handle, batch.asks.length]);
    expect(asked).toEqual([
      [HANDLE, 2],
      [HANDLE_BESIDE, 1],
    ]);
  });
});

describe("sums over all rows", () => {
  const sums = { attributes: ["$sums"] };

  test("hold up no scan, nor join one; one batch of them is under way", async () => {
    const { answers, handlers, scans, reasons, clock } = answering();

    handlers.onQueries([query({ id: 1, ...sums })]);
    handlers.onQueries([query({ id: 2 }), query({ id: 3, ...sums })]);

    const asked = (): unknown[] =>
      scans.map(({ batch }) => batch.asks.map((ask) => ask.attributes));
    expect(asked()).toEqual([[["$sums"]], [undefined]]);
    expect(answers.queueRows).toBe(1);
    scans[1]?.finish();
    await clock.advanceSettled(0);
    expect(reasons()).toEqual(["2 topK"]);
    scans[0]?.finish();
    await clock.advanceSettled(0);
    expect(asked()).toHaveLength(3);
  });

  test("end when their router cancels them, and when the compute side ends", async () => {
    const { answers, handlers, scans, reasons } = answering();
    handlers.onQueries([query({ id: 1, ...sums }), query({ id: 2, k: 90, ...sums })]);

    handlers.onCancel(1);
    answers.fail(new WinnowError("UNAVAILABLE", "gone"));

    expect(scans.map(({ signal }) => signal?.aborted)).toEqual([true]);
    expect(reasons()).toEqual(["2 INTERNAL"]);
  });
});

describe("batching", () => {
  test("queries of one frame leave in one scan; later ones wait for the next", async () => {
    const { handlers, scans, reasons, replies, clock } = answering();

    handlers.onQueries([query({ id: 1 }), query({ id: 2 })]);
    handlers.onQueries([query({ id: 3, k: 9 })]);
    handlers.onQueries([query({ id: 4, partitions: [0] })]);
    await clock.advanceSettled(5);

    expect(scans.map(({ batch }) => batch.asks.length)).toEqual([2]);
    scans[0]?.finish();
    await clock.advanceSettled(0);
    expect(scans.map(({ batch }) => batch.asks.length)).toEqual([2, 1]);
    scans[1]?.finish();
    await clock.advanceSettled(0);
    scans[2]?.finish();
    await clock.advanceSettled(0);
    expect(reasons()).toEqual(["1 topK", "2 topK", "3 topK", "4 topK"]);
    expect(replies.map(({ queueUs, computeUs }) => [queueUs, computeUs])).toEqual([
      [2, 7],
      [2, 7],
      [5002, 7],
      [5002, 7],
    ]);
  });

  test("a full batch is sent while the scan before it runs, one that could grow is not", async () => {
    const { handlers, scans, clock } = answering();
    const sent = (): number[] => scans.map(({ batch }) => batch.asks.length);
    handlers.onQueries([query({ id: 1 })]);

    handlers.onQueries([query({ id: 2 }), query({ id: 3 }), query({ id: 4 })]);
    expect(sent()).toEqual([1]);
    handlers.onQueries([query({ id: 5 }), query({ id: 6, k: 40 })]);
    expect(sent()).toEqual([1, 4]);
    handlers.onQueries([7, 8, 9, 10].map((id) => query({ id, k: 40 })));
    expect(sent()).toEqual([1, 4]);

    scans[0]?.finish();
    await clock.advanceSettled(0);
    expect(sent()).toEqual([1, 4, 4]);
    scans[1]?.finish();
    await clock.advanceSettled(0);
    expect(sent()).toEqual([1, 4, 4]);
    scans[2]?.finish();
    await clock.advanceSettled(0);
    expect(sent()).toEqual([1, 4, 4, 1]);
  });

  test.each([
    ["larger than a batch", 6],
    ["as large as a batch", 4],
  ])(
    "a query %s is sent ahead only while scans are short, so that small ones get between",
    async (_, queries) => {
      const { handlers, scans, clock } = answering({ queueRowsMax: 100 });
      const sent = (): number[] => scans.map(({ batch }) => batch.vectors.length / 2);
      handlers.onQueries([1, 2, 3].map((id) => query({ id, queries })));
      expect(sent()).toEqual([queries, queries]);
      for (const at of [0, 1]) {
        await clock.advanceSettled(5);
        scans[at]!.finish();
        await clock.advanceSettled(0);
      }
      expect(sent()).toEqual([queries, queries, queries]);

      handlers.onQueries([query({ id: 4, queries })]);
      handlers.onQueries([query({ id: 5 })]);
      expect(sent()).toEqual([queries, queries, queries]);
      await clock.advanceSettled(5);
      scans[2]!.finish();
      await clock.advanceSettled(0);

      expect(sent()).toEqual([queries, queries, queries, 1]);
    },
  );

  test("(R1) a full queue answers OVERLOADED at once", () => {
    const { handlers, reasons } = answering({ queueRowsMax: 4 });

    handlers.onQueries([query({ id: 1, queries: 4 })]);
    handlers.onQueries([query({ id: 2, queries: 3 }), query({ id: 3, queries: 2 })]);

    expect(reasons()).toEqual(["3 OVERLOADED"]);
  });

  test("what expires while it waits is never scanned", async () => {
    const { handlers, reasons, scans, clock } = answering();
    handlers.onQueries([query({ id: 1 })]);
    handlers.onQueries([query({ id: 2, remainingMs: 10 }), query({ id: 3, remainingMs: 100 })]);

    await clock.advanceSettled(50);
    scans[0]?.finish();
    await clock.advanceSettled(0);

    expect(reasons()).toEqual(["2 EXPIRED", "1 topK"]);
    expect(scans[1]?.batch.asks).toHaveLength(1);
  });

  test("expired queries make room in a full queue", async () => {
    const { handlers, reasons, clock } = answering({ queueRowsMax: 2 });
    handlers.onQueries([query({ id: 1 })]);
    handlers.onQueries([query({ id: 2, queries: 2, remainingMs: 10 })]);

    await clock.advanceSettled(20);
    handlers.onQueries([query({ id: 3, queries: 2 })]);

    expect(reasons()).toEqual(["2 EXPIRED"]);
  });
});

describe("endings", () => {
  test("(S8) a cancelled query gets no reply, and a scan nobody waits for is stopped", async () => {
    const { handlers, reasons, scans, clock } = answering();
    handlers.onQueries([query({ id: 1 }), query({ id: 2 })]);
    handlers.onQueries([query({ id: 3 })]);

    handlers.onCancel(3);
    handlers.onCancel(1);
    expect(scans[0]?.signal?.aborted).toBe(false);
    handlers.onCancel(2);
    expect(scans[0]?.signal?.aborted).toBe(true);
    handlers.onCancel(99);
    scans[0]?.finish();
    await clock.advanceSettled(0);

    expect(reasons()).toEqual([]);
    expect(scans).toHaveLength(1);
  });

  test("(S8) a stream that gives one id to two queries is ended, and both are forgotten", async () => {
    const { handlers, reasons, refusals, scans, answers, clock } = answering();
    handlers.onQueries([query({ id: 1 }), query({ id: 2 })]);

    handlers.onQueries([query({ id: 3 }), query({ id: 2, k: 5 }), query({ id: 4 })]);
    scans[0]?.finish();
    await clock.advanceSettled(0);

    expect(refusals).toMatchObject([{ code: "INVALID_ARGUMENT" }]);
    expect(refusals[0]?.message).toContain("query 2 is under way");
    expect(scans.map(({ signal }) => signal?.aborted)).toEqual([true]);
    expect(reasons()).toEqual([]);
    expect(answers.isBusy).toBe(false);
  });

  test("an id may come again once its query is answered or cancelled", async () => {
    const { handlers, reasons, refusals, scans, clock } = answering();
    handlers.onQueries([query({ id: 1 }), query({ id: 2 })]);
    handlers.onCancel(2);
    scans[0]?.finish();
    await clock.advanceSettled(0);

    handlers.onQueries([query({ id: 1 }), query({ id: 2 })]);
    scans[1]?.finish();
    await clock.advanceSettled(0);

    expect(refusals).toEqual([]);
    expect(reasons()).toEqual(["1 topK", "1 topK", "2 topK"]);
  });

  test("when a router goes, its queries go", async () => {
    const { handlers, reasons, scans, answers, clock } = answering();
    handlers.onQueries([query({ id: 1 })]);
    handlers.onQueries([query({ id: 2, queries: 3 })]);

    handlers.onClose();
    scans[0]?.fail(new WinnowError("CANCELLED", "nobody waits"));
    await clock.advanceSettled(0);

    expect(reasons()).toEqual([]);
    expect(answers.queueRows).toBe(0);
    expect(answers.isBusy).toBe(false);
  });

  test("a failed scan fails each of its queries, and the next one runs", async () => {
    const { handlers, reasons, replies, scans, clock } = answering();
    handlers.onQueries([query({ id: 1 }), query({ id: 2 })]);
    handlers.onQueries([query({ id: 3 })]);

    scans[0]?.fail(new WinnowError("UNAVAILABLE", "device lost"));
    await clock.advanceSettled(0);
    scans[1]?.finish();
    await clock.advanceSettled(0);

    expect(reasons()).toEqual(["1 INTERNAL", "2 INTERNAL", "3 topK"]);
    expect(replies[0]?.answer).toMatchObject({ error: { code: "UNAVAILABLE" } });
  });

  test("when the compute side dies, what waits fails", () => {
    const { handlers, reasons, answers } = answering();
    handlers.onQueries([query({ id: 1 })]);
    handlers.onQueries([query({ id: 2 })]);

    answers.fail(new WinnowError("UNAVAILABLE", "The compute thread ended"));

    expect(reasons()).toEqual(["2 INTERNAL"]);
    expect(answers.queueRows).toBe(0);
  });
});
