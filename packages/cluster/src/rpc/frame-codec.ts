// Frames as proto messages and back; see `frames.ts` for what they mean. A frame that cannot be what
// its sender meant throws, and whoever reads the stream ends it: nothing else is affected.

import { decodeAnnouncement, encodeAnnouncement } from "../announcement-codec.ts";
import type { RouterFrame, WorkerFrame } from "./frames.ts";
import type {
  RouterFrame as RouterFrameMessage,
  RouterFrame__Output,
} from "./generated/winnow/shard/v1/RouterFrame.ts";
import type {
  WorkerFrame as WorkerFrameMessage,
  WorkerFrame__Output,
} from "./generated/winnow/shard/v1/WorkerFrame.ts";
import { malformed } from "./packed-bytes.ts";
import { decodeQuery, encodeQuery } from "./query-codec.ts";
import { decodeReply, encodeReply } from "./reply-codec.ts";

const ROUTER_ID_CHARACTERS_MAX = 256;

/** A router's frame as a message. */
export function encodeRouterFrame(frame: RouterFrame): RouterFrameMessage {
  switch (frame.kind) {
    case "hello":
      return { hello: { router_id: frame.routerId } };
    case "queries":
      return { queries: { queries: frame.queries.map(encodeQuery) } };
    case "cancel":
      return { cancel: { id: frame.id } };
    case "ping":
      return { ping: { sequence: frame.sequence } };
  }
}

/** @throws WinnowError INVALID_ARGUMENT */
export function decodeRouterFrame(message: RouterFrame__Output): RouterFrame {
  if (message.queries) {
    return { kind: "queries", queries: message.queries.queries.map(decodeQuery) };
  }
  if (message.cancel) return { kind: "cancel", id: message.cancel.id };
  if (message.ping) return { kind: "ping", sequence: message.ping.sequence };
  if (message.hello) {
    const routerId = message.hello.router_id;
    if (routerId.length > ROUTER_ID_CHARACTERS_MAX) throw malformed("router_id", "is too long");
    return { kind: "hello", routerId };
  }
  throw malformed("frame", "is empty");
}

/** A worker's frame as a message. */
export function encodeWorkerFrame(frame: WorkerFrame): WorkerFrameMessage {
  switch (frame.kind) {
    case "state":
      return { state: encodeAnnouncement(frame.announcement) };
    case "replies":
      return { replies: { replies: frame.replies.map(encodeReply) } };
    case "pong":
      return {
        pong: {
          sequence: frame.pong.sequence,
          queue_rows: frame.pong.queueRows,
          progress: frame.pong.progress,
          stalled: frame.pong.stalled,
        },
      };
    case "drain":
      return { drain: {} };
  }
}

/** @throws WinnowError INVALID_ARGUMENT */
export function decodeWorkerFrame(message: WorkerFrame__Output): WorkerFrame {
  if (message.replies) {
    return { kind: "replies", replies: message.replies.replies.map(decodeReply) };
  }
  if (message.pong) {
    const { sequence, queue_rows: queueRows, progress, stalled } = message.pong;
    return { kind: "pong", pong: { sequence, queueRows, progress, stalled } };
  }
  if (message.state) return { kind: "state", announcement: decodeAnnouncement(message.state) };
  if (message.drain) return { kind: "drain" };
  throw malformed("frame", "is empty");
}
