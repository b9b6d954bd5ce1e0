// Series by the names of what comes and goes: models, workers. Without an end, those of names that are gone would stay on the
// page for as long as the process runs.

import type { MetricRegister, TalliedCounter, TalliedHistogram } from "./tallies.ts";

type Tally = Pick<TalliedCounter | TalliedHistogram, "firsts" | "remove">;

/** The tallies whose first label is such a name. They are registered here beside the registry that makes the page. */
export class NamedSeries implements MetricRegister {
  readonly #tallies: Tally[] = [];
  /** Names that were gone when the page before was made. */
  #gone: ReadonlySet<string> = new Set();

  registerMetric(tally: Tally): void {
    this.#tallies.push(tally);
  }

  /** To be called before each page: ends the series of names that are gone, once a page had their last values. */
  endGone(isThere: (name: string) => boolean): void {
    const names = new Set(this.#tallies.flatMap((tally) => tally.firsts()));
    const gone = [...names].filter((name) => !isThere(name));
    for (const name of gone) {
      if (this.#gone.has(name)) for (const tally of this.#tallies) tally.remove(name);
    }
    this.#gone = new Set(gone);
  }
}
