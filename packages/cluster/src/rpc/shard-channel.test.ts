// A channel keeps its contract, whatever happens to the streams below it.

import { WinnowError, silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test } from "vitest";
import { EchoWorker } from "./doubles/echo-worker.ts";
import { lookupOf, rowAsked, rowReply } from "./fixtures/any-frames.ts";
import type { WorkerReply } from "./frames/frames.ts";
import { MemoryNetwork } from "./doubles/memory-network.ts";
import { WorkerChannel } from "./shard-channel.ts";
import type { WorkerChannelSettings } from "./shard-channel.ts";

interface Told {
  readonly announcements: string[];
  readonly disconnects: (string | undefined)[];
  readonly pongs: number[];
  drains: number;
}

function setUp(settings: Partial<WorkerChannelSettings> = {}) {
  const clock = new ManualClock();
  const network = new MemoryNetwork(clock, () => 1);
  const worker = new EchoWorker();
  network.listen("w0:1", worker);
  const told: Told = { announcements: [], disconnects: [], pongs: [], drains: 0 };
  const channel = new WorkerChannel(
    {
      environment: { clock, random: () => 1, log: silentLogger },
      connector: network,
      routerId: "r1",
      defer: queueMicrotask,
    },
    {
      onAnnouncement: ({ workerId }) => told.announcements.push(workerId),
      onPong: ({ sequence }) => told.pongs.push(sequence),
      onDrain: () => {
        told.drains += 1;
      },
      onDisconnect: (error) => told.disconnects.push(error?.code),
    },
    { address: "w0:1", ...settings },
  );
  const replies: string[] = [];
  const ask = (row: number, deadlineMs?: number) =>
    channel.ask(lookupOf(row, deadlineMs), (reply) => replies.push(`${row}:${textOf(reply)}`));
  return { clock, network, worker, told, channel, replies, ask };
}

function textOf({ answer }: WorkerReply): string {
  if (answer.kind === "failure") return answer.reason;
  return answer.kind === "lookup" ? answer.vectors.join() : "topK";
}

describe("WorkerChannel", () => {
  test("takes questions once the worker has told its state", async () => {
    const { clock, channel, told, ask, replies } = setUp();

    expect(ask(1)).toEqual({ state: "refused", reason: "DISCONNECTED" });
    await clock.advanceSettled(10);
    ask(5);
    ask(6);
    await clock.advanceSettled(10);

    expect(channel.state).toBe("open");
    expect(told.announcements).toEqual(["w0"]);
    expect(replies).toEqual(["5:5", "6:6"]);
    expect(channel.pending).toBe(0);
  });

  test("sends the questions of one turn in one frame, with the time each has left", async () => {
    const { clock, worker, ask } = setUp();
    await clock.advanceSettled(10);

    ask(1, 510);
    ask(2, 1010);
    await clock.advanceSettled(10);

    expect(worker.batches.map((batch) => batch.map(({ remainingMs }) => remainingMs))).toEqual([
      [500, 1000],
    ]);
  });

  test("answers a question whose time has run out without sending it", async () => {
    const { clock, worker, ask, replies } = setUp();
    await clock.advanceSettled(10);

    ask(1, 10);
    await clock.advanceSettled(1);

    expect(replies).toEqual(["1:EXPIRED"]);
    expect(worker.batches).toEqual([]);
  });

  test("S8: a reply to a cancelled question reaches nobody, and the worker is told", async () => {
    const { clock, worker, channel, ask, replies } = setUp();
    worker.isHolding = true;
    await clock.advanceSettled(10);
    const asked = ask(1);
    ask(2);
    await clock.advanceSettled(10);

    if (asked.state === "asked") asked.cancel();
    await clock.advanceSettled(10);
    for (const query of worker.batches.flat()) worker.links[0]!.reply(rowReply(query));
    await clock.advanceSettled(10);

    expect(worker.cancelled).toHaveLength(1);
    expect(replies).toEqual(["2:2"]);
    expect(channel.pending).toBe(0);
  });

  test("a question cancelled within its turn is never sent", async () => {
    const { clock, worker, ask } = setUp();
    await clock.advanceSettled(10);

    const asked = ask(1);
    if (asked.state === "asked") asked.cancel();
    await clock.advanceSettled(10);

    expect(worker.batches).toEqual([]);
    expect(worker.cancelled).toEqual([]);
  });

  test("fails what is pending when the stream breaks, and connects again", async () => {
    const { clock, network, worker, told, channel, ask, replies } = setUp();
    worker.isHolding = true;
    await clock.advanceSettled(10);
    ask(1);
    await clock.advanceSettled(5);

    network.breakStreams("w0:1");

    expect(replies).toEqual(["1:DISCONNECTED"]);
    expect(told.disconnects).toEqual(["UNAVAILABLE"]);
    expect(channel.state).toBe("connecting");
    await clock.advanceSettled(110);
    expect(channel.state).toBe("open");
    expect(told.announcements).toEqual(["w0", "w0"]);
  });

  test("L3: a worker that stops in its drain, and ends nothing, is called again", async () => {
    const { clock, network, worker, told, channel, ask, replies } = setUp();
    await clock.advanceSettled(10);
    worker.links[0]!.drain();
    await clock.advanceSettled(0.5);
    network.freeze("w0:1");
    await clock.advanceSettled(1);
    expect(channel.state).toBe("open");
    network.thaw("w0:1");
    network.freeze("w0:1");
    expect(channel.state).toBe("draining");

    await clock.advanceSettled(990);
    expect(told.disconnects).toEqual([]);
    await clock.advanceSettled(20);
    expect(told.disconnects).toEqual(["UNAVAILABLE"]);
    network.thaw("w0:1");
    await clock.advanceSettled(2000);

    expect(channel.state).toBe("open");
    ask(7);
    await clock.advanceSettled(10);
    expect(replies).toEqual(["7:7"]);
  });

  test("S8: what an older stream still says is not heard", async () => {
    const { clock, network, worker, ask, replies } = setUp();
    worker.isHolding = true;
    await clock.advanceSettled(10);
    ask(1);
    await clock.advanceSettled(5);
    network.breakStreams("w0:1");
    await clock.advanceSettled(200);
    ask(2);
    await clock.advanceSettled(5);

    const [first, second] = worker.batches.flat();
    worker.links[0]!.reply(rowReply(second!));
    worker.links[1]!.reply(rowReply(first!));
    await clock.advanceSettled(5);

    expect(replies).toEqual(["1:DISCONNECTED"]);
    expect(rowAsked(second!)).toBe(2);
  });

  test("waits longer after each failure to connect, up to the limit", async () => {
    const { clock, network, told } = setUp({ reconnectMinMs: 100, reconnectMaxMs: 400 });
    await clock.advanceSettled(10);

    network.stop("w0:1");
    await clock.advanceSettled(100 + 200 + 400 + 400 + 50);

    expect(told.disconnects).toHaveLength(5);
  });

  test("breaks off a stream on which the worker says nothing: a stopped process", async () => {
    const { clock, network, channel, told } = setUp({ connectTimeoutMs: 1000 });
    network.freeze("w0:1");
    await clock.advanceSettled(1001);

    expect(told.disconnects).toEqual(["UNAVAILABLE"]);
    network.thaw("w0:1");
    await clock.advanceSettled(200);
    expect(channel.state).toBe("open");
  });

  test("I5: after drain it takes nothing new, gives the replies, then ends the stream", async () => {
    const { clock, worker, channel, told, ask, replies } = setUp();
    worker.isHolding = true;
    await clock.advanceSettled(10);
    ask(1);
    await clock.advanceSettled(5);

    worker.links[0]!.drain();
    await clock.advanceSettled(5);
    expect(ask(2)).toEqual({ state: "refused", reason: "DRAINING" });
    expect([channel.state, told.drains, worker.closed]).toEqual(["draining", 1, 0]);
    worker.links[0]!.reply(rowReply(worker.batches[0]![0]!));
    await clock.advanceSettled(5);

    expect(replies).toEqual(["1:1"]);
    expect(worker.closed).toBe(1);
  });

  test("breaks off a stream whose worker answers another question than was asked", async () => {
    const { clock, worker, told, ask, replies } = setUp();
    worker.isHolding = true;
    await clock.advanceSettled(10);
    ask(1);
    await clock.advanceSettled(5);

    const { id } = worker.batches[0]![0]!;
    const block = {
      queries: 1,
      k: 1,
      counts: Uint32Array.of(0),
      scores: new Float32Array(1),
      rows: new Uint32Array(1),
    };
    const answer = { kind: "topK", block, ids: undefined } as const;
    worker.links[0]!.reply({ id, queueUs: 0, computeUs: 0, answer });
    await clock.advanceSettled(5);

    expect(told.disconnects).toEqual(["INTERNAL"]);
    expect(replies).toEqual(["1:DISCONNECTED"]);
  });

  test("R1: refuses beyond its window, in questions and in bytes", async () => {
    const { clock, worker, ask, channel } = setUp({ pendingMax: 3, unsentBytesMax: 400 });
    worker.isHolding = true;
    await clock.advanceSettled(10);

    const states = [1, 2, 3].map((row) => ask(row).state);
    await clock.advanceSettled(5);
    const later = [4, 5].map((row) => ask(row));

    expect(states).toEqual(["asked", "asked", "refused"]);
    expect(later[0]).toMatchObject({ state: "asked" });
    expect(later[1]).toEqual({ state: "refused", reason: "SATURATED" });
    expect(channel.pending).toBe(3);
  });

  test("refuses a question that fits no frame", async () => {
    const { clock, channel } = setUp();
    await clock.advanceSettled(10);
    const huge = { ...lookupOf(1), partitions: new Uint16Array(20 * 1024 * 1024) };

    expect(() => channel.ask(huge, () => undefined)).toThrow(WinnowError);
  });

  test("pings while a stream is open, and leaves nothing behind when closed", async () => {
    const { clock, channel, worker, told, ask, replies } = setUp();
    worker.isHolding = true;
    expect(channel.ping(1)).toBe(false);
    await clock.advanceSettled(10);
    expect(channel.ping(2)).toBe(true);
    ask(1);
    await clock.advanceSettled(5);

    channel.close();
    await clock.advanceSettled(5);

    expect(told.pongs).toEqual([2]);
    expect(replies).toEqual(["1:DISCONNECTED"]);
    expect([channel.state, clock.pendingTimers, worker.closed]).toEqual(["closed", 0, 1]);
  });
});
