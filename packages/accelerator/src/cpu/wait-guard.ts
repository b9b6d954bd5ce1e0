// Whether a thread may wait for the next search of a table itself. Usually the filter leaves a few hundred rows to be
// scored. Where it cannot, as in a table full of equal rows or for a query of zeros, all rows are, which takes
// a hundred times as long; that is known only when the search is over. Then the table's next searches are left to other
// threads: 64, and twice as many each time it happens again.

const LEFT_MIN = 64;
const LEFT_MAX = 4096;

/** Of one table and one thread. */
export class WaitGuard {
  readonly #scoredValuesMax: number;
  #left = 0;
  #nextLeft = LEFT_MIN;

  /** `scoredValuesMax`: values (rows × dim × queries) that may be scored one by one in a search. */
  constructor(scoredValuesMax: number) {
    this.#scoredValuesMax = scoredValuesMax;
  }

  /** Whether the next search may be waited for; to be asked once for each. */
  mayWait(): boolean {
    if (this.#left === 0) return true;
    this.#left -= 1;
    return false;
  }

  /** Notes how many values the filter left in a search that was waited for. */
  searched(scoredValues: number): void {
    if (scoredValues <= this.#scoredValuesMax) return;
    this.#left = this.#nextLeft;
    this.#nextLeft = Math.min(LEFT_MAX, 2 * this.#nextLeft);
  }
}
