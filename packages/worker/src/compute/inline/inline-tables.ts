// Tables that the event loop searches itself: scanning some ten thousand rows takes less time than waking the
// compute thread and being woken by it, and beside a scan of a million rows the two turns of the threads take longer
// still (docs/benchmarks/end-to-end.md). The compute thread loads and keeps such tables like all others, and shares their
// partitions with the event loop:
//
//   compute thread   load ─▶ SharedPartition (number, ids) ─▶ event loop   add
//   event loop       answer: a plain batch over few values is searched here, at once, with helper threads if
//                    a partition is large
//                    drop:   before a release is asked for, so that nobody searches what is to be freed
//
// A large partition is scanned here only while requests come one at a time (`overlap-watch.ts`): of several the compute
// thread scans some together while the event loop reads the others. And only while such scans are short
// (`scan-pace.ts`), and no row has to be scored beside those that the filter leaves.
//
// The same holds for the rows that a filter admits, once the compute thread has copied them, in tables of any size, or
// has shared the filter, with which whole partitions are searched (`admitted-sharing.ts`).
//
// Both threads run the accelerator's code over the same memory, so an answer has the same bits whichever
// thread makes it.

import { WaitGuard } from "@winnow/accelerator";
import type { InlineSearch } from "@winnow/accelerator";
import { StringColumn, vectorCells } from "@winnow/core";
import type { Clock, TopKBlock } from "@winnow/core";

import type {
  ContentHandle,
  PackedStrings,
  ReplicaName,
  ScanAnswer,
  ScanAsk,
  TableTarget,
  TopKBatch,
  TopKBatchAnswer,
} from "../compute.ts";
import { unpackKeys } from "../packed-keys.ts";
import type { ProgressCounter } from "../progress-counter.ts";
import { answersOf, countOf, isPlain, wantedRows } from "../search/scan-answers.ts";
import { idsOfRows } from "../search/winner-ids.ts";
import { vectorsAtOnce, wantsVectorsAlone } from "../search/winner-vectors.ts";
import { Opening, scannedOf, scansOf } from "./found-rows.ts";
import type { HeldPartition, InlineScan, WholeRows } from "./found-rows.ts";
import { InlineCopy, replaceCopyRows } from "./inline-copy.ts";
import { InlineMask } from "./inline-mask.ts";
import type { AdmittedName, SharedCopy, SharedMask, SharedPartition } from "./shared-rows.ts";
import { OverlapWatch } from "./overlap-watch.ts";
import { ScanPace } from "./scan-pace.ts";
import { TurnBudget } from "./turn-budget.ts";

/** Candidates of all queries of a batch, at most. Each one is scored, sorted and gets its id. */
const WINNERS_MAX = 2 ** 13;
/** Values that a search may score one by one where the int8 filter leaves out no rows: about a millisecond. */
const SCORED_VALUES_MAX = 2 ** 19;
/** Values of the vectors of candidates, at most, and how many values are scanned in the time in which one is copied. */
const VECTOR_VALUES_MAX = 2 ** 17;
const SCANNED_PER_COPIED = 2 ** 7;
/** Candidates of a scan of a large partition, at most, and the ms that such a scan is expected to take. */
const LARGE_WINNERS_MAX = 2 ** 10;
const LARGE_MS_MAX = 4;
/** Scans of the greatest allowed size in one turn of the event loop. Further batches go to the compute thread. */
const SCANS_PER_TURN = 4;
/** Threads that make a scan shorter, at most: more read memory hardly faster. */
const THREADS_MAX = 4;
/** A scan counts as at least this part of one of the greatest size: a scan of no rows takes time too. */
const LEAST_PART = 1 / 256;

/** What inline tables need. */
export interface InlineTablesParts {
  /**
   * Rows × dim × queries up to which a batch is searched here; 0: none is. Where helper threads share the scan of a
   * large partition, so many for each thread.
   */
  readonly valuesMax: number;
  /** Opens the accelerator for this thread; `undefined` where this process has none. */
  readonly openSearch: () => InlineSearch | undefined;
  /** Raised by every scan. */
  readonly progress: ProgressCounter;
  readonly clock: Clock;
  /** Resolves once the event loop has handled everything that has arrived (`nextLoopTurn`). */
  readonly turn: () => Promise<void>;
}

interface HeldTable {
  readonly partitions: Map<number, HeldPartition>;
  readonly guard: WaitGuard;
  /** Of scans of large partitions, whichever thread runs them. */
  readonly pace: ScanPace;
}

/** The queries of a batch, and what searches. */
interface Asked {
  readonly vectors: Float32Array;
  readonly search: InlineSearch;
}

/** The partitions that the compute thread has shared with the event loop. */
export class InlineTables {
  readonly #parts: InlineTablesParts;
  readonly #held = new Map<ContentHandle, HeldTable[]>();
  #search: InlineSearch | undefined;
  /** Values scanned in the current turn of the event loop. */
  readonly #budget: TurnBudget;
  /** Of the requests that the compute thread answers, and of scans of large partitions here. */
  readonly overlap: OverlapWatch;

  constructor(parts: InlineTablesParts) {
    this.#parts = parts;
    const { valuesMax, turn } = parts;
    this.#budget = new TurnBudget(SCANS_PER_TURN * valuesMax, valuesMax, turn);
    this.overlap = new OverlapWatch(turn);
  }

  /** Adds a partition that the compute thread has loaded, and may have shared. */
  add({ handle, table, partition }: ReplicaName, shared: SharedPartition | undefined): void {
    if (this.#parts.valuesMax === 0) return;
    const tables = this.#held.get(handle) ?? [];
    this.#held.set(handle, tables);
    tables[table] ??= newTable();
    const whole = shared && this.#wholeOf(shared);
    tables[table].partitions.set(partition, { whole, admitted: new Map() });
  }

  #wholeOf({ share, ids, ...resident }: SharedPartition): WholeRows | undefined {
    this.#search ??= this.#parts.openSearch();
    const table = this.#search?.open(share);
    return table && { resident, ids: ids && unpackKeys(ids), table };
  }

  /** Adds a copy of some of a partition's rows. One of a partition that is not held is ignored. */
  addCopy(shared: SharedCopy): void {
    this.#search ??= this.#parts.openSearch();
    const { name, text } = shared;
    if (this.#search !== undefined) this.#at(name)?.admitted.set(text, new InlineCopy(shared));
  }

  /** Adds a filter with which a whole partition is searched. One of a partition that is not held is ignored. */
  addMask(shared: SharedMask): void {
    const { name, text } = shared;
    this.#at(name)?.admitted.set(text, new InlineMask(shared));
  }

  /** Forgets a copy or a mask that the compute thread has given up. */
  dropAdmitted({ name, text }: AdmittedName): void {
    this.#at(name)?.admitted.delete(text);
  }

  /** Removes a partition, and the copies of its rows; to be called before its release. */
  drop(name: ReplicaName): void {
    const held = this.#at(name);
    this.#held.get(name.handle)?.[name.table]?.partitions.delete(name.partition);
    if (held?.whole !== undefined) this.#search?.release(held.whole.table);
  }

  /** Removes all partitions of a content. */
  dropContent(handle: ContentHandle): void {
    for (const held of this.#held.get(handle) ?? []) {
      for (const { whole } of held?.partitions.values() ?? []) {
        if (whole !== undefined) this.#search?.release(whole.table);
      }
    }
    this.#held.delete(handle);
  }

  #at({ handle, table, partition }: ReplicaName): HeldPartition | undefined {
    return this.#held.get(handle)?.[table]?.partitions.get(partition);
  }

  /** Removes all partitions. */
  clear(): void {
    for (const handle of this.#held.keys()) this.dropContent(handle);
  }

  /** The answer to a batch that can be searched here and now; `undefined` if the compute thread has to be asked. */
  answer({ target, asks, vectors }: TopKBatch): TopKBatchAnswer | undefined {
    const search = this.#search;
    const held = this.#held.get(target.handle)?.[target.table];
    if (search === undefined || held === undefined || !asks.every(isSearchable)) {
      return undefined;
    }
    const partitions = partitionsOf(held, target);
    if (partitions === undefined) return undefined;
    const opening = new Opening(search);
    try {
      const scans = scansOf(asks, partitions, opening);
      if (scans === undefined || !this.#mayScan(held, scans, { vectors, search })) return undefined;
      return this.#scan(held, scans, { vectors, search });
    } finally {
      opening.close();
    }
  }

  #scan(
    { guard, pace }: HeldTable,
    scans: readonly InlineScan[],
    asked: Asked,
  ): TopKBatchAnswer | undefined {
    const { clock, progress } = this.#parts;
    const isLarge = scans.some((scan) => scan.isLarge);
    const end = isLarge ? this.overlap.begin(1) : undefined;
    try {
      const startedMs = clock.nowMs();
      const answers = answersOfScans(scans, asked);
      const ms = clock.nowMs() - startedMs;
      progress.raise();
      if (answers === undefined) {
        guard.searched(Number.POSITIVE_INFINITY);
        return undefined;
      }
      if (isLarge) pace.note(valuesOf(scans[0]!), ms);
      return { answers, waitUs: 0, computeUs: Math.round(ms * 1000) };
    } finally {
      end?.();
    }
  }

  /**
   * How to note how long the compute thread takes for a batch; `undefined` where that says nothing about the pace of
   * scans here. To be asked before the batch's buffers are given away.
   */
  paceOf({ target, asks, vectors }: TopKBatch): ((ms: number) => void) | undefined {
    const held = this.#held.get(target.handle)?.[target.table];
    const [ask] = asks;
    if (held === undefined || asks.length > 1 || !isSearchable(ask!)) return undefined;
    const partitions = partitionsOf(held, target);
    const found = partitions && scannedOf(partitions, ask!);
    if (found?.isLarge !== true || hasZeroQuery(vectors, found.dim)) return undefined;
    const values = valuesOf({ ...found, queries: ask!.queries });
    return (ms) => held.pace.note(values, ms);
  }

  /** Whether so much more may be scanned in this turn of the event loop, during which no frame is read. */
  #mayScan(
    { guard, pace }: HeldTable,
    scans: readonly InlineScan[],
    { vectors, search }: Asked,
  ): boolean {
    const { valuesMax } = this.#parts;
    const { asked, winners, copied, values, cost } = workOf(scans, {
      least: valuesMax * LEAST_PART,
      threadsMax: Math.min(THREADS_MAX, search.threads),
    });
    const isWhole = vectors.length > 0 && vectors.length === asked;
    if (!isWhole || winners > WINNERS_MAX || copied > VECTOR_VALUES_MAX) return false;
    if (values > valuesMax) return false;
    if (scans.some((scan) => !isFiltered(scan, vectors))) return false;
    const isLarge = scans.some((scan) => scan.isLarge);
    if (isLarge && !this.#mayScanLarge(scans, pace)) return false;
    if (!this.#budget.has(cost) || !guard.mayWait()) return false;
    this.#budget.spend(cost);
    return true;
  }

  #mayScanLarge(scans: readonly InlineScan[], pace: ScanPace): boolean {
    const [scan] = scans;
    if (scans.length > 1 || scan!.asks.length > 1 || !this.overlap.isAlone) return false;
    if (scan!.k * scan!.queries > LARGE_WINNERS_MAX) return false;
    return pace.predictMs(valuesOf(scan!)) <= LARGE_MS_MAX;
  }
}

function newTable(): HeldTable {
  const guard = new WaitGuard(SCORED_VALUES_MAX);
  return { partitions: new Map(), guard, pace: new ScanPace() };
}

/** Whether an ask has one filter at most, no lists of ids, and wants no attributes beside vectors as bytes. */
function isSearchable(ask: ScanAsk): boolean {
  return isPlain(ask) && ((ask.attributes ?? []).length === 0 || wantsVectorsAlone(ask));
}

/** The partitions of a target; `undefined` unless all of them, and at least one, are held. */
function partitionsOf(
  { partitions: ofTable }: HeldTable,
  { partitions }: TableTarget,
): HeldPartition[] | undefined {
  const held: HeldPartition[] = [];
  for (const partition of partitions) {
    const found = ofTable.get(partition);
    if (found === undefined) return undefined;
    held.push(found);
  }
  return held.length > 0 ? held : undefined;
}

/** Values of the vectors that a search's asks want of their candidates. */
function vectorValuesOf({ asks, k, dim }: InlineScan): number {
  let candidates = 0;
  for (const ask of asks) {
    if (wantsVectorsAlone(ask)) candidates += ask.queries * Math.min(k, ask.k);
  }
  return candidates * dim;
}

/** The vectors of the candidates of each ask that wants them, query after query, at most its k. */
function vectorsOf(
  { asks, sources, dim, vectorDim }: InlineScan,
  block: TopKBlock,
  search: InlineSearch,
): PackedStrings | undefined {
  const columns: StringColumn[] = [];
  let query = 0;
  for (const ask of asks) {
    const end = query + ask.queries;
    if (!wantsVectorsAlone(ask)) query = end;
    const length = ask.ownVectors ? vectorDim : dim;
    for (; query < end; query += 1) {
      const from = query * block.k;
      const rows = block.rows.subarray(from, from + countOf(block, query, ask.k));
      const vectors = vectorsAtOnce(rows, sources, {
        dim,
        length,
        gather: ({ table }, local) => search.gather(table!, local, dim),
      });
      columns.push(vectorCells(vectors, rows.length));
    }
  }
  const [first] = columns;
  if (first === undefined) return undefined;
  const { offsets, bytes } = columns.length === 1 ? first : StringColumn.joined(columns);
  return { offsets, bytes };
}

/** Rows × dim × queries of a search. */
function valuesOf({ rows, dim, queries }: Pick<InlineScan, "rows" | "dim" | "queries">): number {
  return rows * dim * queries;
}

/** The work of searches, in values. A search costs at least `least`; helpers share that of a large partition. */
function workOf(
  scans: readonly InlineScan[],
  { least, threadsMax }: { readonly least: number; readonly threadsMax: number },
) {
  const work = { asked: 0, winners: 0, copied: 0, values: 0, cost: 0 };
  for (const scan of scans) {
    const { dim, queries, k, isLarge } = scan;
    const copied = vectorValuesOf(scan);
    const ofThread = valuesOf(scan) / (isLarge ? threadsMax : 1) + copied * SCANNED_PER_COPIED;
    work.asked += queries * dim;
    work.winners += k * queries;
    work.copied += copied;
    work.values += ofThread;
    work.cost += Math.max(least, ofThread);
  }
  return work;
}

/** Whether a scan may leave out rows: of an unknown user, whose vector is often zero, all rows score alike. */
function isFiltered({ rows, dim }: InlineScan, vectors: Float32Array): boolean {
  return rows * dim <= SCORED_VALUES_MAX || !hasZeroQuery(vectors, dim);
}

function hasZeroQuery(vectors: Float32Array, dim: number): boolean {
  for (let at = 0; at < vectors.length; at += dim) {
    let place = at;
    while (place < at + dim && vectors[place] === 0) place += 1;
    if (place === at + dim) return true;
  }
  return false;
}

/** Runs searches one after the other; `vectors` holds the queries of all of them. `undefined`: one takes too long. */
function answersOfScans(
  scans: readonly InlineScan[],
  { search, vectors }: Asked,
): ScanAnswer[] | undefined {
  const answers: ScanAnswer[] = [];
  let denseValuesMax = SCORED_VALUES_MAX;
  let at = 0;
  for (const scan of scans) {
    const end = at + scan.queries * scan.dim;
    const own = scans.length === 1 ? vectors : vectors.subarray(at, end);
    const found = searchOf(scan, { search, vectors: own, denseValuesMax });
    if (found === undefined) return undefined;
    const { block, denseQueries } = found;
    denseValuesMax -= scan.rows * scan.dim * denseQueries;
    at = end;
    const { copies, isOfCopies } = scan;
    if (copies !== undefined && !isOfCopies) replaceCopyRows(block, copies);
    const ids = idsOfRows(wantedRows(block, scan.asks), scan.sources);
    const attributes = vectorsOf(scan, block, search);
    for (const each of scan.admitted) each.used();
    if (copies !== undefined && isOfCopies) replaceCopyRows(block, copies);
    for (const answer of answersOf({ block, ids, attributes }, scan.asks)) {
      answers.push(answer);
    }
  }
  return answers;
}

/** Searches, and gives a block with room for `k` candidates though there may be fewer rows. */
function searchOf(
  { tables, filters, rows, queries, k, isLarge: withHelpers }: InlineScan,
  { search, vectors, denseValuesMax }: Asked & { readonly denseValuesMax: number },
): { readonly block: TopKBlock; readonly denseQueries: number } | undefined {
  const limits = { withHelpers, denseValuesMax };
  if (k <= rows) return search.topK({ tables, filters, vectors, k, ...limits }, queries);
  const counts = new Uint32Array(queries);
  const room = { scores: new Float32Array(queries * k), rows: new Uint32Array(queries * k) };
  const whole = { queries, k, counts, ...room };
  if (rows === 0) return { block: whole, denseQueries: 0 };
  const found = search.topK({ tables, filters, vectors, k: rows, ...limits }, queries);
  if (found === undefined) return undefined;
  const { block, denseQueries } = found;
  counts.set(block.counts);
  for (let query = 0; query < queries; query += 1) {
    const from = query * rows;
    room.scores.set(block.scores.subarray(from, from + rows), query * k);
    room.rows.set(block.rows.subarray(from, from + rows), query * k);
  }
  return { block: whole, denseQueries };
}
