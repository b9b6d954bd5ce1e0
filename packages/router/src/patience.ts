// How long a request is worth working on: until its deadline, and while its client is there. Each door
// (HTTP, gRPC) says when its client has left; both reasons abort one signal. The deadline also answers,
// so that no request hangs on what ignores the signal (L2).

import { WinnowError } from "@winnow/core";
import type { Clock, Timer } from "@winnow/core";

/** How long at the most. */
export interface PatienceLimits {
  /** The server's own limit in ms, answered with DEADLINE_EXCEEDED; 0: none. */
  readonly timeoutMs: number;
  /** What is left of the client's deadline, told to those who work; the door answers it. */
  readonly clientMs?: number;
}

/** The patience with one request; `end` must be called when it is answered. */
export class Patience {
  /** Monotonic; `Infinity` where neither side sets one. */
  readonly deadlineMs: number;
  /** Rejects when the patience is over; never resolves. */
  readonly exhausted: Promise<never>;

  readonly #clock: Clock;
  readonly #abort: AbortController = new AbortController();
  readonly #timer: Timer | undefined;
  #giveUp: (reason: WinnowError) => void = () => undefined;
  #isEnded = false;

  constructor(clock: Clock, { timeoutMs, clientMs = Infinity }: PatienceLimits) {
    this.#clock = clock;
    const ownMs = timeoutMs > 0 ? timeoutMs : Infinity;
    this.deadlineMs = clock.nowMs() + Math.min(ownMs, clientMs);
    this.exhausted = new Promise((_, reject) => {
      this.#giveUp = reject;
    });
    // Whoever races with it is told; a loss after the answer concerns nobody.
    void this.exhausted.catch(() => undefined);
    if (timeoutMs > 0) {
      this.#timer = clock.setTimer(timeoutMs, () =>
        this.stop(() => new WinnowError("DEADLINE_EXCEEDED", `No answer within ${timeoutMs} ms`)),
      );
    }
  }

  /** Aborted with a WinnowError as its reason: DEADLINE_EXCEEDED or CANCELLED. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Whether the deadline of either side has passed. */
  get isOverdue(): boolean {
    return this.#clock.nowMs() >= this.deadlineMs;
  }

  /** The request is answered: deadline and client matter no more. */
  end(): void {
    this.#isEnded = true;
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
  }

  /**
   * The client has left, or gave up; nothing once the request is answered. The reason is made only
   * then: a response closes after every request.
   */
  stop(reasonOf: () => WinnowError): void {
    if (this.#isEnded || this.#abort.signal.aborted) return;
    const reason = reasonOf();
    this.#abort.abort(reason);
    this.#giveUp(reason);
  }
}
