// The buffers one search at a time works in. They grow to what searches need and stay; the limit on
// them decides how many queries go together (search-pass.ts).

import type { GpuDevice } from "./device.ts";
import { BUFFER_USAGE, MAP_MODE_READ } from "./webgpu-api.ts";
import type { GpuBindGroup, GpuBuffer } from "./webgpu-api.ts";
import { PARAMS_BYTES } from "./kernels.ts";
import { StageTimer } from "./stage-timer.ts";

const { copySource, copyTarget, mapRead, storage, uniform } = BUFFER_USAGE;

/** A buffer of a scratch. */
export type ScratchName =
  "params" | "query" | "filter" | "bounds" | "kept" | "rough" | "result" | "staging";

/** Usage of each buffer, in the order of their bindings; `staging` is read by the host. */
const USAGE: Readonly<Record<ScratchName, number>> = {
  params: uniform | copyTarget,
  query: storage | copyTarget,
  filter: storage | copyTarget,
  bounds: storage,
  kept: storage | copyTarget,
  rough: storage,
  result: storage | copySource,
  staging: mapRead | copyTarget,
};

const NAMES = Object.keys(USAGE) as ScratchName[];
const BOUND_NAMES = NAMES.filter((name) => name !== "staging");
const BYTES_MIN = 256;

/** The working memory of one lane. */
export class Scratch {
  /** Present if the device is to tell how long stages take. */
  readonly timer: StageTimer | undefined;
  readonly #device: GpuDevice;
  readonly #buffers = new Map<ScratchName, GpuBuffer>();
  #bindGroup: GpuBindGroup | undefined;

  constructor(device: GpuDevice) {
    this.#device = device;
    this.timer = device.isTimed ? new StageTimer(device.connection) : undefined;
  }

  /** Makes each buffer at least as large as asked, in bytes. @throws WinnowError RESOURCE_EXHAUSTED */
  async reserve(sizes: Readonly<Partial<Record<ScratchName, number>>>): Promise<void> {
    for (const name of NAMES) {
      const size = Math.max(BYTES_MIN, Math.ceil((sizes[name] ?? 0) / 16) * 16);
      const present = this.#buffers.get(name);
      if (present !== undefined && present.size >= size) continue;
      present?.destroy();
      this.#buffers.delete(name);
      this.#bindGroup = undefined;
      this.#buffers.set(name, await this.#device.allocate(size, USAGE[name]));
    }
  }

  /** A buffer that was reserved. */
  buffer(name: ScratchName): GpuBuffer {
    const buffer = this.#buffers.get(name);
    if (buffer === undefined) throw new RangeError(`${name} is not reserved`);
    return buffer;
  }

  /** All buffers as the kernels bind them. */
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

  /** The first `bytes` of `staging`, once all that was submitted is done. */
  async read(bytes: number): Promise<ArrayBuffer> {
    const staging = this.buffer("staging");
    await this.#device.settled(staging.mapAsync(MAP_MODE_READ, 0, bytes));
    const copy = staging.getMappedRange(0, bytes).slice(0);
    staging.unmap();
    return copy;
  }

  /** Frees everything. */
  close(): void {
    for (const buffer of this.#buffers.values()) buffer.destroy();
    this.#buffers.clear();
    this.#bindGroup = undefined;
    this.timer?.close();
  }
}
