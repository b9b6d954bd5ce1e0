// A concurrency limiter for the slices of searches: bounds the rows that all requests of this router have
// under way at the workers. Without it a request of thousands of instances fills every worker's queue, and
// later requests wait behind it there or are refused. Waiting slices enter by the due time of their request
// (`core/src/time/due-time.ts`), so large requests are finished one after the other.
//
//        enter ──▶ waiting, by due time ──▶ under way ──▶ leave: the next goes in
//          └─ there is room: at once ───────────▲
//
// Small slices have a reserve: large slices leave `reserve` rows free, and while a large slice waits, small
// slices that are due later may use only the reserve. So neither kind keeps the other out.

import type { Signal } from "@winnow/core";

/** How much may be under way. */
export interface ConcurrencyLimits {
  /** Rows under way, at most. A slice with more rows goes alone. */
  readonly rowsMax: number;
  /** The rows among them that large slices leave free. */
  readonly reserve: number;
}

/** A slice that asks to enter. */
export interface Entrant {
  readonly rows: number;
  /** The earliest enters first; of equals, the first to arrive. */
  readonly dueMs: number;
}

interface Waiting extends Entrant {
  readonly sequence: number;
  readonly enter: () => void;
}

/** A slice is small up to this fraction of the reserve. */
const SMALL_FRACTION = 1 / 8;

/** Lets slices in by due time, up to a number of rows at a time. */
export class ConcurrencyLimiter {
  readonly #limits: ConcurrencyLimits;
  readonly #onLeave: (rows: number, wasBusy: boolean) => void;
  readonly #small: Waiting[] = [];
  readonly #large: Waiting[] = [];
  #smallRows = 0;
  #largeRows = 0;
  #sequence = 0;
  /** Whether slices have been waiting without a break since one left. */
  #isBusy = false;

  /**
   * `onLeave` is called with the rows of each slice that leaves, and whether slices have been waiting since
   * the one before left.
   */
  constructor(limits: ConcurrencyLimits, onLeave: (rows: number, wasBusy: boolean) => void) {
    this.#limits = limits;
    this.#onLeave = onLeave;
  }

  /** A slice of at most this many rows is small, and may use the reserve. */
  get smallRowsMax(): number {
    return this.#limits.reserve * SMALL_FRACTION;
  }

  /** Rows under way. */
  get rows(): number {
    return this.#smallRows + this.#largeRows;
  }

  /** Slices that wait. */
  get waiting(): number {
    return this.#small.length + this.#large.length;
  }

  /**
   * Lets a slice in, at once if there is room. The function that it gives must be called once, when the slice
   * is answered or given up. @throws the signal's reason when aborted while the slice waits
   */
  enter(entrant: Entrant, signal: Signal): Promise<() => void> | (() => void) {
    const isSmall = entrant.rows <= this.smallRowsMax;
    const { rows, dueMs } = entrant;
    if (this.waiting === 0 && (isSmall ? this.#hasRoom(rows) : this.#hasLargeRoom(rows))) {
      return this.#goIn(rows, isSmall);
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const queue = isSmall ? this.#small : this.#large;
      const abort = (): void => {
        const at = queue.indexOf(waiting);
        queue.splice(at, 1);
        reject(signal.reason);
        // The slice that gave up may have kept out later slices that fit.
        this.#letIn();
      };
      const waiting: Waiting = {
        rows,
        dueMs,
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
      if (!isIn) throw new RangeError("a slice left twice");
      isIn = false;
      if (isSmall) this.#smallRows -= rows;
      else this.#largeRows -= rows;
      this.#onLeave(rows, this.#isBusy);
      this.#isBusy = this.waiting > 0;
      this.#letIn();
    };
  }

  /** Lets slices in by due time, until the one that is due first does not fit. */
  #letIn(): void {
    for (;;) {
      const queue = this.#nextQueue();
      if (queue === undefined) break;
      queue.shift()!.enter();
    }
    this.#isBusy &&= this.waiting > 0;
  }

  /** The queue whose first slice may enter now. */
  #nextQueue(): Waiting[] | undefined {
    const small = this.#small[0];
    const large = this.#large[0];
    if (small !== undefined && (large === undefined || compare(small, large) < 0)) {
      return this.#hasRoom(small.rows) ? this.#small : undefined;
    }
    if (large === undefined) return undefined;
    if (this.#hasLargeRoom(large.rows)) return this.#large;
    // A large slice is due first and waits: a small slice may still use the reserve.
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
  return a.dueMs - b.dueMs || a.sequence - b.sequence;
}

/** The index at which a slice belongs in a queue ordered by due time. */
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
