// Which rows each query of a batch may return: filters of attributes, and lists of the only ids wanted. Both
// become filters on the device; those of lists serve one batch and are released with it.

import type { RowFilter } from "@winnow/accelerator";
import { parseFilterText } from "@winnow/core";
import type { Filter } from "@winnow/core";

import type { PackedKeys, ScanAsk } from "./compute.ts";
import { rowsOfIds } from "./exclusion.ts";
import type { ExclusionIndexes } from "./exclusion.ts";
import { rowsOf } from "./filter-cache.ts";
import type { FilterCache, FilterDevice } from "./filter-cache.ts";
import { unpackKeys } from "./packed-keys.ts";
import type { ResidentPartition } from "./resident-table.ts";

/** What admission needs. */
export interface AdmissionParts {
  readonly device: FilterDevice;
  readonly filters: FilterCache;
  readonly indexes: ExclusionIndexes;
  readonly partitions: readonly ResidentPartition[];
}

/** The filters of a batch. */
export interface BatchAdmission {
  /** Per query: a filter of each partition; `undefined` where all rows may be returned. */
  readonly filters: readonly (readonly RowFilter[] | undefined)[] | undefined;
  /** To be called once the search has begun: it keeps what it needs. */
  release(): void;
}

/** Finds the filters of all queries. @throws WinnowError INVALID_ARGUMENT */
export function admissionOf(asks: readonly ScanAsk[], parts: AdmissionParts): BatchAdmission {
  const isFiltered = asks.some(
    ({ filters = [], included = [] }) => filters.length + included.length > 0,
  );
  if (!isFiltered) return { filters: undefined, release: () => undefined };
  const lists = new FilterLists(parts);
  try {
    const filters = asks.flatMap((ask) => lists.ofAsk(ask));
    return { filters, release: () => lists.release() };
  } catch (error) {
    lists.release();
    throw error;
  }
}

class FilterLists {
  readonly #parts: AdmissionParts;
  /** Equal filters are one list, so that their queries are searched together. */
  readonly #byText = new Map<string, readonly RowFilter[]>();
  readonly #own: RowFilter[] = [];

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
  }

  ofAsk({ queries, filters = [], included = [] }: ScanAsk): (readonly RowFilter[] | undefined)[] {
    const textOf = (query: number) => filters[filters.length === 1 ? 0 : query];
    const idsOf = (query: number) => included[included.length === 1 ? 0 : query];
    const isOne = filters.length <= 1 && included.length <= 1;
    const first = isOne ? this.#listOf(textOf(0), idsOf(0)) : undefined;
    return Array.from({ length: queries }, (_, query) =>
      isOne ? first : this.#listOf(textOf(query), idsOf(query)),
    );
  }

  #listOf(text: string | undefined, ids: PackedKeys | undefined): readonly RowFilter[] | undefined {
    if (ids !== undefined) return this.#ofIds(ids, text);
    if (text === undefined) return undefined;
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    const { partitions, filters } = this.#parts;
    const list = partitions.map((partition) => filters.of(partition, text));
    this.#byText.set(text, list);
    return list;
  }

  #ofIds(ids: PackedKeys, text: string | undefined): readonly RowFilter[] {
    const { partitions, indexes, device } = this.#parts;
    const wanted = unpackKeys(ids);
    const filter = text === undefined ? undefined : parseFilterText(text);
    return partitions.map((partition) => {
      const bits = bitsOf(rowsOfIds(wanted, [partition], indexes), partition, filter);
      const made = device.filter(partition.resident, bits);
      this.#own.push(made);
      return made;
    });
  }

  release(): void {
    for (const filter of this.#own) this.#parts.device.releaseFilter(filter);
    this.#parts.filters.trim();
  }
}

/** Global rows of a partition as a bitmap of its own, less what a filter does not admit. */
function bitsOf(
  rows: Uint32Array,
  partition: ResidentPartition,
  filter: Filter | undefined,
): Uint8Array {
  const { firstRow } = partition.resident;
  const bits = new Uint8Array(Math.ceil(partition.resident.rows / 8));
  for (const row of rows) bits[(row - firstRow) >> 3]! |= 1 << ((row - firstRow) & 7);
  if (filter === undefined) return bits;
  const admitted = rowsOf(filter, partition);
  for (let at = 0; at < bits.length; at += 1) bits[at]! &= admitted[at]!;
  return bits;
}
