// What the tests of answering queries share: a held version, a compute side whose scans a test ends,
// a link that notes replies, and queries.

import type { WorkerLink, WorkerQuery, WorkerReply } from "@winnow/cluster";
import { ManualClock, fingerprint } from "@winnow/core";
import type { TopKBlock, VersionKey, WinnowError } from "@winnow/core";

import type { ContentHandle, TopKBatch, TopKBatchAnswer } from "../compute/compute.ts";
import { FakeCompute, fakePlan, fakeTable } from "../compute/fake-compute.cases.ts";
import { emptyReplicaSet, replicaKey, withFound } from "../replicas/replica-set.ts";
import type { HeldVersion, Replica } from "../replicas/replica-set.ts";
import { QueryAnswer } from "./query-answer.ts";
import type { AnswerLimits } from "./query-answer.ts";

/** The version that is held. */
export const KEY: VersionKey = { model: "m", version: 1, fingerprint: fingerprint("abc") };
/** What the compute side calls it. */
export const HANDLE: ContentHandle = 1 as ContentHandle;
const LIMITS: AnswerLimits = {
  queueRowsMax: 8,
  batchRowsMax: 4,
  scansInFlightMax: 1,
  lookupsInFlightMax: 1,
  queryRowsMax: 6,
  kMax: 100,
  answerRowsMax: 300,
  excludedIdsMax: 3,
  lookupKeysMax: 10,
};

/** Another content that is held under the same number: its directory was replaced in place. */
export const BESIDE: VersionKey = { ...KEY, fingerprint: fingerprint("beside") };
/** What the compute side calls that one. */
export const HANDLE_BESIDE: ContentHandle = 2 as ContentHandle;

/** Holds partitions 0 and 1 (retiring) of a candidate table of four, and nothing of a keyed one. */
function heldVersion(handle: ContentHandle, key: VersionKey): HeldVersion {
  const loaded = { bytes: 1, bytesRead: 1, elapsedMs: 1, shares: [] };
  const keyed = { ...fakeTable("users", 2), kind: "keyed" as const };
  const opened = {
    handle,
    fingerprint: key.fingerprint,
    tables: [fakeTable("movies", 4), keyed],
  };
  const replicas = new Map<number, Replica>([
    [replicaKey(0, 0), { phase: "ready", loaded }],
    [replicaKey(0, 1), { phase: "retiring", loaded, sinceMs: 0 }],
    [replicaKey(0, 2), { phase: "loading" }],
    [replicaKey(1, 0), { phase: "ready", loaded }],
  ]);
  return { ...foundContent(), life: { phase: "open", opened }, replicas };
}

/** A version directory that nobody has opened. */
export function foundContent(): HeldVersion {
  const found = { model: "m", version: 1, directory: "/m/1", stamp: "a" };
  const [held] = withFound(emptyReplicaSet, found).versions.values();
  return held!;
}

/** A scan that has begun. */
interface HeldScan {
  readonly batch: TopKBatch;
  readonly signal: AbortSignal | undefined;
  finish(): void;
  fail(error: Error): void;
}

/** An answering worker, observed. */
export interface Answering {
  readonly clock: ManualClock;
  readonly scans: readonly HeldScan[];
  readonly answers: QueryAnswer;
  readonly replies: readonly WorkerReply[];
  readonly handlers: ReturnType<QueryAnswer["serve"]>;
  /** Why the link ended its stream. */
  readonly refusals: readonly WinnowError[];
  /** `id kind` or `id reason` of each reply. */
  readonly reasons: () => string[];
}

/** Answers with these limits; scans end when the test says so. */
export function answering(limits: Partial<AnswerLimits> = {}): Answering {
  const clock = new ManualClock();
  const compute = new FakeCompute(fakePlan(), clock);
  const scans: HeldScan[] = [];
  compute.topK = (batch: TopKBatch, signal?: AbortSignal) =>
    new Promise<TopKBatchAnswer>((resolve, reject) => {
      const parts = batch.asks.map(({ queries, k }) => ({
        block: emptyBlock(queries, k),
        ids: undefined,
      }));
      scans.push({
        batch,
        signal,
        finish: () => resolve({ parts, waitUs: 2, computeUs: 7 }),
        fail: reject,
      });
    });
  const held = new Map([
    [KEY.fingerprint, heldVersion(HANDLE, KEY)],
    [BESIDE.fingerprint, heldVersion(HANDLE_BESIDE, BESIDE)],
  ]);
  const find = (key: VersionKey): HeldVersion | undefined => held.get(key.fingerprint);
  const answers = new QueryAnswer({ clock, compute, find }, { ...LIMITS, ...limits });
  const replies: WorkerReply[] = [];
  const refusals: WinnowError[] = [];
  const link = {
    routerId: "r",
    reply: (reply: WorkerReply) => replies.push(reply),
    refuse: (error: WinnowError) => {
      refusals.push(error);
      handlers.onClose();
    },
  };
  const handlers = answers.serve(link as unknown as WorkerLink);
  const reasons = (): string[] =>
    replies.map(
      ({ id, answer }) => `${id} ${answer.kind === "failure" ? answer.reason : answer.kind}`,
    );
  return { clock, scans, answers, replies, handlers, refusals, reasons };
}

function emptyBlock(queries: number, k: number): TopKBlock {
  const scores = new Float32Array(queries * k);
  return {
    queries,
    k,
    counts: new Uint32Array(queries),
    scores,
    rows: new Uint32Array(queries * k),
  };
}

/** What a test says of a query. */
export interface QueryOptions {
  readonly id?: number;
  readonly queries?: number;
  readonly k?: number;
  readonly partitions?: readonly number[];
  readonly remainingMs?: number;
  readonly version?: VersionKey;
  readonly table?: number;
  readonly vectorValues?: number;
  readonly excluded?: readonly number[];
}

/** A search of the held version. */
export function query(options: QueryOptions = {}): WorkerQuery {
  const { id = 1, queries = 1, k = 10, partitions = [0, 1], remainingMs = 1000 } = options;
  const excluded = (options.excluded ?? []).map((count) => ({
    dtype: "int64" as const,
    shape: [count],
    data: new BigInt64Array(count),
  }));
  const vectors = new Float32Array(options.vectorValues ?? queries * 2);
  return {
    id,
    remainingMs,
    version: options.version ?? KEY,
    table: options.table ?? 0,
    partitions: Uint16Array.from(partitions),
    ask: { kind: "topK", k, queries, vectors, excluded, rowsOnly: false },
  };
}
