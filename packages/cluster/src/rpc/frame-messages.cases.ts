// Queries and replies as the messages that protobufjs reads and writes: the twin that shows whether
// the codecs of this package speak the format of `shard.proto`.

import { grpcStatusOf } from "@winnow/core";
import type { Tensor, TopKBlock } from "@winnow/core";
import type { WorkerAnswer, WorkerQuery, WorkerReply } from "./frames.ts";
import type { Keys } from "./generated/winnow/shard/v1/Keys.ts";
import type { Query } from "./generated/winnow/shard/v1/Query.ts";
import type { Reply } from "./generated/winnow/shard/v1/Reply.ts";
import type { TopKAnswer } from "./generated/winnow/shard/v1/TopKAnswer.ts";

/** A query as a message. */
export function queryMessage({ ask, version, ...query }: WorkerQuery): Query {
  const common = {
    id: query.id,
    remaining_ms: query.remainingMs,
    ...version,
    table: query.table,
    partitions: bytesOf(query.partitions),
  };
  if (ask.kind === "lookup") return { ...common, lookup: { keys: keysMessage(ask.keys) } };
  const { k, queries, vectors, excluded, rowsOnly } = ask;
  const lists = excluded.map(keysMessage);
  return {
    ...common,
    top_k: { k, queries, vectors: bytesOf(vectors), excluded: lists, rows_only: rowsOnly },
  };
}

/** A reply as a message. */
export function replyMessage({ id, queueUs, computeUs, answer }: WorkerReply): Reply {
  return { id, queue_us: queueUs, compute_us: computeUs, ...answerMessage(answer) };
}

function answerMessage(answer: WorkerAnswer): Partial<Reply> {
  switch (answer.kind) {
    case "topK":
      return { top_k: topKMessage(answer.block, answer.ids) };
    case "lookup":
      return { lookup: { vectors: bytesOf(answer.vectors) } };
    case "failure": {
      const { code, message } = answer.error;
      return { failure: { code: grpcStatusOf(code), reason: answer.reason, message } };
    }
  }
}

function topKMessage({ queries, k, counts, scores, rows }: TopKBlock, ids?: Tensor): TopKAnswer {
  const filled = Array.from({ length: queries * k }, (_, at) => at).filter(
    (at) => at % k < counts[Math.floor(at / k)]!,
  );
  const scoresFilled = Float32Array.from(filled, (at) => scores[at]!);
  const rowsFilled = Uint32Array.from(filled, (at) => rows[at]!);
  return {
    k,
    counts: bytesOf(counts),
    scores: bytesOf(scoresFilled),
    rows: bytesOf(rowsFilled),
    ...idsMessage(ids),
  };
}

function idsMessage(ids: Tensor | undefined): Partial<TopKAnswer> {
  if (ids?.dtype === "string") return { id_strings: stringsMessage(ids) };
  if (ids?.dtype === "int32") return { id_int32: bytesOf(ids.data) };
  if (ids?.dtype === "int64") return { id_int64: bytesOf(ids.data) };
  return {};
}

function keysMessage(keys: Tensor): Keys {
  if (keys.dtype === "string") return { strings: stringsMessage(keys) };
  return { integers: bytesOf(BigInt64Array.from(keys.data as BigInt64Array)) };
}

function stringsMessage({ data }: Extract<Tensor, { dtype: "string" }>): Keys["strings"] & object {
  const strings = Array.from({ length: data.length }, (_, index) => data.at(index));
  return {
    lengths: bytesOf(Uint32Array.from(strings, ({ length }) => length)),
    data: Buffer.concat(strings),
  };
}

const bytesOf = ({
  buffer,
  byteOffset,
  byteLength,
}: Float32Array | Uint32Array | Uint16Array | Int32Array | BigInt64Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);
