// Filters on the device, by partition and text. A filter is evaluated once and kept for later queries; the
// most recently used filters stay, within a limit of bytes. The rows that a filter admits may be copied
// (`filter-copies.ts`), so that a search reads nothing else.

import type { Accelerator, RowFilter } from "@winnow/accelerator";
import {
  admittedRows,
  admittedRowsInSteps,
  parseFilterText,
  nextLoopTurn,
  systemClock,
} from "@winnow/core";
import type { Clock, Filter, FilteredRows } from "@winnow/core";

import type { AdmittedCopy } from "./admitted-copy.ts";
import type { AdmittedShares } from "./admitted-shares.ts";
import { COPY_POLICY, FilterCopies, uncopied } from "./filter-copies.ts";
import type { CopiedFilter, CopiesDevice, CopyPolicy } from "./filter-copies.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** A filter that has been evaluated for one partition. */
export interface KnownFilter {
  readonly partition: ResidentPartition;
  readonly filter: RowFilter;
  /** A copy of the admitted rows, once there is one. */
  readonly copy: AdmittedCopy | undefined;
}

interface KeptFilter extends CopiedFilter {
  bytes: number;
}

/** What the cache needs of a device. */
export type FilterDevice = CopiesDevice & Pick<Accelerator, "filter" | "releaseFilter">;

/** Filters to be evaluated. */
interface WantedFilters {
  readonly texts: ReadonlySet<string>;
  readonly partitions: readonly ResidentPartition[];
  /** Whether a search for all of them follows at once. Default: no. */
  readonly isSearchNext?: boolean;
}

interface FilterCacheOptions {
  readonly policy?: CopyPolicy;
  /** Takes copies that the event loop may search; none is shared without. */
  readonly shares?: AdmittedShares;
  readonly clock?: Clock;
  readonly onAdded?: () => void;
}

/** Filters of partitions, bounded in bytes. */
export class FilterCache {
  readonly #device: FilterDevice;
  readonly #bytesMax: number;
  readonly #copies: FilterCopies;
  readonly #onAdded: () => void;
  readonly #byPartition = new Map<ResidentPartition, Map<string, KeptFilter>>();
  /** The least recently used first. */
  readonly #kept = new Set<KeptFilter>();
  #bytes = 0;

  /** `onAdded` is called for each filter that is evaluated, in `of` and in `prepare` alike. */
  constructor(
    device: FilterDevice,
    bytesMax: number,
    {
      policy = COPY_POLICY,
      shares,
      clock = systemClock,
      onAdded = () => undefined,
    }: FilterCacheOptions = {},
  ) {
    this.#device = device;
    this.#bytesMax = bytesMax;
    this.#onAdded = onAdded;
    this.#copies = new FilterCopies({
      device,
      policy,
      shares,
      clock,
      rowsOf: (of) => rowsInSteps(parseFilterText(of.text), of.partition, () => this.#isKept(of)),
      isKept: (of) => this.#isKept(of),
      onHostBytes: (of, change) => this.#count(of, change),
    });
  }

  /** Bytes of all filters and their texts, without copies on the device. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when no copy is being made. */
  get copied(): Promise<void> {
    return this.#copies.made;
  }

  /**
   * The filter of a text for a partition. It is kept at least until the next `trim`.
   * @throws WinnowError INVALID_ARGUMENT for a text that is no filter of the partition's attributes
   */
  of(partition: ResidentPartition, text: string): KnownFilter {
    const known = this.#known(partition, text) ?? this.#add(partition, text);
    this.#touch(known);
    this.#copies.used(known);
    const { filter, state } = known;
    return { partition, filter, copy: state.copy };
  }

  /**
   * Evaluates the filters of these texts that are not known yet, in steps of a millisecond or two, so that
   * other work can run in between: many conditions over many rows take seconds. The limit of bytes is kept
   * after each filter, because no search may follow that would call `trim`; where one follows at once
   * (`isSearchNext`), none of these filters is dropped for another one of them, and the caller calls `trim` in
   * the end. `onStep` is called after each step and tells whether to go on. @throws WinnowError as `of`
   */
  async prepare(
    { texts, partitions, isSearchNext = false }: WantedFilters,
    onStep: () => boolean,
  ): Promise<void> {
    for (const text of texts) {
      let filter: Filter | undefined;
      for (const partition of partitions) {
        const known = this.#known(partition, text);
        if (known !== undefined) {
          this.#touch(known);
          continue;
        }
        filter ??= parseFilterText(text);
        const bits = await rowsInSteps(filter, partition, onStep);
        if (bits === undefined) return;
        // Somebody else may have asked for the same filter meanwhile.
        if (this.#known(partition, text) === undefined) {
          this.#touch(this.#add(partition, text, bits));
          this.trim(isSearchNext ? texts : undefined);
        }
        await nextLoopTurn();
        if (!onStep()) return;
      }
    }
  }

  /** Makes a filter the most recently used one. */
  #touch(kept: KeptFilter): void {
    this.#kept.delete(kept);
    this.#kept.add(kept);
  }

  #known(partition: ResidentPartition, text: string): KeptFilter | undefined {
    return this.#byPartition.get(partition)?.get(text);
  }

  #add(
    partition: ResidentPartition,
    text: string,
    bits: Uint8Array = rowsOf(parseFilterText(text), partition),
  ): KeptFilter {
    const filter = this.#device.filter(partition.resident, bits);
    const bytes = filter.bytes + 2 * text.length;
    const kept: KeptFilter = { partition, text, filter, bytes, state: uncopied() };
    const texts = this.#byPartition.get(partition);
    if (texts === undefined) this.#byPartition.set(partition, new Map([[text, kept]]));
    else texts.set(text, kept);
    this.#bytes += bytes;
    this.#onAdded();
    return kept;
  }

  #isKept({ partition, text, state }: CopiedFilter): boolean {
    return this.#known(partition, text)?.state === state;
  }

  #count({ partition, text }: CopiedFilter, change: number): void {
    const kept = this.#known(partition, text);
    if (kept === undefined) return;
    kept.bytes += change;
    this.#bytes += change;
    if (change > 0) this.trim();
  }

  /**
   * Drops the least recently used filters above the limit, but none of these texts. Searches under way keep
   * their filters.
   */
  trim(exceptFor: ReadonlySet<string> = new Set()): void {
    for (const kept of this.#kept) {
      if (this.#bytes <= this.#bytesMax) break;
      if (exceptFor.has(kept.text)) continue;
      // Searches by the event loop are noticed here alone: such a filter is as recent as any.
      if (this.#copies.takeUses(kept)) this.#touch(kept);
      else this.#drop(kept);
    }
  }

  /** Frees the memory of all copies, for a partition that must be loaded. */
  dropCopies(): void {
    this.#copies.dropAll();
  }

  /** Drops the filters of a partition that is being released. */
  forget(partition: ResidentPartition): void {
    for (const kept of this.#byPartition.get(partition)?.values() ?? []) this.#drop(kept);
  }

  #drop(kept: KeptFilter): void {
    this.#copies.drop(kept);
    this.#kept.delete(kept);
    const texts = this.#byPartition.get(kept.partition);
    texts?.delete(kept.text);
    if (texts?.size === 0) this.#byPartition.delete(kept.partition);
    this.#bytes -= kept.bytes;
    this.#device.releaseFilter(kept.filter);
  }
}

/** The rows of a partition that a filter admits, as a bitmap. */
function rowsOf(filter: Filter, partition: ResidentPartition): Uint8Array {
  return admittedRows(filter, filteredRows(partition));
}

/**
 * The rows of a partition that a filter admits, found in steps between which other work runs; `undefined` if
 * `onStep` says that nobody wants them any more. @throws WinnowError INVALID_ARGUMENT
 */
export async function rowsInSteps(
  filter: Filter,
  partition: ResidentPartition,
  onStep: () => boolean,
): Promise<Uint8Array | undefined> {
  const steps = admittedRowsInSteps(filter, filteredRows(partition));
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    await nextLoopTurn();
    if (!onStep()) return undefined;
  }
}

/** The rows of a partition as filters are evaluated for them. */
export function filteredRows({ attributes, resident }: ResidentPartition): FilteredRows {
  const { rows, firstRow } = resident;
  return { columns: attributes ?? new Map(), rows, firstRow };
}
