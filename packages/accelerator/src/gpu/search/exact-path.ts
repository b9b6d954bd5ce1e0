// The two searches without preconditions, for queries that the fast path cannot answer.
// `exactCandidates` scores every row of every extent on the device and keeps the best on the host:
// for tables full of ties, for magnitudes beyond the bounds, for k beyond the fast path.
// `hostBlock` copies the rows to the host and runs the reference scan: for queries with NaN or
// infinities, whose scores the integer arithmetic cannot represent. Both proceed in steps, in
// bounded memory.

import { WinnowError, mergeTopK } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import { CandidateHeap } from "../../reference/candidate-heap.ts";
import { scanTopK } from "../../reference/scan.ts";
import type { AdmittedTopKQuery, RowTest } from "../../queries/row-admission.ts";
import type { GpuDevice } from "../device/device.ts";
import { PARAMS_STRIDE } from "../device/kernels.ts";
import type { Scratch } from "./scratch.ts";
import { dispatchGrid, nextToken } from "./search-pass.ts";
import type { SearchScope } from "./search-scope.ts";
import { GROUP_ROWS } from "../shaders/prelude.ts";
import { exactWorkgroups } from "../shaders/row-scores.ts";
import type { Extent } from "../memory/slab.ts";

/** Bytes of rows that come back to the host in one step. */
const READ_BYTES = 2 ** 24;

/** What both searches need. */
export interface ExactMeans {
  readonly device: GpuDevice;
  readonly scratch: Scratch;
  readonly stepProducts: number;
}

/** One query of the exact path. */
export interface ExactQuery {
  /** The encoded query, `[queryQuads · 4]`. */
  readonly words: Uint32Array;
  readonly room: number;
  readonly mayReturn: RowTest;
  readonly signal: AbortSignal | undefined;
}

/** The best rows of all extents, in a heap. */
export async function exactCandidates(
  means: ExactMeans,
  scope: SearchScope,
  query: ExactQuery,
): Promise<CandidateHeap> {
  const heap = new CandidateHeap(query.room);
  const stepRows = exactStepRows(means, scope, query.words.byteLength);
  const scratchBytes = 4 * (stepRows + 1);
  await means.scratch.reserve({
    params: PARAMS_STRIDE,
    query: query.words.byteLength,
    result: scratchBytes,
    staging: scratchBytes,
  });
  const { queue } = means.device.connection;
  queue.writeBuffer(means.scratch.buffer("query"), 0, query.words);
  for (const { extent } of scope.extents) {
    for (let first = 0; first < extent.rows; first += stepRows) {
      query.signal?.throwIfAborted();
      const count = Math.min(stepRows, extent.rows - first);
      const scores = await exactScores(means, scope, { extent, first, count });
      const firstRow = extent.firstRow + first;
      for (let index = 0; index < count; index += 1) {
        const score = scores[index]!;
        if (score < heap.threshold || !query.mayReturn(firstRow + index)) continue;
        heap.offer(score, firstRow + index);
      }
    }
  }
  return heap;
}

/** Rows of one step: at most `stepProducts` multiplications, in half of the working memory. */
function exactStepRows(
  { scratch, stepProducts }: ExactMeans,
  { layout }: SearchScope,
  queryBytes: number,
): number {
  const byMemory = Math.floor((scratch.roomBytes - PARAMS_STRIDE - queryBytes) / 16);
  return Math.max(GROUP_ROWS, Math.min(Math.floor(stepProducts / layout.dim), byMemory));
}

interface RowRange {
  readonly extent: Extent;
  readonly first: number;
  readonly count: number;
}

/** The scores of a range of rows for the query in the scratch. */
async function exactScores(
  { device, scratch }: ExactMeans,
  { layout }: SearchScope,
  { extent, first, count }: RowRange,
): Promise<Float32Array> {
  const token = nextToken();
  const words = new Uint32Array(PARAMS_STRIDE / 4);
  words.set([0, 0, 0, 0, 1, 0, 1, token], 0);
  words.set([layout.dim, layout.codeQuads, layout.valueQuads], 8);
  words.set([extent.firstGroup * GROUP_ROWS + first, count], 15);
  const { queue } = device.connection;
  queue.writeBuffer(scratch.buffer("params"), 0, words);
  const encoder = device.connection.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(device.kernels.exact);
  pass.setBindGroup(0, scratch.bindGroup(), [0]);
  pass.setBindGroup(1, extent.slab.bindGroup);
  dispatchGrid(pass, exactWorkgroups(count));
  pass.end();
  const bytes = count * 4 + 4;
  const [result, staging] = [scratch.buffer("result"), scratch.buffer("staging")];
  encoder.copyBufferToBuffer(result, 0, staging, 0, bytes);
  queue.submit([encoder.finish()]);
  const answer = await scratch.read(Math.ceil(bytes / 8) * 8);
  if (new Uint32Array(answer)[count] !== token) {
    throw new WinnowError("INTERNAL", "The GPU did not do what it was given");
  }
  return new Float32Array(answer, 0, count);
}

/** The exact answer of some queries by the reference scan over rows that are read back. */
export async function hostBlock(
  means: ExactMeans,
  scope: SearchScope,
  {
    query,
    signal,
  }: { readonly query: AdmittedTopKQuery; readonly signal: AbortSignal | undefined },
): Promise<TopKBlock> {
  const { dim } = scope.layout;
  const stepRows = readStepRows(means.scratch, scope.layout.valueQuads * 16);
  const blocks: TopKBlock[] = [];
  for (const { extent } of scope.extents) {
    for (let first = 0; first < extent.rows; first += stepRows) {
      signal?.throwIfAborted();
      const count = Math.min(stepRows, extent.rows - first);
      const rows = Uint32Array.from({ length: count }, (_, index) => first + index);
      const values = await readRows(means, { extent, dim }, rows);
      const part = { values, rows: count, firstRow: extent.firstRow + first };
      blocks.push(await scanTopK(query, [part], signal));
      if (blocks.length > 1) blocks.splice(0, 2, mergeTopK(blocks, query.room));
    }
  }
  return blocks[0]!;
}

/** Rows that are read back in one step. */
function readStepRows(scratch: Scratch, rowBytes: number): number {
  return Math.max(1, Math.floor(Math.min(READ_BYTES, scratch.roomBytes) / rowBytes));
}

/** Copies of the rows with these numbers in an extent, `[rows.length, dim]`, from the device. */
export async function readRows(
  { device, scratch }: Pick<ExactMeans, "device" | "scratch">,
  { extent, dim }: { readonly extent: Extent; readonly dim: number },
  rows: Uint32Array,
): Promise<Float32Array> {
  const stride = Math.ceil(dim / 4) * 4;
  const copied = new Float32Array(rows.length * dim);
  const stepRows = readStepRows(scratch, stride * 4);
  const firstByte = extent.firstGroup * GROUP_ROWS * stride * 4;
  for (let from = 0; from < rows.length; from += stepRows) {
    const step = rows.subarray(from, from + stepRows);
    const bytes = step.length * stride * 4;
    await scratch.reserve({ staging: bytes });
    const encoder = device.connection.createCommandEncoder();
    for (let start = 0; start < step.length;) {
      const length = runLength(step, start);
      const [at, target] = [firstByte + step[start]! * stride * 4, start * stride * 4];
      const size = length * stride * 4;
      encoder.copyBufferToBuffer(extent.slab.values, at, scratch.buffer("staging"), target, size);
      start += length;
    }
    device.checkAlive();
    device.connection.queue.submit([encoder.finish()]);
    const values = new Float32Array(await scratch.read(bytes));
    for (let index = 0; index < step.length; index += 1) {
      const row = values.subarray(index * stride, index * stride + dim);
      copied.set(row, (from + index) * dim);
    }
  }
  return copied;
}

/** How many consecutive numbers begin at `start`. */
function runLength(rows: Uint32Array, start: number): number {
  let length = 1;
  while (rows[start + length] === rows[start]! + length) length += 1;
  return length;
}
