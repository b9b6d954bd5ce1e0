// How long one request is worked on: until its deadline, and as long as its client waits. The HTTP or gRPC
// side makes one context per request and passes it down; all code that works on the request takes its
// deadline and its signal from there. So the deadline has one timer, and each end of a request (deadline,
// client, a router that closes) has one reason, which the work and the client both get.
//
//   door: new ─▶ deadlineMs, signal ─▶ router, scatter, workers
//     │            ├── deadline ──▶ aborted: DEADLINE_EXCEEDED
//     │            ├── abort() ───▶ aborted: the client has left, or the router is closing
//     └────────────┴── finish() ──▶ answered: nothing aborts it any more
//
// Work that may be given up while the request goes on has a part of the context. It ends with the request at
// the latest.

import { AbortableSignal, WinnowError } from "@winnow/core";
import type { Clock, Signal, Timer, TraceSpan } from "@winnow/core";

/** How long a request may take. The shorter of the two is its deadline. */
export interface RequestTimeouts {
  /** The server's own limit in ms; 0: `UNLIMITED_MS`. */
  readonly timeoutMs: number;
  /** Time left until the client's deadline, if it set one. */
  readonly clientMs?: number;
}

/** TensorFlow Serving reads a timeout of 0 as "no limit". Winnow bounds every wait: 0 means one day. */
const UNLIMITED_MS = 24 * 3600 * 1000;

/** The message for a request that was ended by the client's own deadline. */
export const CLIENT_DEADLINE_PASSED = "The client's deadline has passed";

/** Deadline and signal of one request. `finish` must be called when the request is answered. */
export class RequestContext {
  /** In monotonic ms. */
  readonly deadlineMs: number;
  /** The span of the request; `undefined` where nothing is recorded. */
  span: TraceSpan | undefined = undefined;

  readonly #stages: Map<string, number>;
  readonly #clock: Clock;
  readonly #signal = new AbortableSignal();
  /** Absent in a part, which ends with the request. */
  readonly #timer: Timer | undefined;
  /** For a part: stops listening to the request's signal. */
  #leave: () => void = () => undefined;
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
    if (whole !== undefined) return;
    const message = clientMs < ownMs ? CLIENT_DEADLINE_PASSED : `No answer within ${ownMs} ms`;
    // A deadline that has passed leaves less than no time, of which Node would warn on standard error.
    this.#timer = clock.setTimer(Math.max(0, leftMs), () =>
      this.abort(() => new WinnowError("DEADLINE_EXCEEDED", message)),
    );
  }

  /**
   * A context for a part of the work, which may be aborted while the request goes on. It has the deadline,
   * the stages and the trace of the request, and is aborted with it. `finish` must be called when nobody
   * waits for the part.
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

  /** The reason of its abort is a WinnowError. */
  get signal(): Signal {
    return this.#signal;
  }

  /**
   * Gives what the work gives, or throws the signal's reason as soon as the request is aborted: so a request ends by its
   * deadline even if the work ignores the signal (L2).
   */
  untilAborted<Result>(work: Promise<Result>): Promise<Result> {
    const signal = this.#signal;
    return new Promise((resolve, reject) => {
      const end = (): void => reject(signal.reason);
      if (signal.aborted) end();
      signal.addEventListener("abort", end);
      work.then(
        (result) => {
          signal.removeEventListener("abort", end);
          resolve(result);
          return undefined;
        },
        (error: unknown) => {
          signal.removeEventListener("abort", end);
          reject(error);
        },
      );
    });
  }

  /** Ms that the request has spent by stage. Times of work at the same time are added up, except by `noteLongest`. */
  get stages(): ReadonlyMap<string, number> {
    return this.#stages;
  }

  /** Adds the time of a stage that has ended. */
  noteStage(stage: string, elapsedMs: number): void {
    this.#stages.set(stage, (this.#stages.get(stage) ?? 0) + elapsedMs);
  }

  /** For work that several workers do at the same time: keeps the longest time. */
  noteLongest(stage: string, elapsedMs: number): void {
    if (elapsedMs > (this.#stages.get(stage) ?? -1)) this.#stages.set(stage, elapsedMs);
  }

  /**
   * Runs a stage, and records its time, and a span if the request is recorded. Gives the result at once where the work
   * does and nothing is recorded. `onEnd` is called with the time of a stage that gives a result.
   */
  stage<Result>(
    name: string,
    work: (span: TraceSpan | undefined) => Promise<Result>,
    onEnd?: (elapsedMs: number) => void,
  ): Promise<Result>;
  stage<Result>(
    name: string,
    work: (span: TraceSpan | undefined) => Result | Promise<Result>,
  ): Result | Promise<Result>;
  stage<Result>(
    name: string,
    work: (span: TraceSpan | undefined) => Result | Promise<Result>,
    onEnd?: (elapsedMs: number) => void,
  ): Result | Promise<Result> {
    const startMs = this.#clock.nowMs();
    const span = this.span?.child(name, startMs);
    if (span !== undefined) return this.#recorded(name, span, { startMs, work, onEnd });
    const noted = (result: Result): Result => {
      const elapsedMs = this.#clock.nowMs() - startMs;
      this.noteStage(name, elapsedMs);
      onEnd?.(elapsedMs);
      return result;
    };
    const result = work(undefined);
    return result instanceof Promise ? result.then(noted) : noted(result);
  }

  async #recorded<Result>(
    name: string,
    span: TraceSpan,
    {
      startMs,
      work,
      onEnd,
    }: {
      readonly startMs: number;
      readonly work: (span: TraceSpan) => Result | Promise<Result>;
      readonly onEnd: ((elapsedMs: number) => void) | undefined;
    },
  ): Promise<Result> {
    let fault: string | undefined = "INTERNAL";
    try {
      const result = await work(span);
      fault = undefined;
      const elapsedMs = this.#clock.nowMs() - startMs;
      this.noteStage(name, elapsedMs);
      onEnd?.(elapsedMs);
      return result;
    } catch (error) {
      if (error instanceof WinnowError) fault = error.code;
      throw error;
    } finally {
      span.end(this.#clock.nowMs(), undefined, fault);
    }
  }

  /** The request is answered: its deadline and its client no longer abort it. */
  finish(): void {
    this.#isFinished = true;
    this.#end();
  }

  /**
   * Ends the request before it is answered; does nothing once it is finished or aborted. The reason is made
   * only where it is used, because a connection also closes after every request.
   */
  abort(reasonOf: () => WinnowError): void {
    if (this.#isFinished || this.#signal.aborted) return;
    this.#end();
    this.#signal.abort(reasonOf());
  }

  #end(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#leave();
  }
}
