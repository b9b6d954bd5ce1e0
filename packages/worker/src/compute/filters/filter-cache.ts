// Filters on the device, by partition and text. A filter is evaluated once and kept for later queries; the
// most recently used filters stay, within a limit of bytes. If a filter is used again and admits a small part
// of many rows, these rows are copied (`admitted-copy.ts`) as long as the device has memory to spare. Until
// then, and where there is no such memory, searches use the bitmap.

import type { Accelerator, RowFilter } from "@winnow/accelerator";
import { admittedRows, admittedRowsInSteps, parseFilterText, nextLoopTurn } from "@winnow/core";
import type { Filter, FilteredRows } from "@winnow/core";

import { copyRows, rowsOfBits } from "./admitted-copy.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";
import type { AdmittedShares, SharedAdmitted } from "./admitted-shares.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** A filter that has been evaluated for one partition. */
export interface KnownFilter {
  readonly partition: ResidentPartition;
  readonly filter: RowFilter;
  /** A copy of the admitted rows, once there is one. */
  readonly copy: AdmittedCopy | undefined;
}

interface KeptFilter extends KnownFilter {
  readonly text: string;
  bytes: number;
  copy: AdmittedCopy | undefined;
  /** Set while the event loop may search the copy, or knows that the filter admits nothing. */
  shared: SharedAdmitted | undefined;
  /** Set when a copy was begun. A copy that could not be made is not tried again. */
  isCopyTried: boolean;
  uses: number;
}

/** What the cache needs of a device. */
export type FilterDevice = Pick<
  Accelerator,
  "filter" | "gather" | "load" | "memory" | "release" | "releaseFilter"
>;

/** Which filters are copied. */
export interface CopyPolicy {
  /** Least rows of a partition whose filters are copied. */
  readonly rowsMin: number;
  /** Uses of a filter after which its rows are copied. */
  readonly usesMin: number;
  /** Largest fraction of the rows that a filter of a large partition may admit to be copied. */
  readonly fractionMax: number;
  /** Largest fraction of the device's capacity that all copies together may take. */
  readonly memoryFractionMax: number;
}

/** Thresholds above which a copy paid on 1 M × 64 (docs/benchmarks/filters.md). */
const COPY_POLICY: CopyPolicy = {
  rowsMin: 16_384,
  usesMin: 3,
  fractionMax: 0.25,
  memoryFractionMax: 1 / 16,
};
/** Bytes of a copy ÷ bytes of its float32 values: filter codes, order and bounds add at least a quarter. */
const COPY_BYTES_PER_VALUE_BYTE = 1.5;

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
  readonly onAdded?: () => void;
}

/**
 * Where more copies are held or being made, filters of small partitions are not copied: however few rows a copy has, its
 * buffers take some MiB.
 */
const SMALL_COPIES_MAX = 64;

/** Filters of partitions, bounded in bytes. */
export class FilterCache {
  readonly #device: FilterDevice;
  readonly #bytesMax: number;
  readonly #policy: CopyPolicy;
  readonly #shares: AdmittedShares | undefined;
  readonly #onAdded: () => void;
  readonly #byPartition = new Map<ResidentPartition, Map<string, KeptFilter>>();
  /** The least recently used first. */
  readonly #kept = new Set<KeptFilter>();
  #bytes = 0;
  /** Filters whose copy is held or being made. */
  readonly #copied = new Set<KeptFilter>();
  #copyBytes = 0;
  /** Settles when all copies begun so far are made. */
  #copying: Promise<void> = Promise.resolve();

  /** `onAdded` is called for each filter that is evaluated, in `of` and in `prepare` alike. */
  constructor(
    device: FilterDevice,
    bytesMax: number,
    { policy = COPY_POLICY, shares, onAdded = () => undefined }: FilterCacheOptions = {},
  ) {
    this.#device = device;
    this.#bytesMax = bytesMax;
    this.#policy = policy;
    this.#shares = shares;
    this.#onAdded = onAdded;
  }

  /** Bytes of all filters and their texts, without copies on the device. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when no copy is being made. */
  get copied(): Promise<void> {
    return this.#copying;
  }

  /**
   * The filter of a text for a partition. It is kept at least until the next `trim`.
   * @throws WinnowError INVALID_ARGUMENT for a text that is no filter of the partition's attributes
   */
  of(partition: ResidentPartition, text: string): KnownFilter {
    const known = this.#known(partition, text) ?? this.#add(partition, text);
    this.#touch(known);
    known.uses += 1;
    if (!known.isCopyTried && this.#isWorthCopying(known)) {
      known.isCopyTried = true;
      this.#copying = this.#copying.then(() => this.#copy(known));
    }
    return known;
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
    const uncopied = { copy: undefined, shared: undefined, isCopyTried: false, uses: 0 };
    const kept: KeptFilter = { partition, text, filter, bytes, ...uncopied };
    const texts = this.#byPartition.get(partition);
    if (texts === undefined) this.#byPartition.set(partition, new Map([[text, kept]]));
    else texts.set(text, kept);
    this.#bytes += bytes;
    this.#onAdded();
    return kept;
  }

  #isWorthCopying({ partition, filter, uses }: KeptFilter): boolean {
    const { rowsMin, usesMin, fractionMax } = this.#policy;
    if (uses < usesMin) return false;
    const { rows } = partition.resident;
    const { admitted } = filter;
    const isFew = rows >= rowsMin && admitted > 0 && admitted <= rows * fractionMax;
    if (isFew) return true;
    return (
      this.#copied.size < SMALL_COPIES_MAX && this.#shares?.wants(partition, admitted) === true
    );
  }

  /** Makes the copy of a filter that is still kept, if there is memory for it; never rejects. */
  async #copy(kept: KeptFilter): Promise<void> {
    const { partition, text, filter } = kept;
    const { usedBytes, capacityBytes } = this.#device.memory();
    const values = filter.admitted * partition.resident.dim * Float32Array.BYTES_PER_ELEMENT;
    const bytes = values * COPY_BYTES_PER_VALUE_BYTE;
    const room = capacityBytes * this.#policy.memoryFractionMax - this.#copyBytes;
    if (!this.#kept.has(kept) || bytes > Math.min(room, capacityBytes - usedBytes)) return;
    this.#copied.add(kept);
    try {
      const stillKept = (): boolean => this.#kept.has(kept);
      if (filter.admitted === 0) return this.#share(kept);
      const bits = await rowsInSteps(parseFilterText(text), partition, stillKept);
      if (bits === undefined) return;
      const copy = await copyRows(this.#device, partition, rowsOfBits(bits, filter.admitted));
      if (!this.#kept.has(kept)) return await this.#device.release(copy.resident);
      kept.copy = copy;
      this.#copyBytes += copy.resident.bytes;
      this.#share(kept);
    } catch {
      // The search uses the bitmap instead. If the device is at fault, its next search reports that.
    } finally {
      if (kept.copy === undefined && kept.shared === undefined) this.#copied.delete(kept);
    }
  }

  /** Lets the event loop search the copy of a filter, or know that the filter admits nothing. */
  #share(kept: KeptFilter): void {
    const { partition, text, copy } = kept;
    kept.shared = this.#shares?.share(partition, text, copy);
    this.#count(kept, kept.shared?.bytes ?? 0);
  }

  #count(kept: KeptFilter, bytes: number): void {
    kept.bytes += bytes;
    this.#bytes += bytes;
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
      if (kept.shared?.takeUses() === true) this.#touch(kept);
      else this.#drop(kept);
    }
  }

  /** Frees the memory of all copies, for a partition that must be loaded. */
  dropCopies(): void {
    for (const kept of this.#kept) this.#dropCopy(kept);
  }

  /** Drops the filters of a partition that is being released. */
  forget(partition: ResidentPartition): void {
    for (const kept of this.#byPartition.get(partition)?.values() ?? []) this.#drop(kept);
  }

  #drop(kept: KeptFilter): void {
    this.#kept.delete(kept);
    const texts = this.#byPartition.get(kept.partition);
    texts?.delete(kept.text);
    if (texts?.size === 0) this.#byPartition.delete(kept.partition);
    this.#dropCopy(kept);
    this.#bytes -= kept.bytes;
    this.#device.releaseFilter(kept.filter);
  }

  #dropCopy(kept: KeptFilter): void {
    const { copy, shared, partition, text } = kept;
    this.#copied.delete(kept);
    if (shared !== undefined) {
      kept.shared = undefined;
      this.#count(kept, -shared.bytes);
      this.#shares?.drop(partition, text);
    }
    if (copy === undefined) return;
    kept.copy = undefined;
    this.#copyBytes -= copy.resident.bytes;
    // Releasing fails only on a lost device, which has nothing left to release.
    this.#device.release(copy.resident).catch(() => undefined);
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
