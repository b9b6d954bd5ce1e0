// Small tables that the event loop searches itself: scanning some ten thousand rows takes less time than
// waking the compute thread and being woken by it. The compute thread loads and keeps such tables like all
// others, and shares their partitions with the event loop:
//
//   compute thread   load ─▶ SharedPartition (number, ids) ─▶ event loop   add
//   event loop       answer: a plain batch over few values is searched here, at once
//                    drop:   before a release is asked for, so that nobody searches what is to be freed
//
// Both threads run the accelerator's code over the same memory, so an answer has the same bits whichever
// thread makes it.

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

/** Values (rows × dim) up to which a partition is shared with the event loop: 2 MiB of codes. */
export const SHARED_VALUES_MAX: number = 2 ** 21;
/** Candidates of all queries of a batch, at most. Each one is scored, sorted and gets its id. */
const WINNERS_MAX = 2 ** 13;
/** Values that a search may score one by one where the int8 filter leaves out no rows: about a millisecond. */
const SCORED_VALUES_MAX = 2 ** 19;
/** Scans of the greatest allowed size in one turn of the event loop. Further batches go to the compute thread. */
const SCANS_PER_TURN = 4;

/** A partition of the compute thread that other threads can read. */
export interface SharedPartition {
  /** The number that `Accelerator.share` gave the partition. */
  readonly share: number;
  readonly rows: number;
  readonly dim: number;
  readonly firstRow: number;
  /** Ids by local row, in memory shared by all threads; `undefined` for a table that stores none. */
  readonly ids: PackedKeys | undefined;
}

/** What inline tables need. */
export interface InlineTablesParts {
  /** Rows × dim × queries up to which a batch is searched here; 0: none is. */
  readonly valuesMax: number;
  /** Opens the accelerator for this thread; `undefined` where this process has none. */
  readonly openSearch: () => InlineSearch | undefined;
  /** Raised by every scan. */
  readonly progress: ProgressCounter;
  readonly clock: Clock;
  /** Resolves once the event loop has handled everything that has arrived (`nextLoopTurn`). */
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

/** The partitions that the compute thread has shared with the event loop. */
export class InlineTables {
  readonly #parts: InlineTablesParts;
  readonly #held = new Map<ContentHandle, HeldTable[]>();
  #search: InlineSearch | undefined;
  /** Values scanned in the current turn of the event loop. */
  #scanned = 0;
  #awaitsTurn = false;

  constructor(parts: InlineTablesParts) {
    this.#parts = parts;
  }

  /** Adds a partition that the compute thread has loaded and shared. */
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

  /** Removes a partition; to be called before its release. A partition that was never shared is ignored. */
  drop({ handle, table, partition }: ReplicaName): void {
    const partitions = this.#held.get(handle)?.[table]?.partitions;
    const held = partitions?.get(partition);
    if (held === undefined) return;
    partitions?.delete(partition);
    this.#search?.release(held.table);
  }

  /** Removes all partitions of a content. */
  dropContent(handle: ContentHandle): void {
    for (const held of this.#held.get(handle) ?? []) {
      for (const { table } of held?.partitions.values() ?? []) this.#search?.release(table);
    }
    this.#held.delete(handle);
  }

  /** Removes all partitions. */
  clear(): void {
    for (const handle of this.#held.keys()) this.dropContent(handle);
  }

  /** The answer to a batch that can be searched here and now; `undefined` if the compute thread has to be asked. */
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

  /** Whether so many more values may be scanned in this turn of the event loop, during which no frame is read. */
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

/** The partitions of a target; `undefined` unless all of them, and at least one, are shared. */
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

/** The size of a search: query vectors, candidates of all queries, and values that are scanned. */
function sizeOf(
  partitions: readonly HeldPartition[],
  asks: readonly ScanAsk[],
): { readonly queries: number; readonly k: number; readonly values: number } {
  const rows = partitions.reduce((sum, { resident }) => sum + resident.rows, 0);
  const queries = asks.reduce((sum, ask) => sum + ask.queries, 0);
  const k = Math.min(rows, Math.max(...asks.map((ask) => ask.k)));
  return { queries, k, values: rows * partitions[0]!.resident.dim * queries };
}
