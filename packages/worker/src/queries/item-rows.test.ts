// Rows for the items of a search: looked up as a router would look them up, or none, and the search is answered.

import type { TopKAsk, WorkerLink, WorkerQuery, WorkerReply } from "@winnow/cluster";
import {
  StringColumn,
  VECTOR_ATTRIBUTE,
  fingerprint,
  stringTensor,
  tensor,
  vectorCells,
} from "@winnow/core";
import type { Tensor, VersionKey } from "@winnow/core";
import { describe, expect, test } from "vitest";

import type {
  ContentHandle,
  LookupBatch,
  LookupBatchAnswer,
  PackedKeys,
  TopKBatchAnswer,
} from "../compute/compute.ts";
import { FakeCompute, fakePlan, fakeTable } from "../compute/doubles/fake-compute.ts";
import { packKeys, unpackKeys } from "../compute/packed-keys.ts";
import { replicaKey } from "../replicas/replica-set.ts";
import type { HeldVersion, Replica } from "../replicas/replica-set.ts";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { answering, foundContent, query } from "./fixtures/answering.ts";
import { QueryAnswer } from "./query-answer.ts";
import type { WorkerObserver } from "../worker-observer.ts";

const handle = 5 as ContentHandle;
const RANKING: VersionKey = { model: "ranking", version: 4, fingerprint: fingerprint("ranking") };

/** A content of a keyed table of two partitions, of which some are held, and a candidate table. */
function contentOf({ held = [0, 1], dim = 2 }): HeldVersion {
  const loaded = { bytes: 1, rowBytes: 1, bytesRead: 1, elapsedMs: 1, shares: [] };
  const keyed = { ...fakeTable("items", 2), kind: "keyed" as const, dim };
  const attributes = [{ name: "year", type: "integer", isList: false }] as const;
  const tables = [{ ...fakeTable("movies", 1), dim: 2, attributes }, keyed];
  const name = fingerprint("one");
  const opened = { handle, fingerprint: name, rowsFingerprint: name, tables };
  const ready = [replicaKey(0, 0), ...held.map((at) => replicaKey(1, at))];
  const replicas = new Map(
    ready.map((key): [number, Replica] => [key, { phase: "ready", loaded }]),
  );
  return { ...foundContent(), life: { phase: "open", opened }, replicas };
}

/** A look-up that has begun. */
interface HeldLookup {
  readonly batch: LookupBatch;
  readonly resolve: (answer: LookupBatchAnswer) => void;
  readonly reject: (error: Error) => void;
}

interface Words {
  /** What each search finds. */
  readonly ids?: Tensor;
  readonly content?: HeldVersion;
  readonly lookupKeysMax?: number;
  /** How long each search takes. */
  readonly scanMs?: number;
  /** What each search says of its items. */
  readonly cells?: StringColumn;
}

/** A worker whose searches find some ids at once, and whose look-ups end when the test says so. */
function worker(words: Words = {}) {
  const { ids = stringTensor(["a", "bc"]), content = contentOf({}), lookupKeysMax = 2000 } = words;
  const { scanMs = 0, cells } = words;
  const clock = new ManualClock();
  const compute = new FakeCompute(fakePlan(), clock);
  const found = ids.data.length;
  let scans = 0;
  compute.scan = ({ asks }): Promise<TopKBatchAnswer> => {
    scans += 1;
    clock.advance(scanMs);
    const block = {
      queries: 1,
      k: found,
      counts: Uint32Array.of(found),
      scores: new Float32Array(found),
      rows: new Uint32Array(found),
    };
    const attributes = cells && { offsets: cells.offsets, bytes: cells.bytes };
    const answers = asks.map(() => ({ block, ids: packKeys(ids), attributes }));
    return Promise.resolve({ answers, waitUs: 2, computeUs: 7 });
  };
  const lookups: HeldLookup[] = [];
  compute.gather = (batch) =>
    new Promise((resolve, reject) => void lookups.push({ batch, resolve, reject }));
  const find = ({ model }: VersionKey): HeldVersion | undefined =>
    model === "elsewhere" ? undefined : content;
  const ended: unknown[] = [];
  const observer = {
    queryEnded: ({ kind, end }: { kind: string; end: string }) => ended.push(`${kind} ${end}`),
    batchStarted: () => () => undefined,
  } as unknown as WorkerObserver;
  const limits = {
    queueRowsMax: 8,
    batchRowsMax: 4,
    scansInFlightMax: 1,
    companyMsMax: 0,
    lookupsInFlightMax: 1,
    queryRowsMax: 6,
    kMax: 2000,
    answerRowsMax: 3000,
    excludedIdsMax: 3,
    lookupKeysMax,
  };
  const answers = new QueryAnswer({ clock, compute, find, observer }, limits);
  const replies: WorkerReply[] = [];
  const afterReplies: (() => void)[] = [];
  const link = {
    routerId: "r",
    reply: (reply: WorkerReply) => replies.push(reply),
    afterReplies: (run: () => void) => afterReplies.push(run),
  };
  const handlers = answers.serve(link as unknown as WorkerLink);
  const settle = (): Promise<void> => clock.advanceSettled(0);
  const write = (): void => afterReplies.splice(0).forEach((run) => run());
  return { clock, handlers, lookups, replies, ended, settle, write, scans: () => scans };
}

/** A search that wants the rows of a table. */
function wanting(id = 1, itemRows: TopKAsk["itemRows"] = { version: RANKING, table: 1 }) {
  const plain = query({ id, partitions: [0] });
  return { ...plain, ask: { ...(plain.ask as TopKAsk), itemRows } } satisfies WorkerQuery;
}

const rowsIn = ({ answer }: WorkerReply): readonly number[] | string | undefined => {
  if (answer.kind !== "topK") return answer.kind;
  return answer.itemRows && [...answer.itemRows];
};

describe("rows of the items that a search finds", () => {
  test("are looked up in all partitions of the table, and come with its reply", async () => {
    const { handlers, lookups, replies, settle } = worker();

    handlers.onQueries([wanting()]);
    await settle();
    const early = replies.length;
    const [lookup] = lookups;
    lookup?.resolve({ answers: [{ vectors: Float32Array.of(1, 2, 3, 4) }], computeUs: 1 });
    await settle();

    const asks = [{ partitions: Uint16Array.of(0, 1), keys: packKeys(stringTensor(["a", "bc"])) }];
    expect(lookup?.batch).toEqual({ handle, table: 1, asks });
    expect([early, replies.map(rowsIn)]).toEqual([0, [[1, 2, 3, 4]]]);
    expect(replies[0]).toMatchObject({ id: 1, computeUs: 7, answer: { kind: "topK" } });
  });

  test("of ids of 32 bits are looked up as keys, which have 64", async () => {
    const { handlers, lookups, settle } = worker({
      ids: tensor("int32", [2], Int32Array.of(7, -1)),
    });

    handlers.onQueries([wanting()]);
    await settle();

    const keys = unpackKeys(lookups[0]?.batch.asks[0]?.keys as PackedKeys);
    expect(keys).toEqual(tensor("int64", [2], BigInt64Array.of(7n, -1n)));
  });

  const many = (count: number): Tensor => tensor("int64", [count], new BigInt64Array(count));
  const elsewhere = { version: { ...RANKING, model: "elsewhere" }, table: 1 };

  test.each<[string, Words, TopKAsk["itemRows"]?]>([
    ["of a content that is not held", {}, elsewhere],
    ["of a table of which a partition is not held", { content: contentOf({ held: [0] }) }],
    ["of a table that is searched", {}, { version: RANKING, table: 0 }],
    ["of a table that does not exist", {}, { version: RANKING, table: 9 }],
    ["of no items", { ids: many(0) }],
    ["of more than 1024 items", { ids: many(1025) }],
    ["of more than half a mebibyte", { ids: many(129), content: contentOf({ dim: 1024 }) }],
    ["of more than one look-up may have", { ids: many(11), lookupKeysMax: 10 }],
  ])("are not given %s", async (_, words, itemRows) => {
    const { handlers, lookups, replies, settle } = worker(words);

    handlers.onQueries([wanting(1, itemRows)]);
    await settle();

    expect([lookups.length, replies.map(rowsIn)]).toEqual([0, [undefined]]);
  });

  test.each([
    ["1024 items", { ids: many(1024) }],
    ["half a mebibyte", { ids: many(128), content: contentOf({ dim: 1024 }) }],
  ])("are looked up for %s", async (_, words) => {
    const { handlers, lookups, settle } = worker(words);

    handlers.onQueries([wanting()]);
    await settle();

    expect(lookups).toHaveLength(1);
  });

  test("are not given where the look-up is refused, or its thread ends", async () => {
    const { handlers, lookups, replies, settle } = worker();

    handlers.onQueries([wanting(1)]);
    await settle();
    const problem = { code: "INVALID_ARGUMENT", message: "no such key" } as const;
    lookups[0]?.resolve({ answers: [{ problem }], computeUs: 1 });
    await settle();
    handlers.onQueries([wanting(2)]);
    await settle();
    lookups[1]?.reject(new Error("the thread has ended"));
    await settle();

    expect(replies.map((reply) => [reply.id, rowsIn(reply)])).toEqual([
      [1, undefined],
      [2, undefined],
    ]);
  });

  test("delay no other search: those of its batch are answered, and the next scan begins", async () => {
    const { handlers, replies, scans, settle } = worker();

    handlers.onQueries([wanting(1), query({ id: 2, partitions: [0] })]);
    await settle();
    handlers.onQueries([query({ id: 3, partitions: [0] })]);
    await settle();

    expect([scans(), replies.map(({ id }) => id)]).toEqual([2, [2, 3]]);
  });

  test("(S8) of a search that is cancelled meanwhile are dropped, without a reply", async () => {
    const { handlers, lookups, replies, ended, settle } = worker();

    handlers.onQueries([wanting()]);
    await settle();
    handlers.onCancel(1);
    lookups[0]?.resolve({ answers: [{ vectors: Float32Array.of(1, 2, 3, 4) }], computeUs: 1 });
    await settle();
    handlers.onQueries([wanting()]);
    await settle();

    expect([replies, lookups.length, ended]).toEqual([[], 2, ["topK CANCELLED"]]);
  });

  test("are not waited for beyond the deadline of the search", async () => {
    const { clock, handlers, lookups, replies, settle } = worker({ scanMs: 600 });

    handlers.onQueries([wanting(1)]);
    await settle();
    handlers.onQueries([wanting(2)]);
    await settle();
    clock.advance(500);
    lookups[0]?.resolve({ answers: [{ vectors: Float32Array.of(1, 2, 3, 4) }], computeUs: 1 });
    await settle();

    expect(lookups).toHaveLength(1);
    expect(replies.map((reply) => [reply.id, rowsIn(reply)])).toEqual([
      [2, undefined],
      [1, [1, 2, 3, 4]],
    ]);
  });

  const later = (id: number, itemRows?: TopKAsk["itemRows"]): WorkerQuery => {
    const now = wanting(id, itemRows);
    return { ...now, ask: { ...now.ask, itemRowsLater: true } };
  };
  const isAhead = ({ answer }: WorkerReply): boolean =>
    answer.kind === "topK" && answer.itemRowsLater === true;

  test("may come later: items go ahead, and the look-up begins once they have left", async () => {
    const { handlers, lookups, replies, ended, settle, write } = worker();

    handlers.onQueries([later(1)]);
    await settle();
    const early = [lookups.length, replies.map(isAhead), ended.length];
    write();
    await settle();
    lookups[0]?.resolve({ answers: [{ vectors: Float32Array.of(1, 2, 3, 4) }], computeUs: 1 });
    await settle();

    expect(early).toEqual([0, [true], 0]);
    expect(replies.map(({ id }) => id)).toEqual([1, 1]);
    expect(replies[1]?.answer).toEqual({ kind: "lookup", vectors: Float32Array.of(1, 2, 3, 4) });
    expect([rowsIn(replies[0]!), ended]).toEqual([undefined, ["topK OK"]]);
  });

  test("that may come later and cannot be looked up are told of as a failure", async () => {
    const { handlers, lookups, replies, ended, settle, write } = worker();

    handlers.onQueries([later(1)]);
    await settle();
    write();
    lookups[0]?.reject(new Error("the thread has ended"));
    await settle();

    expect(replies.map(rowsIn)).toEqual([undefined, "failure"]);
    expect(ended).toEqual(["topK OK"]);
  });

  test.each<[string, Words, TopKAsk["itemRows"]?]>([
    ["cannot be given", {}, elsewhere],
    ["are refused", { ids: many(11), lookupKeysMax: 10 }],
  ])("that may come later and %s leave one reply", async (_, words, itemRows) => {
    const { handlers, lookups, replies, ended, settle, write } = worker(words);

    handlers.onQueries([later(1, itemRows)]);
    await settle();
    write();
    await settle();

    expect([lookups.length, replies.map(isAhead), ended]).toEqual([0, [false], ["topK OK"]]);
  });

  test("(S8) that come later are dropped when their search is cancelled after its items", async () => {
    const { handlers, lookups, replies, settle, write } = worker();

    handlers.onQueries([later(1)]);
    await settle();
    handlers.onCancel(1);
    write();
    await settle();

    expect([lookups.length, replies.map(isAhead)]).toEqual([0, [true]]);
  });

  const vectors = Float32Array.of(5, 6, 7, 8);
  const ofVectors = [VECTOR_ATTRIBUTE];

  /** A search whose vectors may follow, with what has been replied by the time that the rows are there. */
  async function following(cells: StringColumn, attributes: readonly string[] = ofVectors) {
    const started = worker({ cells });
    const { handlers, lookups, replies, settle, write } = started;
    const plain = later(1);
    const ask = { ...plain.ask, attributes, vectorBytes: true, vectorsLater: true } as const;
    handlers.onQueries([{ ...plain, ask }]);
    await settle();
    write();
    await settle();
    lookups[0]?.resolve({ answers: [{ vectors: Float32Array.of(1, 2, 3, 4) }], computeUs: 1 });
    await settle();
    return { ...started, early: replies.map(({ answer }) => answer) };
  }

  test("go ahead of vectors, which may come last, once the rows have left", async () => {
    const { early, replies, ended, write } = await following(vectorCells(vectors, 2));
    const endedEarly = ended.length;
    write();

    expect(early).toMatchObject([
      { kind: "topK", itemRowsLater: true, vectorsLater: true },
      { kind: "lookup", vectors: Float32Array.of(1, 2, 3, 4) },
    ]);
    expect(Object.keys(early[0]!)).not.toContain("attributes");
    expect(replies.map(({ id }) => id)).toEqual([1, 1, 1]);
    expect(replies[2]?.answer).toEqual({ kind: "lookup", vectors });
    expect([endedEarly, ended]).toEqual([0, ["topK OK"]]);
  });

  test("come behind attributes, where other attributes than vectors are wanted", async () => {
    const cells = vectorCells(vectors, 2);
    const { early, ended } = await following(cells, ["year", VECTOR_ATTRIBUTE]);

    expect(early).toMatchObject([
      { kind: "topK", itemRowsLater: true, attributes: cells, vectorBytes: true },
      { kind: "lookup" },
    ]);
    expect(early[0]).not.toHaveProperty("vectorsLater");
    expect(ended).toEqual(["topK OK"]);
  });

  test("are the last if the vectors behind them cannot be read: a failure says so", async () => {
    const unequal = [vectorCells(vectors, 1), vectorCells(vectors, 2).slice(0, 1)];
    const { replies, write } = await following(StringColumn.joined(unequal));
    write();

    expect(replies.map(rowsIn)).toEqual([undefined, "lookup", "failure"]);
  });

  test("(S8) are the last when their search is cancelled before the vectors", async () => {
    const { handlers, replies, ended, write } = await following(vectorCells(vectors, 2));
    handlers.onCancel(1);
    write();

    expect(replies.map(rowsIn)).toEqual([undefined, "lookup"]);
    expect(ended).toEqual(["topK CANCELLED"]);
  });

  test("are the last when their stream has ended before the vectors", async () => {
    const { handlers, replies, write } = await following(vectorCells(vectors, 2));
    handlers.onClose();
    write();

    expect(replies).toHaveLength(2);
  });

  test("are not looked up of a search that is refused", () => {
    const { handlers, replies } = answering();

    handlers.onQueries([{ ...wanting(), partitions: Uint16Array.of(3) }]);

    expect(replies.map(rowsIn)).toEqual(["failure"]);
  });
});
