// How the instances of a batch get their lines, whatever happens on the way:
//
//   predictions  a line each
//   refused      one instance: its line is the error; several: the same for each half, until those at fault are alone
//   passing      again after a wait; where fewer at a time may be answered, in halves from the second time on
//   final        the job ends, as it does where nothing was answered for too long
//
// So every instance has exactly one line, in the order of the input.

import { type Clock, type ErrorCode, WinnowError, sleep } from "@winnow/core";
import type { Reply } from "./reply.ts";

/** What answering takes from its process and its router. */
export interface AnsweringParts {
  /** Asks once. */
  readonly ask: (instances: readonly string[]) => Promise<Reply>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** Ms without any answer after which the job ends. */
  readonly retryForMs: number;
  /** Called before each wait. */
  readonly onRetry: (reason: string, waitMs: number) => void;
  /** Called where a batch was refused of which every single instance is answered: it was too large. */
  readonly onTooMany: (instances: number) => void;
}

/** A line of the output that has no prediction. */
interface ErrorLine {
  readonly code: ErrorCode;
  readonly message: string;
}

/** The prediction of an instance, as text, or why there is none. */
export type Answered = string | ErrorLine;

const WAIT_MS_MIN = 200;
const WAIT_MS_MAX = 10_000;
const RETRY_AFTER_MS_MAX = 60_000;

/** Ms to wait before the next attempt: at least what the server asks for, and never the same for two clients. @internal */
export function waitMsOf(
  failures: number,
  askedMs: number | undefined,
  random: () => number,
): number {
  const growing = Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** Math.min(failures - 1, 10));
  if (askedMs === undefined) return growing * (0.5 + random() / 2);
  return Math.min(RETRY_AFTER_MS_MAX, askedMs) + (growing * random()) / 2;
}

/** Answers batches, several at a time. */
export class Answering {
  readonly #parts: AnsweringParts;
  /** When any batch was last answered, refusals included. */
  #answeredMs = -Infinity;

  constructor(parts: AnsweringParts) {
    this.#parts = parts;
  }

  /** The outcome of each instance. @throws WinnowError where the job has to end; the signal's reason */
  async answer(instances: readonly string[]): Promise<readonly Answered[]> {
    const { clock, signal, ask, onTooMany } = this.#parts;
    const startedMs = clock.nowMs();
    for (let failures = 0; ;) {
      signal.throwIfAborted();
      const reply = await ask(instances);
      if (reply.kind === "final") throw reply.error;
      if (reply.kind !== "passing") this.#answeredMs = clock.nowMs();
      if (reply.kind === "predictions") return reply.texts;
      if (reply.kind === "refused") {
        const { code, message } = reply;
        if (instances.length === 1) return [{ code, message }];
        const answered = await this.#answerHalves(instances);
        if (answered.every((each) => typeof each === "string")) onTooMany(instances.length);
        return answered;
      }
      failures += 1;
      await this.#wait(reply, failures, startedMs);
      if (reply.mayHalve && failures > 1 && instances.length > 1) {
        return this.#answerHalves(instances);
      }
    }
  }

  async #answerHalves(instances: readonly string[]): Promise<readonly Answered[]> {
    const half = Math.ceil(instances.length / 2);
    const first = await this.answer(instances.slice(0, half));
    return [...first, ...(await this.answer(instances.slice(half)))];
  }

  async #wait(
    { message, waitMs: askedMs }: Reply & { kind: "passing" },
    failures: number,
    startedMs: number,
  ): Promise<void> {
    const { clock, random, signal, retryForMs, onRetry } = this.#parts;
    const idleMs = clock.nowMs() - Math.max(this.#answeredMs, startedMs);
    if (idleMs >= retryForMs) {
      const text = `Nothing was answered for ${Math.round(idleMs / 1000)} s (--retry-for). ${message}`;
      throw new WinnowError("UNAVAILABLE", text);
    }
    const waitMs = Math.min(waitMsOf(failures, askedMs, random), retryForMs - idleMs);
    onRetry(message, waitMs);
    await sleep(clock, waitMs, signal);
  }
}
