// A cluster of pretended workers for tests: real tables in memory, real answers computed by the
// dumbest means, and faults on demand. It speaks as a channel does (`PeerChannel`), on a manual clock.

import type {
  CandidateTable,
  Clock,
  Incarnation,
  KeyedTable,
  Tensor,
  TopKBlock,
  VersionKey,
  WorkerId,
} from "@winnow/core";
import {
  cellOf,
  fingerprint,
  incarnation,
  partitionOfInteger,
  rowRangeOf,
  StringColumn,
  tensor,
  VECTOR_ATTRIBUTE,
  vectorsOfCells,
  WinnowError,
  workerId,
} from "@winnow/core";
import type {
  Announcement,
  Asked,
  FailureReason,
  LookupAsk,
  Question,
  TopKAsk,
  WorkerAnswer,
  WorkerReply,
  WorkerState,
} from "@winnow/cluster";
import type { PeerChannel } from "../workers/worker-peer.ts";

/** The one version all fakes serve. */
export const version: VersionKey = {
  model: "movies",
  version: 7,
  fingerprint: fingerprint("7".repeat(64)),
};

/** The two tables of the version: 0 is looked up by row number, 1 is searched. */
export interface FakeData {
  readonly keyed: KeyedTable;
  readonly candidates: CandidateTable;
  /** `[keyed.rows, dim]`. */
  readonly keyedRows: Float32Array;
  /** `[candidates.rows, dim]`; small integers, so that many scores tie. */
  readonly candidateRows: Float32Array;
}

/** Tables of small integers drawn by `random`. */
export function fakeData(
  size: { readonly rows: number; readonly dim: number; readonly partitions: number },
  random: () => number,
): FakeData {
  const { rows, dim, partitions } = size;
  const values = (): Float32Array =>
    Float32Array.from({ length: rows * dim }, () => Math.floor(random() * 5) - 2);
  const shape = { rows, dim, partitions, sources: [] };
  return {
    keyed: { ...shape, kind: "keyed", name: "users", keys: { kind: "row" } },
    candidates: { ...shape, kind: "candidate", name: "candidates", idDtype: "string" },
    keyedRows: values(),
    candidateRows: values(),
  };
}

/** What a fake does with a question instead of answering after its delay. */
export type Behaviour = "answer" | "silent" | "wrong" | "older" | FailureReason;

/** What a test says of a pretended worker. */
interface FakeWorkerWords {
  readonly id: string;
  readonly held: Iterable<number>;
  readonly machine?: string | undefined;
}

/** A pretended worker and the channel to it in one. */
export class FakeWorker implements PeerChannel {
  readonly id: WorkerId;
  readonly address: string;
  /** Partitions held, of both tables. */
  readonly held: Set<number>;
  readonly asked: Question[] = [];
  cancelled = 0;
  delayMs = 1;
  /** How long it says that it computed. */
  computeUs = 0;
  state: PeerChannel["state"] = "open";
  /** Replies come although nobody waits for them: cancels and replies have crossed. */
  answersCancelled = false;
  pings = 0;
  behave: (question: Question) => Behaviour = () => "answer";
  /** What a search brings of the other table, asked or not, instead of the rows of its items. */
  forgedRows: ((rows: Float32Array) => Float32Array) | undefined;
  /** What comes of the rows of a search's items after these, where that is allowed, instead of rows with them. */
  laterRows: ((rows: Float32Array) => Promise<Float32Array | undefined>) | undefined;
  /** What a search answers instead. */
  alter: ((answer: FoundItems) => FoundItems) | undefined;
  /** What comes of the vectors of a search's items behind the rows, where that is allowed, instead of vectors with them. */
  laterVectors: ((vectors: Float32Array) => Promise<Float32Array | undefined>) | undefined;
  readonly #clock: Clock;
  readonly #data: FakeData;
  readonly #crossed = new Set<(reply: WorkerReply) => void>();
  readonly #pending = new Map<(reply: WorkerReply) => void, Question>();

  readonly #machine: string | undefined;

  constructor(clock: Clock, data: FakeData, words: FakeWorkerWords) {
    this.#machine = words.machine;
    this.#clock = clock;
    this.#data = data;
    this.id = workerId(words.id);
    this.address = `${words.id}:7600`;
    this.held = new Set(words.held);
  }

  ask(question: Question, onReply: (reply: WorkerReply) => void): Asked {
    if (this.state !== "open") return { state: "refused", reason: "DISCONNECTED" };
    this.asked.push(question);
    this.#pending.set(onReply, question);
    const behaviour = this.behave(question);
    if (behaviour !== "silent") {
      this.#clock.setTimer(this.delayMs, () => this.#answer(onReply, question, behaviour));
    }
    return {
      state: "asked",
      cancel: () => {
        this.cancelled += 1;
        if (this.#pending.delete(onReply) && this.answersCancelled) this.#crossed.add(onReply);
      },
    };
  }

  /** Questions that have neither been answered nor cancelled. */
  get pending(): number {
    return this.#pending.size;
  }

  ping(): boolean {
    this.pings += 1;
    return true;
  }

  close(): void {
    this.state = "closed";
  }

  /** The process dies: its stream ends and what it was asked fails. */
  kill(): void {
    this.state = "connecting";
    const error = new WinnowError("UNAVAILABLE", "stream reset");
    for (const onReply of this.#pending.keys()) {
      this.#pending.delete(onReply);
      onReply(replyOf({ kind: "failure", reason: "DISCONNECTED", error }));
    }
  }

  announcement(life = 1): Announcement {
    const announcement = announcementOf(this.#data, {
      id: this.id,
      address: this.address,
      held: this.held,
      incarnation: incarnation(life),
      state: "ready",
      versions: [version.version],
      unloading: false,
    });
    return { ...announcement, machine: this.#machine };
  }

  #answer(
    onReply: (reply: WorkerReply) => void,
    question: Question,
    behaviour: Exclude<Behaviour, "silent">,
  ): void {
    if (!this.#pending.delete(onReply) && !this.#crossed.delete(onReply)) return;
    const given = answerOf(this.#data, { question, held: this.held, behaviour });
    const answer = given.kind === "topK" && this.alter ? this.alter(given) : given;
    const { forgedRows, laterRows } = this;
    const { ask } = question;
    if (laterRows !== undefined && ask.kind === "topK" && ask.itemRowsLater) {
      if (answer.kind !== "topK") return onReply(replyOf(answer));
      const laterItemRows = laterRows(itemRowsOf(this.#data, answer.block));
      const items = ask.vectorsLater ? this.#withLaterVectors(answer) : answer;
      return onReply(replyOf({ ...items, itemRows: undefined, laterItemRows }));
    }
    if (answer.kind !== "topK" || forgedRows === undefined)
      return onReply({ ...replyOf(answer), computeUs: this.computeUs });
    onReply(replyOf({ ...answer, itemRows: forgedRows(itemRowsOf(this.#data, answer.block)) }));
  }

  #withLaterVectors(answer: FoundItems): FoundItems {
    const { attributes, ...items } = answer;
    const { laterVectors: comes } = this;
    if (attributes === undefined || comes === undefined) return answer;
    const laterVectors = comes(vectorsOfCells(attributes));
    return { ...items, vectorBytes: undefined, vectorsLater: true, laterVectors };
  }
}

type FoundItems = Extract<WorkerAnswer, { kind: "topK" }>;

/** What an announcement tells of a pretended worker. */
export interface FakeStatus {
  readonly id: WorkerId;
  readonly address: string;
  readonly incarnation: Incarnation;
  readonly state: WorkerState;
  /** Partitions held, of both tables. */
  readonly held: ReadonlySet<number>;
  /** Versions of the model; their content is the same. */
  readonly versions: readonly number[];
  /** Says of all of them that they are on their way out. */
  readonly unloading: boolean;
}

/** What a pretended worker says of itself. */
export function announcementOf(data: FakeData, status: FakeStatus): Announcement {
  const held = [...status.held].toSorted((a, b) => a - b);
  const { partitions } = data.candidates;
  const tables = [0, 1].map((table) => ({
    table,
    partitions,
    held: held.map((partition) => ({ partition, shares: [] })),
  }));
  return {
    workerId: status.id,
    incarnation: status.incarnation,
    address: status.address,
    state: status.state,
    accelerator: "reference",
    device: "fake",
    memoryUsedBytes: 0,
    memoryCapacityBytes: 1,
    versions: status.versions.map((number) => ({
      ...version,
      version: number,
      state: status.unloading ? "unloading" : "ready",
      error: undefined,
      tables,
    })),
  };
}

/** The answer a worker with these partitions owes to a question. */
export function answerOf(
  data: FakeData,
  how: {
    readonly question: Pick<Question, "ask" | "partitions">;
    readonly held: ReadonlySet<number>;
    readonly behaviour?: Exclude<Behaviour, "silent">;
  },
): WorkerAnswer {
  const { question, held, behaviour = "answer" } = how;
  if (behaviour === "wrong") return { kind: "lookup", vectors: new Float32Array(1) };
  if (behaviour !== "answer" && behaviour !== "older") return failure(behaviour);
  if (question.partitions.some((partition) => !held.has(partition))) return failure("NOT_OWNER");
  const { ask } = question;
  if (ask.kind === "topK") {
    const found = search(data, { ...ask, isOlder: behaviour === "older" }, question.partitions);
    if (ask.itemRows === undefined || behaviour === "older") return found;
    return { ...found, itemRows: itemRowsOf(data, found.block) };
  }
  return lookUp(data, { ...ask, isOlder: behaviour === "older" }, question.partitions);
}

function failure(reason: FailureReason): WorkerAnswer {
  const code = reason === "INVALID_KEY" ? "INVALID_ARGUMENT" : "UNAVAILABLE";
  return { kind: "failure", reason, error: new WinnowError(code, `pretended ${reason}`) };
}

function replyOf(answer: WorkerAnswer): WorkerReply {
  return { id: 0, queueUs: 0, computeUs: 0, answer };
}

/** The fakes look an item's row up by the row's own number in the other table. */
function itemRowsOf({ keyed, keyedRows }: FakeData, block: TopKBlock): Float32Array {
  const { dim } = keyed;
  const { queries, k, counts, rows } = block;
  const values = Array.from({ length: queries }, (_, query) =>
    Array.from(rows.subarray(query * k, query * k + counts[query]!), (row) => [
      ...keyedRows.subarray(row * dim, (row + 1) * dim),
    ]),
  );
  return Float32Array.from(values.flat(2));
}

/** Brute force over some partitions: score every row, sort all, cut. */
export function search(
  { candidates, candidateRows }: FakeData,
  ask: Pick<TopKAsk, "k" | "queries" | "vectors" | "excluded" | "attributes" | "vectorBytes"> & {
    readonly isOlder?: boolean;
  },
  partitions: Iterable<number>,
): WorkerAnswer & { kind: "topK" } {
  const { dim } = candidates;
  const rows = [...partitions].flatMap((partition) => {
    const { firstRow, endRow } = rowRangeOf(partition, candidates);
    return Array.from({ length: endRow - firstRow }, (_, index) => firstRow + index);
  });
  const lists = Array.from({ length: ask.queries }, (_, query) => {
    const excluded = excludedOf(ask.excluded, query);
    return rows
      .filter((row) => !excluded.has(idOf(row)))
      .map((row) => ({ row, score: dot(ask.vectors, query, candidateRows, row, dim) }))
      .toSorted((a, b) => b.score - a.score || a.row - b.row)
      .slice(0, ask.k);
  });
  const block: TopKBlock = {
    queries: ask.queries,
    k: ask.k,
    counts: Uint32Array.from(lists, (list) => list.length),
    scores: packed(lists, ask.k, ({ score }) => score, Float32Array),
    rows: packed(lists, ask.k, ({ row }) => row, Uint32Array),
  };
  const found = lists.flat().map(({ row }) => row);
  const ids = tensor("string", [found.length], StringColumn.fromText(found.map(idOf)));
  const answer = { kind: "topK" as const, block, ids };
  if (ask.attributes?.includes(VECTOR_ATTRIBUTE) !== true) return answer;
  const hasBytes = ask.vectorBytes === true && ask.isOlder !== true;
  const cells = found.map((row) => {
    const values = candidateRows.slice(row * dim, (row + 1) * dim);
    const bytes = Buffer.from(values.buffer);
    if (hasBytes) return cellOf(Buffer.from("{}"), bytes);
    return Buffer.from(JSON.stringify({ [VECTOR_ATTRIBUTE]: bytes.toString("base64") }));
  });
  const attributes = StringColumn.fromBytes(cells);
  return { ...answer, attributes, ...(hasBytes && { vectorBytes: true }) };
}

/** The stored id of a row. */
export const idOf = (row: number): string => `item-${row}`;

function excludedOf(excluded: readonly Tensor[], query: number): Set<string> {
  const list = excluded[excluded.length > 1 ? query : 0];
  return new Set(list?.dtype === "string" ? list.data.toText() : []);
}

// oxlint-disable-next-line max-params -- two matrices and a row of each
function dot(a: Float32Array, rowA: number, b: Float32Array, rowB: number, dim: number): number {
  let sum = 0;
  for (let index = 0; index < dim; index += 1)
    sum += a[rowA * dim + index]! * b[rowB * dim + index]!;
  return Math.fround(sum);
}

// oxlint-disable-next-line max-params -- a test's packing of lists into typed arrays
function packed<Item, Values extends Float32Array | Uint32Array>(
  lists: readonly (readonly Item[])[],
  k: number,
  valueOf: (item: Item) => number,
  Type: new (length: number) => Values,
): Values {
  const values = new Type(lists.length * k);
  for (const [query, list] of lists.entries()) {
    for (const [rank, item] of list.entries()) values[query * k + rank] = valueOf(item);
  }
  return values;
}

/** 1 for keys that the fakes say they know: even ones. */
export const isKnownKey = (key: bigint): number => Number(key % 2n === 0n);

function lookUp(
  { keyed, keyedRows }: FakeData,
  ask: LookupAsk & { readonly isOlder: boolean },
  partitions: Iterable<number>,
): WorkerAnswer {
  if (ask.keys.dtype !== "int64") throw new RangeError("the fake is keyed by row");
  const asked = new Set(partitions);
  const rows = Array.from(ask.keys.data, (key) => {
    const partition = partitionOfInteger(key, keyed.partitions);
    if (!asked.has(partition)) throw new RangeError(`key ${key} outside the named partitions`);
    return keyedRows.subarray(Number(key) * keyed.dim, (Number(key) + 1) * keyed.dim);
  });
  if (ask.knownOnly === true && !ask.isOlder) {
    const known = Uint8Array.from(ask.keys.data, isKnownKey);
    return { kind: "lookup", vectors: new Float32Array(0), known };
  }
  const vectors = new Float32Array(rows.length * keyed.dim);
  for (const [index, row] of rows.entries()) vectors.set(row, index * keyed.dim);
  return { kind: "lookup", vectors };
}
