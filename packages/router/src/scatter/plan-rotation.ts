// Which of a table's plans a search takes. Searches go through the plans in rotation, several with each plan: a
// new plan for every search would load all workers evenly, but wake each of them for every search; one plan for
// all searches would leave most workers idle.

/**
 * Searches in a row that take the same plan: what comes together travels and is scanned together. A plan
 * is left after the larger of `searchesMin` and what scans `valuesPerPlan` values, a few milliseconds of one
 * worker, but after `searchesMax` at the latest: small tables are spread over fewer workers at a time,
 * because a question of its own costs their workers more than its scan.
 */
const ROTATION = { searchesMin: 8, searchesMax: 64, valuesPerPlan: 2 ** 24 };

/** Counts searches, and tells which plan of their table they take. */
export class PlanRotation {
  #plan = 0;
  #searches = 0;
  #values = 0;

  /** The number of the plan of one search of so many values, rows times dimension; modulo the number of plans. */
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
