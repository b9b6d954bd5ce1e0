// A router's view of one worker for as long as the worker is a member: streams come and go below it.

import type { Environment } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import type { Announcement } from "../announcement.ts";
import type { Pong, WorkerAsk, WorkerQuery, WorkerReply } from "./frames.ts";
import type { WorkerConnector } from "./worker-connector.ts";

/** What the channel needs of the world. */
export interface WorkerChannelParts {
  readonly environment: Environment;
  readonly connector: WorkerConnector;
  readonly routerId: string;
  /** Runs at the end of the current turn, so that queries of one turn share a frame. */
  readonly defer?: (run: () => void) => void;
}

/** What the channel tells. */
export interface WorkerChannelListener {
  /** A stream is open and this is the worker's state, or the state has changed. */
  onAnnouncement(announcement: Announcement): void;
  onPong(pong: Pong): void;
  /** The worker takes nothing new; replies under way still come. */
  onDrain(): void;
  /** The stream is over (pending queries have failed); the channel connects again by itself. */
  onDisconnect(error: WinnowError | undefined): void;
}

/** A query before it has an id. */
export interface Question extends Omit<WorkerQuery, "id" | "remainingMs" | "ask"> {
  readonly ask: WorkerAsk;
  /** Monotonic ms by which the client must have its answer. */
  readonly deadlineMs: number;
}

/** A question under way, or why it was not taken (ask another replica). */
export type Asked =
  | { readonly state: "asked"; cancel(): void }
  | { readonly state: "refused"; readonly reason: "DISCONNECTED" | "DRAINING" | "SATURATED" };

/** The life of the current stream. */
export type WorkerChannelState = "connecting" | "open" | "draining" | "closed";

/** Limits and waits of one channel. */
export interface WorkerChannelSettings {
  /** Questions without an answer, at most. */
  readonly pendingMax: number;
  /** Bytes of questions that wait for a stream that does not take them, at most. */
  readonly unsentBytesMax: number;
  readonly reconnectMinMs: number;
  readonly reconnectMaxMs: number;
  /** Until the first announcement on a new stream. */
  readonly connectTimeoutMs: number;
}

/** One worker as a router reaches it. */
export class WorkerChannel {
  readonly address: string;

  constructor(
    parts: WorkerChannelParts,
    listener: WorkerChannelListener,
    options: { readonly address: string } & Partial<WorkerChannelSettings>,
  ) {
    void parts;
    void listener;
    this.address = options.address;
  }

  /** Where the current stream stands. */
  get state(): WorkerChannelState {
    return "connecting";
  }

  /** Questions without an answer. */
  get pending(): number {
    return 0;
  }

  /** Asks. `onReply` is called exactly once, later, unless cancelled; with a failure if the stream ends. */
  ask(question: Question, onReply: (reply: WorkerReply) => void): Asked {
    throw new WinnowError("UNIMPLEMENTED", String(question.table) + String(onReply));
  }

  /** Sends a ping. False if no stream is open. */
  ping(sequence: number): boolean {
    return sequence < 0;
  }

  /** Ends the stream and lets go of the connection; pending questions fail. */
  close(): void {}
}
