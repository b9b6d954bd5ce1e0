// Who goes first where work waits, in a router and in a worker alike: the earlier turn. What is small
// is due almost when it comes, what is large lets those pass that come a while after it:
//
//   turn = arrival + the smaller of (4 ms × rows) and (half the time left until the deadline)
//
// So a single query is not held up behind thousands, equals go in the order they came, and nothing
// starves: a turn never moves, and whoever comes later than it goes behind.

const PATIENCE_MS_PER_ROW = 4;
const PATIENCE_SHARE = 0.5;

/** What waits. */
export interface Arrival {
  /** Monotonic ms. */
  readonly arrivedMs: number;
  /** Query vectors or keys, of all that belongs together. */
  readonly rows: number;
  /** Monotonic ms by which it must be answered. */
  readonly deadlineMs: number;
}

/** Monotonic ms at which it is due; the earliest goes first, and among equals the first to come. */
export function turnMsOf({ arrivedMs, rows, deadlineMs }: Arrival): number {
  const shareMs = Math.max(0, deadlineMs - arrivedMs) * PATIENCE_SHARE;
  return arrivedMs + Math.min(rows * PATIENCE_MS_PER_ROW, shareMs);
}
