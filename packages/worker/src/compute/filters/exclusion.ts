// Excluded item ids → excluded rows, for one scan. The id index of a partition is built when a query first
// excludes an id, and is then kept. Above a limit of bytes the least recently used indexes are dropped.

import { FoundRows, IdIndex, comparableIds } from "@winnow/core";
import type { Tensor } from "@winnow/core";

import type { ScanAsk } from "../compute.ts";
import { unpackKeys } from "../packed-keys.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** Id indexes of partitions, bounded in bytes. */
export class ExclusionIndexes {
  readonly #bytesMax: number;
  /** The least recently used first. */
  readonly #indexes = new Map<ResidentPartition, IdIndex>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Bytes of all indexes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The id index of a partition that stores ids. */
  of(partition: ResidentPartition, ids: Tensor): IdIndex {
    const known = this.#indexes.get(partition);
    const index = known ?? IdIndex.of(ids);
    if (known === undefined) this.#bytes += index.bytes;
    this.#indexes.delete(partition);
    this.#indexes.set(partition, index);
    for (const oldest of this.#indexes.keys()) {
      if (this.#bytes <= this.#bytesMax || oldest === partition) break;
      this.forget(oldest);
    }
    return index;
  }

  /** Drops the index of a partition that is released. */
  forget(partition: ResidentPartition): void {
    this.#bytes -= this.#indexes.get(partition)?.bytes ?? 0;
    this.#indexes.delete(partition);
  }
}

/** For each query of all asks, in order: ascending global rows to leave out; `undefined` if there are none. */
export function excludedRowsOf(
  asks: readonly ScanAsk[],
  partitions: readonly ResidentPartition[],
  indexes: ExclusionIndexes,
): (Uint32Array | undefined)[] | undefined {
  if (asks.every(({ excluded }) => excluded.length === 0)) return undefined;
  return asks.flatMap(({ queries, excluded }) => {
    const lists = excluded.map((keys) => rowsOfIds(unpackKeys(keys), partitions, indexes));
    return Array.from({ length: queries }, (_, query) =>
      lists.length === 1 ? lists[0] : lists[query],
    );
  });
}

/** Ascending global rows of the partitions whose id is one of the given ids. */
export function rowsOfIds(
  wanted: Tensor,
  partitions: readonly ResidentPartition[],
  indexes: ExclusionIndexes,
): Uint32Array {
  const rows = new FoundRows();
  for (const partition of partitions) {
    const { firstRow } = partition.resident;
    if (partition.ids === undefined) {
      addRowNumbers(wanted, partition, rows);
      continue;
    }
    const ids = comparableIds(wanted, partition.ids.dtype);
    if (ids === undefined) continue;
    const indexed = { index: indexes.of(partition, partition.ids), firstRow };
    for (let position = 0; position < ids.data.length; position += 1) {
      rows.addRows(indexed, ids, position);
    }
  }
  return rows.ascending();
}

/** In a table without stored ids the row number is the id. */
function addRowNumbers(wanted: Tensor, { resident }: ResidentPartition, rows: FoundRows): void {
  if (wanted.dtype !== "int64") return;
  const first = BigInt(resident.firstRow);
  const end = first + BigInt(resident.rows);
  for (const row of wanted.data) if (row >= first && row < end) rows.add(Number(row));
}
