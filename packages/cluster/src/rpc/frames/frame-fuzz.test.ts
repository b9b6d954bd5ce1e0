// Fuzzing the frames between routers and workers, in both directions: a short seeded run with every
// test run, a long one with `npm run fuzz:frames` (FUZZ_FRAMES frames from FUZZ_SEED). Any bytes
// are either a frame or refused with a message, soon, in no more memory than a frame may take; and
// a frame is the same after it is written and read again.

import { WinnowError, incarnation, workerId } from "@winnow/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { announced } from "../../fixtures/announcement-words.ts";
import { ByteMutator } from "../fixtures/byte-mutator.ts";
import {
  decodeRouterFrame,
  decodeWorkerFrame,
  encodeRouterFrame,
  encodeWorkerFrame,
} from "./frame-codec.ts";
import { anyQuery, anyReply } from "../fixtures/any-frames.ts";
import type { RouterFrame, WorkerFrame } from "./frames.ts";

const FRAMES = Number(process.env["FUZZ_FRAMES"] ?? 20_000);
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
/** Decoding that takes so long counts as a hang, on any machine. */
const FRAME_MS_MAX = 10_000;
/** Candidates of a frame take 32 MiB at most (`frame-limits.ts`), read and written. */
const FRAME_MEMORY_MAX = 96 * 1024 * 1024;

const samples = <Item>(arbitrary: fc.Arbitrary<Item>): Item[] =>
  fc.sample(arbitrary, { seed: SEED, numRuns: 60 });

const ROUTER_FRAMES: readonly RouterFrame[] = [
  { kind: "hello", routerId: "r1", wantsMembers: true },
  { kind: "cancel", id: 2 ** 53 - 1 },
  { kind: "ping", sequence: 7 },
  { kind: "predecessor", incarnation: incarnation(5) },
  ...samples(fc.array(anyQuery, { minLength: 1, maxLength: 4 })).map((queries) => {
    return { kind: "queries", queries } as const;
  }),
];
const member = { workerId: workerId("w1"), address: "10.0.0.1:8600", incarnation: incarnation(3) };
const WORKER_FRAMES: readonly WorkerFrame[] = [
  { kind: "drain" },
  { kind: "pong", pong: { sequence: 1, queueRows: 2, progress: 3, stalled: true } },
  {
    kind: "pong",
    pong: {
      sequence: 1,
      queueRows: 2,
      progress: 3,
      stalled: true,
      heard: [{ workerId: workerId("w1"), incarnation: incarnation(7), digest: 9, ageMs: 5 }],
    },
  },
  { kind: "members", members: [{ ...member, isGone: false }] },
  { kind: "state", announcement: announced({ id: "w0", versions: [{ version: 1 }] }) },
  ...samples(fc.array(anyReply, { minLength: 1, maxLength: 4 })).map((replies) => {
    return { kind: "replies", replies } as const;
  }),
];

interface Codec {
  readonly decode: (bytes: Buffer) => unknown;
  readonly encode: (frame: never) => Buffer;
  readonly whole: readonly Buffer[];
}

/** The fault in how bytes were read, or else whether they were a frame. */
function faultOf({ decode, encode }: Codec, bytes: Buffer): string | boolean {
  let frame;
  try {
    frame = decode(bytes);
  } catch (error) {
    if (error instanceof WinnowError && error.code === "INVALID_ARGUMENT") return false;
    return `not refused in words: ${String(error)}`;
  }
  const written = encode(frame as never);
  const again = encode(decode(written) as never);
  return written.equals(again) ? true : "means something else once it was written";
}

test.each([
  [
    "routers'",
    {
      decode: decodeRouterFrame,
      encode: encodeRouterFrame,
      whole: ROUTER_FRAMES.map((frame) => encodeRouterFrame(frame)),
    },
  ],
  [
    "workers'",
    {
      decode: decodeWorkerFrame,
      encode: encodeWorkerFrame,
      whole: WORKER_FRAMES.map((frame) => encodeWorkerFrame(frame)),
    },
  ],
] satisfies [string, Codec][])(
  `half of ${FRAMES} broken frames from seed ${SEED}: %s`,
  (...[, codec]) => {
    const mutator = new ByteMutator(SEED);
    const faults: unknown[] = [];
    let frames = 0;

    for (let number = 0; number < FRAMES / 2; number += 1) {
      const bytes = mutator.mutated(codec.whole);
      const copy = Buffer.from(bytes);
      const before = { ms: performance.now(), bytes: process.memoryUsage().arrayBuffers };
      let fault = faultOf(codec, bytes);
      const taken = process.memoryUsage().arrayBuffers - before.bytes;
      if (performance.now() - before.ms > FRAME_MS_MAX) fault = "takes too long";
      if (taken > FRAME_MEMORY_MAX) fault = `takes ${taken} bytes`;
      if (fault === true) frames += 1;
      if (typeof fault === "string") faults.push({ number, fault, hex: copy.toString("hex") });
    }

    expect(faults).toEqual([]);
    expect(frames).toBeGreaterThan(FRAMES / 100);
  },
  60_000 + FRAMES * 5,
);
