// Which of a table's plans a search takes: a new plan for every search would load all workers evenly, and
// have each of them woken for every search; one plan for all would leave most workers idle.

/**
 * Searches in a row that take the same plan: what comes together travels and is scanned together. A plan
 * is left after the larger of `searchesMin` and what scans `valuesPerTurn` values, a few milliseconds of one
 * worker, but after `searchesMax` at the latest: small tables are spread over fewer workers at a time,
 * because a question of its own costs their workers more than its scan.
 */
const TURN = { searchesMin: 8, searchesMax: 64, valuesPerTurn: 2 ** 24 };

/** Whose turn it is among the plans of a table. */
export class PlanTurns {
  #turn = 0;
  #searches = 0;
  #values = 0;

  /** The turn of one search of so many values, rows times dimension. */
  next(values: number): number {
    this.#searches += 1;
    this.#values += values;
    const isOver = this.#searches >= TURN.searchesMin && this.#values >= TURN.valuesPerTurn;
    const turn = this.#turn;
    if (isOver || this.#searches >= TURN.searchesMax) {
      this.#turn = (turn + 1) % Number.MAX_SAFE_INTEGER;
      this.#searches = 0;
      this.#values = 0;
    }
    return turn;
  }
}
