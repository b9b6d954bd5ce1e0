// Replies as bytes and back. Only the filled positions of a top-k block travel; the reader restores
// the block of k positions per query.
//
//   Reply         { id 1; queue_us 2; compute_us 3;
//                   oneof: top_k 4: TopKAnswer; lookup 5: LookupAnswer; failure 6: Failure }
//   TopKAnswer    { k 1; counts 2: bytes; scores 3: bytes; rows 4: bytes;
//                   oneof: id_strings 5: Strings; id_int32 6: bytes; id_int64 7: bytes;
//                  attributes 8: Strings; vector_bytes 9; item_rows 10: bytes; item_rows_later 11;
//                  vectors_later 12 }
//   LookupAnswer  { vectors 1: bytes; known 2: bytes }
//   Failure       { code 1; reason 2: string; message 3: string }

import { WIRE, WinnowError, codeOfGrpcStatus, grpcStatusOf, tensor } from "@winnow/core";
import type { StringColumn, Tensor, TopKBlock } from "@winnow/core";
import type { FailureReason, WorkerAnswer, WorkerReply } from "./frames.ts";
import { NO_FLOATS, NO_UINTS } from "./frame-reader.ts";
import { keyBytes, readStrings, writeStrings } from "./key-codec.ts";
import { cutDetails, malformed } from "./malformed-frame.ts";
import type { FrameReader } from "./frame-reader.ts";
import type { FrameWriter } from "./frame-writer.ts";

const { varint: VARINT, bytes: LENGTH_DELIMITED } = WIRE;
/** About the bytes of an answer beside its arrays and texts, and of a reply beside its answer. */
const ANSWER_FIELDS_BYTES = 8;
const REPLY_FIELDS_BYTES = 14;
const TOP_K = 4;
const LOOKUP = 5;
const FAILURE = 6;
const ID_STRINGS = 5;
const ID_INT32 = 6;
const ID_INT64 = 7;
const ATTRIBUTES = 8;
const VECTOR_BYTES = 9;
const ITEM_ROWS = 10;
const ITEM_ROWS_LATER = 11;
const VECTORS_LATER = 12;
const KNOWN = 2;
const UINT32_MAX = 2 ** 32 - 1;
/** Placeholder until the answer is read. */
const NOTHING: WorkerAnswer = { kind: "lookup", vectors: NO_FLOATS };

const REASONS: ReadonlySet<string> = new Set<FailureReason>([
  "NOT_OWNER",
  "NO_VERSION",
  "EXPIRED",
  "OVERLOADED",
  "INVALID_KEY",
  "INTERNAL",
]);

/** Writes a reply as the `Reply` message of a field. */
export function writeReply(writer: FrameWriter, field: number, reply: WorkerReply): void {
  const bytes = ANSWER_FIELDS_BYTES + answerBytes(reply.answer);
  writer.begin(field, bytes + REPLY_FIELDS_BYTES);
  writer.int(1, reply.id);
  writer.int(2, clampUs(reply.queueUs));
  writer.int(3, clampUs(reply.computeUs));
  writeAnswer(writer, reply.answer, bytes);
  writer.end();
}

/** A `Reply` message. @throws WinnowError INVALID_ARGUMENT */
export function readReply(reader: FrameReader): WorkerReply {
  return reader.nested(readReplyFields);
}

function readReplyFields(reader: FrameReader): WorkerReply {
  const reply = { id: 0, queueUs: 0, computeUs: 0, answer: NOTHING };
  while (reader.next()) {
    switch (reader.tag) {
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
        reply.answer = readAnswer(reader) ?? reply.answer;
    }
  }
  if (reply.answer === NOTHING) throw malformed("reply", "answers nothing");
  return reply;
}

/** About how many bytes a reply takes on the wire. */
export function replyBytes({ answer }: WorkerReply): number {
  return 64 + answerBytes(answer);
}

/** Bytes of the arrays and texts of an answer. */
function answerBytes(answer: WorkerAnswer): number {
  switch (answer.kind) {
    case "topK": {
      const { block, ids, attributes, itemRows } = answer;
      const candidates = block.counts.byteLength + 2 * block.scores.byteLength;
      const texts = attributes ? attributes.byteLength + 4 * attributes.length : 0;
      return candidates + texts + (ids ? keyBytes(ids) : 0) + (itemRows?.byteLength ?? 0);
    }
    case "lookup":
      return answer.vectors.byteLength + (answer.known?.length ?? 0);
    case "failure":
      return answer.error.message.length;
  }
}

function writeAnswer(writer: FrameWriter, answer: WorkerAnswer, bytes: number): void {
  switch (answer.kind) {
    case "topK":
      writer.begin(TOP_K, bytes);
      writeBlock(writer, answer.block);
      writeIds(writer, answer.ids);
      if (answer.attributes !== undefined) writeStrings(writer, ATTRIBUTES, answer.attributes);
      if (answer.vectorBytes) writer.bool(VECTOR_BYTES, true);
      if (answer.itemRows !== undefined) writer.bytes(ITEM_ROWS, answer.itemRows);
      if (answer.itemRowsLater) writer.bool(ITEM_ROWS_LATER, true);
      if (answer.vectorsLater) writer.bool(VECTORS_LATER, true);
      break;
    case "lookup":
      writer.begin(LOOKUP, bytes);
      writer.bytes(1, answer.vectors);
      if (answer.known !== undefined) writer.bytes(KNOWN, answer.known);
      break;
    case "failure":
      writer.begin(FAILURE, bytes);
      writer.int(1, grpcStatusOf(answer.error.code));
      writer.text(2, answer.reason);
      writer.text(3, cutDetails(answer.error.message));
  }
  writer.end();
}

/** The answer, if this field is one. */
function readAnswer(reader: FrameReader): WorkerAnswer | undefined {
  if (reader.tag === TOP_K * 8 + LENGTH_DELIMITED) return reader.nested(readTopK);
  if (reader.tag === LOOKUP * 8 + LENGTH_DELIMITED) return reader.nested(readLookup);
  if (reader.tag === FAILURE * 8 + LENGTH_DELIMITED) return reader.nested(readFailure);
  return undefined;
}

function writeBlock(writer: FrameWriter, block: TopKBlock): void {
  writer.int(1, block.k);
  writer.bytes(2, block.counts);
  writeFilled(writer, 3, { values: block.scores, block });
  writeFilled(writer, 4, { values: block.rows, block });
}

/** The filled positions of scores or rows, query after query. */
function writeFilled(
  writer: FrameWriter,
  field: number,
  { values, block }: { readonly values: Float32Array | Uint32Array; readonly block: TopKBlock },
): void {
  const { queries, k, counts } = block;
  const filled = counts.reduce((sum, count) => sum + count, 0);
  writer.open(field, filled * values.BYTES_PER_ELEMENT);
  if (filled === queries * k) writer.raw(values.subarray(0, filled));
  else {
    for (let query = 0; query < queries; query += 1) {
      writer.raw(values.subarray(query * k, query * k + counts[query]!));
    }
  }
}

function writeIds(writer: FrameWriter, ids: Tensor | undefined): void {
  if (ids === undefined) return;
  if (ids.dtype === "string") writeStrings(writer, ID_STRINGS, ids.data);
  else if (ids.dtype === "int64") writer.bytes(ID_INT64, ids.data);
  else if (ids.dtype === "int32") writer.bytes(ID_INT32, ids.data);
  else throw new RangeError(`Ids cannot be of type ${ids.dtype}`);
}

function readTopK(reader: FrameReader): WorkerAnswer {
  const block = { queries: 0, k: 0, counts: NO_UINTS, scores: NO_FLOATS, rows: NO_UINTS };
  let ids: Tensor | undefined;
  const more: FurtherColumns = {};
  while (reader.next()) {
    switch (reader.tag) {
      case VECTOR_BYTES * 8 + VARINT:
      case ITEM_ROWS * 8 + LENGTH_DELIMITED:
      case ITEM_ROWS_LATER * 8 + VARINT:
      case VECTORS_LATER * 8 + VARINT:
        readMore(reader, more);
        break;
      case ATTRIBUTES * 8 + LENGTH_DELIMITED:
        more.attributes = readTexts(reader);
        break;
      case 1 * 8 + VARINT:
        block.k = reader.uint32("top_k.k");
        break;
      case 2 * 8 + LENGTH_DELIMITED:
        block.counts = reader.uint32Array("top_k.counts");
        break;
      case 3 * 8 + LENGTH_DELIMITED:
        block.scores = reader.float32Array("top_k.scores");
        break;
      case 4 * 8 + LENGTH_DELIMITED:
        block.rows = reader.uint32Array("top_k.rows");
        break;
      default:
        ids = readIds(reader) ?? ids;
    }
  }
  block.queries = block.counts.length;
  reader.takePositions(block.k * block.queries, "top_k");
  checkFilled(block, { ids, attributes: more.attributes });
  return { kind: "topK", block: spread(block), ids, ...more };
}

function readMore(reader: FrameReader, more: FurtherColumns): void {
  switch (reader.tag) {
    case VECTOR_BYTES * 8 + VARINT:
      more.vectorBytes = reader.flag() || undefined;
      return;
    case ITEM_ROWS * 8 + LENGTH_DELIMITED:
      more.itemRows = reader.float32Array("top_k.item_rows");
      return;
    case ITEM_ROWS_LATER * 8 + VARINT:
      more.itemRowsLater = reader.flag() || undefined;
      return;
    case VECTORS_LATER * 8 + VARINT:
      more.vectorsLater = reader.flag() || undefined;
      return;
  }
}

/** What only some answers have. */
interface FurtherColumns {
  attributes?: StringColumn;
  vectorBytes?: true | undefined;
  itemRows?: Float32Array;
  itemRowsLater?: true | undefined;
  vectorsLater?: true | undefined;
}

function readTexts(reader: FrameReader): StringColumn {
  const { dtype, data } = readStrings(reader, "top_k.attributes");
  if (dtype !== "string") throw new RangeError(`strings of dtype ${dtype}`);
  return data;
}

/** Ids, if this field holds them. */
function readIds(reader: FrameReader): Tensor | undefined {
  switch (reader.tag) {
    case ID_STRINGS * 8 + LENGTH_DELIMITED:
      return readStrings(reader, "top_k.ids");
    case ID_INT32 * 8 + LENGTH_DELIMITED: {
      const values = reader.int32Array("top_k.ids");
      return tensor("int32", [values.length], values);
    }
    case ID_INT64 * 8 + LENGTH_DELIMITED: {
      const values = reader.int64Array("top_k.ids");
      return tensor("int64", [values.length], values);
    }
    default:
      return undefined;
  }
}

/**
 * Checks that no count exceeds k, and that their sum is the number of scores, rows and ids.
 * @throws WinnowError INVALID_ARGUMENT
 */
function checkFilled(
  { k, counts, scores, rows }: TopKBlock,
  { ids, attributes }: { ids: Tensor | undefined; attributes: StringColumn | undefined },
): void {
  let filled = 0;
  for (let query = 0; query < counts.length; query += 1) {
    const count = counts[query]!;
    if (count > k) throw malformed("top_k.counts", `exceed k ${k}`);
    filled += count;
  }
  const idCount = ids?.data.length ?? filled;
  const lengths = [scores.length, rows.length, idCount, attributes?.length ?? filled];
  if (lengths.every((length) => length === filled)) return;
  const text = `${lengths.join(", ")} scores, rows, ids, attributes for ${filled} candidates`;
  throw malformed("top_k", text);
}

/** Expands a packed block to k positions per query; a block that is full is returned as it is. */
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

function readLookup(reader: FrameReader): WorkerAnswer {
  let vectors = NO_FLOATS;
  let known: Uint8Array | undefined;
  while (reader.next()) {
    if (reader.tag === 1 * 8 + LENGTH_DELIMITED) vectors = reader.float32Array("lookup.vectors");
    else if (reader.tag === KNOWN * 8 + LENGTH_DELIMITED) known = reader.byteArray();
  }
  return { kind: "lookup", vectors, ...(known && { known }) };
}

function readFailure(reader: FrameReader): WorkerAnswer {
  const failure = { code: 0, reason: "", message: "" };
  while (reader.next()) {
    if (reader.tag === 1 * 8 + VARINT) failure.code = reader.uint32("failure.code");
    else if (reader.tag === 2 * 8 + LENGTH_DELIMITED) failure.reason = reader.text();
    else if (reader.tag === 3 * 8 + LENGTH_DELIMITED) failure.message = reader.text();
  }
  const reason = REASONS.has(failure.reason) ? (failure.reason as FailureReason) : "INTERNAL";
  const error = new WinnowError(codeOfGrpcStatus(failure.code), cutDetails(failure.message));
  return { kind: "failure", reason, error };
}

function clampUs(microseconds: number): number {
  return Math.min(UINT32_MAX, Math.max(0, Math.round(microseconds)));
}
