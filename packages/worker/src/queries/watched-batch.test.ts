// What an observer is told of queries and batches, and that a query ends for it exactly once.

import type { WorkerLink, WorkerQuery } from "@winnow/cluster";
import { fingerprint } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { expect, test } from "vitest";

import type { TopKBatchAnswer } from "../compute/compute.ts";
import { FakeCompute, fakePlan, fakeTable } from "../compute/doubles/fake-compute.ts";
import { QueryAnswer } from "./query-answer.ts";
import { replicaKey } from "../replicas/replica-set.ts";
import { HANDLE, foundContent } from "./fixtures/answering.ts";
import type { HeldVersion } from "../replicas/replica-set.ts";
import type { QueryEnd, WorkerObserver } from "../worker-observer.ts";

type ObservedBatch = Parameters<WorkerObserver["batchStarted"]>[0];

const LIMITS = {
  queueRowsMax: 4,
  batchRowsMax: 8,
  scansInFlightMax: 1,
  companyMsMax: 0,
  lookupsInFlightMax: 1,
  queryRowsMax: 4,
  kMax: 100,
  answerRowsMax: 400,
  excludedIdsMax: 0,
  lookupKeysMax: 4,
};
const KEY = { model: "m", version: 1, fingerprint: fingerprint("abc") };

/** Partitions 0 and 1 of a table of 4 partitions, 10 rows each. */
function heldVersion(): HeldVersion {
  const loaded = { bytes: 1, rowBytes: 1, bytesRead: 1, elapsedMs: 1, shares: [] };
  const ready = { phase: "ready", loaded } as const;
  const { fingerprint: print } = KEY;
  const tables = [fakeTable("movies", 4)];
  const opened = { handle: HANDLE, fingerprint: print, rowsFingerprint: print, tables };
  return {
    ...foundContent(),
    life: { phase: "open", opened },
    replicas: new Map([0, 1].map((partition) => [replicaKey(0, partition), ready])),
  };
}

function watching() {
  const clock = new ManualClock();
  const compute = new FakeCompute(fakePlan(), clock);
  const scans: { finish(): void; fail(): void }[] = [];
  compute.topK = (batch) =>
    new Promise<TopKBatchAnswer>((resolve, reject) => {
      const block = {
        queries: 1,
        k: 1,
        counts: new Uint32Array(1),
        scores: new Float32Array(1),
        rows: new Uint32Array(1),
      };
      const answers = batch.asks.map(() => ({ block, ids: undefined }));
      const fail = (): void => reject(new Error("the device is out of order"));
      scans.push({ finish: () => resolve({ answers, waitUs: 0, computeUs: 7000 }), fail });
    });
  const batches: (ObservedBatch & { computeMs?: number | undefined })[] = [];
  const ended: [QueryEnd, number | undefined][] = [];
  const observer: WorkerObserver = {
    queryEnded: ({ end, queueMs }) => void ended.push([end, queueMs]),
    companyWaited: () => undefined,
    batchStarted: (batch) => (computeMs) => void batches.push({ ...batch, computeMs }),
    assignmentLoaded: () => undefined,
    loadFailed: () => undefined,
  };
  const held = heldVersion();
  const answers = new QueryAnswer({ clock, compute, find: () => held, observer }, LIMITS);
  const link = { routerId: "r", reply: () => undefined } as unknown as WorkerLink;
  return { clock, scans, batches, ended, handlers: answers.serve(link) };
}

function query(id: number, { queries = 1, remainingMs = 1000 } = {}): WorkerQuery {
  const vectors = new Float32Array(queries * 2);
  return {
    id,
    remainingMs,
    version: KEY,
    table: 0,
    partitions: Uint16Array.of(0, 1),
    ask: { kind: "topK", k: 1, queries, vectors, excluded: [], rowsOnly: true },
  };
}

/** Lets the continuations of promises that have just settled run. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a batch is told with its queries, vectors and the rows one scan reads", async () => {
  const { clock, scans, batches, ended, handlers } = watching();

  handlers.onQueries([query(1)]);
  handlers.onQueries([query(2), query(3, { queries: 2 })]);
  clock.advance(30);
  scans[0]!.finish();
  await settled();
  scans[1]!.finish();
  await settled();

  expect(batches).toEqual([
    { kind: "topK", queries: 1, rows: 1, rowsScanned: 20, computeMs: 7 },
    { kind: "topK", queries: 2, rows: 3, rowsScanned: 20, computeMs: 7 },
  ]);
  expect(ended).toEqual([
    ["OK", 0],
    ["OK", 30],
    ["OK", 30],
  ]);
});

test("each query ends once: cancelled, expired, refused or failed", async () => {
  const { clock, scans, batches, ended, handlers } = watching();

  handlers.onQueries([query(1)]);
  handlers.onQueries([query(2), query(3, { remainingMs: 5 }), query(4, { queries: 2 })]);
  handlers.onQueries([query(5)]);
  handlers.onCancel(2);
  handlers.onCancel(2);
  handlers.onCancel(99);
  clock.advance(10);
  scans[0]!.fail();
  await settled();
  handlers.onClose();
  scans[1]!.finish();
  await settled();

  expect(ended.map(([end]) => end)).toEqual([
    "OVERLOADED",
    "CANCELLED",
    "EXPIRED",
    "INTERNAL",
    "CANCELLED",
  ]);
  expect(batches.map(({ computeMs }) => computeMs)).toEqual([undefined, 7]);
});
