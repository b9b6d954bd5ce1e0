// Whether a thread may run the next search of a table itself and wait for it. Usually the filter leaves a few
// hundred rows to be scored. If it cannot leave out rows, as in a table full of equal rows or for a query of
// zeros, all rows are scored, which takes a hundred times as long and is known only afterwards. The next
// searches of that table are then left to other threads: 64 of them, and twice as many each time it happens
// again.

const LEFT_MIN = 64;
const LEFT_MAX = 4096;

/** The guard of one table on one thread. */
export class WaitGuard {
  readonly #scoredValuesMax: number;
  #left = 0;
  #nextLeft = LEFT_MIN;

  /** `scoredValuesMax`: values (rows × dim × queries) that a search may score one by one. */
  constructor(scoredValuesMax: number) {
    this.#scoredValuesMax = scoredValuesMax;
  }

  /** Whether the next search may be waited for. To be called once for each search. */
  mayWait(): boolean {
    if (this.#left === 0) return true;
    this.#left -= 1;
    return false;
  }

  /** Notes how many values a search that was waited for has scored one by one. */
  searched(scoredValues: number): void {
    if (scoredValues <= this.#scoredValuesMax) return;
    this.#left = this.#nextLeft;
    this.#nextLeft = Math.min(LEFT_MAX, 2 * this.#nextLeft);
  }
}
