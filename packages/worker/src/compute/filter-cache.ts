// Filters on the device, by partition and text: found out once, then kept for the next query that has the same
// filter, the most recently used ones within a budget of bytes.

import type { Accelerator, RowFilter } from "@winnow/accelerator";
import { admittedRows, parseFilterText } from "@winnow/core";
import type { Filter } from "@winnow/core";

import type { ResidentPartition } from "./resident-table.ts";

interface KeptFilter {
  readonly partition: ResidentPartition;
  readonly text: string;
  readonly filter: RowFilter;
  readonly bytes: number;
}

/** The device that filters are on. */
export type FilterDevice = Pick<Accelerator, "filter" | "releaseFilter">;

/** Filters of partitions, within a budget of bytes. */
export class FilterCache {
  readonly #device: FilterDevice;
  readonly #bytesMax: number;
  readonly #byPartition = new Map<ResidentPartition, Map<string, KeptFilter>>();
  /** In order of last use. */
  readonly #kept = new Set<KeptFilter>();
  #bytes = 0;

  constructor(device: FilterDevice, bytesMax: number) {
    this.#device = device;
    this.#bytesMax = bytesMax;
  }

  /** Bytes of all filters and their texts. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * The filter of a text for a partition. It stays until the next `trim`.
   * @throws WinnowError INVALID_ARGUMENT for a text that is no filter of the partition's attributes
   */
  of(partition: ResidentPartition, text: string): RowFilter {
    const texts = this.#byPartition.get(partition);
    const known = texts?.get(text);
    if (known !== undefined) {
      this.#kept.delete(known);
      this.#kept.add(known);
      return known.filter;
    }
    const filter = this.#device.filter(
      partition.resident,
      rowsOf(parseFilterText(text), partition),
    );
    const kept = { partition, text, filter, bytes: filter.bytes + 2 * text.length };
    if (texts === undefined) this.#byPartition.set(partition, new Map([[text, kept]]));
    else texts.set(text, kept);
    this.#kept.add(kept);
    this.#bytes += kept.bytes;
    return filter;
  }

  /** Drops the least recently used beyond the budget; searches under way keep what they have. */
  trim(): void {
    for (const kept of this.#kept) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#drop(kept);
    }
  }

  /** Drops the filters of a partition that is released. */
  forget(partition: ResidentPartition): void {
    for (const kept of this.#byPartition.get(partition)?.values() ?? []) this.#drop(kept);
  }

  #drop(kept: KeptFilter): void {
    this.#kept.delete(kept);
    const texts = this.#byPartition.get(kept.partition);
    texts?.delete(kept.text);
    if (texts?.size === 0) this.#byPartition.delete(kept.partition);
    this.#bytes -= kept.bytes;
    this.#device.releaseFilter(kept.filter);
  }
}

/** The rows of a partition that a filter admits, as a bitmap. */
export function rowsOf(filter: Filter, { attributes, resident }: ResidentPartition): Uint8Array {
  return admittedRows(filter, attributes ?? new Map(), resident.rows);
}
