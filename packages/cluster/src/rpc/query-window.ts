// The questions of one channel that have no answer yet: bounded in number, and in unsent bytes
// under backpressure. Ids are never used twice, so a late reply matches no question (S8).

import { Outstanding, WinnowError } from "@winnow/core";
import type {
  FailureReason,
  TopKAsk,
  WorkerAnswer,
  WorkerAsk,
  WorkerQuery,
  WorkerReply,
} from "./frames/frames.ts";
import { queryBytes } from "./frames/query-codec.ts";

/** Queries, and bytes, of one frame at most. */
const FRAME_QUERIES_MAX = 256;
const FRAME_BYTES = 1024 * 1024;
const QUERY_BYTES_MAX = 32 * 1024 * 1024;

/** A query before it has an id. Its arrays must not change any more. */
export interface Question extends Omit<WorkerQuery, "id" | "remainingMs"> {
  /** Monotonic ms by which the client must have its answer. */
  readonly deadlineMs: number;
}

interface Pending {
  /** The id that the worker knows. */
  id: number;
  /** Position among the unsent questions; 0: it is sent. */
  unsentId: number;
  readonly question: Question;
  readonly bytes: number;
  readonly onReply: (reply: WorkerReply) => void;
  /** Take what follows the items, reply after reply, once these have been answered. */
  readonly onLater: ((rows: Float32Array | undefined) => void)[];
}

/** Pending questions by id, and the unsent ones in order. */
export class QueryWindow {
  readonly #limits: { readonly pendingMax: number; readonly unsentBytesMax: number };
  readonly #pending = new Outstanding<Pending>();
  readonly #unsent = new Outstanding<Pending>();
  #unsentBytes = 0;

  constructor(limits: { readonly pendingMax: number; readonly unsentBytesMax: number }) {
    this.#limits = limits;
  }

  /** Questions without an answer. */
  get pending(): number {
    return this.#pending.size;
  }

  /**
   * Adds a question and gives its id; `undefined` when the window is full.
   * @throws WinnowError RESOURCE_EXHAUSTED for a question that is too large for a frame
   */
  add(question: Question, onReply: (reply: WorkerReply) => void): number | undefined {
    const { pendingMax, unsentBytesMax } = this.#limits;
    const bytes = queryBytes(question);
    if (bytes > QUERY_BYTES_MAX) {
      throw new WinnowError("RESOURCE_EXHAUSTED", `A question of ${bytes} bytes fits no frame`);
    }
    if (this.#pending.size >= pendingMax) return undefined;
    if (this.#unsent.size > 0 && this.#unsentBytes + bytes > unsentBytesMax) return undefined;
    const pending = { id: 0, unsentId: 0, question, bytes, onReply, onLater: [] };
    pending.id = this.#pending.add(pending);
    pending.unsentId = this.#unsent.add(pending);
    this.#unsentBytes += bytes;
    return pending.id;
  }

  /** Queries for one frame; those past their deadline are answered `EXPIRED` and not sent. */
  takeUnsent(nowMs: number): readonly WorkerQuery[] {
    const queries: WorkerQuery[] = [];
    let bytes = 0;
    for (;;) {
      const pending = this.#unsent.oldest;
      if (pending === undefined) break;
      const isFull = queries.length >= FRAME_QUERIES_MAX || bytes + pending.bytes > FRAME_BYTES;
      if (isFull && queries.length > 0) break;
      this.#removeUnsent(pending);
      const { version, table, partitions, ask, trace, deadlineMs } = pending.question;
      if (deadlineMs <= nowMs) {
        this.#fail(pending, "EXPIRED", new WinnowError("DEADLINE_EXCEEDED", "No time was left"));
        continue;
      }
      const remainingMs = deadlineMs - nowMs;
      queries.push({ id: pending.id, remainingMs, version, table, partitions, ask, trace });
      bytes += pending.bytes;
    }
    return queries;
  }

  /**
   * Passes a reply to its question; a reply with an unknown id is late and ignored. Gives an error
   * if the reply does not have the form of an answer to its question.
   */
  settle(reply: WorkerReply): WinnowError | undefined {
    const pending = this.#pending.get(reply.id);
    if (pending === undefined || pending.unsentId > 0) return undefined;
    const { answer } = reply;
    if (pending.onLater.length > 0) return this.#settleLater(pending, answer);
    if (!answers(reply, pending.question.ask)) return anotherQuestion();
    if (answer.kind === "topK" && answer.itemRowsLater) {
      const later = (): Promise<Float32Array | undefined> =>
        new Promise((resolve) => void pending.onLater.push(resolve));
      const laterItemRows = later();
      const laterVectors = answer.vectorsLater && later();
      pending.onReply({ ...reply, answer: { ...answer, laterItemRows, laterVectors } });
      return undefined;
    }
    this.#pending.delete(reply.id);
    pending.onReply(reply);
    return undefined;
  }

  /** Passes on the second or third reply to a question: rows or vectors, or a failure. */
  #settleLater(pending: Pending, answer: WorkerReply["answer"]): WinnowError | undefined {
    if (answer.kind === "topK") return anotherQuestion();
    const onRows = pending.onLater.shift();
    if (pending.onLater.length === 0) this.#pending.delete(pending.id);
    onRows?.(answer.kind === "lookup" ? answer.vectors : undefined);
    return undefined;
  }

  /** Removes a question without an answer. `sent`: the worker has it and must be told. */
  cancel(id: number): "sent" | "unsent" | "unknown" {
    const pending = this.#pending.get(id);
    if (pending === undefined) return "unknown";
    this.#pending.delete(id);
    return this.#removeUnsent(pending) ? "unsent" : "sent";
  }

  /** Answers every question with DISCONNECTED. */
  failAll(error: WinnowError): void {
    // Questions that a callback cancels are not visited.
    for (const pending of this.#pending) {
      this.#removeUnsent(pending);
      this.#fail(pending, "DISCONNECTED", error);
    }
  }

  #fail(pending: Pending, reason: FailureReason, error: WinnowError): void {
    this.#pending.delete(pending.id);
    if (pending.onLater.length > 0) return pending.onLater.forEach((onRows) => onRows(undefined));
    const answer = { kind: "failure", reason, error } as const;
    pending.onReply({ id: pending.id, queueUs: 0, computeUs: 0, answer });
  }

  #removeUnsent(pending: Pending): boolean {
    if (!this.#unsent.delete(pending.unsentId)) return false;
    pending.unsentId = 0;
    this.#unsentBytes -= pending.bytes;
    return true;
  }
}

function anotherQuestion(): WinnowError {
  return new WinnowError("INTERNAL", "The worker answered another question than was asked");
}

/** Whether what an answer leaves to later replies may come later: rows of items, and their vectors behind these. */
function mayFollow(
  { itemRowsLater, vectorsLater, attributes }: Extract<WorkerAnswer, { kind: "topK" }>,
  ask: TopKAsk,
): boolean {
  if (itemRowsLater && !ask.itemRowsLater) return false;
  return !vectorsLater || (itemRowsLater && ask.vectorsLater && attributes === undefined) === true;
}

/** Whether a reply has the form of an answer to what was asked. */
function answers({ answer }: WorkerReply, ask: WorkerAsk): boolean {
  switch (answer.kind) {
    case "topK": {
      if (ask.kind !== "topK" || !mayFollow(answer, ask)) return false;
      return answer.block.k <= ask.k && answer.block.queries === ask.queries;
    }
    case "lookup": {
      if (ask.kind !== "lookup") return false;
      const keys = ask.keys.data.length;
      return keys === 0 ? answer.vectors.length === 0 : answer.vectors.length % keys === 0;
    }
    case "failure":
      return true;
  }
}
