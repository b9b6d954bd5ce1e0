// Which work goes first where work waits, in a router and in a worker alike: the work that is due first.
// Small work is due almost when it arrives; large work lets work pass that arrives a while after it:
//
//   due = arrival + the smaller of (4 ms × rows) and (half the time left until the deadline)
//
// So a single query is not held up behind thousands, equals go in the order they came, and nothing
// starves: a due time never moves, and work that arrives after it goes behind.

const WAIT_MS_PER_ROW = 4;
const WAIT_SHARE = 0.5;

/** Work that arrives. */
export interface Arrival {
  /** Monotonic ms. */
  readonly arrivedMs: number;
  /** Query vectors or keys, of all that belongs together. */
  readonly rows: number;
  /** Monotonic ms by which it must be answered. */
  readonly deadlineMs: number;
}

/** Monotonic ms at which the work is due; the earliest goes first, and among equals the first to arrive. */
export function dueMsOf({ arrivedMs, rows, deadlineMs }: Arrival): number {
  const shareMs = Math.max(0, deadlineMs - arrivedMs) * WAIT_SHARE;
  return arrivedMs + Math.min(rows * WAIT_MS_PER_ROW, shareMs);
}
