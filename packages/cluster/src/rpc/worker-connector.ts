// The interface between a router's control code and the network: streams and calls to workers. It
// is gRPC in production (`grpc-connector.ts`), a fake network in the simulator.

import type { VersionKey, WinnowError } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { RouterFrame, WorkerFrame } from "./frames/frames.ts";

/** One stream to one worker. */
export interface FrameChannel {
  /**
   * Hands a frame to the stream. `false`: the frame is taken, but no other should be sent before
   * `onWritable`. A frame sent after the end is dropped.
   */
  send(frame: RouterFrame): boolean;
  /** Ends this side; the worker ends its side when its replies are sent. Idempotent. */
  end(): void;
  /** Ends the stream at once; `onClose` is not called. Idempotent. */
  cancel(): void;
}

/** Receives the events of a stream. Never called within `open`, and never after `onClose`. */
export interface FrameHandlers {
  onFrame(frame: WorkerFrame): void;
  /** The stream takes frames again after `send` returned `false`. */
  onWritable(): void;
  /** The stream is over; `error` is `undefined` when it ended in order. */
  onClose(error: WinnowError | undefined): void;
}

/** Which program to fetch. */
export interface ProgramQuery {
  readonly version: VersionKey;
  /** Keyed tables of up to this many bytes come whole with the program. */
  readonly tableBytesMax: number;
}

/** The models order in force, or a draft of one: a signed text (`orders/order-book.ts`). */
export interface OrderMessage {
  readonly kind: "order" | "draft";
  readonly signed: string;
}

/** The network as a router (or a static membership) sees it. */
export interface WorkerConnector {
  /**
   * Opens a stream on a connection of its own. Never throws: if the worker cannot be reached, the
   * stream closes. The caller sends the hello.
   */
  open(address: string, handlers: FrameHandlers): FrameChannel;
  /** @throws WinnowError UNAVAILABLE, DEADLINE_EXCEEDED */
  describe(address: string, timeoutMs: number): Promise<Announcement>;
  /** The bytes of `encodeProgramPackage`. @throws WinnowError NOT_FOUND, UNAVAILABLE, … */
  program(address: string, query: ProgramQuery, signal?: AbortSignal): Promise<Uint8Array>;
  /**
   * Has a worker follow an order, or check whether it would follow a draft. @throws WinnowError
   * FAILED_PRECONDITION, PERMISSION_DENIED, NOT_FOUND, UNAUTHENTICATED, INVALID_ARGUMENT with the
   * worker's message; UNAVAILABLE, DEADLINE_EXCEEDED, after which it may follow the order all the
   * same
   */
  tellOrder(address: string, message: OrderMessage, timeoutMs: number): Promise<void>;
  /**
   * The highest order a worker knows, signed.
   * @throws WinnowError UNAVAILABLE, DEADLINE_EXCEEDED
   */
  askOrder(address: string, timeoutMs: number): Promise<string | undefined>;
  /**
   * Closes the connection for control calls to an address: it is not needed any more, or a call had
   * no answer and the connection may be dead. The next call opens a new one; streams are not
   * affected.
   */
  forget(address: string): void;
  /** Ends all streams and connections. */
  close(): void;
}
