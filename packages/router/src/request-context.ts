// How long one request is worth working on: until its deadline, and while its client is there. The HTTP
// or gRPC door makes one context per request and passes it down; all code that works on the request takes
// its deadline and its signal from there. So the deadline has one timer, and every end of a request (deadline,
// client, a router that closes) is one reason, told to the work and to the client alike.
//
//   door: new ─▶ deadlineMs, signal ─▶ router, scatter, workers
//     │            ├── deadline ──▶ aborted: DEADLINE_EXCEEDED
//     │            ├── abort() ───▶ aborted: the client has left, or the router is closing
//     └────────────┴── finish() ──▶ answered: nothing aborts it any more
//
// A part of the work that may be given up before the request is has a context of its own, which the request's ends.

import { WinnowError } from "@winnow/core";
import type { Clock, Timer, TraceSpan } from "@winnow/core";

/** How long a request may take; the shorter of both is its deadline. */
export interface RequestTimeouts {
  /** The door's own limit in ms; 0: `UNLIMITED_MS`. */
  readonly timeoutMs: number;
  /** What is left of the client's deadline, where it set one. */
  readonly clientMs?: number;
}

/** TensorFlow Serving reads a timeout of 0 as "no limit"; Winnow bounds every wait, so that is one day. */
const UNLIMITED_MS = 24 * 3600 * 1000;

/** What is said of a request whose client's own deadline ended it. */
export const CLIENT_DEADLINE_PASSED = "The client's deadline has passed";

/** Deadline and signal of one request; `finish` must be called when it is answered. */
export class RequestContext {
  /** Monotonic. */
  readonly deadlineMs: number;
  /**
   * Rejects with the signal's reason; never resolves. A door races with it, so that a request ends by its
   * deadline even where its work ignores the signal (L2).
   */
  readonly aborted: Promise<never>;
  /** What is recorded of the request; `undefined`: nothing is. */
  span: TraceSpan | undefined = undefined;

  readonly #stages: Map<string, number>;
  readonly #clock: Clock;
  readonly #controller: AbortController = new AbortController();
  /** A part has none: the request's ends it. */
  readonly #timer: Timer | undefined;
  /** Lets go of the request of which this is a part. */
  #leave: () => void = () => undefined;
  #reject: (reason: WinnowError) => void = () => undefined;
  #isFinished = false;

  constructor(
    clock: Clock,
    { timeoutMs, clientMs = Infinity }: RequestTimeouts,
    whole?: RequestContext,
  ) {
    this.#clock = clock;
    this.#stages = whole === undefined ? new Map<string, number>() : whole.#stages;
    const ownMs = timeoutMs > 0 ? timeoutMs : UNLIMITED_MS;
    const leftMs = Math.min(ownMs, clientMs);
    this.deadlineMs = whole?.deadlineMs ?? clock.nowMs() + leftMs;
    this.aborted = new Promise((_, reject) => {
      this.#reject = reject;
    });
    // A rejection that nobody races with is no fault of the process.
    void this.aborted.catch(() => undefined);
    if (whole !== undefined) return;
    const message = clientMs < ownMs ? CLIENT_DEADLINE_PASSED : `No answer within ${ownMs} ms`;
    this.#timer = clock.setTimer(leftMs, () =>
      this.abort(() => new WinnowError("DEADLINE_EXCEEDED", message)),
    );
  }

  /**
   * A context for a part of the work, which may be aborted while the request goes on. Its deadline, notes and trace are
   * the request's, whose end is the part's too. `finish` must be called when nobody waits for the part.
   */
  part(): RequestContext {
    const part = new RequestContext(this.#clock, { timeoutMs: 0 }, this);
    part.span = this.span;
    const end = (): void => part.abort(() => this.signal.reason as WinnowError);
    if (this.signal.aborted) end();
    else this.signal.addEventListener("abort", end, { once: true });
    part.#leave = () => this.signal.removeEventListener("abort", end);
    return part;
  }

  /** Aborted with a WinnowError as its reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ms that the request has spent by stage; what ran side by side is added up, but for `noteLongest`. */
  get stages(): ReadonlyMap<string, number> {
    return this.#stages;
  }

  /** A stage of the request has ended. */
  noteStage(stage: string, elapsedMs: number): void {
    this.#stages.set(stage, (this.#stages.get(stage) ?? 0) + elapsedMs);
  }

  /** Work of workers side by side: the longest of them. */
  noteLongest(stage: string, elapsedMs: number): void {
    if (elapsedMs > (this.#stages.get(stage) ?? -1)) this.#stages.set(stage, elapsedMs);
  }

  /** Has a stage done; takes note of its time, and records it where the request is recorded. */
  async stage<Result>(
    name: string,
    work: (span: TraceSpan | undefined) => Result | Promise<Result>,
  ): Promise<Result> {
    const startMs = this.#clock.nowMs();
    const span = this.span?.child(name, startMs);
    if (span !== undefined) return await this.#recorded(name, span, { startMs, work });
    const result = await work(undefined);
    this.noteStage(name, this.#clock.nowMs() - startMs);
    return result;
  }

  async #recorded<Result>(
    name: string,
    span: TraceSpan,
    {
      startMs,
      work,
    }: {
      readonly startMs: number;
      readonly work: (span: TraceSpan) => Result | Promise<Result>;
    },
  ): Promise<Result> {
    let fault: string | undefined = "INTERNAL";
    try {
      const result = await work(span);
      fault = undefined;
      this.noteStage(name, this.#clock.nowMs() - startMs);
      return result;
    } catch (error) {
      if (error instanceof WinnowError) fault = error.code;
      throw error;
    } finally {
      span.end(this.#clock.nowMs(), undefined, fault);
    }
  }

  /** The request is answered: its deadline and its client matter no more. */
  finish(): void {
    this.#isFinished = true;
    this.#end();
  }

  /**
   * Ends the request before it is answered; nothing once it is finished or aborted. The reason is made
   * only where it is used: a connection closes after every request.
   */
  abort(reasonOf: () => WinnowError): void {
    if (this.#isFinished || this.signal.aborted) return;
    this.#end();
    const reason = reasonOf();
    this.#controller.abort(reason);
    this.#reject(reason);
  }

  #end(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#leave();
  }
}
