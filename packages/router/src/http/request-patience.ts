// How long a request is worth working on: until its deadline, and while its client is there. Both
// abort one signal; the deadline also answers, so that no request hangs on what ignores the signal.

import type { ServerResponse } from "node:http";
import { WinnowError } from "@winnow/core";
import type { Clock, Timer } from "@winnow/core";

/** The patience with one request; `end` must be called when it is answered. */
export class RequestPatience {
  readonly deadlineMs: number;
  /** Rejects when the patience is over; never resolves. */
  readonly exhausted: Promise<never>;

  readonly #clock: Clock;
  readonly #abort: AbortController = new AbortController();
  readonly #timer: Timer | undefined;
  #isEnded = false;

  /** `timeoutMs` 0: no deadline. */
  constructor(clock: Clock, response: ServerResponse, timeoutMs: number) {
    this.#clock = clock;
    this.deadlineMs = timeoutMs > 0 ? clock.nowMs() + timeoutMs : Infinity;
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
    response.once("close", () =>
      this.#stop(new WinnowError("CANCELLED", "The client closed the connection")),
    );
  }

  /** Aborted with a WinnowError as its reason: DEADLINE_EXCEEDED or CANCELLED. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The request is answered: deadline and client matter no more. */
  end(): void {
    this.#isEnded = true;
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
  }

  #stop(reason: WinnowError): void {
    if (!this.#isEnded) this.#abort.abort(reason);
  }
}
