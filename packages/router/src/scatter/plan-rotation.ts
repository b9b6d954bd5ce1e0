// Which of a table's plans a search uses. Searches use the plans in rotation, several searches in a row with
// each plan: a new plan for every search would load all workers evenly but wake each of them for every
// search; one plan for all searches would leave most workers idle.

/**
 * Searches in a row that use the same plan: searches that arrive together then travel and are scanned
 * together. A plan is used for `searchesMin` searches or until `valuesPerPlan` values were scanned, whichever
 * is later, but for `searchesMax` at most. Small tables are thus spread over fewer workers at a time, because
 * a separate question costs their workers more than its scan.
 */
const ROTATION = { searchesMin: 8, searchesMax: 64, valuesPerPlan: 2 ** 24 };

/** Counts searches, and gives the plan of each. */
export class PlanRotation {
  #plan = 0;
  #searches = 0;
  #values = 0;

  /** The number of the plan for one search of this many values (rows × dim), to be taken modulo the number of plans. */
  next(values: number): number {
    this.#searches += 1;
    this.#values += values;
    const isOver = this.#searches >= ROTATION.searchesMin && this.#values >= ROTATION.valuesPerPlan;
    const plan = this.#plan;
    if (isOver || this.#searches >= ROTATION.searchesMax) {
      this.#plan = (plan + 1) % Number.MAX_SAFE_INTEGER;
      this.#searches = 0;
      this.#values = 0;
    }
    return plan;
  }
}
