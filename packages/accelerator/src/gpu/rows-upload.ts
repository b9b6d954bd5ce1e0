// Uploads rows to the device: values go into their extents as they arrive, and the device codes
// each group once it is complete (shaders/coder.ts). The host waits for the device at intervals,
// because WebGPU would queue uploads without bound.

import { WinnowError, nextLoopTurn } from "@winnow/core";
import { takeRows } from "../residents/row-taking.ts";
import type { RowSource } from "../residents/row-taking.ts";
import { checkFinite } from "../queries/top-k-request.ts";
import type { RowLayout, RowScale } from "./codes.ts";
import type { GpuDevice } from "./device/device.ts";
import { dispatchGrid } from "./search/search-pass.ts";
import { CODER_PARAMS_BYTES, CODER_SCALE_WORDS } from "./shaders/coder.ts";
import { GROUP_ROWS } from "./shaders/prelude.ts";
import type { Extent } from "./memory/slab.ts";
import { BUFFER_USAGE, MAP_MODE_READ } from "./webgpu-api.ts";
import type { GpuBuffer } from "./webgpu-api.ts";

/** Bytes of values that are sent between two turns of the event loop. */
const BLOCK_BYTES = 2 ** 22;
const NO_EXPONENT = -(2 ** 31);

/** Where the rows of a load are to lie. */
export interface RowTarget {
  readonly device: GpuDevice;
  readonly layout: RowLayout;
  readonly extents: readonly Extent[];
  /** Bytes in flight to the device, at most. */
  readonly uploadBytesMax: number;
}

/** Fills the extents and returns bounds of the rows' magnitudes. */
export async function uploadRows(source: RowSource, target: RowTarget): Promise<RowScale> {
  const coder = await openCoder(target);
  try {
    return await new Upload(target, coder).take(source);
  } finally {
    coder.close();
  }
}

/** Sends rows in order to their extents. */
class Upload {
  readonly #target: RowTarget;
  readonly #coder: Coder;
  /** Buffer for rows padded to whole quads; empty where rows are whole quads already. */
  readonly #padded: Float32Array;
  readonly #blockRows: number;
  #extent = 0;
  /** Rows of the current extent that were sent, and its groups that were coded. */
  #sent = 0;
  #coded = 0;
  #bytesUnderWay = 0;

  constructor(target: RowTarget, coder: Coder) {
    const { dim, valueQuads } = target.layout;
    this.#target = target;
    this.#coder = coder;
    this.#blockRows = Math.max(1, Math.floor(BLOCK_BYTES / (valueQuads * 16)));
    this.#padded = new Float32Array(dim % 4 === 0 ? 0 : this.#blockRows * valueQuads * 4);
  }

  async take(source: RowSource): Promise<RowScale> {
    await takeRows(source, (chunk, progress) => {
      checkFinite(progress, chunk);
      return this.#append(chunk, source.signal);
    });
    await this.#awaitDevice();
    return this.#coder.scale();
  }

  async #append(chunk: Float32Array, signal: AbortSignal | undefined): Promise<void> {
    const { dim } = this.#target.layout;
    for (let at = 0; at < chunk.length;) {
      const room = this.#target.extents[this.#extent]!.rows - this.#sent;
      const rows = Math.min(this.#blockRows, room, (chunk.length - at) / dim);
      this.#send(chunk.subarray(at, at + rows * dim), rows);
      at += rows * dim;
      if (this.#bytesUnderWay >= this.#target.uploadBytesMax) await this.#awaitDevice();
      else await nextLoopTurn();
      signal?.throwIfAborted();
    }
  }

  #send(rows: Float32Array, count: number): void {
    const { layout, device, extents } = this.#target;
    const { slab, firstGroup, rows: extentRows } = extents[this.#extent]!;
    const rowBytes = layout.valueQuads * 16;
    const values = this.#inQuads(rows, count);
    const at = (firstGroup * GROUP_ROWS + this.#sent) * rowBytes;
    device.connection.queue.writeBuffer(slab.values, at, values);
    this.#bytesUnderWay += values.byteLength;
    this.#sent += count;
    if (this.#sent < extentRows) return;
    this.#code();
    this.#extent += 1;
    this.#sent = 0;
    this.#coded = 0;
  }

  #inQuads(rows: Float32Array, count: number): Float32Array {
    const { dim, valueQuads } = this.#target.layout;
    const width = valueQuads * 4;
    if (width === dim) return rows;
    const padded = this.#padded;
    let from = 0;
    for (let row = 0; row < count; row += 1) {
      const at = row * width;
      for (let j = 0; j < dim; j += 1) padded[at + j] = rows[from + j]!;
      from += dim;
    }
    return padded.subarray(0, count * width);
  }

  /** Codes the complete groups of the current extent, and at its end also the last group. */
  #code(): void {
    const extent = this.#target.extents[this.#extent];
    if (extent === undefined) return;
    const isLast = this.#sent === extent.rows;
    const end = isLast ? extent.groups : Math.floor(this.#sent / GROUP_ROWS);
    if (end > this.#coded) this.#coder.code(extent, this.#coded, end);
    this.#coded = end;
  }

  async #awaitDevice(): Promise<void> {
    const { device } = this.#target;
    device.checkAlive();
    this.#code();
    device.connection.queue.submit([]);
    await device.settled(device.connection.queue.onSubmittedWorkDone());
    this.#bytesUnderWay = 0;
  }
}

/** The few bytes that the coder needs during a load. */
interface CoderBuffers {
  readonly params: GpuBuffer;
  readonly scale: GpuBuffer;
  readonly staging: GpuBuffer;
}

async function openCoder({ device, layout }: RowTarget): Promise<Coder> {
  const { copySource, copyTarget, mapRead, storage, uniform } = BUFFER_USAGE;
  const scaleBytes = 4 * CODER_SCALE_WORDS;
  const buffers = {
    params: await device.allocate(CODER_PARAMS_BYTES, uniform | copyTarget),
    scale: await device.allocate(scaleBytes, storage | copyTarget | copySource),
    staging: await device.allocate(scaleBytes, mapRead | copyTarget),
  };
  const nothing = Int32Array.of(NO_EXPONENT, NO_EXPONENT, 0);
  device.connection.queue.writeBuffer(buffers.scale, 0, nothing);
  return new Coder(device, layout, buffers);
}

/** Runs the coder during one load. */
class Coder {
  readonly #device: GpuDevice;
  readonly #layout: RowLayout;
  readonly #buffers: CoderBuffers;
  #groups = 0;

  constructor(device: GpuDevice, layout: RowLayout, buffers: CoderBuffers) {
    this.#device = device;
    this.#layout = layout;
    this.#buffers = buffers;
  }

  /** Codes groups of an extent, from `first` to before `end`. */
  code(extent: Extent, first: number, end: number): void {
    const { connection, kernels } = this.#device;
    const { codeQuads, valueQuads, dim } = this.#layout;
    const endRow = extent.firstGroup * GROUP_ROWS + extent.rows;
    const restMargin = Math.ceil(Math.sqrt(dim) / 2);
    const words = [
      extent.firstGroup + first,
      end - first,
      endRow,
      codeQuads,
      valueQuads,
      restMargin,
    ];
    connection.queue.writeBuffer(this.#buffers.params, 0, Uint32Array.from(words));
    const { values, codes } = extent.slab;
    const buffers = [this.#buffers.params, values, codes, this.#buffers.scale];
    const group = connection.createBindGroup({
      layout: kernels.coderLayout,
      entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
    });
    const encoder = connection.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(kernels.coder);
    pass.setBindGroup(0, group);
    dispatchGrid(pass, end - first);
    pass.end();
    connection.queue.submit([encoder.finish()]);
    this.#groups += end - first;
  }

  /** Bounds over all rows coded. @throws WinnowError INTERNAL if the device dropped some */
  async scale(): Promise<RowScale> {
    const { connection } = this.#device;
    const { scale, staging } = this.#buffers;
    const encoder = connection.createCommandEncoder();
    encoder.copyBufferToBuffer(scale, 0, staging, 0, 4 * CODER_SCALE_WORDS);
    connection.queue.submit([encoder.finish()]);
    await this.#device.settled(staging.mapAsync(MAP_MODE_READ));
    const words = new Int32Array(staging.getMappedRange().slice(0));
    staging.unmap();
    const [exponent = NO_EXPONENT, normExponent = NO_EXPONENT, groups] = words;
    if (groups !== this.#groups) {
      throw new WinnowError("INTERNAL", "The GPU did not code what it was given");
    }
    return exponent === NO_EXPONENT
      ? { exponentMax: -Infinity, normMax: 0 }
      : { exponentMax: exponent, normMax: 2 ** normExponent };
  }

  close(): void {
    for (const buffer of Object.values(this.#buffers)) buffer.destroy();
  }
}
