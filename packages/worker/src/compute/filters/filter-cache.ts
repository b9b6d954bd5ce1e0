// Filters on the device, by partition and text: found out once, then kept for the next query that has the same
// filter, the most recently used ones within a budget of bytes. Of a filter that admits a small part of many
// rows, and is asked for again, the rows are copied (`admitted-copy.ts`), as long as the device has memory to
// spare; until then, and where it has none, searches go by the bitmap.

import type { Accelerator, RowFilter } from "@winnow/accelerator";
import { admittedRows, parseFilterText, nextLoopTurn } from "@winnow/core";
import type { Filter } from "@winnow/core";

import { copyRows, rowsOfBits } from "./admitted-copy.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** A filter of one partition that is known. */
export interface KnownFilter {
  readonly partition: ResidentPartition;
  readonly filter: RowFilter;
  /** The rows that it admits, once they are copied. */
  readonly copy: AdmittedCopy | undefined;
}

interface KeptFilter extends KnownFilter {
  readonly text: string;
  readonly bytes: number;
  copy: AdmittedCopy | undefined;
  /** Of copies that could not be made no second is tried. */
  isCopyTried: boolean;
  uses: number;
}

/** The device that filters are on. */
export type FilterDevice = Pick<
  Accelerator,
  "filter" | "gather" | "load" | "memory" | "release" | "releaseFilter"
>;

/** Which filters are copied. */
export interface CopyPolicy {
  /** Of partitions of so many rows at least. */
  readonly rowsMin: number;
  /** Once they are asked for so often. */
  readonly usesMin: number;
  /** Filters are copied that admit at most this fraction of the rows. */
  readonly fractionMax: number;
  /** Bytes of all copies, as a fraction of the device's capacity. */
  readonly memoryFractionMax: number;
}

/** What pays on 1 M × 64 (docs/benchmarks/filters.md). */
const COPY_POLICY: CopyPolicy = {
  rowsMin: 16_384,
  usesMin: 3,
  fractionMax: 0.25,
  memoryFractionMax: 1 / 16,
};
/** A copy's bytes, of which codes, order and bounds are a quarter and more, in its float32 values'. */
const COPY_BYTES_PER_VALUE_BYTE = 1.5;

interface FilterCacheOptions {
  readonly policy?: CopyPolicy;
  readonly onAdded?: () => void;
}

/** Filters of partitions, within a budget of bytes. */
export class FilterCache {
  readonly #device: FilterDevice;
  readonly #bytesMax: number;
  readonly #policy: CopyPolicy;
  readonly #onAdded: () => void;
  readonly #byPartition = new Map<ResidentPartition, Map<string, KeptFilter>>();
  /** In order of last use. */
  readonly #kept = new Set<KeptFilter>();
  #bytes = 0;
  #copyBytes = 0;
  /** Ends when all copies begun so far are made. */
  #copying: Promise<void> = Promise.resolve();

  /** `onAdded` is called for each filter that was found out, wherever that was. */
  constructor(
    device: FilterDevice,
    bytesMax: number,
    { policy = COPY_POLICY, onAdded = () => undefined }: FilterCacheOptions = {},
  ) {
    this.#device = device;
    this.#bytesMax = bytesMax;
    this.#policy = policy;
    this.#onAdded = onAdded;
  }

  /** Bytes of all filters and their texts, copies on the device not counted. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when no copy is being made. */
  get copied(): Promise<void> {
    return this.#copying;
  }

  /**
   * The filter of a text for a partition. It stays until the next `trim`.
   * @throws WinnowError INVALID_ARGUMENT for a text that is no filter of the partition's attributes
   */
  of(partition: ResidentPartition, text: string): KnownFilter {
    const known = this.#byPartition.get(partition)?.get(text) ?? this.#add(partition, text);
    this.#kept.delete(known);
    this.#kept.add(known);
    known.uses += 1;
    if (!known.isCopyTried && this.#isWorthCopying(known)) {
      known.isCopyTried = true;
      this.#copying = this.#copying.then(() => this.#copy(known));
    }
    return known;
  }

  /**
   * Finds out the filters of these texts that are not known yet, one step (a text, a partition) at a time with
   * other work in between: many conditions over many rows take a while. The budget holds after each step,
   * for perhaps no search follows. `onStep` is called after each, and tells whether to go on. @throws WinnowError as `of`
   */
  async prepare(
    texts: ReadonlySet<string>,
    partitions: readonly ResidentPartition[],
    onStep: () => boolean,
  ): Promise<void> {
    for (const text of texts) {
      for (const partition of partitions) {
        if (this.#byPartition.get(partition)?.has(text) === true) continue;
        this.#kept.add(this.#add(partition, text));
        this.trim();
        await nextLoopTurn();
        if (!onStep()) return;
      }
    }
  }

  #add(partition: ResidentPartition, text: string): KeptFilter {
    const filter = this.#device.filter(
      partition.resident,
      rowsOf(parseFilterText(text), partition),
    );
    const bytes = filter.bytes + 2 * text.length;
    const uncopied = { copy: undefined, isCopyTried: false, uses: 0 };
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
    const { rows } = partition.resident;
    const { admitted } = filter;
    return uses >= usesMin && rows >= rowsMin && admitted > 0 && admitted <= rows * fractionMax;
  }

  /** Makes the copy of a filter that is still kept, if memory allows; never rejects. */
  async #copy(kept: KeptFilter): Promise<void> {
    const { partition, text, filter } = kept;
    const { usedBytes, capacityBytes } = this.#device.memory();
    const values = filter.admitted * partition.resident.dim * Float32Array.BYTES_PER_ELEMENT;
    const bytes = values * COPY_BYTES_PER_VALUE_BYTE;
    const room = capacityBytes * this.#policy.memoryFractionMax - this.#copyBytes;
    if (!this.#kept.has(kept) || bytes > Math.min(room, capacityBytes - usedBytes)) return;
    try {
      const bits = rowsOf(parseFilterText(text), partition);
      const copy = await copyRows(this.#device, partition, rowsOfBits(bits, filter.admitted));
      if (!this.#kept.has(kept)) return await this.#device.release(copy.resident);
      kept.copy = copy;
      this.#copyBytes += copy.resident.bytes;
    } catch {
      // The bitmap does as well; what is wrong with the device, its next search will tell.
    }
  }

  /** Drops the least recently used beyond the budget; searches under way keep what they have. */
  trim(): void {
    for (const kept of this.#kept) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#drop(kept);
    }
  }

  /** Gives the memory of all copies back: it is wanted for something that has to be there. */
  dropCopies(): void {
    for (const kept of this.#kept) this.#dropCopy(kept);
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
    this.#dropCopy(kept);
  }

  #dropCopy(kept: KeptFilter): void {
    const { copy } = kept;
    if (copy === undefined) return;
    kept.copy = undefined;
    this.#copyBytes -= copy.resident.bytes;
    // A device that is lost has nothing to release.
    this.#device.release(copy.resident).catch(() => undefined);
  }
}

/** The rows of a partition that a filter admits, as a bitmap. */
export function rowsOf(filter: Filter, { attributes, resident }: ResidentPartition): Uint8Array {
  const { rows, firstRow } = resident;
  return admittedRows(filter, { columns: attributes ?? new Map(), rows, firstRow });
}
