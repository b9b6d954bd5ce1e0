// Replies as bytes and back. Only filled positions of a top-k block travel; the receiver gives each
// query its room of k again.
//
//   Reply         { id 1; queue_us 2; compute_us 3;
//                   oneof: top_k 4: TopKAnswer; lookup 5: LookupAnswer; failure 6: Failure }
//   TopKAnswer    { k 1; counts 2: bytes; scores 3: bytes; rows 4: bytes;
//                   oneof: id_strings 5: Strings; id_int32 6: bytes; id_int64 7: bytes }
//   LookupAnswer  { vectors 1: bytes }
//   Failure       { code 1; reason 2: string; message 3: string }

import { WinnowError, codeOfGrpcStatus, grpcStatusOf, tensor } from "@winnow/core";
import type { Tensor, TopKBlock } from "@winnow/core";
import type { FailureReason, WorkerAnswer, WorkerReply } from "./frames.ts";
import { keyBytes, readStrings, writeStrings } from "./key-codec.ts";
import { cutDetails, malformed } from "./malformed-frame.ts";
import type { WireReader } from "./wire-reader.ts";
import { LENGTH_DELIMITED, VARINT } from "./wire-writer.ts";
import type { WireWriter } from "./wire-writer.ts";

const TOP_K = 4;
const LOOKUP = 5;
const FAILURE = 6;
const ID_STRINGS = 5;
const ID_INT32 = 6;
const ID_INT64 = 7;
const UINT32_MAX = 2 ** 32 - 1;

const REASONS: ReadonlySet<string> = new Set<FailureReason>([
  "NOT_OWNER",
  "NO_VERSION",
  "EXPIRED",
  "OVERLOADED",
  "INVALID_KEY",
  "INTERNAL",
]);

/** Writes a reply as the `Reply` message of a field. */
export function writeReply(writer: WireWriter, field: number, reply: WorkerReply): void {
  const start = writer.length;
  writeAnswer(writer, reply.answer);
  writer.number(3, clampUs(reply.computeUs));
  writer.number(2, clampUs(reply.queueUs));
  writer.number(1, reply.id);
  writer.nested(field, start);
}

/** A `Reply` message. @throws WinnowError INVALID_ARGUMENT */
export function readReply(reader: WireReader): WorkerReply {
  return reader.nested(readReplyFields);
}

function readReplyFields(reader: WireReader): WorkerReply {
  const reply = { id: 0, queueUs: 0, computeUs: 0 };
  let answer: WorkerAnswer | undefined;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 1 * 8 + VARINT:
        reply.id = reader.number("id");
        break;
      case 2 * 8 + VARINT:
        reply.queueUs = reader.uint32("queue_us");
        break;
      case 3 * 8 + VARINT:
        reply.computeUs = reader.uint32("compute_us");
        break;
      default:
        answer = readAnswer(reader, tag) ?? answer;
    }
  }
  if (answer === undefined) throw malformed("reply", "answers nothing");
  return { ...reply, answer };
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

function writeAnswer(writer: WireWriter, answer: WorkerAnswer): void {
  const start = writer.length;
  switch (answer.kind) {
    case "topK":
      writeIds(writer, answer.ids);
      writeBlock(writer, answer.block);
      return writer.nested(TOP_K, start);
    case "lookup":
      writer.bytes(1, answer.vectors);
      return writer.nested(LOOKUP, start);
    case "failure":
      writer.text(3, cutDetails(answer.error.message));
      writer.text(2, answer.reason);
      writer.number(1, grpcStatusOf(answer.error.code));
      return writer.nested(FAILURE, start);
  }
}

/** The answer, if this field is one. */
function readAnswer(reader: WireReader, tag: number): WorkerAnswer | undefined {
  if (tag === TOP_K * 8 + LENGTH_DELIMITED) return reader.nested(readTopK);
  if (tag === LOOKUP * 8 + LENGTH_DELIMITED) return reader.nested(readLookup);
  if (tag === FAILURE * 8 + LENGTH_DELIMITED) return reader.nested(readFailure);
  reader.skip(tag);
  return undefined;
}

function writeBlock(writer: WireWriter, block: TopKBlock): void {
  writeFilled(writer, 4, { values: block.rows, block });
  writeFilled(writer, 3, { values: block.scores, block });
  writer.bytes(2, block.counts);
  writer.number(1, block.k);
}

/** The filled positions of scores or rows, query after query. */
function writeFilled(
  writer: WireWriter,
  field: number,
  { values, block }: { readonly values: Float32Array | Uint32Array; readonly block: TopKBlock },
): void {
  const { queries, k, counts } = block;
  const start = writer.length;
  if (counts.every((count) => count === k)) writer.raw(values.subarray(0, queries * k));
  else {
    for (let query = queries - 1; query >= 0; query -= 1) {
      writer.raw(values.subarray(query * k, query * k + counts[query]!));
    }
  }
  writer.nested(field, start);
}

function writeIds(writer: WireWriter, ids: Tensor | undefined): void {
  if (ids === undefined) return;
  if (ids.dtype === "string") writeStrings(writer, ID_STRINGS, ids.data);
  else if (ids.dtype === "int64") writer.bytes(ID_INT64, ids.data);
  else if (ids.dtype === "int32") writer.bytes(ID_INT32, ids.data);
  else throw new RangeError(`Ids cannot be of type ${ids.dtype}`);
}

function readTopK(reader: WireReader): WorkerAnswer {
  const packed = {
    k: 0,
    counts: new Uint32Array(0),
    scores: new Float32Array(0),
    rows: new Uint32Array(0),
  };
  let ids: Tensor | undefined;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 1 * 8 + VARINT:
        packed.k = reader.uint32("top_k.k");
        break;
      case 2 * 8 + LENGTH_DELIMITED:
        packed.counts = reader.uint32s("top_k.counts");
        break;
      case 3 * 8 + LENGTH_DELIMITED:
        packed.scores = reader.floats("top_k.scores");
        break;
      case 4 * 8 + LENGTH_DELIMITED:
        packed.rows = reader.uint32s("top_k.rows");
        break;
      default:
        ids = readIds(reader, tag) ?? ids;
    }
  }
  const block = { ...packed, queries: packed.counts.length };
  reader.takePositions(block.k * block.queries, "top_k");
  checkFilled(block, ids);
  return { kind: "topK", block: spread(block), ids };
}

/** Ids, if this field holds them. */
function readIds(reader: WireReader, tag: number): Tensor | undefined {
  switch (tag) {
    case ID_STRINGS * 8 + LENGTH_DELIMITED:
      return readStrings(reader, "top_k.ids");
    case ID_INT32 * 8 + LENGTH_DELIMITED: {
      const values = reader.int32s("top_k.ids");
      return tensor("int32", [values.length], values);
    }
    case ID_INT64 * 8 + LENGTH_DELIMITED: {
      const values = reader.int64s("top_k.ids");
      return tensor("int64", [values.length], values);
    }
    default:
      reader.skip(tag);
      return undefined;
  }
}

/** Counts must fit k and give as many scores, rows and ids. @throws WinnowError INVALID_ARGUMENT */
function checkFilled({ k, counts, scores, rows }: TopKBlock, ids?: Tensor): void {
  let filled = 0;
  for (const count of counts) {
    if (count > k) throw malformed("top_k.counts", `exceed k ${k}`);
    filled += count;
  }
  const idCount = ids?.data.length ?? filled;
  if (scores.length === filled && rows.length === filled && idCount === filled) return;
  const lengths = [scores.length, rows.length, idCount].join(", ");
  throw malformed("top_k", `${lengths} scores, rows, ids for ${filled} candidates`);
}

/** Gives each query its room of k; a block without gaps stays as it is. */
function spread(packed: TopKBlock): TopKBlock {
  const { queries, k, counts } = packed;
  if (packed.scores.length === queries * k) return packed;
  const scores = new Float32Array(queries * k);
  const rows = new Uint32Array(queries * k);
  let from = 0;
  for (let query = 0; query < queries; query += 1) {
    const end = from + counts[query]!;
    scores.set(packed.scores.subarray(from, end), query * k);
    rows.set(packed.rows.subarray(from, end), query * k);
    from = end;
  }
  return { queries, k, counts, scores, rows };
}

function readLookup(reader: WireReader): WorkerAnswer {
  let vectors = new Float32Array(0);
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 1 * 8 + LENGTH_DELIMITED) vectors = reader.floats("lookup.vectors");
    else reader.skip(tag);
  }
  return { kind: "lookup", vectors };
}

function readFailure(reader: WireReader): WorkerAnswer {
  const failure = { code: 0, reason: "", message: "" };
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 1 * 8 + VARINT) failure.code = reader.uint32("failure.code");
    else if (tag === 2 * 8 + LENGTH_DELIMITED) failure.reason = reader.text();
    else if (tag === 3 * 8 + LENGTH_DELIMITED) failure.message = reader.text();
    else reader.skip(tag);
  }
  const reason = REASONS.has(failure.reason) ? (failure.reason as FailureReason) : "INTERNAL";
  const error = new WinnowError(codeOfGrpcStatus(failure.code), cutDetails(failure.message));
  return { kind: "failure", reason, error };
}

function clampUs(microseconds: number): number {
  return Math.min(UINT32_MAX, Math.max(0, Math.round(microseconds)));
}
