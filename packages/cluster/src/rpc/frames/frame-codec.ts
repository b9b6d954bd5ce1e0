// Frames as bytes and back; see `frames.ts` for what they mean. Queries and replies, which are
// nearly all that travels, have codecs of their own (a tenth of the time that protobufjs takes
// through an object per message); all other frames use `message-codec.ts`. The bytes are always
// those of `shard.proto`. Decoding a malformed frame throws, and the reader ends that stream; other
// streams are not affected.
//
//   RouterFrame  { oneof: hello 1; queries 2: QueryBatch; cancel 3; ping 4; predecessor 5 }
//   WorkerFrame  { oneof: state 1; replies 2: ReplyBatch; pong 3; drain 4; members 5 }
//   QueryBatch   { queries 1: Query, repeated }
//   ReplyBatch   { replies 1: Reply, repeated }

import { WIRE, incarnation, toWinnowError, workerId } from "@winnow/core";
import {
  decodeAnnouncement,
  encodeAnnouncement,
  isWorkerId,
} from "../../announcement/announcement-codec.ts";
import type { Announcement } from "../../announcement/announcement.ts";
import { readContact } from "../../announcement/contact.ts";
import { INCARNATION_MAX } from "../../announcement/succession.ts";
import { HEARD_PER_PONG, MEMBERS_PER_FRAME } from "./frame-limits.ts";
import type { HeardWorker, MemberNews, RouterFrame, WorkerFrame } from "./frames.ts";
import type { Heard, Heard__Output } from "../generated/winnow/shard/v1/Heard.ts";
import type { Member, Member__Output } from "../generated/winnow/shard/v1/Member.ts";
import type { RouterFrame__Output } from "../generated/winnow/shard/v1/RouterFrame.ts";
import type { WorkerFrame__Output } from "../generated/winnow/shard/v1/WorkerFrame.ts";
import { malformed } from "./malformed-frame.ts";
import { queryBytes, readQuery, writeQuery } from "./query-codec.ts";
import { readReply, replyBytes, writeReply } from "./reply-codec.ts";
import { frameMessages } from "./shard-service.ts";
import { FrameReader } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";

const ROUTER_ID_CHARACTERS_MAX = 256;
/** Field number of the queries in a router's frame, of the replies in a worker's. */
const BATCH = 2;
const ITEM = 1;
/** Room for the tag and length of a batch. */
const BATCH_HEADER_BYTES = 11;
const { bytes: LENGTH_DELIMITED } = WIRE;
const BATCH_TAG = BATCH * 8 + LENGTH_DELIMITED;
const ITEM_TAG = ITEM * 8 + LENGTH_DELIMITED;

const { requestSerialize, requestDeserialize, responseSerialize, responseDeserialize } =
  frameMessages;

/** A router's frame as bytes. */
export function encodeRouterFrame(frame: RouterFrame): Buffer {
  switch (frame.kind) {
    case "hello":
      return requestSerialize({
        hello: { router_id: frame.routerId, wants_members: frame.wantsMembers },
      });
    case "queries": {
      const bytes = frame.queries.reduce((sum, query) => sum + queryBytes(query), 0);
      return writeBatch(frame.queries, bytes, writeQuery);
    }
    case "cancel":
      return requestSerialize({ cancel: { id: frame.id } });
    case "ping":
      return requestSerialize({
        ping: {
          sequence: frame.sequence,
          wants_heard: frame.wantsHeard === true,
          in_doubt: frame.inDoubt === true,
        },
      });
    case "predecessor":
      return requestSerialize({ predecessor: { incarnation: frame.incarnation } });
  }
}

/** @throws WinnowError INVALID_ARGUMENT */
export function decodeRouterFrame(bytes: Buffer): RouterFrame {
  const queries = readBatch(bytes, readQuery);
  if (queries !== undefined) return { kind: "queries", queries };
  checkNesting(new FrameReader(bytes), ROUTER_FRAME);
  return decodeRouterMessage(asMessage(bytes, requestDeserialize));
}

/** State frames by their announcements: each is sent to every router and member that listens. */
const knownStates = new WeakMap<Announcement, Buffer>();

function stateBytes(announcement: Announcement): Buffer {
  const known = knownStates.get(announcement);
  if (known !== undefined) return known;
  const bytes = responseSerialize({ state: encodeAnnouncement(announcement) });
  knownStates.set(announcement, bytes);
  return bytes;
}

/** A worker's frame as bytes; they may be shared with other calls and must not be written to. */
export function encodeWorkerFrame(frame: WorkerFrame): Buffer {
  switch (frame.kind) {
    case "state":
      return stateBytes(frame.announcement);
    case "replies": {
      const bytes = frame.replies.reduce((sum, reply) => sum + replyBytes(reply), 0);
      return writeBatch(frame.replies, bytes, writeReply);
    }
    case "pong": {
      const { sequence, queueRows: queue_rows, progress, stalled, scans } = frame.pong;
      const heard = frame.pong.heard?.map(heardMessage);
      return responseSerialize({
        pong: {
          sequence,
          queue_rows,
          progress,
          stalled,
          ...(heard && { heard }),
          ...(scans && { scans: scans.batches, scanned_queries: scans.queries }),
        },
      });
    }
    case "drain":
      return responseSerialize({ drain: {} });
    case "members":
      return responseSerialize({ members: { members: frame.members.map(memberMessage) } });
  }
}

/** @throws WinnowError INVALID_ARGUMENT */
export function decodeWorkerFrame(bytes: Buffer): WorkerFrame {
  const replies = readBatch(bytes, readReply);
  if (replies !== undefined) return { kind: "replies", replies };
  checkNesting(new FrameReader(bytes), WORKER_FRAME);
  return decodeWorkerMessage(asMessage(bytes, responseDeserialize));
}

function writeBatch<Item>(
  items: readonly Item[],
  bytes: number,
  write: (writer: FrameWriter, field: number, item: Item) => void,
): Buffer {
  const writer = new FrameWriter(bytes + BATCH_HEADER_BYTES);
  writer.begin(BATCH, bytes);
  for (const item of items) write(writer, ITEM, item);
  return writer.end().finish();
}

/** The items of a batch frame; `undefined` for any other frame. */
function readBatch<Item>(bytes: Buffer, read: (reader: FrameReader) => Item): Item[] | undefined {
  if (bytes[0] !== BATCH_TAG) return undefined;
  const reader = new FrameReader(bytes);
  const items: Item[] = [];
  while (reader.next()) {
    if (reader.tag === BATCH_TAG) reader.nested(() => readItems(reader, read, items));
  }
  return items;
}

function readItems<Item>(
  reader: FrameReader,
  read: (reader: FrameReader) => Item,
  items: Item[],
): void {
  while (reader.next()) {
    if (reader.tag === ITEM_TAG) items.push(read(reader));
  }
}

/** The fields of a message that are messages, by field number. */
interface Nesting {
  readonly [field: number]: Nesting;
}

const FLAT: Nesting = {};
const ROUTER_FRAME: Nesting = { 1: FLAT, 3: FLAT, 4: FLAT };
const WORKER_FRAME: Nesting = { 1: { 9: { 7: FLAT } }, 3: { 5: FLAT }, 4: FLAT };

/**
 * Checks a frame before objects are made of it: the number of its messages is bounded, and it holds
 * no batch behind another field. @throws WinnowError INVALID_ARGUMENT
 */
function checkNesting(reader: FrameReader, nesting: Nesting): void {
  while (reader.next()) {
    const inner = reader.wire === LENGTH_DELIMITED ? nesting[reader.field] : undefined;
    if (reader.tag === BATCH_TAG && isFrame(nesting)) throw malformed("frame", "holds two things");
    if (inner !== undefined) reader.nested(() => checkNesting(reader, inner));
  }
}

const isFrame = (nesting: Nesting): boolean => nesting === ROUTER_FRAME || nesting === WORKER_FRAME;

/** Decodes a message; errors of the decoder become those of a malformed frame. */
function asMessage<Message>(bytes: Buffer, deserialize: (bytes: Buffer) => Message): Message {
  try {
    return deserialize(bytes);
  } catch (error) {
    throw malformed("frame", toWinnowError(error).message);
  }
}

function decodeRouterMessage(message: RouterFrame__Output): RouterFrame {
  if (message.cancel) return { kind: "cancel", id: message.cancel.id };
  if (message.ping) {
    const { sequence, wants_heard: wantsHeard, in_doubt: inDoubt } = message.ping;
    const asks = { ...(wantsHeard && { wantsHeard }), ...(inDoubt && { inDoubt }) };
    return { kind: "ping", sequence, ...asks };
  }
  if (message.predecessor) {
    const { incarnation: number } = message.predecessor;
    if (number > INCARNATION_MAX) throw malformed("predecessor", "is no incarnation");
    return { kind: "predecessor", incarnation: incarnation(number) };
  }
  if (message.hello) {
    const { router_id: routerId, wants_members: wantsMembers } = message.hello;
    if (routerId.length > ROUTER_ID_CHARACTERS_MAX) throw malformed("router_id", "is too long");
    return { kind: "hello", routerId, wantsMembers };
  }
  throw malformed("frame", "is empty");
}

function decodeWorkerMessage(message: WorkerFrame__Output): WorkerFrame {
  if (message.pong) {
    const { sequence, queue_rows: queueRows, progress, stalled, heard } = message.pong;
    if (heard.length > HEARD_PER_PONG) throw malformed("heard", "are too many");
    const said = heard.length > 0 && { heard: heard.flatMap((each) => heardWorkerOf(each) ?? []) };
    const { scans: batches, scanned_queries: queries } = message.pong;
    const counted = batches > 0 && { scans: { batches, queries } };
    return { kind: "pong", pong: { sequence, queueRows, progress, stalled, ...said, ...counted } };
  }
  if (message.state) return { kind: "state", announcement: decodeAnnouncement(message.state) };
  if (message.drain) return { kind: "drain" };
  if (message.members) {
    const { members } = message.members;
    if (members.length > MEMBERS_PER_FRAME) throw malformed("members", "are too many");
    return { kind: "members", members: members.flatMap((member) => memberOf(member) ?? []) };
  }
  throw malformed("frame", "is empty");
}

function heardMessage({ workerId: id, incarnation: number, digest, ageMs }: HeardWorker): Heard {
  return { worker_id: id, incarnation: number, digest, age_ms: Math.ceil(ageMs) };
}

/** Leaves out what cannot be read, like `memberOf`. */
function heardWorkerOf({
  worker_id: id,
  incarnation: number,
  digest,
  age_ms: ageMs,
}: Heard__Output): HeardWorker | undefined {
  if (!isWorkerId(id) || number > INCARNATION_MAX || !Number.isSafeInteger(digest))
    return undefined;
  return { workerId: workerId(id), incarnation: incarnation(number), digest, ageMs };
}

function memberMessage({ workerId, incarnation: number, address, isGone }: MemberNews): Member {
  return { worker_id: workerId, incarnation: number ?? 0, address, gone: isGone };
}

/** Members are only hints: one that cannot be read is left out, and the others are kept. */
function memberOf({
  worker_id: id,
  gone: isGone,
  ...said
}: Member__Output): MemberNews | undefined {
  const contact = readContact({ id, ...said });
  return contact && { ...contact, isGone };
}
