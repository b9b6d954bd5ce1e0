// A worker that reads too slowly costs bounded memory, and no question is lost or sent twice.

import { StringColumn, WinnowError, silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { TopKBlock } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { announced } from "../fixtures/announcement-words.ts";
import { lookupOf, rowReply } from "./fixtures/any-frames.ts";
import type { RouterFrame, WorkerAnswer, WorkerReply } from "./frames/frames.ts";
import { QueryWindow } from "./query-window.ts";
import { WorkerChannel } from "./shard-channel.ts";
import type { FrameChannel, FrameHandlers, WorkerConnector } from "./worker-connector.ts";

describe("a channel whose stream takes no more", () => {
  test("R1: holds back while the stream takes no more, and sends the rest once it does", async () => {
    const clock = new ManualClock();
    const sent: RouterFrame[] = [];
    let isWritable = true;
    let handlers: FrameHandlers | undefined;
    const connector: Pick<WorkerConnector, "open" | "forget"> = {
      open: (_: string, given: FrameHandlers): FrameChannel => {
        handlers = given;
        return {
          send: (frame) => sent.push(frame) > 0 && isWritable,
          end: () => undefined,
          cancel: () => undefined,
        };
      },
      forget: () => undefined,
    };
    const channel = new WorkerChannel(
      {
        environment: { clock, random: () => 1, log: silentLogger },
        connector: connector as WorkerConnector,
        routerId: "r1",
      },
      {
        onAnnouncement: () => undefined,
        onPong: () => undefined,
        onDrain: () => undefined,
        onDisconnect: () => undefined,
      },
      { address: "w0:1", unsentBytesMax: 1000 },
    );
    handlers!.onFrame({ kind: "state", announcement: announced({ id: "w0" }) });
    isWritable = false;
    channel.ask(lookupOf(0), () => undefined);
    await clock.advanceSettled(1);

    const states = Array.from({ length: 20 }, (_, row) => {
      return channel.ask(lookupOf(row), () => undefined).state;
    });
    await clock.advanceSettled(10);
    const sentWhileBlocked = sent.length;
    expect(channel.ping(1)).toBe(false);
    isWritable = true;
    handlers!.onWritable();

    const asked = states.filter((state) => state === "asked").length;
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThan(20);
    expect(sentWhileBlocked).toBe(2);
    expect(sent.at(-1)).toMatchObject({ kind: "queries" });
    expect(channel.pending).toBe(asked + 1);
    expect(sent.flatMap((frame) => (frame.kind === "queries" ? frame.queries : []))).toHaveLength(
      asked + 1,
    );
  });
});

test("S8: a stream that speaks after it was given up is not heard", async () => {
  const clock = new ManualClock();
  const opened: FrameHandlers[] = [];
  const connector: Pick<WorkerConnector, "open" | "forget"> = {
    open: (_, handlers) => {
      opened.push(handlers);
      return { send: () => true, end: () => undefined, cancel: () => undefined };
    },
    forget: () => undefined,
  };
  const heard: string[] = [];
  const channel = new WorkerChannel(
    {
      environment: { clock, random: () => 1, log: silentLogger },
      connector: connector as WorkerConnector,
      routerId: "r1",
    },
    {
      onAnnouncement: ({ workerId }) => heard.push(workerId),
      onPong: () => undefined,
      onDrain: () => heard.push("drain"),
      onDisconnect: () => heard.push("over"),
    },
    { address: "w0:1" },
  );
  opened[0]!.onFrame({ kind: "state", announcement: announced({ id: "first" }) });
  opened[0]!.onClose(undefined);
  clock.advance(1000);

  opened[0]!.onFrame({ kind: "state", announcement: announced({ id: "late" }) });
  opened[0]!.onFrame({ kind: "drain" });
  opened[0]!.onClose(new WinnowError("UNAVAILABLE", "again"));
  opened[1]!.onFrame({ kind: "state", announcement: announced({ id: "second" }) });

  expect(heard).toEqual(["first", "over", "second"]);
  expect(channel.state).toBe("open");
});

describe("QueryWindow", () => {
  const limits = { pendingMax: 4, unsentBytesMax: 10_000 };

  test("gives each reply to its question once, in any order, and forgets it", () => {
    const window = new QueryWindow(limits);
    const heard: string[] = [];
    for (const row of [1, 2]) window.add(lookupOf(row), ({ id }) => heard.push(`${row}:${id}`));
    const [first, second] = window.takeUnsent(0);

    for (const query of [second!, first!, second!]) window.settle(rowReply(query));

    expect(heard).toEqual([`2:${second!.id}`, `1:${first!.id}`]);
    expect(window.pending).toBe(0);
  });

  test("S8: does not take a reply to a question that was never sent", () => {
    const window = new QueryWindow(limits);
    const heard: number[] = [];
    const id = window.add(lookupOf(1), (reply) => heard.push(reply.id))!;

    const vectors = Float32Array.of(1);
    window.settle({ id, queueUs: 0, computeUs: 0, answer: { kind: "lookup", vectors } });

    expect(heard).toEqual([]);
    expect(window.pending).toBe(1);
  });

  test("what a reply's listener cancels is not answered when all fail", () => {
    const window = new QueryWindow(limits);
    const heard: number[] = [];
    const second: { id?: number } = {};
    window.add(lookupOf(1), () => {
      heard.push(1);
      window.cancel(second.id!);
    });
    second.id = window.add(lookupOf(2), () => heard.push(2))!;

    window.failAll(new WinnowError("UNAVAILABLE", "over"));

    expect(heard).toEqual([1]);
    expect(window.pending).toBe(0);
  });
});

describe("rows of items that come after them", () => {
  const ask = { k: 2, queries: 1, vectors: new Float32Array(2), excluded: [], rowsOnly: true };
  const error = new WinnowError("UNAVAILABLE", "not held");
  const rows = { kind: "lookup", vectors: Float32Array.of(1, 2) } as const;
  const items: Extract<WorkerAnswer, { kind: "topK" }> = {
    kind: "topK",
    block: {
      queries: 1,
      k: 2,
      counts: Uint32Array.of(1),
      scores: new Float32Array(2),
      rows: new Uint32Array(2),
    },
    ids: undefined,
    itemRowsLater: true,
  };

  /** A window with a search whose rows may come later, and what its question has heard. */
  function searching(itemRowsLater?: true, vectorsLater?: true) {
    const window = new QueryWindow({ pendingMax: 1, unsentBytesMax: 2 ** 20 });
    const heard: WorkerReply[] = [];
    const asked = { kind: "topK", ...ask, itemRowsLater, vectorsLater } as const;
    const question = { ...lookupOf(1), ask: asked };
    const id = window.add(question, (reply) => heard.push(reply))!;
    window.takeUnsent(0);
    const settle = (answer: WorkerAnswer) =>
      window.settle({ id, queueUs: 0, computeUs: 0, answer })?.code;
    const later = () => {
      const answer = heard[0]?.answer;
      return answer?.kind === "topK" ? answer.laterItemRows : undefined;
    };
    const vectors = () => {
      const answer = heard[0]?.answer;
      return answer?.kind === "topK" ? answer.laterVectors : undefined;
    };
    return { window, heard, settle, later, vectors };
  }

  test.each<[string, WorkerAnswer, Float32Array | undefined]>([
    ["are passed on", rows, rows.vectors],
    [
      "that a worker cannot give are none",
      { kind: "failure", reason: "OVERLOADED", error },
      undefined,
    ],
  ])("%s, and until then take up the window", async (_, answer, expected) => {
    const { window, heard, settle, later } = searching(true);

    const faults = [settle(items)];
    const pending = [window.pending, window.add(lookupOf(2), () => undefined)];
    faults.push(settle(answer), settle(answer));

    expect(await later()).toEqual(expected);
    expect([faults, pending]).toEqual([
      [undefined, undefined, undefined],
      [1, undefined],
    ]);
    expect([heard.length, window.pending]).toEqual([1, 0]);
  });

  const failure = { kind: "failure", reason: "OVERLOADED", error } as const;
  const itemsAlone = { ...items, vectorsLater: true } as const;
  const values = { kind: "lookup", vectors: Float32Array.of(5, 6, 7) } as const;

  test.each<[string, readonly WorkerAnswer[], readonly (Float32Array | undefined)[]]>([
    ["vectors", [rows, values], [rows.vectors, values.vectors]],
    ["vectors, even if rows cannot be given", [failure, values], [undefined, values.vectors]],
    ["no vectors, if they cannot be given", [rows, failure], [rows.vectors, undefined]],
  ])(
    "are followed by %s, and until then take up the window",
    async (_, [second, third], expected) => {
      const { window, settle, later, vectors } = searching(true, true);

      const faults = [itemsAlone, second!].map(settle);
      const { pending } = window;
      faults.push(settle(third!), settle(third!));

      expect(await Promise.all([later(), vectors()])).toEqual(expected);
      expect([new Set(faults), pending, window.pending]).toEqual([new Set([undefined]), 1, 0]);
    },
  );

  test("are none once the stream is over, nor are vectors, and nothing else is heard", async () => {
    const { window, heard, settle, later, vectors } = searching(true, true);
    settle(itemsAlone);

    window.failAll(error);

    expect(await Promise.all([later(), vectors()])).toEqual([undefined, undefined]);
    expect([heard.length, window.pending]).toEqual([1, 0]);
  });

  test("that have come stay, when the stream is over before their vectors", async () => {
    const { window, heard, settle, later, vectors } = searching(true, true);
    [itemsAlone, rows].map(settle);

    window.failAll(error);

    expect(await Promise.all([later(), vectors()])).toEqual([rows.vectors, undefined]);
    expect([heard.length, window.pending]).toEqual([1, 0]);
  });

  const attributes = StringColumn.fromText(["{}"]);

  test.each<[string, readonly (true | undefined)[], readonly WorkerAnswer[]]>([
    ["where nobody allowed it", [], [items]],
    ["and are items again", [true], [items, items]],
    ["where vectors come later and nobody allowed it", [true], [itemsAlone]],
    [
      "where vectors come later without them",
      [true, true],
      [{ ...itemsAlone, itemRowsLater: undefined }],
    ],
    ["where vectors come later and attributes now", [true, true], [{ ...itemsAlone, attributes }]],
    ["and vectors are items again", [true, true], [itemsAlone, rows, items]],
  ])("break the stream off %s", (_, allowed, answers) => {
    const { settle } = searching(...allowed);

    expect(answers.map((answer) => settle(answer)).at(-1)).toBe("INTERNAL");
  });
});

test("takes a search's answer with less room than k: the worker held fewer rows than that", () => {
  const window = new QueryWindow({ pendingMax: 4, unsentBytesMax: 2 ** 20 });
  const heard: WorkerReply[] = [];
  const ask = { k: 10, queries: 1, vectors: new Float32Array(2), excluded: [], rowsOnly: true };
  const question = { ...lookupOf(1), ask: { kind: "topK", ...ask } as const };
  const id = window.add(question, (reply) => heard.push(reply))!;
  window.takeUnsent(0);
  const blockOf = (k: number): TopKBlock => ({
    queries: 1,
    k,
    counts: Uint32Array.of(0),
    scores: new Float32Array(k),
    rows: new Uint32Array(k),
  });
  const replyOf = (k: number): WorkerReply => ({
    id,
    queueUs: 0,
    computeUs: 0,
    answer: { kind: "topK", block: blockOf(k), ids: undefined },
  });

  const tooMuch = window.settle(replyOf(11));
  const fault = window.settle(replyOf(3));

  expect(tooMuch?.code).toBe("INTERNAL");
  expect(fault).toBeUndefined();
  expect(heard).toHaveLength(1);
});
