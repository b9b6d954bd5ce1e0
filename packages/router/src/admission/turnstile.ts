// The frames that all requests of this router may have under way at the workers at once. Without it
// a request of thousands of instances fills every worker's queue, and what comes after it waits behind
// it there or is refused. Who waits here goes in by turns (`core/turn.ts`), each request's frames by
// the request's turn, so that large requests are finished one after the other.
//
//        enter ──▶ waiting, by turn ──▶ under way ──▶ leave: the next goes in
//          └─ there is room: at once ──────▲
//
// A part is kept for the small: what is large leaves `reserve` rows free, and while it waits the small
// that come after it use no more than those. So neither shuts the other out.

/** How much may be under way. */
export interface TurnstileLimits {
  /** Rows under way. A frame that is larger goes alone. */
  readonly rowsMax: number;
  /** Of these, rows that large frames leave free. */
  readonly reserve: number;
}

/** What wants to go in. */
export interface Entrant {
  readonly rows: number;
  /** The earliest goes first, and of equals the first to come. */
  readonly turnMs: number;
}

interface Waiting extends Entrant {
  readonly sequence: number;
  readonly enter: () => void;
}

/** A frame is small up to this share of the reserve. */
const SMALL_SHARE = 1 / 8;

/** Lets frames in by turns, so many rows at a time. */
export class Turnstile {
  readonly #limits: TurnstileLimits;
  readonly #onLeave: (rows: number, wasBusy: boolean) => void;
  readonly #small: Waiting[] = [];
  readonly #large: Waiting[] = [];
  #smallRows = 0;
  #largeRows = 0;
  #sequence = 0;
  /** Something has been waiting ever since a frame left. */
  #isBusy = false;

  /** `onLeave` hears of rows that left, and whether something waited all the time since the last. */
  constructor(limits: TurnstileLimits, onLeave: (rows: number, wasBusy: boolean) => void) {
    this.#limits = limits;
    this.#onLeave = onLeave;
  }

  /** Frames of at most so many rows may use what is kept for the small. */
  get smallRowsMax(): number {
    return this.#limits.reserve * SMALL_SHARE;
  }

  /** Rows under way. */
  get rows(): number {
    return this.#smallRows + this.#largeRows;
  }

  /** Frames that wait. */
  get waiting(): number {
    return this.#small.length + this.#large.length;
  }

  /**
   * Goes in, at once where there is room. What it gives must be called once, when the frame is
   * answered or given up. @throws the signal's reason when aborted while it waits
   */
  enter(entrant: Entrant, signal: AbortSignal): Promise<() => void> | (() => void) {
    const isSmall = entrant.rows <= this.smallRowsMax;
    const { rows, turnMs } = entrant;
    if (this.waiting === 0 && (isSmall ? this.#hasRoom(rows) : this.#hasLargeRoom(rows))) {
      return this.#goIn(rows, isSmall);
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const queue = isSmall ? this.#small : this.#large;
      const abort = (): void => {
        const at = queue.indexOf(waiting);
        queue.splice(at, 1);
        reject(signal.reason as Error);
        // It may have stood before others that fit.
        this.#letIn();
      };
      const waiting: Waiting = {
        rows,
        turnMs,
        sequence: (this.#sequence += 1),
        enter: () => {
          signal.removeEventListener("abort", abort);
          resolve(this.#goIn(rows, isSmall));
        },
      };
      signal.addEventListener("abort", abort, { once: true });
      queue.splice(placeOf(waiting, queue), 0, waiting);
      this.#letIn();
    });
  }

  #goIn(rows: number, isSmall: boolean): () => void {
    if (isSmall) this.#smallRows += rows;
    else this.#largeRows += rows;
    let isIn = true;
    return () => {
      if (!isIn) throw new RangeError("a frame left twice");
      isIn = false;
      if (isSmall) this.#smallRows -= rows;
      else this.#largeRows -= rows;
      this.#onLeave(rows, this.#isBusy);
      this.#isBusy = this.waiting > 0;
      this.#letIn();
    };
  }

  /** Lets in by turns until the first in turn has to wait. */
  #letIn(): void {
    for (;;) {
      const queue = this.#nextQueue();
      if (queue === undefined) break;
      queue.shift()!.enter();
    }
    this.#isBusy &&= this.waiting > 0;
  }

  /** The queue whose first may go in now. */
  #nextQueue(): Waiting[] | undefined {
    const small = this.#small[0];
    const large = this.#large[0];
    if (small !== undefined && (large === undefined || compare(small, large) < 0)) {
      return this.#hasRoom(small.rows) ? this.#small : undefined;
    }
    if (large === undefined) return undefined;
    if (this.#hasLargeRoom(large.rows)) return this.#large;
    // What is small and comes later may still use what is kept for it.
    const fits = small !== undefined && this.#smallRows + small.rows <= this.#limits.reserve;
    return fits ? this.#small : undefined;
  }

  #hasRoom(rows: number): boolean {
    return this.rows === 0 || this.rows + rows <= this.#limits.rowsMax;
  }

  #hasLargeRoom(rows: number): boolean {
    const { rowsMax, reserve } = this.#limits;
    const taken = this.#largeRows + Math.max(0, this.#smallRows - reserve);
    return taken === 0 || taken + rows <= rowsMax - reserve;
  }
}

/** Negative if `a` goes before `b`. */
function compare(a: Waiting, b: Waiting): number {
  return a.turnMs - b.turnMs || a.sequence - b.sequence;
}

/** Where it belongs in a queue in order of turns. */
function placeOf(waiting: Waiting, queue: readonly Waiting[]): number {
  let low = 0;
  let high = queue.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compare(queue[middle]!, waiting) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
