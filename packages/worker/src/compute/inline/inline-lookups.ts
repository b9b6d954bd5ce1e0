// Look-ups that the event loop answers itself: finding some hundred keys takes less time than waking the compute
// thread and being woken by it. The compute thread loads the partitions and owns them; their keys, the hash table over
// them and the rows are in memory that both threads read:
//
//   compute thread   load ─▶ SharedKeyedPartition (number, keys, slots) ─▶ event loop   add
//   event loop       answer: a batch of few keys is looked up here, at once
//                    drop:   before a release is asked for, so that nobody reads what is to be freed
//
// Both threads run the same code over the same memory, so an answer and a refusal are the same whichever thread gives
// them.

import type { InlineSearch, InlineTable } from "@winnow/accelerator";
import { createKeyIndex } from "@winnow/core";
import type { KeyIndex, KeyedTable } from "@winnow/core";

import type {
  ContentHandle,
  GatherAsk,
  LookupBatch,
  LookupBatchAnswer,
  PackedKeys,
  ReplicaName,
} from "../compute.ts";
import { locateLookups, rowsOfAll, scatter } from "../lookup-batch.ts";
import { bytesOfKeys, unpackKeys } from "../packed-keys.ts";
import type { InlineTablesParts } from "./inline-tables.ts";
import type { SharedKeyedPartition, SharedKeyedTable } from "./shared-rows.ts";
import { TurnBudget } from "./turn-budget.ts";

/** Keys of a batch, at most: finding and gathering them takes about a millisecond. */
const KEYS_MAX = 1024;
/** Bytes of the keys of a batch, at most, and of their rows. */
const KEY_BYTES_MAX = 2 ** 17;
const ROW_BYTES_MAX = 2 ** 19;
/** Batches of the greatest allowed size in one turn of the event loop. Further ones go to the compute thread. */
const BATCHES_PER_TURN = 2;
/** A batch counts as at least this part of one of the greatest size. */
const LEAST_PART = 1 / 64;

const FLOAT_BYTES = 4;

type KeyedSpec = Pick<KeyedTable, "kind" | "name" | "rows" | "dim" | "partitions" | "keys">;

interface HeldPartition {
  readonly table: InlineTable;
  readonly keyIndex: KeyIndex;
}

interface HeldTable {
  readonly spec: KeyedSpec;
  readonly partitions: Map<number, HeldPartition>;
}

/** The partitions of keyed tables that the compute thread has shared with the event loop. */
export class InlineLookups {
  readonly #parts: InlineTablesParts;
  readonly #budget: TurnBudget;
  readonly #held = new Map<ContentHandle, HeldTable[]>();
  #search: InlineSearch | undefined;

  constructor(parts: InlineTablesParts) {
    this.#parts = parts;
    this.#budget = new TurnBudget(BATCHES_PER_TURN, 1, parts.turn);
  }

  /** Adds a partition that the compute thread has loaded and shared. */
  add({ handle, table, partition }: ReplicaName, shared: SharedKeyedPartition): void {
    if (this.#parts.valuesMax === 0) return;
    this.#search ??= this.#parts.openSearch();
    const opened = this.#search?.open(shared.share);
    if (opened === undefined) return;
    const tables = this.#held.get(handle) ?? [];
    this.#held.set(handle, tables);
    const held = (tables[table] ??= { spec: specOf(shared.table), partitions: new Map() });
    const { globalRows, keyRows, keys, slots } = shared;
    const keyed = { globalRows, keyRows, keys: keys && unpackKeys(keys) };
    const keyIndex = createKeyIndex(held.spec, keyed, slots);
    held.partitions.set(partition, { table: opened, keyIndex });
  }

  /** Removes a partition; to be called before its release. */
  drop({ handle, table, partition }: ReplicaName): void {
    const partitions = this.#held.get(handle)?.[table]?.partitions;
    const held = partitions?.get(partition);
    if (held === undefined) return;
    partitions?.delete(partition);
    this.#search?.release(held.table);
  }

  /** Removes all partitions of a content; to be called before it is closed. */
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

  /** The answer to a batch that can be looked up here and now; `undefined` if the compute thread has to be asked. */
  answer({ handle, table, asks }: LookupBatch): LookupBatchAnswer | undefined {
    const search = this.#search;
    const held = this.#held.get(handle)?.[table];
    if (search === undefined || held === undefined || !holdsAll(held, asks)) return undefined;
    const part = partOf(asks, held.spec.dim);
    if (part > 1 || !this.#budget.has(part)) return undefined;
    this.#budget.spend(part);
    const { clock, progress } = this.#parts;
    const startedMs = clock.nowMs();
    const answers = answersFrom(held, asks, search);
    progress.raise();
    return { answers, computeUs: Math.round((clock.nowMs() - startedMs) * 1000) };
  }
}

function specOf({ keys, ...shape }: SharedKeyedTable): KeyedSpec {
  if (keys.kind === "row") return { kind: "keyed", ...shape, keys };
  const fixed = { keys: unpackKeys(keys.fixed.keys), rows: keys.fixed.rows };
  return { kind: "keyed", ...shape, keys: { ...keys, fixed } };
}

/** Whether every partition that is asked is held here. One that is not is refused by the compute thread. */
function holdsAll({ partitions }: HeldTable, asks: readonly GatherAsk[]): boolean {
  return asks.every((ask) => ask.partitions.every((partition) => partitions.has(partition)));
}

/** The work of a batch, as a part of the greatest that is done here. */
function partOf(asks: readonly GatherAsk[], dim: number): number {
  let [keys, keyBytes, rows] = [0, 0, 0];
  for (const ask of asks) {
    const count = countOf(ask.keys);
    keys += count;
    keyBytes += bytesOfKeys(ask.keys);
    if (ask.knownOnly !== true) rows += count;
  }
  const rowBytes = rows * dim * FLOAT_BYTES;
  return Math.max(LEAST_PART, keys / KEYS_MAX, keyBytes / KEY_BYTES_MAX, rowBytes / ROW_BYTES_MAX);
}

function countOf(keys: PackedKeys): number {
  return keys.dtype === "string" ? keys.strings.offsets.length - 1 : keys.values.length;
}

function answersFrom(
  { spec, partitions }: HeldTable,
  asks: readonly GatherAsk[],
  search: InlineSearch,
): LookupBatchAnswer["answers"] {
  const at = (partition: number): HeldPartition => partitions.get(partition)!;
  const { answers, placements } = locateLookups({ spec, at }, asks);
  for (const [partition, wanted] of placements) {
    const values = search.gather(at(partition).table, rowsOfAll(wanted), spec.dim);
    scatter(values, wanted, spec.dim);
  }
  return answers;
}
