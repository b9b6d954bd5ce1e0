// The order of waiting work, in a router and in a worker alike: the earliest due time goes first.
// Small work is due almost when it arrives; small work that arrives a while after large work goes
// before it:
//
//   due = arrival + the smaller of (4 ms × rows) and (half the time left until the deadline)
//
// So a single query does not wait behind thousands, and work of equal size and equal time to its
// deadline goes in order of arrival. Nothing starves: a due time never moves, and work that arrives
// after that time has a later one.

const WAIT_MS_PER_ROW = 4;
const WAIT_FRACTION = 0.5;

/** Arrival, size and deadline of some work. */
export interface Arrival {
  /** Monotonic ms. */
  readonly arrivedMs: number;
  /** Query vectors or keys of the whole work, all of its slices together. */
  readonly rows: number;
  /** Monotonic ms by which the work must be answered. */
  readonly deadlineMs: number;
}

/** Monotonic ms at which the work is due; of equal due times the first to arrive goes first. */
export function dueMsOf({ arrivedMs, rows, deadlineMs }: Arrival): number {
  const waitMsMax = Math.max(0, deadlineMs - arrivedMs) * WAIT_FRACTION;
  return arrivedMs + Math.min(rows * WAIT_MS_PER_ROW, waitMsMax);
}
