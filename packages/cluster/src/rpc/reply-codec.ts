// Replies as messages and back. Only filled positions of a top-k block travel; the receiver gives
// each query its room of k again.

import { WinnowError, codeOfGrpcStatus, grpcStatusOf, tensor } from "@winnow/core";
import type { Tensor, TopKBlock } from "@winnow/core";
import type { Failure__Output } from "./generated/winnow/shard/v1/Failure.ts";
import type { Reply, Reply__Output } from "./generated/winnow/shard/v1/Reply.ts";
import type { TopKAnswer, TopKAnswer__Output } from "./generated/winnow/shard/v1/TopKAnswer.ts";
import type { FailureReason, WorkerAnswer, WorkerReply } from "./frames.ts";
import {
  bytesOf,
  cutDetails,
  malformed,
  packStrings,
  unpackFloats,
  unpackInt32,
  unpackInt64,
  unpackStrings,
  unpackUint32,
} from "./packed-bytes.ts";
import { POSITIONS_MAX, keyBytes } from "./query-codec.ts";

const REASONS: ReadonlySet<string> = new Set<FailureReason>([
  "NOT_OWNER",
  "NO_VERSION",
  "EXPIRED",
  "OVERLOADED",
  "INVALID_KEY",
  "INTERNAL",
]);

/** Packs a reply; its arrays must not change any more. */
export function encodeReply({ id, queueUs, computeUs, answer }: WorkerReply): Reply {
  const times = { id, queue_us: clampUs(queueUs), compute_us: clampUs(computeUs) };
  switch (answer.kind) {
    case "topK":
      return { ...times, top_k: encodeTopK(answer.block, answer.ids) };
    case "lookup":
      return { ...times, lookup: { vectors: bytesOf(answer.vectors) } };
    case "failure":
      return {
        ...times,
        failure: {
          code: grpcStatusOf(answer.error.code),
          reason: answer.reason,
          message: cutDetails(answer.error.message),
        },
      };
  }
}

/** @throws WinnowError INVALID_ARGUMENT */
export function decodeReply(message: Reply__Output): WorkerReply {
  if (!Number.isSafeInteger(message.id)) throw malformed("id", "is not below 2^53");
  return {
    id: message.id,
    queueUs: message.queue_us,
    computeUs: message.compute_us,
    answer: decodeAnswer(message),
  };
}

/** About how many bytes a reply takes on the wire. */
export function replyBytes({ answer }: WorkerReply): number {
  switch (answer.kind) {
    case "topK": {
      const { block, ids } = answer;
      return 64 + block.counts.byteLength + 2 * block.scores.byteLength + (ids ? keyBytes(ids) : 0);
    }
    case "lookup":
      return 64 + answer.vectors.byteLength;
    case "failure":
      return 64 + answer.error.message.length;
  }
}

function decodeAnswer(message: Reply__Output): WorkerAnswer {
  if (message.top_k) return decodeTopK(message.top_k);
  if (message.lookup) {
    return { kind: "lookup", vectors: unpackFloats(message.lookup.vectors, "lookup.vectors") };
  }
  if (message.failure) return decodeFailure(message.failure);
  throw malformed("reply", "answers nothing");
}

function decodeFailure(failure: Failure__Output): WorkerAnswer {
  const reason = REASONS.has(failure.reason) ? (failure.reason as FailureReason) : "INTERNAL";
  const error = new WinnowError(codeOfGrpcStatus(failure.code), cutDetails(failure.message));
  return { kind: "failure", reason, error };
}

function encodeTopK(block: TopKBlock, ids: Tensor | undefined): TopKAnswer {
  const filled = block.counts.reduce((sum, count) => sum + count, 0);
  const isFull = filled === block.queries * block.k;
  const scores = isFull ? block.scores : new Float32Array(filled);
  const rows = isFull ? block.rows : new Uint32Array(filled);
  if (!isFull) {
    eachQuery(block, (position, from, count) => {
      scores.set(block.scores.subarray(position, position + count), from);
      rows.set(block.rows.subarray(position, position + count), from);
    });
  }
  return {
    k: block.k,
    counts: bytesOf(block.counts),
    scores: bytesOf(scores),
    rows: bytesOf(rows),
    ...encodeIds(ids),
  };
}

function encodeIds(ids: Tensor | undefined): Partial<TopKAnswer> {
  if (ids === undefined) return {};
  if (ids.dtype === "string") return { id_strings: packStrings(ids.data) };
  if (ids.dtype === "int64") return { id_int64: bytesOf(ids.data) };
  if (ids.dtype === "int32") return { id_int32: bytesOf(ids.data) };
  throw new RangeError(`Ids cannot be of type ${ids.dtype}`);
}

function decodeTopK(message: TopKAnswer__Output): WorkerAnswer {
  const { k } = message;
  const counts = unpackUint32(message.counts, "top_k.counts");
  if (k * counts.length > POSITIONS_MAX) throw malformed("top_k", "has too many candidates");
  if (counts.some((count) => count > k)) throw malformed("top_k.counts", `exceed k ${k}`);
  const filled = counts.reduce((sum, count) => sum + count, 0);
  const packed = {
    scores: unpackFloats(message.scores, "top_k.scores"),
    rows: unpackUint32(message.rows, "top_k.rows"),
  };
  const ids = decodeIds(message);
  const lengths = [packed.scores.length, packed.rows.length, ids?.data.length ?? filled];
  if (lengths.some((length) => length !== filled)) {
    throw malformed("top_k", `${lengths.join(", ")} scores, rows, ids for ${filled} candidates`);
  }
  return { kind: "topK", block: spread({ queries: counts.length, k, counts, ...packed }), ids };
}

function decodeIds(message: TopKAnswer__Output): Tensor | undefined {
  if (message.id_strings) {
    const column = unpackStrings(message.id_strings, "top_k.ids");
    return tensor("string", [column.length], column);
  }
  if (message.id_int64) {
    const values = unpackInt64(message.id_int64, "top_k.ids");
    return tensor("int64", [values.length], values);
  }
  if (message.id_int32) {
    const values = unpackInt32(message.id_int32, "top_k.ids");
    return tensor("int32", [values.length], values);
  }
  return undefined;
}

/** Gives each query its room of k; a block without gaps stays as it is. */
function spread(packed: TopKBlock): TopKBlock {
  const { queries, k, counts } = packed;
  if (packed.scores.length === queries * k) return packed;
  const scores = new Float32Array(queries * k);
  const rows = new Uint32Array(queries * k);
  eachQuery(packed, (position, from, count) => {
    scores.set(packed.scores.subarray(from, from + count), position);
    rows.set(packed.rows.subarray(from, from + count), position);
  });
  return { queries, k, counts, scores, rows };
}

/** For each query: where its room begins, where its packed candidates begin, how many there are. */
function eachQuery(
  { queries, k, counts }: Pick<TopKBlock, "queries" | "k" | "counts">,
  visit: (position: number, from: number, count: number) => void,
): void {
  let from = 0;
  for (let query = 0; query < queries; query += 1) {
    visit(query * k, from, counts[query]!);
    from += counts[query]!;
  }
}

const UINT32_MAX = 2 ** 32 - 1;

function clampUs(microseconds: number): number {
  return Math.min(UINT32_MAX, Math.max(0, Math.round(microseconds)));
}
