// Frames survive the wire bit for bit; what is no frame is refused and nothing else happens.

import { WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced } from "../announcement.cases.ts";
import {
  decodeRouterFrame,
  decodeWorkerFrame,
  encodeRouterFrame,
  encodeWorkerFrame,
} from "./frame-codec.ts";
import type { RouterFrame, WorkerFrame } from "./frames.ts";
import { anyQuery, anyReply } from "./frames.cases.ts";
import { shardService } from "./shard-service.ts";

const { requestSerialize, requestDeserialize, responseSerialize, responseDeserialize } =
  shardService.Exchange;

const toWorker = (frame: RouterFrame): RouterFrame =>
  decodeRouterFrame(requestDeserialize(requestSerialize(encodeRouterFrame(frame))));
const toRouter = (frame: WorkerFrame): WorkerFrame =>
  decodeWorkerFrame(responseDeserialize(responseSerialize(encodeWorkerFrame(frame))));

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
    const pong = { sequence: 3, queueRows: 4, progress: 2 ** 40, stalled: true };

    for (const frame of [
      { kind: "hello", routerId: "r1" },
      { kind: "cancel", id: 2 ** 50 },
      { kind: "ping", sequence: 7 },
    ] as const) {
      expect(toWorker(frame)).toEqual(frame);
    }
    for (const frame of [
      { kind: "pong", pong },
      { kind: "drain" },
      { kind: "state", announcement: announced({ id: "a", versions: [{ version: 3 }] }) },
    ] as const) {
      expect(toRouter(frame)).toEqual(frame);
    }
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

describe("a hostile frame", () => {
  const refused = (frame: unknown): void => {
    expect(() => decodeRouterFrame(frame as Parameters<typeof decodeRouterFrame>[0])).toThrow(
      WinnowError,
    );
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
    expect(() => decodeRouterFrame(query({}) as never)).not.toThrow();
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
  });

  test("of random bytes decodes or is refused, and never does anything else", () => {
    const original = responseSerialize(
      encodeWorkerFrame({ kind: "replies", replies: fc.sample(anyReply, { numRuns: 3, seed: 1 }) }),
    );
    const mutation = fc.array(
      fc.tuple(fc.nat({ max: original.length - 1 }), fc.integer({ min: 0, max: 255 })),
      { minLength: 1, maxLength: 8 },
    );

    fc.assert(
      fc.property(mutation, fc.nat({ max: original.length }), (changes, length) => {
        const bytes = Buffer.from(original);
        for (const [at, value] of changes) bytes[at] = value;
        let message;
        try {
          message = responseDeserialize(bytes.subarray(0, length));
        } catch {
          return true;
        }
        return isFrameOrRefused(() => decodeWorkerFrame(message));
      }),
      { numRuns: 2000 },
    );
  });
});

function isFrameOrRefused(decode: () => WorkerFrame): boolean {
  try {
    return decode().kind.length > 0;
  } catch (error) {
    return error instanceof WinnowError;
  }
}
