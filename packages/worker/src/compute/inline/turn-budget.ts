// Bounds what is done at once in one turn of the event loop, during which no frame is read.

/** A sum that begins anew with a turn of the event loop. */
export class TurnBudget {
  readonly #max: number;
  readonly #noted: number;
  readonly #turn: () => Promise<void>;
  #spent = 0;
  #awaitsTurn = false;

  /**
   * At most `max` is spent in a turn. Until `noted` is spent, turns are not told apart, as waiting for the next one
   * costs more than some small work. `turn` resolves once the event loop has handled everything that has arrived.
   */
  constructor(max: number, noted: number, turn: () => Promise<void>) {
    this.#max = max;
    this.#noted = noted;
    this.#turn = turn;
  }

  /** Whether so much more may be spent. */
  has(cost: number): boolean {
    return this.#spent + cost <= this.#max;
  }

  spend(cost: number): void {
    this.#spent += cost;
    if (this.#spent > this.#noted && !this.#awaitsTurn) void this.#awaitTurn();
  }

  async #awaitTurn(): Promise<void> {
    this.#awaitsTurn = true;
    await this.#turn();
    this.#awaitsTurn = false;
    this.#spent = 0;
  }
}
