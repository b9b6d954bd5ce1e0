// One pass of the fast path: some queries over all slabs in one submission, which returns some 800
// bytes per query at k = 100. The result is the answer, in order, or says that there was no room
// for all possible candidates; such a query takes the exact path.

import { WinnowError } from "@winnow/core";
import { rowExponent } from "../codes.ts";
import type { GpuDevice } from "../device/device.ts";
import { PARAMS_STRIDE } from "../device/kernels.ts";
import { passSizes, roomsOf } from "./pass-rooms.ts";
import type { PassShape, Rooms } from "./pass-rooms.ts";
import type { Scratch } from "./scratch.ts";
import { untimed } from "../stage-timer.ts";
import type { StageRecorder } from "../stage-timer.ts";
import type { SearchScope } from "./search-scope.ts";
import {
  ABSENT,
  CANDIDATE_WORDS,
  GRID_WIDTH,
  RESULT_HEAD_WORDS,
  ROW_THREADS,
} from "../shaders/prelude.ts";
import type { GpuBindGroup, GpuComputePass, GpuPipeline } from "../webgpu-api.ts";

/** Encoded queries of one pass. */
export interface PassQueries {
  readonly shape: PassShape;
  readonly count: number;
  /** `[count, queryQuads · 4]`. */
  readonly words: Uint32Array;
  /** Per query: ascending positions of excluded rows; `undefined` if no query excludes rows. */
  readonly exclusions: readonly Uint32Array[] | undefined;
  readonly mask: Uint32Array | undefined;
}

/** What a pass found for one query. */
export interface PassAnswer {
  readonly keptGroups: number;
  readonly finalists: number;
  /**
   * `[count, 2]`: rows and bits of scores in the order of the answer; `undefined` if there was no
   * room for all rows that might belong to it.
   */
  readonly candidates: Uint32Array | undefined;
}

/** The answers of a pass, and its cost. */
export interface PassOutcome {
  readonly answers: readonly PassAnswer[];
  readonly dispatches: number;
  /** Bytes read back from the device. */
  readonly readBytes: number;
}

let lastToken = 0;

/** A number by which the results of this submission differ from what a buffer held before. */
export function nextToken(): number {
  lastToken = (lastToken % 0xfffffffe) + 1;
  return lastToken;
}

/** Runs one pass. */
export async function runPass(
  device: GpuDevice,
  { scope, queries }: { readonly scope: SearchScope; readonly queries: PassQueries },
  scratch: Scratch,
): Promise<PassOutcome> {
  const { count, shape } = queries;
  const sizes = passSizes(scope, shape, count);
  await scratch.reserve(sizes);
  const described = scopeWords(scope, queries);
  const call = { scope, queries, rooms: roomsOf(scope, shape), token: nextToken(), ...described };
  const { queue } = device.connection;
  queue.writeBuffer(scratch.buffer("query"), 0, queries.words);
  queue.writeBuffer(scratch.buffer("scope"), 0, described.words);
  queue.writeBuffer(scratch.buffer("params"), 0, passParams(call));
  const encoder = device.connection.createCommandEncoder();
  encoder.clearBuffer(scratch.buffer("kept"), 0, count * 8);
  const recorder = scratch.timer?.record(encoder) ?? untimed(encoder);
  const dispatches = dispatchAll(recorder, device, { ...call, group: scratch.bindGroup() });
  recorder.end();
  const readBytes = sizes.result!;
  const [result, staging] = [scratch.buffer("result"), scratch.buffer("staging")];
  encoder.copyBufferToBuffer(result, 0, staging, 0, readBytes);
  queue.submit([encoder.finish()]);
  const words = new Uint32Array(await scratch.read(Math.ceil(readBytes / 8) * 8));
  await scratch.timer?.add();
  return { answers: readAnswers(words, call), dispatches, readBytes };
}

interface PassCall {
  readonly scope: SearchScope;
  readonly queries: PassQueries;
  readonly rooms: Rooms;
  readonly token: number;
  readonly maskAt: number;
  readonly exclusionsAt: number;
}

/** The ranges; then the mask; then the starts and the positions of excluded rows. */
function scopeWords(
  { rangeWords }: SearchScope,
  { count, mask, exclusions }: PassQueries,
): { readonly words: Uint32Array; readonly maskAt: number; readonly exclusionsAt: number } {
  const maskAt = rangeWords.length;
  const exclusionsAt = maskAt + (mask?.length ?? 0);
  const total = exclusions?.reduce((sum, list) => sum + list.length, 0) ?? 0;
  const words = new Uint32Array(exclusionsAt + (exclusions === undefined ? 0 : count + 1 + total));
  words.set(rangeWords);
  if (mask !== undefined) words.set(mask, maskAt);
  let at = 0;
  for (const [index, list] of (exclusions ?? []).entries()) {
    words.set(list, exclusionsAt + count + 1 + at);
    at += list.length;
    words[exclusionsAt + index + 1] = at;
  }
  return {
    words,
    maskAt: mask === undefined ? ABSENT : maskAt,
    exclusionsAt: exclusions === undefined ? ABSENT : exclusionsAt,
  };
}

/** One set of parameters per slab, each laid out as `struct Params`. */
function passParams(call: PassCall): Uint32Array {
  const { scope, queries, rooms, token, maskAt, exclusionsAt } = call;
  const words = new Uint32Array((scope.slabs.length * PARAMS_STRIDE) / 4);
  const floats = new Float32Array(words.buffer);
  const { dim, codeQuads, valueQuads } = scope.layout;
  const exponent = rowExponent(scope.scale);
  for (const [index, { firstSlot, groups }] of scope.slabs.entries()) {
    const at = (index * PARAMS_STRIDE) / 4;
    words.set([firstSlot, groups, scope.extents.length, exponent], at);
    words.set([queries.count, scope.slots, queries.shape.k, token], at + 4);
    words.set([dim, codeQuads, valueQuads, maskAt], at + 8);
    words.set([rooms.kept, rooms.final, exclusionsAt], at + 12);
    floats[at + 17] = 2 ** exponent;
  }
  return words;
}

/** Records the kernels; returns the number of dispatches. */
function dispatchAll(
  recorder: StageRecorder,
  { kernels }: GpuDevice,
  call: PassCall & { readonly group: GpuBindGroup },
): number {
  const { scope, queries, rooms, group } = call;
  const { excludedRowsMax = 0 } = queries.shape;
  let dispatches = 0;
  const perSlab = (
    pass: GpuComputePass,
    pipeline: GpuPipeline,
    dispatch: (groups: number) => void,
  ): void => {
    pass.setPipeline(pipeline);
    for (const [index, { slab, groups }] of scope.slabs.entries()) {
      pass.setBindGroup(0, group, [index * PARAMS_STRIDE]);
      pass.setBindGroup(1, slab.bindGroup);
      dispatch(groups);
      dispatches += 1;
    }
  };
  const perQuery = (pass: GpuComputePass, pipeline: GpuPipeline, workgroups: number): void => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group, [0]);
    pass.setBindGroup(1, scope.slabs[0]!.slab.bindGroup);
    pass.dispatchWorkgroups(workgroups, queries.count);
    dispatches += 1;
  };
  const scan = recorder.stage("scan");
  const scanKernel = queries.count === 1 ? kernels.scanOne : kernels.scanTile;
  perSlab(scan, scanKernel, (groups) => dispatchGrid(scan, groups));
  const select = recorder.stage("select");
  if (excludedRowsMax > 0) {
    // A dimension of the grid is limited; the kernel strides over rows beyond it.
    const workgroups = Math.ceil(excludedRowsMax / ROW_THREADS);
    perQuery(select, kernels.exclude, Math.min(workgroups, GRID_WIDTH));
  }
  perQuery(select, kernels.select, 1);
  const rescore = recorder.stage("rescore");
  perSlab(rescore, kernels.rescore, (groups) => dispatchGrid(rescore, groups));
  perQuery(recorder.stage("finish"), kernels.finish, 1);
  const score = recorder.stage("score");
  const finalGroups = Math.ceil(rooms.final / ROW_THREADS);
  perSlab(score, kernels.score, () => score.dispatchWorkgroups(finalGroups, queries.count));
  perQuery(recorder.stage("order"), kernels.order, 1);
  return dispatches;
}

/** Dispatches `workgroups` in a grid of a fixed width. */
export function dispatchGrid(pass: GpuComputePass, workgroups: number): void {
  pass.dispatchWorkgroups(Math.min(workgroups, GRID_WIDTH), Math.ceil(workgroups / GRID_WIDTH));
}

function readAnswers(words: Uint32Array, { queries, rooms, token }: PassCall): PassAnswer[] {
  const { count, shape } = queries;
  return Array.from({ length: count }, (_, index) => {
    const [keptGroups = 0, finalists = 0, found] = words.subarray(index * RESULT_HEAD_WORDS);
    if (found !== token) throw new WinnowError("INTERNAL", "The GPU did not do what it was given");
    if (keptGroups > rooms.kept || finalists > rooms.final) {
      return { keptGroups, finalists, candidates: undefined };
    }
    const at = count * RESULT_HEAD_WORDS + index * shape.k * CANDIDATE_WORDS;
    const length = Math.min(finalists, shape.k) * CANDIDATE_WORDS;
    return { keptGroups, finalists, candidates: words.subarray(at, at + length) };
  });
}
