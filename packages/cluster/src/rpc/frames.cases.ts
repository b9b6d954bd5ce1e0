// Frames for tests: generators, and a worker that answers what it is asked.

import { WinnowError, fingerprint, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { StringColumn } from "@winnow/core";
import fc from "fast-check";
import { announced } from "../announcement.cases.ts";
import type { FailureReason, WorkerQuery, WorkerReply } from "./frames.ts";
import type { OrderMessage } from "./worker-connector.ts";
import type { Question } from "./query-window.ts";
import type { LinkHandlers, WorkerLink, WorkerService } from "./worker-link.ts";

const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const int64Tensor = fc
  .array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { maxLength: 6 })
  .map((values): Tensor => tensor("int64", [values.length], BigInt64Array.from(values)));
const stringTensor = fc
  .array(fc.uint8Array({ maxLength: 9 }), { maxLength: 6 })
  .map((strings): Tensor => tensor("string", [strings.length], StringColumn.fromBytes(strings)));
const anyKeys = fc.oneof(int64Tensor, stringTensor);

const topKAsk = fc
  .record({
    k: fc.integer({ min: 1, max: 50 }),
    queries: fc.integer({ min: 1, max: 4 }),
    dim: fc.integer({ min: 1, max: 8 }),
    rowsOnly: fc.boolean(),
    perQuery: fc.boolean(),
    excluded: fc.array(anyKeys, { minLength: 4, maxLength: 4 }),
  })
  .map(({ k, queries, dim, rowsOnly, perQuery, excluded }) => ({
    kind: "topK" as const,
    k,
    queries,
    vectors: Float32Array.from({ length: queries * dim }, (_, index) => index / 3),
    excluded: excluded.slice(0, perQuery ? queries : 1),
    rowsOnly,
  }));

/** Any well-formed query. */
export const anyQuery: fc.Arbitrary<WorkerQuery> = fc.record({
  id: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  remainingMs: uint32,
  version: fc.record({
    model: fc.stringMatching(/^[a-z]{1,10}$/),
    version: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
    fingerprint: fc.stringMatching(/^[0-9a-f]{8}$/).map(fingerprint),
  }),
  table: uint32,
  partitions: fc
    .uniqueArray(fc.integer({ min: 0, max: 65_535 }), { maxLength: 9 })
    .map((list) => Uint16Array.from(list.toSorted((a, b) => a - b))),
  ask: fc.oneof(
    topKAsk,
    anyKeys.map((keys) => ({ kind: "lookup" as const, keys })),
  ),
});

const topKAnswer = fc
  .record({
    k: fc.integer({ min: 1, max: 5 }),
    counts: fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }),
    score: fc.float({ noNaN: true }),
    idKind: fc.constantFrom("none", "string", "int32", "int64"),
  })
  .map(({ k, counts: wished, score, idKind }) => {
    const counts = Uint32Array.from(wished, (count) => Math.min(count, k));
    const queries = counts.length;
    const scores = new Float32Array(queries * k);
    const rows = new Uint32Array(queries * k);
    for (const [query, count] of counts.entries()) {
      scores.fill(score, query * k, query * k + count);
      rows.fill(4_000_000_000 + query, query * k, query * k + count);
    }
    const filled = counts.reduce((sum, count) => sum + count, 0);
    const block = { queries, k, counts, scores, rows };
    return { kind: "topK" as const, block, ids: idsOf(idKind, filled) };
  });

function idsOf(kind: string, count: number): Tensor | undefined {
  const numbers = Array.from({ length: count }, (_, index) => index);
  if (kind === "string") {
    return tensor("string", [count], StringColumn.fromText(numbers.map((number) => `id${number}`)));
  }
  if (kind === "int32") return tensor("int32", [count], Int32Array.from(numbers));
  if (kind === "int64") return tensor("int64", [count], BigInt64Array.from(numbers, BigInt));
  return undefined;
}

/** Any well-formed reply. */
export const anyReply: fc.Arbitrary<WorkerReply> = fc.record({
  id: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  queueUs: uint32,
  computeUs: uint32,
  answer: fc.oneof(
    topKAnswer,
    fc.float32Array({ maxLength: 9 }).map((vectors) => ({ kind: "lookup" as const, vectors })),
    fc
      .constantFrom<FailureReason>("NOT_OWNER", "NO_VERSION", "EXPIRED", "OVERLOADED", "INTERNAL")
      .map((reason) => ({
        kind: "failure" as const,
        reason,
        error: new WinnowError("UNAVAILABLE", "not here"),
      })),
  ),
});

/** A question about one row number; the answer is the number itself. */
export function lookupOf(row: number, deadlineMs = Infinity): Question {
  return {
    version: { model: "movies", version: 1, fingerprint: fingerprint("f") },
    table: 0,
    partitions: Uint16Array.of(0),
    ask: { kind: "lookup", keys: tensor("int64", [1], BigInt64Array.of(BigInt(row))) },
    deadlineMs: deadlineMs === Infinity ? 1e9 : deadlineMs,
  };
}

/** Which row a `lookupOf` query asks for. */
export function rowAsked({ ask }: Pick<WorkerQuery, "ask">): number {
  return ask.kind === "lookup" && ask.keys.dtype === "int64" ? Number(ask.keys.data[0]) : -1;
}

/** The answer to a `lookupOf` query. */
export function rowReply(query: WorkerQuery): WorkerReply {
  const vectors = Float32Array.of(rowAsked(query));
  return { id: query.id, queueUs: 1, computeUs: 2, answer: { kind: "lookup", vectors } };
}

/** A worker that answers at once, unless told to hold back; it remembers what happened. */
export class EchoWorker implements WorkerService {
  readonly links: WorkerLink[] = [];
  readonly batches: (readonly WorkerQuery[])[] = [];
  readonly cancelled: number[] = [];
  readonly predecessors: number[] = [];
  isHolding = false;
  closed = 0;
  /** Orders and drafts taken; the text "never" is refused. */
  readonly orders: OrderMessage[] = [];
  order: string | undefined;
  programBytes: Uint8Array = new Uint8Array(0);
  readonly #id: string;

  constructor(id = "w0") {
    this.#id = id;
  }

  announcement(): ReturnType<WorkerService["announcement"]> {
    return announced({ id: this.#id, versions: [{ version: 1 }] });
  }

  accept(link: WorkerLink): LinkHandlers {
    this.links.push(link);
    return {
      onQueries: (queries) => {
        this.batches.push(queries);
        if (!this.isHolding) for (const query of queries) link.reply(rowReply(query));
      },
      onCancel: (id) => this.cancelled.push(id),
      onPing: (sequence) => link.pong({ sequence, queueRows: 7, progress: 8, stalled: false }),
      onPredecessor: (incarnation) => this.predecessors.push(incarnation),
      onClose: () => {
        this.closed += 1;
      },
    };
  }

  program: WorkerService["program"] = () => {
    if (this.programBytes.length > 0) return Promise.resolve(this.programBytes);
    return Promise.reject(new WinnowError("NOT_FOUND", "Nobody here holds movies/1"));
  };

  async followOrder(message: OrderMessage): Promise<void> {
    if (message.signed === "never") {
      throw new WinnowError("FAILED_PRECONDITION", "This worker never holds that");
    }
    this.orders.push(message);
  }

  knownOrder(): string | undefined {
    return this.order;
  }
}
