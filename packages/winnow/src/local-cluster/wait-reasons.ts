// Which reasons for waiting `winnow up` tells, and for how long it waits. While a cluster starts, the reason of a model
// changes several times a second and says nothing that a person must know; one that waits for longer does. A pipeline
// may wait for a model that will never be there: the others answer meanwhile, and a person wants to know that they do.

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

/** How long the reasons of all that wait must have stayed the same before nothing else is expected of them. */
const STILL_MS = 10_000;

/** Notices when whatever does not answer yet waits for something that `winnow up` does not see coming. */
export class StandStill {
  #whys = "";
  #sinceMs = 0;

  /** Whether all of these have given the same reasons for a while; one that is still loading gives none. */
  holds(waiting: readonly WaitingModel[], nowMs: number): boolean {
    const whys = JSON.stringify(waiting);
    if (whys !== this.#whys || waiting.some(({ why }) => why === "")) {
      [this.#whys, this.#sinceMs] = [whys, nowMs];
    }
    return nowMs - this.#sinceMs >= STILL_MS;
  }
}
