// Small tables that the event loop searches itself. A table of some ten thousand rows is scanned in
// fewer microseconds than it takes to wake the compute thread and be woken by it again. The compute thread
// loads and keeps such tables as all others, and shares those partitions with this one:
//
//   compute thread   load ─▶ SharedPartition (number, ids) ─▶ event loop   add
//   event loop       answer: a plain batch over few values is searched here, at once
//                    drop:   before a release is asked for, so that nobody searches what is to be freed
//
// The accelerator's own code searches the very same rows: the answer has the same bits wherever it is made.

import { WaitGuard } from "@winnow/accelerator";
import type { InlineSearch, InlineTable } from "@winnow/accelerator";
import type { Clock } from "@winnow/core";

import type {
  ContentHandle,
  PackedKeys,
  ReplicaName,
  ScanAsk,
  TableTarget,
  TopKBatch,
  TopKBatchAnswer,
} from "../compute.ts";
import { unpackKeys } from "../packed-keys.ts";
import type { ProgressCounter } from "../progress-counter.ts";
import { answersOf, isPlain, wantedRows } from "../search/scan-answers.ts";
import { idsOfRows } from "../search/winner-ids.ts";
import type { IdSource } from "../search/winner-ids.ts";

/** Values (rows × dim) of a partition that is shared with the event loop, at most: 2 MiB of codes. */
export const SHARED_VALUES_MAX: number = 2 ** 21;
/** Candidates of all queries of a batch, at most: each is scored, ordered and named. */
const WINNERS_MAX = 2 ** 13;
/** Values that may be scored one by one in a search, where the filter cannot leave out rows: a millisecond. */
const SCORED_VALUES_MAX = 2 ** 19;
/** Scans of the greatest allowed size in one turn of the event loop; what comes then goes to the thread. */
const SCANS_PER_TURN = 4;

/** A partition of the compute thread that other threads can read. */
export interface SharedPartition {
  /** As `Accelerator.share` gives it. */
  readonly share: number;
  readonly rows: number;
  readonly dim: number;
  readonly firstRow: number;
  /** By local row, in memory of all threads; `undefined` for a table that stores none. */
  readonly ids: PackedKeys | undefined;
}

/** Dependencies of inline tables. */
export interface InlineTablesParts {
  /** Most rows × dim × queries of a batch that is searched here; 0: none. */
  readonly valuesMax: number;
  /** Opens the device; `undefined` where this process has none. */
  readonly openSearch: () => InlineSearch | undefined;
  /** Raised by every scan. */
  readonly progress: ProgressCounter;
  readonly clock: Clock;
  /** Resolves when everything that has arrived was handled (`nextLoopTurn`). */
  readonly turn: () => Promise<void>;
}

interface HeldPartition extends IdSource {
  readonly resident: Pick<SharedPartition, "rows" | "dim" | "firstRow">;
  readonly table: InlineTable;
}

interface HeldTable {
  readonly partitions: Map<number, HeldPartition>;
  readonly guard: WaitGuard;
}

/** The partitions that the compute thread has shared. */
export class InlineTables {
  readonly #parts: InlineTablesParts;
  readonly #held = new Map<ContentHandle, HeldTable[]>();
  #search: InlineSearch | undefined;
  /** Values scanned since the event loop last had its turn. */
  #scanned = 0;
  #awaitsTurn = false;

  constructor(parts: InlineTablesParts) {
    this.#parts = parts;
  }

  /** Takes up a partition that the compute thread has loaded. */
  add({ handle, table, partition }: ReplicaName, shared: SharedPartition): void {
    if (this.#parts.valuesMax === 0) return;
    this.#search ??= this.#parts.openSearch();
    const opened = this.#search?.open(shared.share);
    if (opened === undefined) return;
    const { rows, dim, firstRow, ids } = shared;
    const tables = this.#held.get(handle) ?? [];
    this.#held.set(handle, tables);
    const resident = { rows, dim, firstRow };
    const held = { resident, ids: ids && unpackKeys(ids), table: opened };
    tables[table] ??= { partitions: new Map(), guard: new WaitGuard(SCORED_VALUES_MAX) };
    tables[table].partitions.set(partition, held);
  }

  /** Lets a partition go, before it is released. One that was never shared is ignored. */
  drop({ handle, table, partition }: ReplicaName): void {
    const partitions = this.#held.get(handle)?.[table]?.partitions;
    const held = partitions?.get(partition);
    if (held === undefined) return;
    partitions?.delete(partition);
    this.#search?.release(held.table);
  }

  /** Lets all partitions of a content go. */
  dropContent(handle: ContentHandle): void {
    for (const held of this.#held.get(handle) ?? []) {
      for (const { table } of held?.partitions.values() ?? []) this.#search?.release(table);
    }
    this.#held.delete(handle);
  }

  /** Lets everything go. */
  clear(): void {
    for (const handle of this.#held.keys()) this.dropContent(handle);
  }

  /** The answer to a batch that can be searched here, now; `undefined` where the thread has to be asked. */
  answer({ target, asks, vectors }: TopKBatch): TopKBatchAnswer | undefined {
    const search = this.#search;
    const held = this.#held.get(target.handle)?.[target.table];
    if (search === undefined || held === undefined || !asks.every(isPlain)) return undefined;
    const partitions = partitionsOf(held, target);
    if (partitions === undefined) return undefined;
    const { queries, k, values } = sizeOf(partitions, asks);
    const isWhole = queries > 0 && vectors.length === queries * partitions[0]!.resident.dim;
    const isSmall = k > 0 && k * queries <= WINNERS_MAX;
    if (!isWhole || !isSmall || !this.#mayScan(held, values)) return undefined;
    const { clock, progress } = this.#parts;
    const startedMs = clock.nowMs();
    const tables = partitions.map(({ table }) => table);
    const { block, denseQueries } = search.topK({ tables, vectors, k }, queries);
    held.guard.searched((values / queries) * denseQueries);
    const ids = idsOfRows(wantedRows(block, asks), partitions);
    progress.raise();
    const computeUs = Math.round((clock.nowMs() - startedMs) * 1000);
    const answers = answersOf({ block, ids, attributes: undefined }, asks);
    return { answers, waitUs: 0, computeUs };
  }

  /** Whether so many values of a table may be scanned in this turn of the event loop: others wait meanwhile. */
  #mayScan({ guard }: HeldTable, values: number): boolean {
    const { valuesMax } = this.#parts;
    if (values > valuesMax || this.#scanned + values > SCANS_PER_TURN * valuesMax) return false;
    if (!guard.mayWait()) return false;
    this.#scanned += values;
    if (this.#scanned > valuesMax && !this.#awaitsTurn) void this.#awaitTurn();
    return true;
  }

  async #awaitTurn(): Promise<void> {
    this.#awaitsTurn = true;
    await this.#parts.turn();
    this.#awaitsTurn = false;
    this.#scanned = 0;
  }
}

/** The partitions of a target, if all are here; one at least. */
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

/** What a batch asks of partitions: query vectors, candidates of each, and values to be scanned. */
function sizeOf(
  partitions: readonly HeldPartition[],
  asks: readonly ScanAsk[],
): { readonly queries: number; readonly k: number; readonly values: number } {
  const rows = partitions.reduce((sum, { resident }) => sum + resident.rows, 0);
  const queries = asks.reduce((sum, ask) => sum + ask.queries, 0);
  const k = Math.min(rows, Math.max(...asks.map((ask) => ask.k)));
  return { queries, k, values: rows * partitions[0]!.resident.dim * queries };
}
