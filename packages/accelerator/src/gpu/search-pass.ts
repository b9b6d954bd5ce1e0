// One pass of the fast path: some queries through all slabs in one submission, and a kilobyte or two
// back for each. What comes back is either every row that can belong to the answer, with its exact
// score, or the news that there was no room for them: then the query goes the exact path.

import { WinnowError } from "@winnow/core";
import { rowExponent } from "./codes.ts";
import type { GpuDevice } from "./device.ts";
import { PARAMS_STRIDE } from "./kernels.ts";
import type { Scratch } from "./scratch.ts";
import { untimed } from "./stage-timer.ts";
import type { StageRecorder } from "./stage-timer.ts";
import type { SearchScope } from "./search-scope.ts";
import {
  FINALIST_WORDS,
  GRID_WIDTH,
  GROUP_ROWS,
  RESULT_HEAD_WORDS,
  ROW_THREADS,
  SCAN_TILE,
} from "./shaders/prelude.ts";
import type { GpuBindGroup, GpuComputePass, GpuPipeline } from "./webgpu-api.ts";

/** Queries that go together at most. */
const QUERIES_MAX = 64;
/** Groups with excluded rows that there is room for at most; they are often among the best. */
const EXCLUDED_GROUPS_MAX = 4096;
/** The parameter that says there are no excluded rows. */
const NO_EXCLUSIONS = 0xffffffff;

/** Encoded queries of one pass. */
export interface PassQueries {
  readonly count: number;
  /** `[count, queryQuads · 4]`. */
  readonly words: Uint32Array;
  readonly k: number;
  /** Per query: ascending positions of excluded rows; or none for all. */
  readonly exclusions: readonly (readonly number[])[] | undefined;
  readonly mask: Uint32Array | undefined;
}

/** What a pass found for one query. */
export interface PassAnswer {
  readonly keptGroups: number;
  readonly finalists: number;
  /** Positions and float64 scores of all finalists, or undefined if there was no room for them. */
  readonly candidates:
    { readonly positions: Uint32Array; readonly scores: Float64Array } | undefined;
}

/** Rooms of one query. */
interface Rooms {
  /** Groups that may be rescored. */
  readonly kept: number;
  /** Rows that may be scored canonically. */
  readonly final: number;
}

/** What a query keeps, with room to spare: groups by a factor that random tables stay far below. */
function roomsOf(scope: SearchScope, k: number, excludedRows: number): Rooms {
  const spared = Math.min(excludedRows, EXCLUDED_GROUPS_MAX);
  const kept = Math.min(scope.slots, 12 * k + 64 + spared);
  return { kept, final: Math.min(kept * GROUP_ROWS, k + Math.ceil(k / 8) + 64) };
}

function bytesPerQuery(scope: SearchScope, { kept, final }: Rooms): Record<string, number> {
  return {
    query: scope.layout.queryQuads * 16,
    bounds: scope.slots * 8,
    kept: 8 + kept * 4,
    rough: kept * GROUP_ROWS * 8,
    result: 4 * (RESULT_HEAD_WORDS + final * FINALIST_WORDS),
  };
}

/** How many queries may go together, from 1. */
export function passQueries(
  scope: SearchScope,
  query: { readonly k: number; readonly excludedRowsMax: number },
  limits: { readonly scratchBytes: number; readonly bufferBytes: number },
): number {
  const bytes = Object.values(bytesPerQuery(scope, roomsOf(scope, query.k, query.excludedRowsMax)));
  const total = bytes.reduce((sum, each) => sum + each, 0);
  const byScratch = Math.floor(limits.scratchBytes / total);
  const byBuffer = Math.floor(limits.bufferBytes / Math.max(...bytes));
  return Math.max(1, Math.min(QUERIES_MAX, byScratch, byBuffer));
}

let lastToken = 0;

/** A number that tells this submission's results from what a buffer held before. */
export function nextToken(): number {
  lastToken = (lastToken % 0xfffffffe) + 1;
  return lastToken;
}

/** Runs one pass. */
export async function runPass(
  device: GpuDevice,
  { scope, queries }: { readonly scope: SearchScope; readonly queries: PassQueries },
  scratch: Scratch,
): Promise<PassAnswer[]> {
  const excludedMax = Math.max(0, ...(queries.exclusions ?? []).map((list) => list.length));
  const rooms = roomsOf(scope, queries.k, excludedMax);
  const filter = filterWords(queries);
  const per = bytesPerQuery(scope, rooms);
  const { count } = queries;
  const padded = Math.ceil(count / SCAN_TILE) * SCAN_TILE;
  const resultBytes = per["result"]! * count;
  await scratch.reserve({
    params: scope.slabs.length * PARAMS_STRIDE,
    query: per["query"]! * padded,
    filter: filter.words.byteLength,
    bounds: per["bounds"]! * count,
    kept: per["kept"]! * count,
    rough: per["rough"]! * count,
    result: resultBytes,
    staging: resultBytes,
  });
  const token = nextToken();
  const { queue } = device.connection;
  queue.writeBuffer(scratch.buffer("query"), 0, queries.words);
  queue.writeBuffer(scratch.buffer("filter"), 0, filter.words);
  const call = { scope, queries, rooms, token, exclusionsAt: filter.exclusionsAt };
  queue.writeBuffer(scratch.buffer("params"), 0, passParams(call));
  const encoder = device.connection.createCommandEncoder();
  encoder.clearBuffer(scratch.buffer("kept"), 0, count * 8);
  const recorder = scratch.timer?.record(encoder) ?? untimed(encoder);
  dispatchAll(recorder, device, { ...call, group: scratch.bindGroup(), excludedMax });
  recorder.end();
  encoder.copyBufferToBuffer(
    scratch.buffer("result"),
    0,
    scratch.buffer("staging"),
    0,
    resultBytes,
  );
  queue.submit([encoder.finish()]);
  const result = await scratch.read(resultBytes);
  await scratch.timer?.add();
  return readAnswers(result, call);
}

interface PassCall {
  readonly scope: SearchScope;
  readonly queries: PassQueries;
  readonly rooms: Rooms;
  readonly token: number;
  readonly exclusionsAt: number;
}

/** The mask, then the starts and positions of excluded rows. */
function filterWords({ count, mask, exclusions }: PassQueries): {
  readonly words: Uint32Array;
  readonly exclusionsAt: number;
} {
  const maskLength = mask?.length ?? 0;
  const total = exclusions?.reduce((sum, list) => sum + list.length, 0) ?? 0;
  const words = new Uint32Array(maskLength + (exclusions === undefined ? 0 : count + 1 + total));
  if (mask !== undefined) words.set(mask);
  if (exclusions === undefined) return { words, exclusionsAt: NO_EXCLUSIONS };
  let at = 0;
  for (const [index, list] of exclusions.entries()) {
    words.set(list, maskLength + count + 1 + at);
    at += list.length;
    words[maskLength + index + 1] = at;
  }
  return { words, exclusionsAt: maskLength };
}

/** One set of parameters per slab, in the order of `struct Params`. */
function passParams({ scope, queries, rooms, token, exclusionsAt }: PassCall): Uint32Array {
  const words = new Uint32Array((scope.slabs.length * PARAMS_STRIDE) / 4);
  const floats = new Float32Array(words.buffer);
  const { dim, codeQuads, valueQuads } = scope.layout;
  const exponent = rowExponent(scope.scale);
  for (const [index, { slab, firstSlot }] of scope.slabs.entries()) {
    const at = (index * PARAMS_STRIDE) / 4;
    words.set([firstSlot, slab.groups, slab.rows, exponent], at);
    words.set([queries.count, scope.slots, queries.k, token], at + 4);
    words.set([dim, codeQuads, valueQuads, queries.mask === undefined ? 0 : 1], at + 8);
    words.set([rooms.kept, rooms.final, exclusionsAt, 0], at + 12);
    floats[at + 18] = 2 ** exponent;
  }
  return words;
}

function dispatchAll(
  recorder: StageRecorder,
  { kernels }: GpuDevice,
  call: PassCall & { readonly group: GpuBindGroup; readonly excludedMax: number },
): void {
  const { scope, queries, rooms, group, excludedMax } = call;
  const perSlab = (
    pass: GpuComputePass,
    pipeline: GpuPipeline,
    dispatch: (groups: number) => void,
  ): void => {
    pass.setPipeline(pipeline);
    for (const [index, { slab }] of scope.slabs.entries()) {
      pass.setBindGroup(0, group, [index * PARAMS_STRIDE]);
      pass.setBindGroup(1, slab.bindGroup);
      dispatch(slab.groups);
    }
  };
  const perQuery = (pass: GpuComputePass, pipeline: GpuPipeline, workgroups: number): void => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group, [0]);
    pass.setBindGroup(1, scope.slabs[0]!.slab.bindGroup);
    pass.dispatchWorkgroups(workgroups, queries.count);
  };
  const scan = recorder.stage("scan");
  const scanKernel = queries.count === 1 ? kernels.scanOne : kernels.scanTile;
  perSlab(scan, scanKernel, (groups) => dispatchGrid(scan, groups));
  const select = recorder.stage("select");
  if (excludedMax > 0) perQuery(select, kernels.exclude, Math.ceil(excludedMax / ROW_THREADS));
  perQuery(select, kernels.select, 1);
  const rescore = recorder.stage("rescore");
  perSlab(rescore, kernels.rescore, (groups) => dispatchGrid(rescore, groups));
  perQuery(recorder.stage("finish"), kernels.finish, 1);
  const score = recorder.stage("score");
  const finalGroups = Math.ceil(rooms.final / ROW_THREADS);
  perSlab(score, kernels.score, () => score.dispatchWorkgroups(finalGroups, queries.count));
}

/** Dispatches `workgroups` in a grid of a fixed width. */
export function dispatchGrid(pass: GpuComputePass, workgroups: number): void {
  pass.dispatchWorkgroups(Math.min(workgroups, GRID_WIDTH), Math.ceil(workgroups / GRID_WIDTH));
}

function readAnswers(bytes: ArrayBuffer, { queries, rooms, token }: PassCall): PassAnswer[] {
  const words = new Uint32Array(bytes);
  return Array.from({ length: queries.count }, (_, index) => {
    const [keptGroups = 0, finalists = 0, found] = words.subarray(index * RESULT_HEAD_WORDS);
    if (found !== token) throw new WinnowError("INTERNAL", "The GPU did not do what it was given");
    if (keptGroups > rooms.kept || finalists > rooms.final) {
      return { keptGroups, finalists, candidates: undefined };
    }
    const list = queries.count * RESULT_HEAD_WORDS + index * rooms.final * FINALIST_WORDS;
    const positions = new Uint32Array(finalists);
    const scores = new Float64Array(finalists);
    const scoreWords = new Uint32Array(scores.buffer);
    for (let place = 0; place < finalists; place += 1) {
      const at = list + place * FINALIST_WORDS;
      positions[place] = words[at]!;
      scoreWords[2 * place] = words[at + 1]!;
      scoreWords[2 * place + 1] = words[at + 2]!;
    }
    return { keptGroups, finalists, candidates: { positions, scores } };
  });
}
