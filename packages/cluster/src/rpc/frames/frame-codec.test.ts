// Frames survive the wire bit for bit; malformed ones are refused, without other effects.

import { ProtobufWriter, WinnowError, incarnation, workerId } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced } from "../../fixtures/announcement-words.ts";
import {
  decodeRouterFrame,
  decodeWorkerFrame,
  encodeRouterFrame,
  encodeWorkerFrame,
} from "./frame-codec.ts";
import { NESTED_MESSAGES_MAX, POSITIONS_MAX } from "./frame-limits.ts";
import type { HeardWorker, RouterFrame, WorkerFrame, WorkerReply } from "./frames.ts";
import { anyQuery, anyReply } from "../fixtures/any-frames.ts";
import { queryMessage, replyMessage } from "../fixtures/frame-messages.ts";
import type { RouterFrame as RouterFrameMessage } from "../generated/winnow/shard/v1/RouterFrame.ts";
import { frameMessages } from "../fixtures/protobufjs-messages.ts";

const { requestSerialize, responseSerialize } = frameMessages;

const toWorker = (frame: RouterFrame): RouterFrame => decodeRouterFrame(encodeRouterFrame(frame));
const toRouter = (frame: WorkerFrame): WorkerFrame => decodeWorkerFrame(encodeWorkerFrame(frame));

const pong = { sequence: 3, queueRows: 4, progress: 2 ** 40, stalled: true };
const heardOf = (id: string): HeardWorker => ({
  workerId: workerId(id),
  incarnation: incarnation(2 ** 41),
  digest: 2 ** 52 - 1,
  ageMs: 250,
});

test("an announcement is encoded once for all that hear it", () => {
  const announcement = announced({ id: "a", versions: [{ version: 3 }] });
  const next = { ...announcement, memoryUsedBytes: announcement.memoryUsedBytes + 1 };

  const first = encodeWorkerFrame({ kind: "state", announcement });

  expect(encodeWorkerFrame({ kind: "state", announcement })).toBe(first);
  expect(toRouter({ kind: "state", announcement: next })).toEqual({
    kind: "state",
    announcement: next,
  });
});

describe("a frame that crossed the wire", () => {
  test("gives the same queries", () => {
    fc.assert(
      fc.property(fc.array(anyQuery, { maxLength: 3 }), (queries) => {
        const frame: RouterFrame = { kind: "queries", queries };

        expect(toWorker(frame)).toEqual(frame);
      }),
    );
  });

  test("gives the same replies", () => {
    fc.assert(
      fc.property(fc.array(anyReply, { maxLength: 3 }), (replies) => {
        const frame: WorkerFrame = { kind: "replies", replies };

        expect(toRouter(frame)).toEqual(frame);
      }),
    );
  });

  test("gives the same control frames", () => {
    for (const frame of [
      { kind: "hello", routerId: "r1", wantsMembers: true },
      { kind: "cancel", id: 2 ** 50 },
      { kind: "ping", sequence: 7 },
      { kind: "ping", sequence: 8, wantsHeard: true },
      { kind: "ping", sequence: 9, wantsHeard: true, inDoubt: true },
      { kind: "predecessor", incarnation: incarnation(2 ** 52) },
    ] as const) {
      expect(toWorker(frame)).toEqual(frame);
    }
    for (const frame of [
      { kind: "pong", pong },
      { kind: "pong", pong: { ...pong, heard: [heardOf("w1"), heardOf("w2")] } },
      { kind: "pong", pong: { ...pong, scans: { batches: 7, queries: 2 ** 40 } } },
      { kind: "drain" },
      { kind: "state", announcement: announced({ id: "a", versions: [{ version: 3 }] }) },
    ] as const) {
      expect(toRouter(frame)).toEqual(frame);
    }
  });

  test("leaves out of whom a worker hears what names nobody, and refuses too many", () => {
    const pongOf = (ids: readonly string[]) =>
      toRouter({ kind: "pong", pong: { ...pong, heard: ids.map(heardOf) } });

    expect(pongOf(["a b", "w1"])).toEqual({
      kind: "pong",
      pong: { ...pong, heard: [heardOf("w1")] },
    });
    expect(() => pongOf(Array.from({ length: 257 }, () => "w1"))).toThrow("are too many");
  });

  test("leaves out of the news of members what is no hint, and refuses too many", () => {
    const good = { worker_id: "w1", incarnation: 5, address: "w1:7600", gone: false };
    const bad = [
      { ...good, worker_id: "a b" },
      { ...good, address: "unix:/tmp/socket" },
      { ...good, address: "" },
      { ...good, incarnation: 2 ** 53 },
    ];
    const frameOf = (members: readonly object[]): Buffer =>
      responseSerialize({ members: { members: [...members] } });

    expect(decodeWorkerFrame(frameOf([...bad, good, { ...good, incarnation: 0 }]))).toEqual({
      kind: "members",
      members: [
        { workerId: "w1", incarnation: 5, address: "w1:7600", isGone: false },
        { workerId: "w1", incarnation: undefined, address: "w1:7600", isGone: false },
      ],
    });
    expect(() => decodeWorkerFrame(frameOf(Array.from({ length: 257 }, () => good)))).toThrow(
      "members: are too many",
    );
  });

  test("cuts a long error text below 1 KB", () => {
    const frame = toRouter({
      kind: "replies",
      replies: [
        {
          id: 1,
          queueUs: 0,
          computeUs: 0,
          answer: {
            kind: "failure",
            reason: "INVALID_KEY",
            error: new WinnowError("INVALID_ARGUMENT", "Ж".repeat(100_000)),
          },
        },
      ],
    });

    const answer = frame.kind === "replies" ? frame.replies[0]!.answer : undefined;
    expect(answer?.kind === "failure" && Buffer.byteLength(answer.error.message)).toBeLessThan(
      1024,
    );
  });
});

describe("protobufjs, which knows the format from shard.proto,", () => {
  test("writes the same bytes for queries, and its bytes are read as the same queries", () => {
    fc.assert(
      fc.property(fc.array(anyQuery, { maxLength: 3 }), (queries) => {
        const frame: RouterFrame = { kind: "queries", queries };

        const bytes = requestSerialize({ queries: { queries: queries.map(queryMessage) } });

        expect(encodeRouterFrame(frame).toString("hex")).toBe(bytes.toString("hex"));
        expect(decodeRouterFrame(bytes)).toEqual(frame);
      }),
    );
  });

  test("writes the same bytes for replies, and its bytes are read as the same replies", () => {
    fc.assert(
      fc.property(fc.array(anyReply, { maxLength: 3 }), (replies) => {
        const frame: WorkerFrame = { kind: "replies", replies };

        const bytes = responseSerialize({ replies: { replies: replies.map(replyMessage) } });

        expect(encodeWorkerFrame(frame).toString("hex")).toBe(bytes.toString("hex"));
        expect(decodeWorkerFrame(bytes)).toEqual(frame);
      }),
    );
  });

  test("may leave zeros and empty fields out", () => {
    const frame = decodeWorkerFrame(responseSerialize({ replies: { replies: [{ lookup: {} }] } }));

    expect(frame).toEqual({
      kind: "replies",
      replies: [
        {
          id: 0,
          queueUs: 0,
          computeUs: 0,
          answer: { kind: "lookup", vectors: new Float32Array(0) },
        },
      ],
    });
  });
});

describe("a newer peer's frame", () => {
  const reply: WorkerReply = {
    id: 7,
    queueUs: 1,
    computeUs: 2,
    answer: { kind: "lookup", vectors: Float32Array.of(1, 2) },
  };

  test("is read without the fields that are not known here", () => {
    const known = encodeWorkerFrame({ kind: "replies", replies: [reply] });
    // The bytes of the `Reply` message, after the tags and lengths of frame and batch.
    const message = known.subarray(4);
    const fixed32 = Buffer.from([0xf5, 0x3e, 1, 2, 3, 4]);
    const fixed64 = Buffer.from([0xf1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8]);
    const later = new ProtobufWriter().text(999, "later").int(1000, 2 ** 50);
    const item = Buffer.concat([fixed32, later.finish(), message, fixed64]);
    const grown = new ProtobufWriter(0).message(2, (batch) => batch.bytes(1, item));

    expect(decodeWorkerFrame(grown.finish())).toEqual({ kind: "replies", replies: [reply] });
  });
});

describe("a hostile frame", () => {
  const refused = (frame: unknown): void => {
    const bytes = requestSerialize(frame as RouterFrameMessage);
    expect(() => decodeRouterFrame(bytes)).toThrow(WinnowError);
  };
  const query = (change: Record<string, unknown>) => ({
    queries: {
      queries: [
        {
          id: 1,
          remaining_ms: 1,
          model: "m",
          version: 1,
          fingerprint: "f",
          table: 0,
          partitions: Buffer.from([0, 0, 1, 0]),
          top_k: { k: 1, queries: 1, vectors: Buffer.alloc(8), excluded: [], rows_only: false },
          ...change,
        },
      ],
    },
  });
  const topK = (change: Record<string, unknown>) =>
    query({
      top_k: {
        k: 1,
        queries: 1,
        vectors: Buffer.alloc(8),
        excluded: [],
        rows_only: false,
        ...change,
      },
    });

  test("is refused for each thing that cannot be", () => {
    expect(() => decodeRouterFrame(requestSerialize(query({})))).not.toThrow();
    refused({});
    refused(query({ id: 2 ** 60 }));
    refused(query({ partitions: Buffer.from([1]) }));
    refused(query({ partitions: Buffer.from([1, 0, 1, 0]) }));
    refused(query({ top_k: null }));
    refused(topK({ k: 0 }));
    refused(topK({ k: 2 ** 31, queries: 2 }));
    refused(topK({ queries: 3 }));
    refused(topK({ vectors: Buffer.alloc(7) }));
    refused(topK({ vectors: Buffer.alloc(0) }));
    refused(topK({ excluded: [{}] }));
    refused(topK({ excluded: [{ integers: Buffer.alloc(9) }] }));
    const lengths = Buffer.from([255, 255, 255, 255]);
    refused(topK({ excluded: [{ strings: { lengths, data: Buffer.alloc(3) } }] }));
    const keys = { integers: Buffer.alloc(8) };
    refused(topK({ queries: 4, vectors: Buffer.alloc(16), excluded: [keys, keys] }));
    refused(topK({ queries: 4, vectors: Buffer.alloc(16), included: [keys, keys] }));
    refused(topK({ queries: 4, vectors: Buffer.alloc(16), filters: ["a", "b"] }));
    refused(topK({ attributes: Array.from({ length: 4097 }, () => "a") }));
  });

  test("of random bytes decodes or is refused, and never does anything else", () => {
    const original = encodeWorkerFrame({
      kind: "replies",
      replies: fc.sample(anyReply, { numRuns: 3, seed: 1 }),
    });
    const mutation = fc.array(
      fc.tuple(fc.nat({ max: original.length - 1 }), fc.integer({ min: 0, max: 255 })),
      { minLength: 1, maxLength: 8 },
    );

    fc.assert(
      fc.property(mutation, fc.nat({ max: original.length }), (changes, length) => {
        const bytes = Buffer.from(original);
        for (const [at, value] of changes) bytes[at] = value;
        return isFrameOrRefused(() => decodeWorkerFrame(bytes.subarray(0, length)));
      }),
      { numRuns: 2000 },
    );
  });

  test("of queries, cut and changed anywhere, decodes or is refused", () => {
    const original = encodeRouterFrame({
      kind: "queries",
      queries: fc.sample(anyQuery, { numRuns: 3, seed: 1 }),
    });
    const change = fc.tuple(fc.nat({ max: original.length - 1 }), fc.integer({ min: 0, max: 255 }));

    fc.assert(
      fc.property(fc.array(change, { maxLength: 8 }), fc.nat(original.length), (changes, end) => {
        const bytes = Buffer.from(original);
        for (const [at, value] of changes) bytes[at] = value;
        return isFrameOrRefused(() => decodeRouterFrame(bytes.subarray(0, end)));
      }),
      { numRuns: 2000 },
    );
  });

  test("(R1) is refused when a few bytes would become many objects", () => {
    const repeated = (count: number, ...item: number[]): Buffer =>
      Buffer.concat(Array.from({ length: count }, () => Buffer.from(item)));
    const batchOf = (items: Buffer): Buffer => new ProtobufWriter(0).bytes(2, items).finish();
    const half = NESTED_MESSAGES_MAX / 2;
    const versions = Array.from({ length: 2 * half }, () => ({}));

    const replies = decodeWorkerFrame(batchOf(repeated(half - 1, 0x0a, 2, 0x2a, 0)));
    expect(replies.kind === "replies" && replies.replies.length).toBe(half - 1);
    for (const refused of [
      // Replies of two messages each, queries of three, an announcement's versions.
      () => decodeWorkerFrame(batchOf(repeated(half, 0x0a, 2, 0x2a, 0))),
      () => decodeRouterFrame(batchOf(repeated(half, 0x0a, 6, 0x4a, 4, 0x0a, 2, 0x12, 0))),
      () => decodeWorkerFrame(responseSerialize({ state: { versions } })),
    ]) {
      expect(refused).toThrow("more than 65536 messages");
    }
    // The same batches after another field, where protobufjs would read them.
    const behind = Buffer.concat([Buffer.from([0x22, 0]), batchOf(Buffer.from([0x0a, 0]))]);
    expect(() => decodeWorkerFrame(behind)).toThrow("holds two things");
    expect(() => decodeRouterFrame(behind)).toThrow("holds two things");
  });

  test("(R1) is refused when its answers claim more room than one frame may", () => {
    const answer = (k: number) => ({ top_k: { k, counts: Buffer.alloc(4) } });
    const frame = (...ks: number[]): Buffer =>
      responseSerialize({ replies: { replies: ks.map(answer) } });

    expect(decodeWorkerFrame(frame(POSITIONS_MAX)).kind).toBe("replies");
    expect(() => decodeWorkerFrame(frame(POSITIONS_MAX, 1))).toThrow("has room for");
    expect(() => decodeWorkerFrame(frame(2 ** 32 - 1))).toThrow("has room for");
  });

  test("is refused where a number, a length or a wire type cannot be", () => {
    const refusedBytes = (...bytes: number[]): void => {
      expect(() => decodeWorkerFrame(Buffer.from(bytes))).toThrow(WinnowError);
    };

    refusedBytes();
    refusedBytes(0x12, 0x05, 0x0a);
    refusedBytes(0x12, 0x80);
    refusedBytes(0x12, 0x02, 0x0a, 0x01);
    refusedBytes(0x12, 0x02, 0x0b, 0x00);
    refusedBytes(0x12, 0x01, 0x00);
    refusedBytes(0x12, ...Array.from({ length: 12 }, () => 0xff));
    refusedBytes(0x0a, 0x7f);
  });
});

function isFrameOrRefused(decode: () => RouterFrame | WorkerFrame): boolean {
  try {
    return decode().kind.length > 0;
  } catch (error) {
    return error instanceof WinnowError;
  }
}
