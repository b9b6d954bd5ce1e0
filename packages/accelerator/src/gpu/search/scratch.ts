// The buffers in which a lane runs one search at a time. They grow with the searches, but not
// beyond the limit of the lane: there, buffers that searches of other shapes have left large are
// freed. Passes are planned to fit (pass-rooms.ts); what does not fit is refused.

import { WinnowError } from "@winnow/core";
import type { GpuDevice } from "../device/device.ts";
import { BUFFER_USAGE, MAP_MODE_READ } from "../webgpu-api.ts";
import type { GpuBindGroup, GpuBuffer } from "../webgpu-api.ts";
import { PARAMS_BYTES } from "../device/kernels.ts";
import { STAGE_BYTES, StageTimer } from "../stage-timer.ts";

const { copySource, copyTarget, mapRead, storage, uniform } = BUFFER_USAGE;

/** A buffer of a scratch. */
export type ScratchName =
  | "params"
  | "query"
  | "scope"
  | "bounds"
  | "heads"
  | "found"
  | "result"
  | "staging";

/** Bytes by buffer; a buffer that is not named is not needed. */
export type ScratchSizes = Readonly<Partial<Record<ScratchName, number>>>;

/** Usage of each buffer, in the order of their bindings; `staging` is read by the host. */
const USAGE: Readonly<Record<ScratchName, number>> = {
  params: uniform | copyTarget,
  query: storage | copyTarget,
  scope: storage | copyTarget,
  bounds: storage | copySource | copyTarget,
  heads: storage | copyTarget,
  found: storage,
  result: storage | copySource,
  staging: mapRead | copyTarget,
};

const NAMES = Object.keys(USAGE) as ScratchName[];
const BOUND_NAMES = NAMES.filter((name) => name !== "staging");
const BYTES_MIN = 256;
/** Bytes that rounding the sizes of all buffers may add. */
const ROUNDING_BYTES = NAMES.length * BYTES_MIN;

/** One byte of this many of the capacity is set aside for searches, up to `scratchBytesMax`. */
const CAPACITY_SHARE = 8;

/** Bytes of the capacity that are set aside for searches. */
export function scratchBytesOf(capacityBytes: number, scratchBytesMax: number): number {
  return Math.min(scratchBytesMax, Math.floor(capacityBytes / CAPACITY_SHARE));
}

/** The working memory of one lane. */
export class Scratch {
  readonly #device: GpuDevice;
  readonly #bytesMax: number;
  readonly #timer: StageTimer | undefined;
  readonly #buffers = new Map<ScratchName, GpuBuffer>();
  #bindGroup: GpuBindGroup | undefined;

  constructor(device: GpuDevice, bytesMax: number) {
    this.#device = device;
    this.#bytesMax = bytesMax;
    this.#timer = device.isTimed ? new StageTimer(device.connection) : undefined;
  }

  /** Present while the device measures stages. */
  get timer(): StageTimer | undefined {
    return this.#device.isTimed ? this.#timer : undefined;
  }

  /** Bytes that `reserve` can provide over all buffers. */
  get roomBytes(): number {
    return Math.max(0, this.#bytesMax - ROUNDING_BYTES);
  }

  /** Bytes of the buffers that are allocated. */
  get usedBytes(): number {
    return [...this.#buffers.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Makes each buffer at least this large, in bytes. @throws WinnowError RESOURCE_EXHAUSTED */
  async reserve(sizes: ScratchSizes): Promise<void> {
    const wanted = NAMES.map((name) => [name, roundedUp(sizes[name] ?? 0)] as const);
    const wantedBytes = wanted.reduce((sum, [, size]) => sum + size, 0);
    if (wantedBytes > this.#bytesMax) throw this.#tooSmall(wantedBytes);
    const grown = wanted.filter(([name, size]) => (this.#buffers.get(name)?.size ?? 0) < size);
    if (grown.length === 0) return;
    for (const [name] of grown) this.#destroy(name);
    const sumOf = (sizeOf: (size: number) => number): number =>
      grown.reduce((sum, [, size]) => sum + sizeOf(size), this.usedBytes);
    const isAmple = sumOf((size) => this.#ampleSize(size)) <= this.#bytesMax;
    if (sumOf((size) => size) > this.#bytesMax) for (const name of NAMES) this.#destroy(name);
    for (const [name, size] of wanted) {
      if (this.#buffers.has(name)) continue;
      const own = isAmple ? this.#ampleSize(size) : size;
      this.#buffers.set(name, await this.#device.allocate(own, USAGE[name]));
    }
  }

  /** The size with room to grow: batches differ a little, and few should wait for an allocation. */
  #ampleSize(size: number): number {
    const { maxStorageBufferBindingSize, maxBufferSize } = this.#device.limits;
    const most = Math.min(maxStorageBufferBindingSize, maxBufferSize);
    return Math.max(size, Math.min(2 ** Math.ceil(Math.log2(size)), most));
  }

  /** A buffer that was reserved. */
  buffer(name: ScratchName): GpuBuffer {
    const buffer = this.#buffers.get(name);
    if (buffer === undefined) throw new RangeError(`${name} is not reserved`);
    return buffer;
  }

  /** The buffers in the order in which the kernels bind them. */
  bindGroup(): GpuBindGroup {
    this.#bindGroup ??= this.#device.connection.createBindGroup({
      layout: this.#device.kernels.callLayout,
      entries: BOUND_NAMES.map((name, binding) => {
        const buffer = this.buffer(name);
        const resource = name === "params" ? { buffer, size: PARAMS_BYTES } : { buffer };
        return { binding, resource };
      }),
    });
    return this.#bindGroup;
  }

  /** A copy of the first `bytes` of `staging`, once all submitted work is done. */
  async read(bytes: number): Promise<ArrayBuffer> {
    const staging = this.buffer("staging");
    await this.#device.settled(staging.mapAsync(MAP_MODE_READ, 0, bytes));
    const copy = staging.getMappedRange(0, bytes).slice(0);
    staging.unmap();
    return copy;
  }

  /** The result of a pass; the timestamps of its stages, which lie behind it, go to the timer. */
  async readPass(bytes: number): Promise<ArrayBuffer> {
    if (this.timer === undefined) return this.read(Math.ceil(bytes / 8) * 8);
    const all = await this.read(Math.ceil((bytes + STAGE_BYTES) / 8) * 8);
    this.timer.add(all.slice(bytes, bytes + STAGE_BYTES));
    return all.slice(0, bytes);
  }

  /** Frees everything. */
  close(): void {
    for (const name of NAMES) this.#destroy(name);
    this.#timer?.close();
  }

  #destroy(name: ScratchName): void {
    this.#buffers.get(name)?.destroy();
    this.#buffers.delete(name);
    this.#bindGroup = undefined;
  }

  #tooSmall(bytes: number): WinnowError {
    const message =
      `Cannot search with ${bytes} bytes of working memory: ${this.#bytesMax} are set aside; ` +
      "a smaller k, or a larger memory limit for this worker, would work";
    return new WinnowError("RESOURCE_EXHAUSTED", message);
  }
}

function roundedUp(bytes: number): number {
  return Math.max(BYTES_MIN, Math.ceil(bytes / 16) * 16);
}
