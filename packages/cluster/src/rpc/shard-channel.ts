// A router's channel to one worker for as long as the worker is a member; streams come and go below
// it. The channel assigns ids, matches replies, sends the queries of one turn of the event loop in
// one frame, and keeps a bounded window. It works on a connector and a clock, so the simulator runs
// it unchanged.
//
//   connecting ── first state frame ──▶ open ── drain frame ──▶ draining ── last reply: end ──┐
//       ▲   └──── no state in time ──┐    │ stream broke          ended, or no end in time    │
//       └─── after a growing wait ◀──┴────┴◀──────────────────────────────────────────────────┘

import { WinnowError, setGraceTimer } from "@winnow/core";
import type { Environment, GraceTimer, Incarnation } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { MemberNews, Pong, WorkerFrame, WorkerReply } from "./frames/frames.ts";
import { QueryWindow } from "./query-window.ts";
import type { Question } from "./query-window.ts";
import type { FrameChannel, WorkerConnector } from "./worker-connector.ts";

/** Dependencies of a channel. */
export interface WorkerChannelParts {
  readonly environment: Environment;
  readonly connector: WorkerConnector;
  readonly routerId: string;
  /** Runs at the end of the current turn; default `setImmediate`. */
  readonly defer?: (run: () => void) => void;
}

/** Receives the events of a channel. */
export interface WorkerChannelListener {
  /** The worker's state: the first on a new stream, and every change of it. */
  onAnnouncement(announcement: Announcement): void;
  onPong(pong: Pong): void;
  /** Where other workers are: all on a new stream, then changes. Absent: not asked for. */
  onMembers?(news: readonly MemberNews[]): void;
  /** The worker takes no new questions; replies to pending ones still come. */
  onDrain(): void;
  /** The stream is over and pending questions have failed; the channel connects again by itself. */
  onDisconnect(error: WinnowError | undefined): void;
}

/** A question in flight, or why it was not taken (another replica should be asked). */
export type Asked =
  | { readonly state: "asked"; cancel(): void }
  | { readonly state: "refused"; readonly reason: "DISCONNECTED" | "DRAINING" | "SATURATED" };

/** The state of the current stream. */
export type WorkerChannelState = "connecting" | "open" | "draining" | "closed";

/** Limits and waits of one channel. */
export interface WorkerChannelSettings {
  /** Questions without an answer, at most. Default 1024. */
  readonly pendingMax: number;
  /** Bytes of questions that wait because of backpressure, at most. Default 8 MiB. */
  readonly unsentBytesMax: number;
  /** First wait between two streams; it doubles with each failure. Default 100. */
  readonly reconnectMinMs: number;
  /** Longest wait between two streams. Default 1000. */
  readonly reconnectMaxMs: number;
  /** Timeout of a stream's first state frame, and of the end of a drained one. Default 1000. */
  readonly connectTimeoutMs: number;
}

const DEFAULTS: WorkerChannelSettings = {
  pendingMax: 1024,
  unsentBytesMax: 8 * 1024 * 1024,
  reconnectMinMs: 100,
  reconnectMaxMs: 1000,
  connectTimeoutMs: 1000,
};

/** The channel to one worker. Connects at once, and again whenever the stream ends. */
export class WorkerChannel {
  readonly address: string;
  readonly #parts: WorkerChannelParts;
  readonly #listener: WorkerChannelListener;
  readonly #settings: WorkerChannelSettings;
  readonly #window: QueryWindow;
  #state: WorkerChannelState = "connecting";
  #stream: FrameChannel | undefined;
  /** Timeout of the first state frame or the end after a drain; or the wait to reconnect. */
  #timer: GraceTimer | undefined;
  #failures = 0;
  #isBlocked = false;
  #isFlushPlanned = false;
  /** Whether this side has ended the stream: the worker knows that no more frames come. */
  #isEnded = false;

  constructor(
    parts: WorkerChannelParts,
    listener: WorkerChannelListener,
    options: { readonly address: string } & Partial<WorkerChannelSettings>,
  ) {
    this.address = options.address;
    this.#parts = parts;
    this.#listener = listener;
    this.#settings = { ...DEFAULTS, ...options };
    this.#window = new QueryWindow(this.#settings);
    this.#connect();
  }

  /** The state of the current stream. */
  get state(): WorkerChannelState {
    return this.#state;
  }

  /** Questions without an answer. */
  get pending(): number {
    return this.#window.pending;
  }

  /**
   * Asks a question. Unless it is cancelled, `onReply` is called exactly once, after this call:
   * with the answer, or with a failure (`EXPIRED`: the deadline passed before it was sent;
   * `DISCONNECTED`: the stream ended).
   * @throws WinnowError RESOURCE_EXHAUSTED for a question that is too large for a frame
   */
  ask(question: Question, onReply: (reply: WorkerReply) => void): Asked {
    if (this.#state === "draining") return { state: "refused", reason: "DRAINING" };
    if (this.#state !== "open") return { state: "refused", reason: "DISCONNECTED" };
    const id = this.#window.add(question, onReply);
    if (id === undefined) return { state: "refused", reason: "SATURATED" };
    this.#planFlush();
    return { state: "asked", cancel: () => this.#cancel(id) };
  }

  /**
   * Sends a ping; with `wantsHeard` its pong lists the workers that the worker hears, with `inDoubt` the
   * worker asks the others too. False, and nothing is sent, if no stream is open or it takes no more
   * frames.
   */
  ping(
    sequence: number,
    asks: { readonly wantsHeard?: true; readonly inDoubt?: true } = {},
  ): boolean {
    if (this.#stream === undefined || this.#isBlocked || this.#state === "connecting") return false;
    this.#send({ kind: "ping", sequence, ...asks });
    return true;
  }

  /** Ends the stream; pending questions fail. */
  close(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#clearTimer();
    this.#stream?.cancel();
    this.#stream = undefined;
    this.#window.failAll(new WinnowError("UNAVAILABLE", "The channel to the worker was closed"));
  }

  /** Tells a worker to number itself above `incarnation`, which it succeeds. */
  tellPredecessor(incarnation: Incarnation): void {
    if (this.#state !== "connecting") this.#send({ kind: "predecessor", incarnation });
  }

  #connect(): void {
    this.#state = "connecting";
    this.#isBlocked = false;
    this.#isEnded = false;
    const stream = this.#parts.connector.open(this.address, {
      onFrame: (frame) => this.#isCurrent(stream) && this.#receive(frame),
      onWritable: () => this.#isCurrent(stream) && this.#unblock(),
      onClose: (error) => this.#isCurrent(stream) && this.#disconnect(error),
    });
    this.#stream = stream;
    const wantsMembers = this.#listener.onMembers !== undefined;
    this.#send({ kind: "hello", routerId: this.#parts.routerId, wantsMembers });
    this.#setTimer(this.#settings.connectTimeoutMs, () => {
      this.#breakOff(new WinnowError("UNAVAILABLE", "The worker accepts but does not answer"));
      this.#parts.connector.forget(this.address);
    });
  }

  /** Frames and events of an older stream are ignored (S8). */
  #isCurrent(stream: FrameChannel): boolean {
    return this.#stream === stream;
  }

  #receive(frame: WorkerFrame): void {
    if (frame.kind === "state") return this.#learn(frame.announcement);
    if (this.#state === "connecting") {
      return this.#breakOff(new WinnowError("INTERNAL", "The worker's first frame has no state"));
    }
    switch (frame.kind) {
      case "replies":
        for (const reply of frame.replies) {
          const mismatch = this.#window.settle(reply);
          if (mismatch !== undefined) return this.#breakOff(mismatch);
        }
        return this.#endIfDrained();
      case "pong":
        return this.#listener.onPong(frame.pong);
      case "members":
        return this.#listener.onMembers?.(frame.members);
      case "drain":
        this.#state = "draining";
        this.#listener.onDrain();
        return this.#endIfDrained();
    }
  }

  #learn(announcement: Announcement): void {
    if (this.#state === "connecting") {
      this.#state = "open";
      this.#failures = 0;
      this.#clearTimer();
    }
    this.#listener.onAnnouncement(announcement);
  }

  #planFlush(): void {
    if (this.#isFlushPlanned || this.#isBlocked) return;
    this.#isFlushPlanned = true;
    (this.#parts.defer ?? setImmediate)(() => {
      this.#isFlushPlanned = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (!this.#isBlocked && (this.#state === "open" || this.#state === "draining")) {
      const queries = this.#window.takeUnsent(this.#parts.environment.clock.nowMs());
      if (queries.length === 0) break;
      this.#send({ kind: "queries", queries });
    }
    this.#endIfDrained();
  }

  #unblock(): void {
    this.#isBlocked = false;
    this.#flush();
  }

  #cancel(id: number): void {
    if (this.#window.cancel(id) === "sent") this.#send({ kind: "cancel", id });
    this.#endIfDrained();
  }

  #send(frame: Parameters<FrameChannel["send"]>[0]): void {
    if (this.#stream?.send(frame) === false) this.#isBlocked = true;
  }

  #endIfDrained(): void {
    if (this.#state !== "draining" || this.#window.pending > 0 || this.#isEnded) return;
    this.#isEnded = true;
    this.#stream?.end();
    // A worker that hangs in the middle of its drain would never end its side.
    this.#setTimer(this.#settings.connectTimeoutMs, () => {
      this.#breakOff(new WinnowError("UNAVAILABLE", "The worker does not end its stream"));
    });
  }

  #breakOff(error: WinnowError): void {
    this.#stream?.cancel();
    this.#disconnect(error);
  }

  #disconnect(error: WinnowError | undefined): void {
    this.#stream = undefined;
    this.#state = "connecting";
    const { reconnectMinMs, reconnectMaxMs } = this.#settings;
    const wait = Math.min(reconnectMaxMs, reconnectMinMs * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 16);
    this.#setTimer(wait * (0.5 + this.#parts.environment.random() / 2), () => this.#connect());
    this.#window.failAll(new WinnowError("UNAVAILABLE", "The stream to the worker ended"));
    this.#listener.onDisconnect(error);
  }

  #setTimer(delayMs: number, run: () => void): void {
    this.#clearTimer();
    this.#timer = setGraceTimer(this.#parts.environment.clock, { delayMs }, run);
  }

  #clearTimer(): void {
    this.#timer?.clear();
    this.#timer = undefined;
  }
}
