// Whether requests come one at a time. Where one begins before another has ended, the compute thread should scan: it
// answers several at once while the event loop reads and writes others.
//
// A request that has been answered counts until the event loop has begun those that waited for its end, and read those
// that arrived while it scanned: they overlap with it.

/** Requests that must have come one at a time, one after the other. */
const ALONE_MIN = 32;

/** Watches the beginnings and ends of requests. */
export class OverlapWatch {
  readonly #turn: () => Promise<void>;
  #open = 0;
  #left = ALONE_MIN;

  /** `turn` resolves once the event loop has handled everything that has arrived (`nextLoopTurn`). */
  constructor(turn: () => Promise<void>) {
    this.#turn = turn;
  }

  /** Whether nothing is under way, and the last requests came one at a time. */
  get isAlone(): boolean {
    return this.#open === 0 && this.#left === 0;
  }

  /** Notes that so many requests begin together. Call what it returns when they have been answered. */
  begin(requests: number): () => void {
    if (this.#open > 0 || requests > 1) this.#left = ALONE_MIN;
    else if (this.#left > 0) this.#left -= 1;
    this.#open += 1;
    return () => void this.#end();
  }

  async #end(): Promise<void> {
    // Whatever waited for this request's end begins in this turn.
    await this.#turn();
    // What arrived while the event loop scanned is read in the next one.
    if (this.#left === 0) await this.#turn();
    this.#open -= 1;
  }
}
