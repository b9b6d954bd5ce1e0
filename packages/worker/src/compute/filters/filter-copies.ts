// Copies of the rows that filters admit (`admitted-copy.ts`), and which of them are worth their memory: those of
// filters that are used again and again and admit a small part of many rows, and those that are small enough for
// the event loop to search (`admitted-shares.ts`). Copies are made one after the other. Where there is no room for
// another one, those that nobody used for a while are given up; until then, and where there is no memory at all,
// searches use the bitmap of the filter. The event loop may use that too, of a filter that is not worth a copy.

import type { Accelerator, RowFilter } from "@winnow/accelerator";
import type { Clock } from "@winnow/core";

import { copyRows, rowsOfBits } from "./admitted-copy.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";
import type { AdmittedShares, SharedAdmitted } from "./admitted-shares.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** Which filters are copied. */
export interface CopyPolicy {
  /** Least rows of a partition whose filters are copied. */
  readonly rowsMin: number;
  /** Uses of a filter after which its rows are copied. */
  readonly usesMin: number;
  /** Largest fraction of the rows that a filter of a large partition may admit to be copied. */
  readonly fractionMax: number;
  /** Uses after which a filter that admits more, but leaves out much, is copied. */
  readonly broadUsesMin: number;
  /** Largest fraction of the rows that such a filter may admit. */
  readonly broadFractionMax: number;
  /** Least values (rows times values) that such a filter leaves out. */
  readonly leftOutValuesMin: number;
  /** Largest fraction of the device's capacity that all copies together may take. */
  readonly memoryFractionMax: number;
  /** Bytes from which no more copies are made for the event loop alone; their ids count once they are known. */
  readonly sharedBytesMax: number;
  /** Most copies that wait to be made. */
  readonly waitingMax: number;
  /** Time in which a copy has to be used to keep its room, in ms. */
  readonly idleMs: number;
}

/**
 * The first thresholds are those above which a copy paid on 1 M × 64 (docs/benchmarks/filters.md). A broad filter saves
 * less of a search, and its copy takes longer. Copies for the event loop save the time of waking a thread: they are
 * worth 64 MiB, a thousand of 500 rows × 32.
 */
export const COPY_POLICY: CopyPolicy = {
  rowsMin: 16_384,
  usesMin: 3,
  fractionMax: 0.25,
  broadUsesMin: 16,
  broadFractionMax: 0.6,
  leftOutValuesMin: 2 ** 21,
  memoryFractionMax: 1 / 16,
  sharedBytesMax: 2 ** 26,
  waitingMax: 64,
  idleMs: 60_000,
};
/** Bytes of a copy ÷ bytes of its float32 values: filter codes, order and bounds add at least a quarter. */
const COPY_BYTES_PER_VALUE_BYTE = 1.5;

/** What copies need of a device. */
export type CopiesDevice = Pick<Accelerator, "gather" | "load" | "memory" | "release">;

/** What is known of a filter's copy. Made by `uncopied`, changed by `FilterCopies` alone. */
export interface CopyState {
  /** The copy, once there is one. */
  copy: AdmittedCopy | undefined;
  /** Set while the event loop may search the copy or with the filter, or knows that the filter admits nothing. */
  shared: SharedAdmitted | undefined;
  /** Set when a copy was begun, or the filter was found not worth one. What could not be made is not tried again. */
  isTried: boolean;
  /** Bytes of the copy on the device and beside it. */
  bytes: number;
  /** Set for a copy that is made for the event loop alone. */
  isForSharing: boolean;
  /** Uses of the filter, until the copy is begun. */
  uses: number;
  /** Whether the copy was used since such uses were last looked at. */
  isUsed: boolean;
}

/** A filter of a partition that may be copied. */
export interface CopiedFilter {
  readonly partition: ResidentPartition;
  readonly text: string;
  readonly filter: RowFilter;
  readonly state: CopyState;
}

/** The state of a filter that was never used. */
export function uncopied(): CopyState {
  const none = { copy: undefined, shared: undefined, bytes: 0, uses: 0 };
  return { ...none, isTried: false, isForSharing: false, isUsed: false };
}

/** What copies need of the cache that keeps the filters. */
export interface CopiesParts {
  readonly device: CopiesDevice;
  readonly policy: CopyPolicy;
  /** Takes copies that the event loop may search; none is shared without. */
  readonly shares: AdmittedShares | undefined;
  readonly clock: Clock;
  /** The rows that a filter admits, as a bitmap; `undefined` once it is kept no more. */
  readonly rowsOf: (of: CopiedFilter) => Promise<Uint8Array | undefined>;
  readonly isKept: (of: CopiedFilter) => boolean;
  /** Told of each change of the host bytes that shared copies take. */
  readonly onHostBytes: (of: CopiedFilter, change: number) => void;
}

/** The copies of all filters of one cache. */
export class FilterCopies {
  readonly #parts: CopiesParts;
  /** Filters that have a copy or are known to the event loop. */
  readonly #copied = new Set<CopiedFilter>();
  #bytes = 0;
  /** Of these, bytes of copies that were made for the event loop alone. */
  #sharedBytes = 0;
  #waiting = 0;
  #sweptMs: number;
  #making: Promise<void> = Promise.resolve();

  constructor(parts: CopiesParts) {
    this.#parts = parts;
    this.#sweptMs = parts.clock.nowMs();
  }

  /** Resolves when no copy is being made. */
  get made(): Promise<void> {
    return this.#making;
  }

  /** Notes a use of a filter, after which its rows may be copied. */
  used(of: CopiedFilter): void {
    const { state } = of;
    state.uses += 1;
    state.isUsed = true;
    if (state.isTried || this.#waiting >= this.#parts.policy.waitingMax) return;
    const { usesMin, broadUsesMin } = this.#parts.policy;
    if (state.uses < usesMin) return;
    // Until then it is not the event loop's: that alone would see its uses.
    const isBroad = this.#isBroad(of);
    if (isBroad && state.uses < broadUsesMin) return;
    state.isTried = true;
    if (!isBroad && !this.#isWorthIt(of)) return this.#shareMask(of);
    this.#waiting += 1;
    this.#making = this.#making.then(() => this.#make(of));
  }

  /** Whether the event loop, whose searches are noticed here alone, has used the filter since this was last asked. */
  takeUses({ state }: CopiedFilter): boolean {
    if (state.shared?.takeUses() !== true) return false;
    state.isUsed = true;
    return true;
  }

  #isWorthIt({ partition, filter, state }: CopiedFilter): boolean {
    const { rowsMin, fractionMax } = this.#parts.policy;
    const { rows } = partition.resident;
    const { admitted } = filter;
    const isFew = rows >= rowsMin && admitted > 0 && admitted <= rows * fractionMax;
    state.isForSharing = !isFew;
    return isFew || this.#parts.shares?.wants(partition, admitted) === true;
  }

  /** Whether a filter admits too much for a copy at once, but little enough for one if it goes on being used. */
  #isBroad({ partition, filter: { admitted } }: CopiedFilter): boolean {
    const { fractionMax, broadFractionMax, leftOutValuesMin } = this.#parts.policy;
    const { rows, dim } = partition.resident;
    if (admitted <= rows * fractionMax || admitted > rows * broadFractionMax) return false;
    return (rows - admitted) * dim >= leftOutValuesMin;
  }

  /** Makes the copy of a filter that is still kept, if there is memory for it; never rejects. */
  async #make(of: CopiedFilter): Promise<void> {
    const { device, isKept, rowsOf } = this.#parts;
    const { partition, filter, state } = of;
    this.#waiting -= 1;
    if (!isKept(of)) return;
    if (filter.admitted === 0) return this.#hold(of, undefined);
    if (!this.#hasRoom(of)) {
      if (this.#isBroad(of)) return this.#shareMask(of);
      // There may be room once older copies are given up.
      state.isTried = false;
      state.uses = 0;
      return;
    }
    try {
      const bits = await rowsOf(of);
      if (bits === undefined) return;
      const copy = await copyRows(device, partition, rowsOfBits(bits, filter.admitted));
      if (!isKept(of)) return await device.release(copy.resident);
      this.#hold(of, copy);
    } catch {
      // The search uses the bitmap instead. If the device is at fault, its next search reports that.
    }
  }

  /** Whether another copy fits, if need be after those that are used no more were given up. */
  #hasRoom(of: CopiedFilter): boolean {
    if (this.#fits(of)) return true;
    const { clock, policy } = this.#parts;
    const nowMs = clock.nowMs();
    // Each copy is given this time, so that new ones do not push each other out all the time.
    if (nowMs - this.#sweptMs < policy.idleMs) return false;
    this.#sweptMs = nowMs;
    for (const held of this.#copied) {
      this.takeUses(held);
      if (held.state.isUsed) held.state.isUsed = false;
      else this.drop(held);
    }
    return this.#fits(of);
  }

  #fits({ partition, filter, state }: CopiedFilter): boolean {
    const { device, policy } = this.#parts;
    const { usedBytes, capacityBytes } = device.memory();
    const values = filter.admitted * partition.resident.dim * Float32Array.BYTES_PER_ELEMENT;
    const bytes = values * COPY_BYTES_PER_VALUE_BYTE;
    if (state.isForSharing && this.#sharedBytes + bytes > policy.sharedBytesMax) return false;
    const room = capacityBytes * policy.memoryFractionMax - this.#bytes;
    return bytes <= Math.min(room, capacityBytes - usedBytes);
  }

  /** Shares a filter that is not worth a copy with the event loop, if that can search the whole partition. */
  #shareMask(of: CopiedFilter): void {
    const { partition, text, filter, state } = of;
    state.shared = this.#parts.shares?.shareMask(partition, text, filter);
    if (state.shared !== undefined) this.#copied.add(of);
  }

  /** Keeps a copy, or that nothing is admitted, and shares it with the event loop if that can search it. */
  #hold(of: CopiedFilter, copy: AdmittedCopy | undefined): void {
    const { shares, onHostBytes } = this.#parts;
    const { partition, text, state } = of;
    state.copy = copy;
    state.shared = shares?.share(partition, text, copy);
    const hostBytes = state.shared?.bytes ?? 0;
    this.#copied.add(of);
    this.#count(of, (copy?.resident.bytes ?? 0) + hostBytes);
    onHostBytes(of, hostBytes);
  }

  #count({ state }: CopiedFilter, change: number): void {
    state.bytes += change;
    this.#bytes += change;
    if (state.isForSharing) this.#sharedBytes += change;
  }

  /** Gives up the copy of a filter, if it has one. */
  drop(of: CopiedFilter): void {
    const { device, shares, onHostBytes } = this.#parts;
    const { partition, text, state } = of;
    if (!this.#copied.delete(of)) return;
    const { copy, shared } = state;
    state.copy = undefined;
    state.shared = undefined;
    state.isTried = false;
    state.uses = 0;
    this.#count(of, -state.bytes);
    if (shared !== undefined) {
      shares?.drop(partition, text);
      onHostBytes(of, -shared.bytes);
    }
    // Releasing fails only on a lost device, which has nothing left to release.
    if (copy !== undefined) device.release(copy.resident).catch(() => undefined);
  }

  /** Gives up all copies. */
  dropAll(): void {
    for (const of of this.#copied) this.drop(of);
  }
}
