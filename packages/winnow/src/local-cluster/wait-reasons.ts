// Which reasons for waiting `winnow up` tells. While a cluster starts, the reason of a model changes several times
// a second and says nothing that a person must know; one that waits for longer does.

/** A model that does not answer yet; `why` may be empty. */
interface WaitingModel {
  readonly model: string;
  readonly why: string;
}

interface Told {
  /** No reason is printed before this time. */
  readonly quietUntilMs: number;
  readonly why: string;
}

/** How long a model must have waited, and how old the last printed reason must be, before one is printed. */
const QUIET_MS = 5000;

/** Remembers the last reason that was printed for each model. */
export class WaitReasons {
  readonly #told = new Map<string, Told>();

  /** The lines to print at `nowMs`. */
  news(waiting: readonly WaitingModel[], nowMs: number): string[] {
    return waiting.flatMap(({ model, why }) => {
      const before = this.#told.get(model) ?? { quietUntilMs: nowMs + QUIET_MS, why: "" };
      const isTold = nowMs >= before.quietUntilMs && why !== "" && why !== before.why;
      this.#told.set(model, isTold ? { quietUntilMs: nowMs + QUIET_MS, why } : before);
      return isTold ? [`${model}: ${why}`] : [];
    });
  }
}
