// Whether a batch should wait a moment for company.
//
// Clients that wait for their answers before they ask again fall into two halves: while one half is scanned, the
// answers of the other travel, come back as new queries and wait. Each scan then holds half of the queries
// that it could. Where one of eight costs hardly more than one of four, because both read the same rows, that is a
// third of the throughput:
//
//   apart     │ scan A ──── │ scan B ──── │ scan A ──── │ …      A returns while B is scanned
//   together  │ scan A + B ────── │ wait │ scan A + B ────── │ …  nothing is scanned while both return
//
// So when a batch has been answered, the next one may wait until as many queries have come as were answered: at most for as
// long as one scan of all takes less than two of half as many, which is measured for each group of queries. That is
// the most that waiting can gain, so a wait for nothing at worst doubles what a batch costs, as in renting or buying
// (A. R. Karlin, M. S. Manasse, L. Rudolph, D. D. Sleator: Competitive snoopy caching, 1988).
//
// Whether those who ask do come back so soon cannot be seen while others are scanned, since scans keep the processors
// from them. It is tried: a group waits now and then, goes on while it mostly is joined by all, and else tries again
// after twice as many scans. Queries that come at random rarely are as many in so short a time as in a whole scan, and
// a client that asks alone never waits, as nobody else is missing.
//
// Time is an argument, in monotonic ms: what is decided here depends on what was noted alone.

/** What scans of about so many rows lately took; one for each power of two. */
interface Pace {
  readonly rows: number;
  readonly ms: number;
  /** Number of the group's scan that was the last of this size. */
  readonly at: number;
}

/** What is known about queries that may share a batch. */
interface GroupHistory {
  /** Scans so far. */
  scans: number;
  /** By the power of two of the rows. */
  readonly paces: (Pace | undefined)[];
  /** Whether batches wait for company. */
  isTogether: boolean;
  /** Share of waits that all joined, lately. */
  joined: number;
  /** Number of the scan since which they wait, or do not. */
  since: number;
  /** Scans after which the next trial begins. */
  pause: number;
}

/** Queries of one group. */
interface GroupRows {
  readonly group: string;
  /** Query vectors. */
  readonly rows: number;
}

/** Queries that were answered together. */
interface Answered extends GroupRows {
  readonly history: GroupHistory;
  readonly atMs: number;
  /** Rows that have come since. */
  came: number;
  /** Whether as many are expected to come. */
  isOpen: boolean;
  /** Whether any query has waited for others. */
  hasWaited: boolean;
}

/** No batch waits for less than the shortest timer. */
const WAIT_MS_MIN = 1;
/** Weight of the latest figure in moving averages. */
const WEIGHT = 1 / 8;
/** A group waits as long as at least this share of its waits are joined by all. */
const JOINED_MIN = 0.7;
/** What a trial begins with: two waits for nothing end it. */
const JOINED_AT_FIRST = 0.85;
/** Scans between two trials, at first and at most. */
const PAUSE_SCANS = { min: 64, max: 4096 };
/** After each so many scans nobody is waited for, so that what fewer queries take stays known. */
const SCANS_PER_CHECK = 256;
/** A size that so many scans did not have is forgotten. */
const SCANS_REMEMBERED = 1024;
/** Of so many queries answered together, one may be late. */
const LATE_EVERY = 16;
/** Groups that are remembered; the one that was scanned longest ago is forgotten first. */
const GROUPS_MAX = 64;

/** Watches the batches of one lane, and says how long the next one should wait. */
export class BatchCompany {
  readonly #waitMsMax: number;
  readonly #rowsMax: number;
  /** By the time of the last scan, earliest first. */
  readonly #groups = new Map<string, GroupHistory>();
  #last: Answered | undefined;

  /** `waitMsMax`: most ms that a batch waits; 0: none ever does. `rowsMax`: most rows that a batch has. */
  constructor(waitMsMax: number, rowsMax: number) {
    this.#waitMsMax = waitMsMax;
    this.#rowsMax = rowsMax;
  }

  /** Notes that a batch, which took `ms` on the device, is answered now. */
  answered(nowMs: number, { group, rows }: GroupRows, ms: number): void {
    if (this.#waitMsMax === 0) return;
    if (this.#last !== undefined) close(this.#last, false);
    const history = this.#historyOf(group);
    notePace(history, rows, ms);
    if (!history.isTogether && history.scans - history.since >= history.pause) begin(history);
    const isOpen = history.isTogether && history.scans % SCANS_PER_CHECK !== 0;
    this.#last = { group, history, atMs: nowMs, rows, came: 0, isOpen, hasWaited: false };
  }

  /** Notes that a query has come. */
  came({ group, rows }: GroupRows): void {
    const last = this.#last;
    if (last === undefined || last.group !== group) return;
    last.came += rows;
    if (areAllHere(last)) close(last, true);
  }

  /** Whether as many queries have come as were answered last. */
  get haveAllCome(): boolean {
    return this.#last !== undefined && areAllHere(this.#last);
  }

  /** Ms that these queries, which are all that wait, should wait for more; 0: they should start. */
  waitMs(nowMs: number, { group, rows }: GroupRows): number {
    const last = this.#last;
    if (last === undefined || !last.isOpen || last.group !== group || rows >= this.#rowsMax)
      return 0;
    const all = Math.min(rows + last.rows - last.came, this.#rowsMax);
    const savedMs = 2 * msOf(last.history, all / 2) - msOf(last.history, all);
    const leftMs = last.atMs + Math.min(savedMs, this.#waitMsMax) - nowMs;
    if (savedMs >= WAIT_MS_MIN && leftMs > 0) {
      last.hasWaited = true;
      return leftMs;
    }
    close(last, false);
    return 0;
  }

  #historyOf(group: string): GroupHistory {
    const history = this.#groups.get(group) ?? newHistory();
    this.#groups.delete(group);
    this.#groups.set(group, history);
    if (this.#groups.size > GROUPS_MAX) this.#groups.delete(this.#groups.keys().next().value!);
    return history;
  }
}

function newHistory(): GroupHistory {
  const { min: pause } = PAUSE_SCANS;
  return { scans: 0, paces: [], isTogether: false, joined: 0, since: 0, pause };
}

/** Lets a group wait, until it turns out that it is not joined. */
function begin(history: GroupHistory): void {
  history.isTogether = true;
  history.joined = JOINED_AT_FIRST;
  history.since = history.scans;
}

function areAllHere({ came, rows }: Answered): boolean {
  return came >= rows - Math.floor(rows / LATE_EVERY);
}

/** Nobody is waited for any more, because all have come or the time for it is over. */
function close(last: Answered, haveJoined: boolean): void {
  if (!last.isOpen) return;
  last.isOpen = false;
  if (!last.hasWaited) return;
  const { history } = last;
  history.joined = average(history.joined, Number(haveJoined));
  if (history.joined >= JOINED_MIN) return;
  const { min, max } = PAUSE_SCANS;
  const hasLasted = history.scans - history.since >= min;
  history.pause = hasLasted ? min : Math.min(max, 2 * history.pause);
  history.isTogether = false;
  history.since = history.scans;
}

function notePace(history: GroupHistory, rows: number, ms: number): void {
  const size = 32 - Math.clz32(Math.max(1, rows) - 1);
  history.scans += 1;
  const last = history.paces[size];
  const before = last !== undefined && isKnown(history, last) ? last : undefined;
  history.paces[size] = {
    rows: average(before?.rows, rows),
    ms: average(before?.ms, ms),
    at: history.scans,
  };
}

function average(before: number | undefined, now: number): number {
  return before === undefined ? now : before + WEIGHT * (now - before);
}

function isKnown(history: GroupHistory, pace: Pace): boolean {
  return history.scans - pace.at <= SCANS_REMEMBERED;
}

/**
 * Ms that a scan of so many rows takes: between what was measured for fewer and for more. Fewer rows than were ever
 * measured take as long as the fewest. So do more rows than were measured take as long as the most: a size that was never
 * scanned seems cheap, which is how it comes to be measured.
 */
function msOf(history: GroupHistory, rows: number): number {
  let below: Pace | undefined;
  for (const pace of history.paces) {
    if (pace === undefined || !isKnown(history, pace)) continue;
    if (pace.rows >= rows) return below === undefined ? pace.ms : between(below, pace, rows);
    below = pace;
  }
  return below?.ms ?? 0;
}

function between(below: Pace, above: Pace, rows: number): number {
  const share = (rows - below.rows) / (above.rows - below.rows);
  return below.ms + share * (above.ms - below.ms);
}
