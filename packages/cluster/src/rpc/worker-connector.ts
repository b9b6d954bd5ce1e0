// The seam between router control code and the network: who opens streams to workers. gRPC in
// production (`grpc-connector.ts`), a fake network in the simulator.

import type { VersionKey, WinnowError } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { RouterFrame, WorkerFrame } from "./frames.ts";

/** One stream to one worker, for one life of that stream. */
export interface FrameChannel {
  /**
   * Hands a frame to the stream. `false`: it is taken, but nothing more should be sent before
   * `onWritable`. A frame sent after the end is dropped.
   */
  send(frame: RouterFrame): boolean;
  /** Says "no more frames"; the worker ends its side when its replies are out. Idempotent. */
  end(): void;
  /** Ends the stream at once; `onClose` is not called any more. Idempotent. */
  cancel(): void;
}

/** What a stream tells. Never called within `open`, and never after `onClose`. */
export interface FrameHandlers {
  onFrame(frame: WorkerFrame): void;
  /** The stream takes frames again after `send` said `false`. */
  onWritable(): void;
  /** The stream is over: `undefined` when it ended in order after `end`. */
  onClose(error: WinnowError | undefined): void;
}

/** Which program to fetch. */
export interface ProgramQuery {
  readonly version: VersionKey;
  /** Keyed tables of up to this many bytes come along whole. */
  readonly tableBytesMax: number;
}

/** The models order in force, or a draft of one; either is a signed text (`orders/order-book.ts`). */
export interface OrderMessage {
  readonly kind: "order" | "draft";
  readonly signed: string;
}

/** The network as a router (or a static membership) sees it. */
export interface WorkerConnector {
  /**
   * Opens a stream on a connection of its own; never throws, an unreachable worker closes it. The
   * hello is not sent yet.
   */
  open(address: string, handlers: FrameHandlers): FrameChannel;
  /** @throws WinnowError UNAVAILABLE, DEADLINE_EXCEEDED */
  describe(address: string, timeoutMs: number): Promise<Announcement>;
  /** The bytes of `encodeProgramPackage`. @throws WinnowError NOT_FOUND, UNAVAILABLE, … */
  program(address: string, query: ProgramQuery, signal?: AbortSignal): Promise<Uint8Array>;
  /**
   * Has a worker follow an order, or only say whether it would follow a draft. @throws WinnowError
   * FAILED_PRECONDITION, PERMISSION_DENIED, NOT_FOUND, UNAUTHENTICATED, INVALID_ARGUMENT in the worker's
   * words; UNAVAILABLE, DEADLINE_EXCEEDED, after which it may have done so
   */
  tellOrder(address: string, message: OrderMessage, timeoutMs: number): Promise<void>;
  /** The highest order a worker knows, signed. @throws WinnowError UNAVAILABLE, DEADLINE_EXCEEDED */
  askOrder(address: string, timeoutMs: number): Promise<string | undefined>;
  /**
   * Lets go of the connection for control calls to an address: it is not needed any more, or nobody
   * answers there and it may be dead. Whatever is asked next goes over a new one; streams stay.
   */
  forget(address: string): void;
  /** Ends everything. */
  close(): void;
}
