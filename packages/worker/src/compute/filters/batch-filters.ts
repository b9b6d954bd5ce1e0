// Which rows each query of a batch may return: those that a filter of attributes admits, and those of a list
// of ids (`include`). Both become filters on the device. The filter made of a list of ids serves one batch
// and is released after it. Where the rows that a filter admits have been copied, the copies are searched
// instead of the partitions.

import type { RowFilter } from "@winnow/accelerator";
import { admittedRows, parseFilterText } from "@winnow/core";
import type { Filter } from "@winnow/core";

import type { AdmittedCopy } from "./admitted-copy.ts";
import type { PackedKeys, ScanAsk } from "../compute.ts";
import { rowsOfIds } from "./exclusion.ts";
import type { ExclusionIndexes } from "./exclusion.ts";
import { filteredRows } from "./filter-cache.ts";
import type { FilterCache, FilterDevice, KnownFilter } from "./filter-cache.ts";
import { unpackKeys } from "../packed-keys.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** The device, the caches and the partitions that a batch uses. */
export interface BatchFilterParts {
  readonly device: FilterDevice;
  readonly filters: FilterCache;
  readonly indexes: ExclusionIndexes;
  readonly partitions: readonly ResidentPartition[];
}

/** The rows that a query may return. Queries of the same filter share one object. */
export interface QueryFilter {
  /** One filter for each partition, in the order of the partitions. */
  readonly filters: readonly RowFilter[];
  /** Copies of all admitted rows, for the partitions that have any; `undefined` where some are not copied. */
  readonly copies: readonly AdmittedCopy[] | undefined;
}

/** The filters of a batch. */
export interface BatchFilters {
  /** Per query; `undefined` where all rows may be returned. */
  readonly ofQueries: readonly (QueryFilter | undefined)[] | undefined;
  /** Releases the filters of lists. To be called once all searches have begun: a search keeps what it needs. */
  release(): void;
}

/** Finds the filters of all queries. @throws WinnowError INVALID_ARGUMENT */
export function batchFilters(asks: readonly ScanAsk[], parts: BatchFilterParts): BatchFilters {
  const isFiltered = asks.some(
    ({ filters = [], included = [] }) => filters.length + included.length > 0,
  );
  if (!isFiltered) return { ofQueries: undefined, release: () => undefined };
  const lists = new FilterLists(parts);
  try {
    const ofQueries = asks.flatMap((ask) => lists.ofAsk(ask));
    return { ofQueries, release: () => lists.release() };
  } catch (error) {
    lists.release();
    throw error;
  }
}

class FilterLists {
  readonly #parts: BatchFilterParts;
  /** Equal filters are one object, so that their queries are searched together; `undefined`: admits all rows. */
  readonly #byText = new Map<string, QueryFilter | undefined>();
  readonly #own: RowFilter[] = [];

  constructor(parts: BatchFilterParts) {
    this.#parts = parts;
  }

  ofAsk({ queries, filters = [], included = [] }: ScanAsk): (QueryFilter | undefined)[] {
    const textOf = (query: number) => filters[filters.length === 1 ? 0 : query];
    const idsOf = (query: number) => included[included.length === 1 ? 0 : query];
    const isOne = filters.length <= 1 && included.length <= 1;
    const first = isOne ? this.#admitted(textOf(0), idsOf(0)) : undefined;
    return Array.from({ length: queries }, (_, query) =>
      isOne ? first : this.#admitted(textOf(query), idsOf(query)),
    );
  }

  #admitted(text: string | undefined, ids: PackedKeys | undefined): QueryFilter | undefined {
    if (ids !== undefined) return { filters: this.#ofIds(ids, text), copies: undefined };
    if (text === undefined) return undefined;
    if (!this.#byText.has(text)) this.#byText.set(text, this.#ofText(text));
    return this.#byText.get(text);
  }

  /** A filter that admits every row is none: masks of all rows would cost the scan a few hundredths. */
  #ofText(text: string): QueryFilter | undefined {
    const { partitions, filters } = this.#parts;
    const found = partitions.map((partition) => filters.of(partition, text));
    if (found.every(isAll)) return undefined;
    return { filters: found.map(({ filter }) => filter), copies: copiesOf(found) };
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

const isAll = ({ filter, partition }: KnownFilter): boolean =>
  filter.admitted === partition.resident.rows;

/** Copies by ascending first row of their partitions; `undefined` if admitted rows of some partition are not copied. */
function copiesOf(filters: readonly KnownFilter[]): readonly AdmittedCopy[] | undefined {
  const copies: AdmittedCopy[] = [];
  for (const { filter, copy } of filters) {
    if (copy !== undefined) copies.push(copy);
    else if (filter.admitted > 0) return undefined;
  }
  return copies.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);
}

/**
 * The rows of `rows`, ascending global rows of the partition, that pass the filter, as a bitmap of the
 * partition's rows. The filter is evaluated for these rows alone: they are few, whatever the partition has.
 */
function bitsOf(
  rows: Uint32Array,
  partition: ResidentPartition,
  filter: Filter | undefined,
): Uint8Array {
  const { firstRow } = partition.resident;
  const bits = new Uint8Array(Math.ceil(partition.resident.rows / 8));
  const listed = rows.map((row) => row - firstRow);
  const passing = filter && admittedRows(filter, { ...filteredRows(partition), listed });
  for (const [at, row] of listed.entries()) {
    const isIn = passing === undefined ? 1 : (passing[at >> 3]! >> (at & 7)) & 1;
    bits[row >> 3]! |= isIn << (row & 7);
  }
  return bits;
}
