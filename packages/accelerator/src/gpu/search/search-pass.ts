// One pass of the fast path: some queries over all slabs in one submission, which returns some 800
// bytes per query at k = 100. The result is the answer, in order, or says that there was no room
// for all possible candidates; such a query takes the exact path.

import { WinnowError } from "@winnow/core";
import { rowExponent } from "../codes.ts";
import type { GpuDevice } from "../device/device.ts";
import { PARAMS_STRIDE } from "../device/kernels.ts";
import { passSizes, roomsOf } from "./pass-rooms.ts";
import type { PassShape, Rooms } from "./pass-rooms.ts";
import type { DeviceFilters } from "./device-filters.ts";
import type { MatrixScans } from "./matrix-scans.ts";
import type { Scratch } from "./scratch.ts";
import { tensorWorkgroups } from "../shaders/tensor-scan.ts";
import { untimed } from "../stage-timer.ts";
import type { StageRecorder } from "../stage-timer.ts";
import { maskBytes } from "./search-scope.ts";
import type { MaskPiece, SearchScope } from "./search-scope.ts";
import {
  ABSENT,
  CANDIDATE_WORDS,
  GRID_WIDTH,
  HEAD_WORDS,
  RESULT_HEAD_WORDS,
  ROW_THREADS,
  SCAN_TILE,
  SCORE_LANES,
  SELECT_KEYS,
  SELECT_THREADS,
  SIFT_GROUPS,
} from "../shaders/prelude.ts";
import type { GpuBindGroup, GpuComputePass, GpuPipeline } from "../webgpu-api.ts";

/** What a pass needs. */
export interface PassMeans {
  readonly device: GpuDevice;
  readonly scratch: Scratch;
  readonly filters: DeviceFilters;
  readonly matrixScans: MatrixScans;
}

/** Encoded queries of one pass. */
export interface PassQueries {
  readonly shape: PassShape;
  readonly count: number;
  /** `[count, queryQuads · 4]`. */
  readonly words: Uint32Array;
  /** Per query: ascending positions of excluded rows; `undefined` if no query excludes rows. */
  readonly exclusions: readonly Uint32Array[] | undefined;
  /** Which rows may be returned; `undefined` if all may. */
  readonly mask: readonly MaskPiece[] | undefined;
}

/** What a pass found for one query. */
export interface PassAnswer {
  readonly keptGroups: number;
  readonly scoredRows: number;
  /** Rows of the answer; `undefined` if there was no room for all rows that might belong to it. */
  readonly length: number | undefined;
  /** Where in the words of the result its rows begin, and its scores. */
  readonly rowsAt: number;
  readonly scoresAt: number;
}

/** The answers of a pass, and its cost. */
export interface PassOutcome {
  readonly answers: readonly PassAnswer[];
  /** What the device wrote; the same words as floats. */
  readonly words: Uint32Array;
  readonly floats: Float32Array;
  readonly dispatches: number;
  /** Bytes read back from the device. */
  readonly readBytes: number;
  /** Whether the scan ran on matrix units. */
  readonly isByMatrices: boolean;
}

/**
 * The largest k for which `select` and `list` run in small workgroups. With a register for each 8 of k,
 * the threshold of `select` is on average that of a k 6 % larger.
 */
const K_OF_FEW = (SELECT_THREADS * SELECT_KEYS) / 8;
/** The most slots for which `select` runs in small workgroups: more take longer to read than to choose from. */
const SLOTS_OF_FEW = 2 ** 14;
/** Workgroups of `score` at most, over all queries: enough for the largest devices. */
const SCORE_WORKGROUPS = 4096;

let lastToken = 0;

/** A number by which the results of this submission differ from what a buffer held before. */
export function nextToken(): number {
  lastToken = (lastToken % 0xfffffffe) + 1;
  return lastToken;
}

/** Runs one pass. */
export async function runPass(
  { device, scratch, filters, matrixScans }: PassMeans,
  { scope, queries }: { readonly scope: SearchScope; readonly queries: PassQueries },
): Promise<PassOutcome> {
  const { count, shape } = queries;
  const sizes = passSizes(scope, shape, count);
  await filters.prepare(queries.mask ?? []);
  await scratch.reserve(sizes);
  // From here to the submission nothing waits, so that no filter can be released in between.
  const described = scopeWords(scope, queries);
  const call = { scope, queries, rooms: roomsOf(scope, shape), token: nextToken(), ...described };
  const { queue } = device.connection;
  queue.writeBuffer(scratch.buffer("query"), 0, queries.words);
  queue.writeBuffer(scratch.buffer("scope"), 0, described.words);
  queue.writeBuffer(scratch.buffer("params"), 0, passParams(call));
  const encoder = device.connection.createCommandEncoder();
  encoder.clearBuffer(scratch.buffer("heads"), 0, count * HEAD_WORDS * 4);
  if (queries.mask !== undefined) {
    const target = { buffer: scratch.buffer("scope"), at: described.maskAt * 4 };
    if (!filters.copy(encoder, queries.mask, target)) {
      queue.writeBuffer(target.buffer, target.at, maskBytes(scope, queries.mask));
    }
  }
  const recorder = scratch.timer?.record(encoder) ?? untimed(encoder);
  const matrixScan = count > SCAN_TILE ? matrixScans.scanOf(scope.layout) : undefined;
  const recorded = { ...call, group: scratch.bindGroup(), matrixScan };
  const dispatches = dispatchAll(recorder, device, recorded);
  recorder.end();
  const readBytes = sizes.result!;
  const [result, staging] = [scratch.buffer("result"), scratch.buffer("staging")];
  encoder.copyBufferToBuffer(result, 0, staging, 0, readBytes);
  scratch.timer?.resolve(encoder, staging, readBytes);
  queue.submit([encoder.finish()]);
  const read = await scratch.readPass(readBytes);
  const [words, floats] = [new Uint32Array(read), new Float32Array(read)];
  const isByMatrices = matrixScan !== undefined;
  return { answers: readAnswers(words, call), words, floats, dispatches, readBytes, isByMatrices };
}

interface PassCall {
  readonly scope: SearchScope;
  readonly queries: PassQueries;
  readonly rooms: Rooms;
  readonly token: number;
  readonly maskAt: number;
  readonly exclusionsAt: number;
}

/** The ranges; then the starts and the positions of excluded rows. The mask lies behind these words. */
function scopeWords(
  { rangeWords }: SearchScope,
  { count, mask, exclusions }: PassQueries,
): { readonly words: Uint32Array; readonly maskAt: number; readonly exclusionsAt: number } {
  const exclusionsAt = rangeWords.length;
  const total = exclusions?.reduce((sum, list) => sum + list.length, 0) ?? 0;
  const words = new Uint32Array(exclusionsAt + (exclusions === undefined ? 0 : count + 1 + total));
  words.set(rangeWords);
  let at = 0;
  for (const [index, list] of (exclusions ?? []).entries()) {
    words.set(list, exclusionsAt + count + 1 + at);
    at += list.length;
    words[exclusionsAt + index + 1] = at;
  }
  return {
    words,
    maskAt: mask === undefined ? ABSENT : words.length,
    exclusionsAt: exclusions === undefined ? ABSENT : exclusionsAt,
  };
}

/** One set of parameters per slab, each laid out as `struct Params`. */
function passParams(call: PassCall): Uint32Array {
  const { scope, queries, rooms, token, maskAt, exclusionsAt } = call;
  const words = new Uint32Array((scope.slabs.length * PARAMS_STRIDE) / 4);
  const { dim, codeQuads, valueQuads } = scope.layout;
  const { candidates, finalists } = rooms;
  const exponent = rowExponent(scope.scale);
  for (const [index, { firstSlot, groups }] of scope.slabs.entries()) {
    const at = (index * PARAMS_STRIDE) / 4;
    words.set([firstSlot, groups, scope.extents.length, exponent], at);
    words.set([queries.count, scope.slots, queries.shape.k, token], at + 4);
    words.set([dim, codeQuads, valueQuads, maskAt], at + 8);
    words.set([candidates, finalists, exclusionsAt], at + 12);
  }
  return words;
}

/** Records the kernels; returns the number of dispatches. */
function dispatchAll(
  recorder: StageRecorder,
  { kernels }: GpuDevice,
  call: PassCall & {
    readonly group: GpuBindGroup;
    readonly matrixScan: GpuPipeline | undefined;
  },
): number {
  const { scope, queries, rooms, group, matrixScan } = call;
  const { k, excludedRowsMax = 0 } = queries.shape;
  const isMany = k > K_OF_FEW;
  let dispatches = 0;
  let bound: { readonly pass: GpuComputePass; readonly index: number } | undefined;
  /** Binds a slab and its parameters; a pass that has them keeps them from kernel to kernel. */
  const bind = (pass: GpuComputePass, index: number): void => {
    if (bound?.pass === pass && bound.index === index) return;
    pass.setBindGroup(0, group, [index * PARAMS_STRIDE]);
    pass.setBindGroup(1, scope.slabs[index]!.slab.bindGroup);
    bound = { pass, index };
  };
  const perSlab = (
    pass: GpuComputePass,
    pipeline: GpuPipeline,
    dispatch: (groups: number) => void,
  ): void => {
    pass.setPipeline(pipeline);
    for (const [index, { groups }] of scope.slabs.entries()) {
      bind(pass, index);
      dispatch(groups);
      dispatches += 1;
    }
  };
  const perQuery = (pass: GpuComputePass, pipeline: GpuPipeline, workgroups: number): void => {
    pass.setPipeline(pipeline);
    bind(pass, 0);
    pass.dispatchWorkgroups(workgroups, queries.count);
    dispatches += 1;
  };
  const scan = recorder.stage("scan");
  if (matrixScan === undefined) {
    const kernel = queries.count === 1 ? kernels.scanOne : kernels.scanTile;
    perSlab(scan, kernel, (groups) => dispatchGrid(scan, groups));
  } else {
    perSlab(scan, matrixScan, (groups) => scan.dispatchWorkgroups(tensorWorkgroups(groups)));
  }
  const select = recorder.stage("select");
  if (excludedRowsMax > 0) {
    // A dimension of the grid is limited; the kernel strides over rows beyond it.
    const workgroups = Math.ceil(excludedRowsMax / ROW_THREADS);
    perQuery(select, kernels.exclude, Math.min(workgroups, GRID_WIDTH));
  }
  const isLong = isMany || scope.slots > SLOTS_OF_FEW;
  perQuery(select, isLong ? kernels.selectMany : kernels.select, 1);
  const sift = recorder.stage("sift");
  perSlab(sift, kernels.sift, (groups) => dispatchGrid(sift, Math.ceil(groups / SIFT_GROUPS)));
  const score = recorder.stage("score");
  const scoring = scoreWorkgroups(k, queries.count);
  perSlab(score, kernels.score, () => score.dispatchWorkgroups(scoring, queries.count));
  const order = recorder.stage("order");
  perQuery(order, isMany ? kernels.listMany : kernels.list, 1);
  perQuery(order, kernels.rank, Math.ceil(rooms.finalists / ROW_THREADS));
  return dispatches;
}

/**
 * Workgroups that score the candidates of one query; they take turns where there are more. Random tables
 * have three or four times k candidates.
 */
function scoreWorkgroups(k: number, queries: number): number {
  const forUsual = Math.ceil((4 * k) / (ROW_THREADS / SCORE_LANES));
  return Math.max(1, Math.min(forUsual, Math.ceil(SCORE_WORKGROUPS / queries)));
}

/** Dispatches `workgroups` in a grid of a fixed width. */
export function dispatchGrid(pass: GpuComputePass, workgroups: number): void {
  pass.dispatchWorkgroups(Math.min(workgroups, GRID_WIDTH), Math.ceil(workgroups / GRID_WIDTH));
}

function readAnswers(words: Uint32Array, { queries, rooms, token }: PassCall): PassAnswer[] {
  const { count, shape } = queries;
  return Array.from({ length: count }, (_, index) => {
    const head = index * RESULT_HEAD_WORDS;
    if (words[head + 3] !== token) {
      throw new WinnowError("INTERNAL", "The GPU did not do what it was given");
    }
    const [scoredRows, finalists] = [words[head + 1]!, words[head + 2]!];
    const hadRoom = scoredRows <= rooms.candidates && finalists <= rooms.finalists;
    const rowsAt = count * RESULT_HEAD_WORDS + index * shape.k * CANDIDATE_WORDS;
    return {
      keptGroups: words[head]!,
      scoredRows,
      length: hadRoom ? Math.min(finalists, shape.k) : undefined,
      rowsAt,
      scoresAt: rowsAt + shape.k,
    };
  });
}
