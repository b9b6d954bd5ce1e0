// What every network between routers and workers does, gRPC or a fake one. Results of the simulator
// hold for gRPC only as far as these cases reach.

import { fingerprint, incarnation, workerId } from "@winnow/core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { EchoWorker } from "./doubles/echo-worker.ts";
import { rowReply } from "./fixtures/any-frames.ts";
import type { MemberNews, RouterFrame, WorkerFrame, WorkerQuery } from "./frames/frames.ts";
import type { FrameChannel, OrderMessage, WorkerConnector } from "./worker-connector.ts";

/** A network with one worker in it. */
export interface ConnectorSetup {
  readonly connector: WorkerConnector;
  readonly address: string;
  /** An address at which no process listens. */
  readonly vacantAddress: string;
  close(): void;
}

interface Heard {
  readonly frames: WorkerFrame[];
  readonly closes: (string | undefined)[];
}

const query = (id: number): WorkerQuery => ({
  id,
  remainingMs: 1000,
  version: { model: "movies", version: 1, fingerprint: fingerprint("f") },
  table: 0,
  partitions: Uint16Array.of(0, 3),
  ask: {
    kind: "topK",
    k: 2,
    queries: 1,
    vectors: Float32Array.of(id, 1),
    excluded: [],
    rowsOnly: false,
  },
});

/** Runs the cases against a network. */
export function connectorCases(
  name: string,
  setUp: (service: EchoWorker) => Promise<ConnectorSetup>,
): void {
  describe(`a network (${name})`, () => {
    let service: EchoWorker;
    let setup: ConnectorSetup;

    beforeEach(async () => {
      service = new EchoWorker("w7");
      setup = await setUp(service);
    });
    afterEach(() => setup.close());

    const open = (address = setup.address): { stream: FrameChannel; heard: Heard } => {
      const heard: Heard = { frames: [], closes: [] };
      const stream = setup.connector.open(address, {
        onFrame: (frame) => heard.frames.push(frame),
        onWritable: () => undefined,
        onClose: (error) => heard.closes.push(error?.code),
      });
      return { stream, heard };
    };
    const greet = async (): Promise<{ stream: FrameChannel; heard: Heard }> => {
      const opened = open();
      opened.stream.send({ kind: "hello", routerId: "r1", wantsMembers: true });
      await eventually(() => expect(opened.heard.frames).toHaveLength(1));
      return opened;
    };

    test("a worker answers the hello with its state", async () => {
      const { heard } = await greet();

      expect(heard.frames).toEqual([{ kind: "state", announcement: service.announcement() }]);
      expect(service.links[0]!.routerId).toBe("r1");
    });

    test("Describe gives the state, and GetProgram the bytes of a large program", async () => {
      service.programBytes = Uint8Array.from({ length: 3_000_001 }, (_, index) => index % 251);
      const version = { model: "movies", version: 1, fingerprint: fingerprint("f") };

      const described = await setup.connector.describe(setup.address, 1000);
      const program = await setup.connector.program(setup.address, { version, tableBytesMax: 9 });

      expect(described).toEqual(service.announcement());
      expect(Buffer.compare(program, service.programBytes)).toBe(0);
    });

    test("a program nobody has is NOT_FOUND, in the worker's words", async () => {
      const version = { model: "movies", version: 1, fingerprint: fingerprint("f") };

      const asked = setup.connector.program(setup.address, { version, tableBytesMax: 0 });

      await expect(asked).rejects.toMatchObject({
        code: "NOT_FOUND",
        message: expect.stringContaining("Nobody here holds movies/1") as string,
      });
    });

    test("orders and drafts arrive unchanged, and the known order comes back", async () => {
      const messages: OrderMessage[] = [
        { kind: "order", signed: `hmac ${"ü".repeat(5000)}` },
        { kind: "draft", signed: '{"models":null}' },
      ];

      const before = await setup.connector.askOrder(setup.address, 2000);
      for (const message of messages) {
        await setup.connector.tellOrder(setup.address, message, 2000);
      }
      service.order = messages[0]!.signed;

      expect(before).toBeUndefined();
      expect(service.orders).toEqual(messages);
      expect(await setup.connector.askOrder(setup.address, 2000)).toBe(service.order);
    });

    test("an order is refused in the worker's words, or by nobody being there", async () => {
      const order = (signed: string): OrderMessage => ({ kind: "order", signed });

      const refused = setup.connector.tellOrder(setup.address, order("never"), 2000);
      await expect(refused).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringContaining("This worker never holds that") as string,
      });
      const lost = setup.connector.tellOrder(setup.vacantAddress, order("a"), 2000);
      await expect(lost).rejects.toMatchObject({ code: "UNAVAILABLE" });
      const unheard = setup.connector.askOrder(setup.vacantAddress, 2000);
      await expect(unheard).rejects.toMatchObject({ code: "UNAVAILABLE" });
      expect(service.orders).toEqual([]);
    });

    test("queries arrive in order and unchanged, replies of one turn share a frame", async () => {
      const { stream, heard } = await greet();
      const queries = [query(1), query(2)];

      stream.send({ kind: "queries", queries });
      stream.send({ kind: "queries", queries: [query(3)] });
      await eventually(() => expect(heard.frames.length).toBeGreaterThan(1));

      await eventually(() => expect(service.batches).toEqual([queries, [query(3)]]));
      const replies = heard.frames.flatMap((frame) => {
        return frame.kind === "replies" ? [frame.replies.map(({ id }) => id)] : [];
      });
      expect(replies.flat().slice(0, 2)).toEqual([1, 2]);
      expect(replies[0]!.length).toBeGreaterThan(1);
    });

    test("cancel, predecessor, ping and pong pass", async () => {
      const { stream, heard } = await greet();
      const frames: RouterFrame[] = [
        { kind: "cancel", id: 5 },
        { kind: "predecessor", incarnation: incarnation(2 ** 41) },
        { kind: "ping", sequence: 6 },
      ];

      for (const frame of frames) stream.send(frame);
      await eventually(() => expect(heard.frames).toHaveLength(2));

      expect(service.cancelled).toEqual([5]);
      expect(service.predecessors).toEqual([2 ** 41]);
      expect(heard.frames[1]).toEqual({
        kind: "pong",
        pong: { sequence: 6, queueRows: 7, progress: 8, stalled: false },
      });
    });

    test("news of members pass, however many, to a router that wants them", async () => {
      const { heard } = await greet();
      const news = Array.from({ length: 1000 }, (_, each): MemberNews => ({
        workerId: workerId(`w${each}`),
        address: `[fd00::${each}]:7600`,
        incarnation: each === 3 ? undefined : incarnation(2 ** 41 + each),
        isGone: each % 7 === 0,
      }));
      const other = setup.connector.open(setup.address, {
        onFrame: (frame) => heard.frames.push(frame),
        onWritable: () => undefined,
        onClose: () => undefined,
      });
      other.send({ kind: "hello", routerId: "r2", wantsMembers: false });
      await eventually(() => expect(service.links).toHaveLength(2));

      for (const link of service.links) link.tellMembers(news);
      const told = (): readonly MemberNews[] =>
        heard.frames.flatMap((frame) => (frame.kind === "members" ? frame.members : []));
      await eventually(() => expect(told().length).toBeGreaterThanOrEqual(news.length));

      expect(told()).toEqual(news);
    });

    test("I5: after drain, replies still pass, and the stream ends in order", async () => {
      service.isHolding = true;
      const { stream, heard } = await greet();
      stream.send({ kind: "queries", queries: [query(1)] });
      await eventually(() => expect(service.batches).toHaveLength(1));

      service.links[0]!.drain();
      service.links[0]!.reply(rowReply(query(1)));
      await eventually(() => expect(heard.frames).toHaveLength(3));
      stream.end();
      await eventually(() => expect(heard.closes).toHaveLength(1));

      expect(heard.frames.map(({ kind }) => kind).toSorted()).toEqual([
        "drain",
        "replies",
        "state",
      ]);
      expect(heard.closes).toEqual([undefined]);
      expect(service.closed).toBe(1);
    });

    test("a cancelled stream is over for the worker, and silent for the router", async () => {
      const { stream, heard } = await greet();

      stream.cancel();
      stream.cancel();
      await eventually(() => expect(service.closed).toBe(1));

      expect(heard.closes).toEqual([]);
      expect(stream.send({ kind: "ping", sequence: 1 })).toBe(false);
    });

    test("streams to one address are independent of each other, and of control calls", async () => {
      const first = await greet();
      const second = await greet();

      first.stream.cancel();
      setup.connector.forget(setup.address);
      await eventually(() => expect(service.closed).toBe(1));
      second.stream.send({ kind: "ping", sequence: 6 });
      await eventually(() => expect(second.heard.frames).toHaveLength(2));

      expect(second.heard.closes).toEqual([]);
    });

    test("a link the worker closes ends in order", async () => {
      const { heard } = await greet();

      service.links[0]!.close();
      service.links[0]!.reply(rowReply(query(1)));
      await eventually(() => expect(heard.closes).toEqual([undefined]));

      expect(service.closed).toBe(1);
    });

    test("where nobody listens, the stream closes as UNAVAILABLE, never within open", async () => {
      const { heard } = open(setup.vacantAddress);

      expect(heard.closes).toEqual([]);
      await eventually(() => expect(heard.closes).toEqual(["UNAVAILABLE"]));
      await expect(setup.connector.describe(setup.vacantAddress, 2000)).rejects.toMatchObject({
        code: "UNAVAILABLE",
      });
    });
  });
}
