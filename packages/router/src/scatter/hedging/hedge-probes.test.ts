// When a question for a late worker waits for the outcome of an earlier hedge beside that worker, and when it does not.

import { expect, test } from "vitest";

import type { WorkerPeer } from "../../workers/worker-peer.ts";
import type { Slot } from "../slot.ts";
import { HedgeProbes } from "./hedge-probes.ts";

/** Probes, and a late worker one of whose questions was asked elsewhere too, at 1,000 ms. */
function probed() {
  const probes = new HedgeProbes();
  const late = { answeredAtMs: 990 };
  const peer = late as WorkerPeer;
  const slot = { peer, settled: false, partials: [] as unknown[] };
  const note = (nowMs: number, noted = slot) => probes.note(noted as unknown as Slot, nowMs);
  note(1000);
  const furtherMs = (nowMs: number, of = peer) => probes.furtherMs(of, { delayMs: 40, nowMs });
  return { late, slot, note, furtherMs };
}

test("others wait while the first has no answer, but no longer than a hedge delay", () => {
  const { furtherMs } = probed();
  expect([1000, 1039, 1040].map((nowMs) => furtherMs(nowMs))).toEqual([10, 10, undefined]);
});

test("others follow once the first was answered elsewhere", () => {
  const { late, slot, note, furtherMs } = probed();
  Object.assign(slot, { settled: true, partials: ["an answer"] });
  const later = { ...slot, settled: false, partials: [] };
  note(1010, later);
  expect(furtherMs(1011)).toBeUndefined();
  late.answeredAtMs = 1012;
  note(1020, later);
  expect(furtherMs(1021)).toBe(10);
});

test("one that nobody waits for any more proves nothing", () => {
  const { slot, note, furtherMs } = probed();
  slot.settled = true;
  expect(furtherMs(1001)).toBeUndefined();
  note(1002, { ...slot, settled: false });
  expect(furtherMs(1003)).toBe(10);
});

test("the next one is the first again once the worker has answered anything", () => {
  const { late, furtherMs } = probed();
  late.answeredAtMs = 1001;
  expect(furtherMs(1002)).toBeUndefined();
});

test("a hedge beside one worker says nothing of another", () => {
  const { furtherMs } = probed();
  expect(furtherMs(1001, { answeredAtMs: 990 } as WorkerPeer)).toBeUndefined();
});
