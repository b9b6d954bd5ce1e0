// Continuous batching: while one scan runs, arriving queries wait here, and those that wait when the scan
// ends leave together as the next batch. A query that finds the device idle starts at once, unless others are likely to
// join it in a moment (`batch-company.ts`), and batches grow only as far as the load makes them.
//
//   offer ──▶ waiting ──next()──▶ running ──▶ answer
//     │          ├─ its deadline passes ──▶ expired (dropped before any work)
//     │          └─ cancel ───────────────▶ gone
//     └─ queue full ──▶ refused at once
//
// A full batch cannot grow any more, so it may leave while the previous scan still runs (`nextFull`): the
// device then goes from one to the next without a pause.
//
// A batch holds queries of one group: the same version, table and partition set, and k within the same power
// of two, so that no query pays for a neighbour's much larger k. The query that is due first
// (`core/src/time/due-time.ts`) chooses the group. If the deadline alone decided, the slices of a large old
// request would go before every young query, although the large request has most of its time left. Time is an
// argument: the queue itself has no clock and starts no work.

/** One query that may wait. */
export interface WaitingQuery {
  /** Queries of equal group may share a batch (`batchGroupOf`). */
  readonly group: string;
  /** Number of query vectors or keys, ≥ 1. */
  readonly rows: number;
  /** Time by which the query must be answered, in monotonic ms. */
  readonly deadlineMs: number;
  /** When the query is due (`dueMsOf`). The earliest goes first; of equals, the first to arrive. */
  readonly dueMs: number;
}

/** Queries that leave the queue together, and are scanned together. */
export interface Batch<Query extends WaitingQuery> {
  /** Queries of one group, ordered by due time; empty if there are only expired queries to report. */
  readonly queries: readonly Query[];
  /** Queries dropped without any work, because their deadline had passed. */
  readonly expired: readonly Query[];
}

/** Bounds of the queue and of a batch. */
export interface BatchLimits {
  /** Rows that may wait. A query that would exceed this bound is refused. */
  readonly queueRowsMax: number;
  /** Most rows of a batch. A query with more rows is a batch of its own. */
  readonly batchRowsMax: number;
}

/** The group of a TopK query: what it scans, and its k up to a power of two. */
export function batchGroupOf(scanned: string, k: number): string {
  return `${scanned}|${32 - Math.clz32(Math.max(1, k) - 1)}`;
}

/** Queries that wait for the device. */
export class Batcher<Query extends WaitingQuery> {
  readonly #limits: BatchLimits;
  /** In the order of arrival. */
  #waiting: Query[] = [];
  #rows = 0;
  /** No query that waits has an earlier deadline, in monotonic ms. */
  #earliestMs = Number.POSITIVE_INFINITY;
  /** The query that is due first, and the rows of its group, while that is known; thousands may wait. */
  #first: { readonly query: Query; groupRows: number } | undefined;

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

  /** The group of all queries that wait; `undefined` if none waits, or those of several groups. */
  get onlyGroup(): string | undefined {
    const group = this.#waiting[0]?.group;
    return this.#waiting.every((query) => query.group === group) ? group : undefined;
  }

  /** The earliest deadline of those that wait, in monotonic ms. */
  get earliestDeadlineMs(): number {
    return this.#waiting.reduce(
      (earliestMs, { deadlineMs }) => Math.min(earliestMs, deadlineMs),
      Number.POSITIVE_INFINITY,
    );
  }

  /** Takes a query in, or answers `false` at once when the queue is full. */
  offer(query: Query): boolean {
    const fits = this.#rows + query.rows <= this.#limits.queueRowsMax;
    // An empty queue takes any single query, whose size `query-check.ts` has bounded.
    if (!fits && this.#waiting.length > 0) return false;
    this.#waiting.push(query);
    this.#rows += query.rows;
    this.#earliestMs = Math.min(this.#earliestMs, query.deadlineMs);
    this.#follow(query);
    return true;
  }

  /** Drops a waiting query; `false` if it does not wait (any more). */
  cancel(query: Query): boolean {
    const at = this.#waiting.indexOf(query);
    if (at < 0) return false;
    this.#waiting.splice(at, 1);
    this.#rows -= query.rows;
    this.#first = undefined;
    return true;
  }

  /** Drops the queries that have expired, and returns them, earliest deadline first. */
  expire(nowMs: number): Query[] {
    if (nowMs < this.#earliestMs) return [];
    const expired = this.#waiting.filter((query) => query.deadlineMs <= nowMs);
    this.#remove(expired);
    this.#earliestMs = this.earliestDeadlineMs;
    return expired.toSorted((a, b) => a.deadlineMs - b.deadlineMs);
  }

  /** Takes the next batch out; `undefined` when nothing waits. */
  next(nowMs: number): Batch<Query> | undefined {
    if (this.#waiting.length === 0) return undefined;
    const expired = this.expire(nowMs);
    return { queries: this.#takeOut(this.#nextGroup()), expired };
  }

  /**
   * Takes the next batch out if it is full; otherwise `undefined`. Queries of more than `rowsMax` rows stay,
   * because a small query may still arrive and go before them.
   */
  nextFull(nowMs: number, rowsMax: number = Number.POSITIVE_INFINITY): Batch<Query> | undefined {
    const { batchRowsMax } = this.#limits;
    if (this.#rows < batchRowsMax) return undefined;
    const expired = this.expire(nowMs);
    const nothing = expired.length > 0 ? { queries: [], expired } : undefined;
    if ((this.#first?.groupRows ?? batchRowsMax) < batchRowsMax) return nothing;
    const group = this.#nextGroup();
    const rows = group.reduce((sum, query) => sum + (query.rows <= rowsMax ? query.rows : 0), 0);
    if (rows >= batchRowsMax && this.#first!.query.rows <= rowsMax) {
      return { queries: this.#takeOut(group), expired };
    }
    return nothing;
  }

  /** Takes every query out, for a device that is lost. */
  clear(): Query[] {
    const queries = this.#waiting;
    this.#waiting = [];
    this.#rows = 0;
    this.#earliestMs = Number.POSITIVE_INFINITY;
    this.#first = undefined;
    return queries;
  }

  /** All queries that could share a batch with the one that is due first, in the order of arrival. */
  #nextGroup(): Query[] {
    const query = earliest(this.#waiting);
    if (query === undefined) return [];
    const group = this.#waiting.filter((each) => each.group === query.group);
    this.#first = { query, groupRows: group.reduce((sum, { rows }) => sum + rows, 0) };
    return group;
  }

  /** Notes a query that has come. */
  #follow(query: Query): void {
    const first = this.#first;
    if (first === undefined) return;
    if (query.dueMs < first.query.dueMs) this.#first = undefined;
    else if (query.group === first.query.group) first.groupRows += query.rows;
  }

  #takeOut(group: readonly Query[]): readonly Query[] {
    const queries = thoseThatFit(group.toSorted(byDueTime), this.#limits.batchRowsMax);
    const taken = new Set(queries);
    this.#remove(group.filter((query) => taken.has(query)));
    return queries;
  }

  /** Removes some of the waiting queries, which are in the order of arrival. */
  #remove(queries: readonly Query[]): void {
    if (queries.length === 0) return;
    let removed = 0;
    this.#waiting = this.#waiting.filter((query) => {
      if (query !== queries[removed]) return true;
      removed += 1;
      return false;
    });
    for (const { rows } of queries) this.#rows -= rows;
    this.#first = undefined;
  }
}

const byDueTime = (a: WaitingQuery, b: WaitingQuery): number => a.dueMs - b.dueMs;

/** The query that is due first; of equals, the first to arrive. */
function earliest<Query extends WaitingQuery>(waiting: Iterable<Query>): Query | undefined {
  let best: Query | undefined;
  for (const query of waiting) {
    if (best === undefined || query.dueMs < best.dueMs) best = query;
  }
  return best;
}

/** The first query, and in their order all others that fit beside it within `rowsMax` rows. */
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
