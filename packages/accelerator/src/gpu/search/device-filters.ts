// Bitmaps of filters on the device, so that a search under a mask copies them there instead of
// sending them: two megabytes for 15 million rows. Their memory is a part of what is set aside for
// searches; the host keeps every bitmap, and sends the mask whenever a bitmap is not on the device.
//
//   first search    the mask is sent, and the device keeps nothing: lists of ids are searched once
//   second search   the bitmaps are sent to buffers of their own, in place of those used least recently
//   from then on    each extent of the search is one copy on the device

import { WinnowError } from "@winnow/core";
import type { GpuDevice } from "../device/device.ts";
import { BUFFER_USAGE } from "../webgpu-api.ts";
import type { GpuBuffer, GpuEncoder } from "../webgpu-api.ts";
import type { MaskPiece } from "./search-scope.ts";

/** One byte of this many of those set aside for searches holds bitmaps. */
const SHARE = 16;
/** Bytes that a buffer occupies at least. */
const BUFFER_BYTES_MIN = 256;
/** Copies of one search that are always fewer than matters; */
const COPIES_FREE = 64;
/** more of them must copy so many bytes each: smaller ones are sent sooner. */
const COPY_BYTES_MIN = 2 ** 14;

/** Bytes for bitmaps on the device. */
export function filterBytesOf(scratchBytes: number): number {
  return Math.floor(scratchBytes / SHARE);
}

/** A bitmap of a filter that is not released. */
interface Entry {
  /** What it occupies on the device, if it is there. */
  readonly bytes: number;
  /** Whether a search has used it since it was made or left the device. */
  isUsed: boolean;
  isReleased: boolean;
  sending: Promise<void> | undefined;
  buffer: GpuBuffer | undefined;
}

/** The bitmaps of an accelerator's filters, as far as they are on the device. */
export class DeviceFilters {
  readonly #device: Pick<GpuDevice, "allocate" | "connection">;
  readonly #bytesMax: number;
  readonly #entries = new WeakMap<Uint8Array, Entry>();
  /** Those with a buffer, the least recently used first. */
  readonly #sent = new Set<Entry>();
  #usedBytes = 0;

  constructor(device: Pick<GpuDevice, "allocate" | "connection">, bytesMax: number) {
    this.#device = device;
    this.#bytesMax = bytesMax;
  }

  /** Bytes of the bitmaps that are on the device or on their way. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Takes note of a filter's bitmap: whole groups, and unchanged until it is released. */
  add(bits: Uint8Array): void {
    this.#entries.set(bits, {
      bytes: Math.ceil(bits.length / BUFFER_BYTES_MIN) * BUFFER_BYTES_MIN,
      isUsed: false,
      isReleased: false,
      sending: undefined,
      buffer: undefined,
    });
  }

  /** Frees a bitmap's memory. Work that was submitted still reads it. */
  release(bits: Uint8Array): void {
    const entry = this.#entries.get(bits);
    if (entry === undefined) return;
    entry.isReleased = true;
    this.#entries.delete(bits);
    this.#drop(entry);
  }

  /**
   * Sends the bitmaps of a mask to the device if they are worth it and find room. Whether or not
   * they do, `copy` says what became of it. @throws WinnowError UNAVAILABLE if the device is lost
   */
  async prepare(mask: readonly MaskPiece[]): Promise<void> {
    if (!isWorthCopying(mask)) return;
    const wanted = new Map<Entry, Uint8Array>();
    for (const { bits } of mask) {
      const entry = this.#entries.get(bits);
      if (entry === undefined) return;
      wanted.set(entry, bits);
    }
    const missing = [...wanted.keys()].filter((entry) => !this.#touch(entry));
    const areUsed = missing.every(({ isUsed }) => isUsed);
    for (const entry of missing) entry.isUsed = true;
    if (!areUsed) return;
    const unsent = missing.filter(({ sending }) => sending === undefined);
    if (this.#makeRoom(unsent, wanted)) {
      for (const entry of unsent) entry.sending = this.#send(entry, wanted.get(entry)!);
    }
    await Promise.all(missing.flatMap(({ sending }) => sending ?? []));
  }

  /** Records copies that make up the mask; false, and no copy, if some bitmap is not on the device. */
  copy(
    encoder: Pick<GpuEncoder, "copyBufferToBuffer">,
    mask: readonly MaskPiece[],
    target: { readonly buffer: GpuBuffer; readonly at: number },
  ): boolean {
    const buffers = mask.map(({ bits }) => this.#entries.get(bits)?.buffer);
    if (!isWorthCopying(mask) || buffers.includes(undefined)) return false;
    for (const [index, { from, to, bytes }] of mask.entries()) {
      encoder.copyBufferToBuffer(buffers[index]!, from, target.buffer, target.at + to, bytes);
    }
    return true;
  }

  /** Frees all memory. No search may be under way. */
  close(): void {
    for (const entry of this.#sent) this.#drop(entry);
  }

  /** Makes a bitmap that is on the device the most recently used one; false if it is not there. */
  #touch(entry: Entry): boolean {
    if (!this.#sent.delete(entry)) return false;
    this.#sent.add(entry);
    return true;
  }

  /** Frees memory for these bitmaps, but not that of others of the same search; false if it is too little. */
  #makeRoom(entries: readonly Entry[], wanted: ReadonlyMap<Entry, Uint8Array>): boolean {
    const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
    const others = [...this.#sent].filter((entry) => !wanted.has(entry));
    const othersBytes = others.reduce((sum, entry) => sum + entry.bytes, 0);
    if (this.#usedBytes - othersBytes + bytes > this.#bytesMax) return false;
    for (const other of others) {
      if (this.#usedBytes + bytes <= this.#bytesMax) break;
      this.#drop(other);
    }
    return true;
  }

  async #send(entry: Entry, bits: Uint8Array): Promise<void> {
    const { copySource, copyTarget } = BUFFER_USAGE;
    this.#usedBytes += entry.bytes;
    try {
      entry.buffer = await this.#device.allocate(bits.length, copySource | copyTarget);
      this.#sent.add(entry);
      if (entry.isReleased) this.#drop(entry);
      else this.#device.connection.queue.writeBuffer(entry.buffer, 0, bits);
    } catch (error) {
      this.#usedBytes -= entry.bytes;
      entry.isUsed = false;
      if (!(error instanceof WinnowError && error.code === "RESOURCE_EXHAUSTED")) throw error;
    } finally {
      entry.sending = undefined;
    }
  }

  #drop(entry: Entry): void {
    if (!this.#sent.delete(entry)) return;
    entry.buffer!.destroy();
    entry.buffer = undefined;
    entry.isUsed = false;
    this.#usedBytes -= entry.bytes;
  }
}

function isWorthCopying(mask: readonly MaskPiece[]): boolean {
  if (mask.length <= COPIES_FREE) return true;
  return mask.reduce((sum, { bytes }) => sum + bytes, 0) >= mask.length * COPY_BYTES_MIN;
}
