// Continuous batching: while one scan runs, arriving queries wait here, and what waits together
// when the scan ends leaves together as the next batch. Nothing ever waits for a timer, so a query
// that finds the device idle starts at once, and batches grow only as far as the load makes them.
//
//   offer ──▶ waiting ──next()──▶ running ──▶ answer
//     │          ├─ its deadline passes ──▶ expired (dropped before any work)
//     │          └─ cancel ───────────────▶ gone
//     └─ queue full ──▶ refused at once
//
// A batch that is full cannot grow any more: it may leave while the previous scan still runs
// (`nextFull`), so that the device goes from one to the other without a pause.
//
// A batch holds queries of one group: the same version, table and partition set, and k within the
// same power of two, so that no query pays for a neighbour's much larger k. The query that is due
// first (`core/due-time.ts`) chooses the group. By deadline alone, the slices of a large old
// request would go before every young query, though most of that request's time is left. Time is an
// argument: the queue itself has no clock and starts no work.

/** One query that may wait. */
export interface WaitingQuery {
  /** Queries of equal group may share a batch, see `batchGroupOf`. */
  readonly group: string;
  /** Query vectors or keys it carries, ≥ 1. */
  readonly rows: number;
  /** Monotonic ms by which it must be answered. */
  readonly deadlineMs: number;
  /** When it is due (`dueMsOf`): the earliest goes first, and of equals the first to arrive. */
  readonly dueMs: number;
}

/** Queries that leave the queue together, and are scanned together. */
export interface Batch<Query extends WaitingQuery> {
  /** Same group, ordered by due time; empty if there are only expired queries to report. */
  readonly queries: readonly Query[];
  /** Dropped without work: their deadline had passed. */
  readonly expired: readonly Query[];
}

/** Bounds of the queue and of one batch. */
export interface BatchLimits {
  /** Rows that may wait; a query that would exceed it is refused. */
  readonly queueRowsMax: number;
  /** Most rows of one batch; a larger query is a batch of its own. */
  readonly batchRowsMax: number;
}

/** The group of a TopK query: what it scans, and its k up to a power of two. */
export function batchGroupOf(scanned: string, k: number): string {
  return `${scanned}|${32 - Math.clz32(Math.max(1, k) - 1)}`;
}

/** Queries that wait for the device. */
export class Batcher<Query extends WaitingQuery> {
  readonly #limits: BatchLimits;
  /** In the order in which they came. */
  #waiting: Query[] = [];
  #rows = 0;

  constructor(limits: BatchLimits) {
    this.#limits = limits;
  }

  /** Rows that wait. */
  get rows(): number {
    return this.#rows;
  }

  /** Queries that wait. */
  get length(): number {
    return this.#waiting.length;
  }

  /** Takes a query in, or answers `false` at once when the queue is full. */
  offer(query: Query): boolean {
    const fits = this.#rows + query.rows <= this.#limits.queueRowsMax;
    // An empty queue admits any single query: `query-check.ts` bounds its size.
    if (!fits && this.#waiting.length > 0) return false;
    this.#waiting.push(query);
    this.#rows += query.rows;
    return true;
  }

  /** Forgets a waiting query; `false` if it does not wait (any more). */
  cancel(query: Query): boolean {
    const at = this.#waiting.indexOf(query);
    if (at < 0) return false;
    this.#waiting.splice(at, 1);
    this.#rows -= query.rows;
    return true;
  }

  /** Drops and returns what has expired, oldest deadline first. */
  expire(nowMs: number): Query[] {
    const expired = this.#waiting.filter((query) => query.deadlineMs <= nowMs);
    this.#remove(expired);
    return expired.toSorted((a, b) => a.deadlineMs - b.deadlineMs);
  }

  /** Takes the next batch out; `undefined` when nothing waits. */
  next(nowMs: number): Batch<Query> | undefined {
    if (this.#waiting.length === 0) return undefined;
    const expired = this.expire(nowMs);
    return { queries: this.#takeOut(this.#nextGroup()), expired };
  }

  /**
   * Takes the next batch out if it is full; else `undefined`. Queries of more than `rowsMax` rows
   * stay: a small query may still arrive and go before them.
   */
  nextFull(nowMs: number, rowsMax: number = Number.POSITIVE_INFINITY): Batch<Query> | undefined {
    const { batchRowsMax } = this.#limits;
    if (this.#rows < batchRowsMax) return undefined;
    const expired = this.expire(nowMs);
    const group = this.#nextGroup();
    const rows = group.reduce((sum, query) => sum + (query.rows <= rowsMax ? query.rows : 0), 0);
    if (rows >= batchRowsMax && group[0]!.rows <= rowsMax) {
      return { queries: this.#takeOut(group), expired };
    }
    return expired.length > 0 ? { queries: [], expired } : undefined;
  }

  /** Takes every query out, because the device is lost. */
  clear(): Query[] {
    const queries = this.#waiting;
    this.#waiting = [];
    this.#rows = 0;
    return queries;
  }

  /** All queries that could share a batch with the one that is due first, by due time. */
  #nextGroup(): Query[] {
    const first = earliest(this.#waiting);
    return this.#waiting.filter((query) => query.group === first?.group).toSorted(byDueTime);
  }

  #takeOut(group: readonly Query[]): readonly Query[] {
    const queries = thoseThatFit(group, this.#limits.batchRowsMax);
    this.#remove(queries);
    return queries;
  }

  /** Takes out some of those that wait. */
  #remove(queries: readonly Query[]): void {
    if (queries.length === 0) return;
    const gone = new Set(queries);
    this.#waiting = this.#waiting.filter((query) => !gone.has(query));
    for (const { rows } of queries) this.#rows -= rows;
  }
}

const byDueTime = (a: WaitingQuery, b: WaitingQuery): number => a.dueMs - b.dueMs;

/** The query that is due first; among equals the one that came first. */
function earliest<Query extends WaitingQuery>(waiting: Iterable<Query>): Query | undefined {
  let best: Query | undefined;
  for (const query of waiting) {
    if (best === undefined || query.dueMs < best.dueMs) best = query;
  }
  return best;
}

/** The first, and in order whatever else fits within `rowsMax` rows beside it. */
function thoseThatFit<Query extends WaitingQuery>(
  queries: readonly Query[],
  rowsMax: number,
): readonly Query[] {
  let rows = 0;
  return queries.filter((query, index) => {
    if (index > 0 && rows + query.rows > rowsMax) return false;
    rows += query.rows;
    return true;
  });
}
