// Brings rows onto the device: slabs of whole groups, each one buffer of float32 values and one of
// int8 codes. Rows are encoded block by block as they arrive, so the host holds a few megabytes of
// them, and the device is awaited now and then, because WebGPU would queue uploads without bound.

import type { LoadShape } from "../accelerator.ts";
import { nextLoopTurn } from "../loop-turn.ts";
import { checkChunk, checkComplete } from "../top-k-request.ts";
import { encodeGroup, rowLayout } from "./codes.ts";
import type { RowLayout, RowScale } from "./codes.ts";
import type { GpuDevice } from "./device.ts";
import type { GpuSettings } from "./gpu-settings.ts";
import { GROUP_ROWS } from "./shaders/prelude.ts";
import { BUFFER_USAGE } from "./webgpu-api.ts";
import type { GpuBindGroup, GpuBuffer } from "./webgpu-api.ts";

/** Bytes of values that are encoded before they are sent. */
const BLOCK_BYTES = 2 ** 20;

/** Some rows of a resident in two buffers. */
export interface Slab {
  /** Global number of its first row. */
  readonly firstRow: number;
  readonly rows: number;
  readonly groups: number;
  readonly codes: GpuBuffer;
  readonly values: GpuBuffer;
  readonly bindGroup: GpuBindGroup;
}

/** Rows on the device that can be searched. */
export interface SearchRows {
  readonly layout: RowLayout;
  readonly slabs: readonly Slab[];
  readonly scale: RowScale;
}

interface SlabShape {
  readonly firstRow: number;
  readonly rows: number;
}

/** How rows are cut into slabs, and the bytes these occupy. */
export interface SlabPlan {
  readonly layout: RowLayout;
  readonly slabs: readonly SlabShape[];
  readonly bytes: number;
}

/** Cuts rows into slabs that the device can bind. */
export function planSlabs(shape: LoadShape, device: GpuDevice, settings: GpuSettings): SlabPlan {
  const layout = rowLayout(shape.dim);
  const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
  const bytesMax = Math.min(settings.slabBytesMax, maxBufferSize, maxStorageBufferBindingSize);
  const groupBytes = 16 * Math.max(layout.valueQuads * GROUP_ROWS, layout.groupQuads);
  const slabRows = GROUP_ROWS * Math.max(1, Math.floor(bytesMax / groupBytes));
  const slabs: SlabShape[] = [];
  for (let from = 0; from < shape.rows; from += slabRows) {
    slabs.push({ firstRow: shape.firstRow + from, rows: Math.min(slabRows, shape.rows - from) });
  }
  const bytes = slabs.reduce(
    (sum, { rows }) => sum + 16 * (rows * layout.valueQuads + groupsOf(rows) * layout.groupQuads),
    0,
  );
  return { layout, slabs, bytes };
}

function groupsOf(rows: number): number {
  return Math.ceil(rows / GROUP_ROWS);
}

/** Frees the buffers. The memory comes back with the next work of the device, which is awaited. */
export async function freeSlabs(slabs: readonly Slab[], device: GpuDevice): Promise<void> {
  for (const { codes, values } of slabs) {
    codes.destroy();
    values.destroy();
  }
  device.connection.queue.submit([]);
  await device.settled(device.connection.queue.onSubmittedWorkDone());
}

/** Where rows come from. */
export interface RowSource {
  readonly shape: LoadShape;
  readonly chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>;
  readonly signal: AbortSignal | undefined;
}

/** Loads rows; on failure nothing stays on the device. */
export async function uploadRows(
  source: RowSource,
  plan: SlabPlan,
  to: { readonly device: GpuDevice; readonly uploadBytesMax: number },
): Promise<SearchRows> {
  const slabs: Slab[] = [];
  try {
    for (const shape of plan.slabs) slabs.push(await allocateSlab(shape, plan.layout, to.device));
    const scale = await new Upload(slabs, plan.layout, to).take(source);
    return { layout: plan.layout, slabs, scale };
  } catch (error) {
    for (const { codes, values } of slabs) {
      codes.destroy();
      values.destroy();
    }
    throw error;
  }
}

async function allocateSlab(
  { firstRow, rows }: SlabShape,
  layout: RowLayout,
  device: GpuDevice,
): Promise<Slab> {
  const usage = BUFFER_USAGE.storage | BUFFER_USAGE.copyTarget | BUFFER_USAGE.copySource;
  const groups = groupsOf(rows);
  const values = await device.allocate(rows * layout.valueQuads * 16, usage);
  const codes = await device.allocate(groups * layout.groupQuads * 16, usage).catch((error) => {
    values.destroy();
    throw error;
  });
  const bindGroup = device.connection.createBindGroup({
    layout: device.kernels.slabLayout,
    entries: [codes, values].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  return { firstRow, rows, groups, codes, values, bindGroup };
}

/** Fills slabs in order through one block of rows on the host. */
class Upload {
  readonly #slabs: readonly Slab[];
  readonly #layout: RowLayout;
  readonly #device: GpuDevice;
  readonly #uploadBytesMax: number;
  readonly #scale: RowScale = { exponentMax: -Infinity, normMax: 0 };
  readonly #blockRows: number;
  readonly #values: Float32Array;
  readonly #codes: Int8Array;
  #slab = 0;
  /** Rows of the slab that are sent. */
  #sent = 0;
  /** Rows in the block. */
  #filled = 0;
  #bytesUnderWay = 0;

  constructor(
    slabs: readonly Slab[],
    layout: RowLayout,
    { device, uploadBytesMax }: { readonly device: GpuDevice; readonly uploadBytesMax: number },
  ) {
    this.#slabs = slabs;
    this.#layout = layout;
    this.#device = device;
    this.#uploadBytesMax = uploadBytesMax;
    const groups = Math.ceil(BLOCK_BYTES / (layout.valueQuads * 16 * GROUP_ROWS));
    this.#blockRows = groups * GROUP_ROWS;
    this.#values = new Float32Array(this.#blockRows * layout.valueQuads * 4);
    this.#codes = new Int8Array(groups * layout.groupQuads * 16);
  }

  async take({ shape, chunks, signal }: RowSource): Promise<RowScale> {
    const progress = { shape, taken: 0 };
    for await (const chunk of chunks) {
      signal?.throwIfAborted();
      checkChunk(progress, chunk);
      await this.#append(chunk, signal);
      await nextLoopTurn();
    }
    signal?.throwIfAborted();
    checkComplete(progress);
    await this.#awaitDevice();
    return this.#scale;
  }

  async #append(chunk: Float32Array, signal: AbortSignal | undefined): Promise<void> {
    const { dim, valueQuads } = this.#layout;
    for (let at = 0; at < chunk.length; at += dim) {
      this.#values.set(chunk.subarray(at, at + dim), this.#filled * valueQuads * 4);
      this.#filled += 1;
      const isSlabFull = this.#sent + this.#filled === this.#slabs[this.#slab]!.rows;
      if (!isSlabFull && this.#filled < this.#blockRows) continue;
      this.#send();
      if (this.#bytesUnderWay >= this.#uploadBytesMax) await this.#awaitDevice();
      else await nextLoopTurn();
      signal?.throwIfAborted();
    }
  }

  #send(): void {
    const { valueQuads, groupQuads } = this.#layout;
    const slab = this.#slabs[this.#slab]!;
    const groups = groupsOf(this.#filled);
    for (let group = 0; group < groups; group += 1) {
      const row = group * GROUP_ROWS;
      const rows = Math.min(GROUP_ROWS, this.#filled - row);
      const target = { codes: this.#codes, byte: group * groupQuads * 16, scale: this.#scale };
      const source = { values: this.#values, at: row * valueQuads * 4, rows };
      encodeGroup(source, target, this.#layout);
    }
    const { queue } = this.#device.connection;
    const values = this.#values.subarray(0, this.#filled * valueQuads * 4);
    const codes = this.#codes.subarray(0, groups * groupQuads * 16);
    queue.writeBuffer(slab.values, this.#sent * valueQuads * 16, values);
    queue.writeBuffer(slab.codes, (this.#sent / GROUP_ROWS) * groupQuads * 16, codes);
    this.#bytesUnderWay += values.byteLength + codes.byteLength;
    this.#sent += this.#filled;
    this.#filled = 0;
    if (this.#sent < slab.rows) return;
    this.#slab += 1;
    this.#sent = 0;
  }

  async #awaitDevice(): Promise<void> {
    this.#device.checkAlive();
    this.#device.connection.queue.submit([]);
    await this.#device.settled(this.#device.connection.queue.onSubmittedWorkDone());
    this.#bytesUnderWay = 0;
  }
}
