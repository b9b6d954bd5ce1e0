// The requests that were admitted and have not ended, as columns of numbers. In an overload every request that
// asks to be admitted looks at all of them: as objects in a list they cost it 0.2 ms, most of it for memory that
// is in no cache, as columns a few microseconds.

/** A request that was admitted. */
export interface AdmittedRequest {
  /** Rows of its searches that need work yet. */
  readonly rows: number;
  readonly dueMs: number;
  readonly deadlineMs: number;
  readonly isSmall: boolean;
}

/** What goes before a request. */
export interface Before {
  readonly rows: number;
  /** The latest deadline of the requests that have these rows; 0 if there are none. */
  readonly lastDeadlineMs: number;
}

const CAPACITY_MIN = 64;
/** The due time of a place without a request: it goes before none. */
const FREE = Infinity;

/** Requests in places of their own, from their admission to their end. */
export class AdmittedRequests {
  #columns = emptyColumns(CAPACITY_MIN);
  /** Places below `#end` without a request. */
  readonly #free: number[] = [];
  #end = 0;
  #rows = 0;

  /** Number of requests. */
  get size(): number {
    return this.#end - this.#free.length;
  }

  /** Rows of all requests. */
  get rows(): number {
    return this.#rows;
  }

  /** Adds a request and gives its place, which is another's once it is deleted. */
  add({ rows, dueMs, deadlineMs, isSmall }: AdmittedRequest): number {
    const place = this.#free.pop() ?? this.#end++;
    if (place >= this.#columns.rows.length) this.#columns = enlarged(this.#columns);
    const columns = this.#columns;
    columns.rows[place] = rows;
    columns.dueMs[place] = dueMs;
    columns.deadlineMs[place] = deadlineMs;
    columns.isSmall[place] = isSmall ? 1 : 0;
    this.#rows += rows;
    return place;
  }

  /** Notes that this many rows of a request, at most all of them, need no more work. */
  answered(place: number, rows: number): void {
    const given = Math.min(rows, this.#columns.rows[place]!);
    this.#columns.rows[place]! -= given;
    this.#rows -= given;
  }

  /** Removes a request with its remaining rows. */
  delete(place: number): void {
    this.answered(place, Infinity);
    this.#columns.dueMs[place] = FREE;
    this.#free.push(place);
  }

  /** What goes before a request: all that is due by then, and for a small one only what is small itself. */
  before({ dueMs, isSmall }: Pick<AdmittedRequest, "dueMs" | "isSmall">): Before {
    const columns = this.#columns;
    let [rows, lastDeadlineMs] = [0, 0];
    for (let place = 0; place < this.#end; place += 1) {
      if (columns.dueMs[place]! > dueMs || (isSmall && columns.isSmall[place] === 0)) continue;
      rows += columns.rows[place]!;
      lastDeadlineMs = Math.max(lastDeadlineMs, columns.deadlineMs[place]!);
    }
    return { rows, lastDeadlineMs };
  }
}

interface Columns {
  readonly rows: Float64Array;
  readonly dueMs: Float64Array;
  readonly deadlineMs: Float64Array;
  readonly isSmall: Uint8Array;
}

function emptyColumns(capacity: number): Columns {
  return {
    rows: new Float64Array(capacity),
    dueMs: new Float64Array(capacity).fill(FREE),
    deadlineMs: new Float64Array(capacity),
    isSmall: new Uint8Array(capacity),
  };
}

function enlarged(columns: Columns): Columns {
  const larger = emptyColumns(columns.rows.length * 2);
  larger.rows.set(columns.rows);
  larger.dueMs.set(columns.dueMs);
  larger.deadlineMs.set(columns.deadlineMs);
  larger.isSmall.set(columns.isSmall);
  return larger;
}
