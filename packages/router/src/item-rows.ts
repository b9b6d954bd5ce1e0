// Rows that a ranking looks up next, of the items that a search finds. A worker that searches and also holds the whole
// table of the ranking sends them with its answer, which saves a pipeline the way to the workers and back:
//
//   retrieval   asks for them where all workers that answer can give them
//               keeps them with the ids that they belong to
//   ranking     looks keys up ──▶ the same keys in the same order, the same content: here they are
//                            └──▶ anything else: asks the workers, as without them
//
// The rows are those that a look-up would give: the worker finds them by the same code in the same content.

import type { KeyedRows, RoutedTable, RoutingTable } from "@winnow/cluster";
import { isSameVersion } from "@winnow/cluster";
import { tensor } from "@winnow/core";
import type { StringColumn, Tensor, WorkerId } from "@winnow/core";

/** An attempt to answer a search with one generation: what `ScatterAttempt` has of it. */
interface SearchAttempt {
  /** The request's scope, with the generation in use. */
  readonly scope: { readonly table: RoutingTable };
  /** The table that is searched, in the attempt's generation. */
  readonly table: RoutedTable;
  /** The workers of that generation. */
  readonly lives: RoutingTable["workers"];
}

/** Rows, or those that a worker is still looking up; `undefined` if they do not come. */
type KeptRows = Float32Array | Promise<Float32Array | undefined>;

/** Vectors `[...ids, dim]`, with zeros where ids have gaps; `undefined` if they do not come. Never rejects. */
export type LaterVectors = Promise<Float32Array | undefined>;

/** Rows of one keyed table, for one request; and the vectors of the items, where these come behind the rows. */
export class ItemRows {
  /** The table. */
  readonly wanted: KeyedRows;
  readonly dim: number;
  /** Whether the vectors of the items, if nothing else is wanted of these, may come behind the rows. */
  vectorsMayFollow = false;
  #vectors: LaterVectors | undefined;
  readonly #onOtherKeys: () => void;
  #kept: { readonly ids: Tensor; readonly rows: KeptRows } | undefined;
  /** Whether as many keys as ids were looked up: those ids, or only others. */
  #looked: "not" | "ids" | "others" = "not";

  /** `onOtherKeys` is called where as many keys as ids were looked up, but only others. */
  constructor(wanted: KeyedRows, dim: number, onOtherKeys: () => void) {
    this.wanted = wanted;
    this.dim = dim;
    this.#onOtherKeys = onOtherKeys;
  }

  /**
   * Whether a worker is to give the rows of the items that it finds in these partitions of the table that is searched:
   * it has them, and so have the others that may be asked.
   */
  isGivenBy(
    worker: WorkerId,
    partitions: readonly number[],
    { scope, table: searched, lives }: SearchAttempt,
  ): boolean {
    // The scope has a later generation where another question of the request needed one.
    if (lives !== scope.table.workers) return false;
    const holders = this.#holders(scope.table);
    if (!holders.has(worker)) return false;
    if (partitions.length === searched.replicas.length) return true;
    return searched.replicas.every((workers) => workers.every((each) => holders.has(each)));
  }

  /** Keeps the rows of these ids, `[ids, dim]`, instead of any before. */
  keep(ids: Tensor, rows: KeptRows): void {
    this.#kept = { ids, rows };
  }

  /** The rows of these keys, float32 `[...keys, dim]`, if they are kept; later if they are still to come, or do not. */
  rowsOf(
    { version, table }: KeyedRows,
    keys: Tensor,
  ): Tensor | Promise<Tensor | undefined> | undefined {
    const kept = this.#kept;
    if (kept === undefined || table !== this.wanted.table) return undefined;
    if (!isSameVersion(version, this.wanted.version)) return undefined;
    if (kept.ids.data.length !== keys.data.length) return undefined;
    const isFound = areSame(kept.ids, keys);
    if (isFound || this.#looked === "not") this.#looked = isFound ? "ids" : "others";
    if (!isFound) return undefined;
    const { rows } = kept;
    const shaped = (values: Float32Array) => tensor("float32", [...keys.shape, this.dim], values);
    return rows instanceof Promise ? rows.then((values) => values && shaped(values)) : shaped(rows);
  }

  /** Keeps the vectors of the items found last. */
  keepVectors(vectors: LaterVectors): void {
    this.#vectors = vectors;
  }

  /** Gives the vectors of the items found last, once; `undefined` if they came with the items, or none were wanted. */
  takeVectors(): LaterVectors | undefined {
    const vectors = this.#vectors;
    this.#vectors = undefined;
    return vectors;
  }

  /** To be called after the ranking, to which alone the rows belong. */
  end(): void {
    this.#kept = undefined;
    if (this.#looked === "others") this.#onOtherKeys();
  }

  #holders({ models }: RoutingTable): ReadonlySet<WorkerId> {
    const { version, table } = this.wanted;
    const contents = models.get(version.model)?.contents ?? [];
    const routed = contents.find(({ key }) => isSameVersion(key, version))?.tables[table];
    return routed === undefined ? NOBODY : holdersOf(routed);
  }
}

const NOBODY: ReadonlySet<WorkerId> = new Set();

/** The workers with all of a table, found once per table. A look-up of any key may ask them. */
const holdersOfTables = new WeakMap<RoutedTable, ReadonlySet<WorkerId>>();

function holdersOf(table: RoutedTable): ReadonlySet<WorkerId> {
  let holders = holdersOfTables.get(table);
  if (holders === undefined) {
    const [first = [], ...others] = table.replicas.map((workers) => new Set(workers));
    holders = new Set([...first].filter((worker) => others.every((each) => each.has(worker))));
    holdersOfTables.set(table, holders);
  }
  return holders;
}

/** Whether as many ids and keys are the same, in the same order. */
export function areSame(ids: Tensor, keys: Tensor): boolean {
  if (ids.data.length !== keys.data.length) return false;
  if (ids.dtype === "string") return keys.dtype === "string" && areSameStrings(ids.data, keys.data);
  if (ids.dtype !== keys.dtype) return false;
  return ids.data.every((id, at) => id === keys.data[at]);
}

function areSameStrings(one: StringColumn, other: StringColumn): boolean {
  const { length } = one;
  const [from, start] = [one.offsets[0]!, other.offsets[0]!];
  for (let at = 1; at <= length; at += 1) {
    if (one.offsets[at]! - from !== other.offsets[at]! - start) return false;
  }
  const bytes = one.bytes.subarray(from, one.offsets[length]);
  return Buffer.compare(bytes, other.bytes.subarray(start, other.offsets[length])) === 0;
}
