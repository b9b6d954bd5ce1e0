// How long a call is worth working on: until its client's deadline or the server's own limit, and
// while the client is there. All abort one signal; the limit also answers, so that no call hangs on
// what ignores the signal (L2). A client's deadline is answered by grpc-js itself.

import { WinnowError } from "@winnow/core";
import type { Clock, Timer } from "@winnow/core";
import { remainingMs } from "./clock.ts";

/** What is asked of a call of grpc-js. */
export interface ImpatientCall {
  getDeadline(): Date | number;
  /** `cancelled` comes when the client leaves, its deadline passes, or the call has been answered. */
  once(event: "cancelled", listener: () => void): unknown;
}

/** The patience with one call; `end` must be called when it is answered. */
export class CallPatience {
  /** Monotonic; `Infinity` where neither side sets one. */
  readonly deadlineMs: number;
  /** Rejects when the patience is over; never resolves. */
  readonly exhausted: Promise<never>;

  readonly #clock: Clock;
  readonly #abort: AbortController = new AbortController();
  readonly #timer: Timer | undefined;
  #isEnded = false;

  /** `timeoutMs` 0: only the client's deadline counts. */
  constructor(clock: Clock, call: ImpatientCall, timeoutMs: number) {
    this.#clock = clock;
    const ownMs = timeoutMs > 0 ? timeoutMs : Infinity;
    this.deadlineMs = clock.nowMs() + Math.min(ownMs, remainingMs(call.getDeadline()));
    this.exhausted = new Promise((_, reject) => {
      this.signal.addEventListener("abort", () => reject(this.signal.reason as Error));
    });
    // Whoever races with it is told; a loss after the answer concerns nobody.
    void this.exhausted.catch(() => undefined);
    if (timeoutMs > 0) {
      this.#timer = clock.setTimer(timeoutMs, () =>
        this.#stop(new WinnowError("DEADLINE_EXCEEDED", `No answer within ${timeoutMs} ms`)),
      );
    }
    call.once("cancelled", () => this.#stop(this.#departure()));
  }

  /** Aborted with a WinnowError as its reason: DEADLINE_EXCEEDED or CANCELLED. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The call is answered: deadline and client matter no more. */
  end(): void {
    this.#isEnded = true;
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
  }

  #departure(): WinnowError {
    return this.#clock.nowMs() < this.deadlineMs
      ? new WinnowError("CANCELLED", "The client cancelled the call")
      : new WinnowError("DEADLINE_EXCEEDED", "The client's deadline has passed");
  }

  #stop(reason: WinnowError): void {
    if (!this.#isEnded) this.#abort.abort(reason);
  }
}
