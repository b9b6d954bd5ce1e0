// Whether a device's matrix units can be trusted with the scan. They are an experiment of Dawn's, and
// nothing but the results tells whether a driver does them right: the kernel is compiled once for
// each length of rows, and used if it gives the bounds that the ordinary scan gives, bit for bit, to
// random rows and queries, also where rows are missing or masked.

import { rowLayout } from "../codes.ts";
import type { RowLayout } from "../codes.ts";
import { Scratch } from "./scratch.ts";
import { allocateSlab, freeSlabs } from "../memory/slab.ts";
import type { Slab } from "../memory/slab.ts";
import { GROUP_ROWS, QUERY_TILE } from "../shaders/prelude.ts";
import { fitsMatrices, tensorScanShader } from "../shaders/tensor-scan.ts";
import type { GpuPipeline } from "../webgpu-api.ts";
import type { GpuDevice } from "../device/device.ts";
import { PARAMS_STRIDE, compileKernel } from "../device/kernels.ts";

/** Groups of the trial; the last one lacks rows. */
const GROUPS = 5;
const ROWS = GROUPS * GROUP_ROWS - 37;
/** Queries of the trial, not a multiple of what a matrix has. */
const QUERIES = 91;
const QUERIES_WITH_ROOM = 2 * QUERY_TILE;
const ABSENT = 0xffffffff;

/** The scans on matrix units that an accelerator uses, by the length of its rows. */
export class MatrixScans {
  readonly #device: GpuDevice;
  /** By quads of codes; `undefined` where the device is not to be trusted. */
  readonly #scans = new Map<number, GpuPipeline | undefined>();

  constructor(device: GpuDevice) {
    this.#device = device;
  }

  /** Gets ready to scan rows of a layout. @throws WinnowError UNAVAILABLE, or RESOURCE_EXHAUSTED */
  async prepare(layout: RowLayout): Promise<void> {
    const { codeQuads } = layout;
    if (!this.#device.hasMatrixUnits || this.#scans.has(codeQuads)) return;
    this.#scans.set(codeQuads, await openMatrixScan(this.#device, layout));
  }

  /** The scan for rows of a layout, if it was prepared and can be trusted. */
  scanOf({ codeQuads }: RowLayout): GpuPipeline | undefined {
    return this.#scans.get(codeQuads);
  }
}

/** The scan on matrix units for rows of a layout; `undefined` if the device is not to be trusted with it. @internal */
export async function openMatrixScan(
  device: GpuDevice,
  { codeQuads }: RowLayout,
): Promise<GpuPipeline | undefined> {
  if (!fitsMatrices(codeQuads)) return undefined;
  const { connection } = device;
  connection.pushErrorScope("validation");
  const { callLayout, slabLayout } = device.kernels;
  const source = { label: "scan on matrix units", code: tensorScanShader(codeQuads) };
  const compiled = compileKernel(connection, source, [callLayout, slabLayout]).catch(
    () => undefined,
  );
  const fault = connection.popErrorScope();
  const pipeline = await device.settled(compiled);
  if ((await device.settled(fault)) !== null || pipeline === undefined) return undefined;
  return (await agrees(device, pipeline, rowLayout(codeQuads * 16))) ? pipeline : undefined;
}

/** Whether a kernel gives the bounds of the ordinary scan. @internal */
export async function agrees(
  device: GpuDevice,
  pipeline: GpuPipeline,
  layout: RowLayout,
): Promise<boolean> {
  const slab = await allocateSlab(device, layout, GROUPS);
  const scratch = new Scratch(device, 2 ** 24);
  try {
    for (const isMasked of [false, true]) {
      const [expected, given] = await boundsBy(device, { slab, scratch, layout, isMasked }, [
        device.kernels.scanTile,
        pipeline,
      ]);
      if (expected!.some((word, at) => word !== given![at])) return false;
    }
    return true;
  } finally {
    scratch.close();
    await freeSlabs([slab], device);
  }
}

interface Trial {
  readonly slab: Slab;
  readonly scratch: Scratch;
  readonly layout: RowLayout;
  readonly isMasked: boolean;
}

/** The bounds of all groups and queries by each of these kernels. */
async function boundsBy(
  device: GpuDevice,
  { slab, scratch, layout, isMasked }: Trial,
  pipelines: readonly GpuPipeline[],
): Promise<Uint32Array[]> {
  const { codeQuads, valueQuads, dim, groupQuads, queryQuads } = layout;
  const random = randomWords(codeQuads);
  const maskAt = isMasked ? 4 : ABSENT;
  const scope = Uint32Array.of(0, 0, ROWS, 0, ...random(isMasked ? GROUPS * 4 : 0));
  const params = new Uint32Array(PARAMS_STRIDE / 4);
  params.set([0, GROUPS, 1, 0, QUERIES, GROUPS, 1, 1, dim, codeQuads, valueQuads, maskAt]);
  const query = codedWords(random, { count: QUERIES_WITH_ROOM, quads: queryQuads });
  const boundsBytes = QUERIES * GROUPS * 8;
  await scratch.reserve({
    params: params.byteLength,
    query: query.byteLength,
    scope: scope.byteLength,
    bounds: boundsBytes,
    staging: boundsBytes,
  });
  const { queue } = device.connection;
  queue.writeBuffer(slab.codes, 0, codedWords(random, { count: GROUPS, quads: groupQuads }));
  queue.writeBuffer(scratch.buffer("params"), 0, params);
  queue.writeBuffer(scratch.buffer("query"), 0, query);
  queue.writeBuffer(scratch.buffer("scope"), 0, scope);
  const results: Uint32Array[] = [];
  for (const pipeline of pipelines) {
    const encoder = device.connection.createCommandEncoder();
    encoder.clearBuffer(scratch.buffer("bounds"), 0, boundsBytes);
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, scratch.bindGroup(), [0]);
    pass.setBindGroup(1, slab.bindGroup);
    pass.dispatchWorkgroups(GROUPS);
    pass.end();
    encoder.copyBufferToBuffer(
      scratch.buffer("bounds"),
      0,
      scratch.buffer("staging"),
      0,
      boundsBytes,
    );
    queue.submit([encoder.finish()]);
    results.push(new Uint32Array(await scratch.read(boundsBytes)));
  }
  return results;
}

/** Random codes behind heads (step, two norms, slack or exponent) that bound something. */
function codedWords(
  random: (count: number) => Uint32Array,
  { count, quads }: { readonly count: number; readonly quads: number },
): Uint32Array {
  const words = random(count * quads * 4);
  const floats = new Float32Array(words.buffer);
  for (let at = 0; at < words.length; at += quads * 4) {
    floats.set([2 ** -7 * (1 + (words[at]! % 8)), 0.5, 0.25], at);
    words[at + 3] = 0;
  }
  return words;
}

/** Words by xorshift (G. Marsaglia, 2003), the same for a seed. */
function randomWords(seed: number): (count: number) => Uint32Array {
  let state = 2_463_534_242 ^ seed;
  return (count) =>
    Uint32Array.from({ length: count }, () => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return state;
    });
}
