// The kernels that score rows canonically, for the candidates of the bounds (`score`) and for all rows
// (`exact`; see prelude.ts). A score takes eight threads: one for each lane of canonical-score.ts.

import { GROUP_ROWS, HEAD_WORDS, PRELUDE, ROW_THREADS, SCORE_LANES } from "./prelude.ts";
import { SOFT_FLOAT } from "./soft-float.ts";

/** Rows that a workgroup scores at once. */
const ROWS_AT_ONCE = ROW_THREADS / SCORE_LANES;

const CANONICAL = /* wgsl */ `
${PRELUDE}
${SOFT_FLOAT}
var<workgroup> sums: array<Wide, ${ROW_THREADS}>;

/** Adds the sum of the thread so many places on to the thread's own. */
fn addFrom(thread: u32, lane: u32, distance: u32) {
  if (lane < distance) { sums[thread] = wideSum(sums[thread], sums[thread + distance]); }
  workgroupBarrier();
}

/**
 * The bits of the canonical score of canonical-score.ts, in the thread of lane 0; zero if there is
 * no row. All threads of the workgroup call it.
 */
fn canonical(thread: u32, queryIndex: u32, row: u32, isRow: bool) -> u32 {
  let lane = thread % ${SCORE_LANES}u;
  let x = queryIndex * queryQuads() + 1u + params.codeQuads;
  let y = row * params.valueQuads;
  let end = select(0u, params.dim, isRow);
  var sum = WIDE_ZERO;
  for (var j = lane; j < end; j += ${SCORE_LANES}u) {
    sum = wideSum(sum, wideProduct(query[x + (j >> 2u)][j & 3u], values[y + (j >> 2u)][j & 3u]));
  }
  sums[thread] = sum;
  workgroupBarrier();
  addFrom(thread, lane, 4u);
  addFrom(thread, lane, 2u);
  addFrom(thread, lane, 1u);
  return wideRounded32(sums[thread]);
}
`;

/** The canonical scores of the candidates that lie in this slab. */
export const SCORE_SHADER: string = /* wgsl */ `
${CANONICAL}
var<workgroup> candidates: u32;

@compute @workgroup_size(${ROW_THREADS})
fn main(
  @builtin(local_invocation_index) thread: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) grid: vec3<u32>,
) {
  let queryIndex = workgroup.y;
  if (thread == 0u) {
    candidates = min(atomicLoad(&heads[queryIndex * ${HEAD_WORDS}u + 1u]), params.room);
  }
  let count = workgroupUniformLoad(&candidates);
  let list = queryIndex * (params.room + params.finalRoom);
  for (var first = workgroup.x * ${ROWS_AT_ONCE}u; first < count; first += grid.x * ${ROWS_AT_ONCE}u) {
    let at = first + thread / ${SCORE_LANES}u;
    var position = 0u;
    var isHere = at < count;
    if (isHere) { position = found[list + at].x; }
    let slot = position / ${GROUP_ROWS}u;
    isHere = isHere && slot >= params.firstSlot && slot < params.firstSlot + params.groups;
    let row = groupAt(rangeOf(slot), slot) * ${GROUP_ROWS}u + position % ${GROUP_ROWS}u;
    let score = canonical(thread, queryIndex, row, isHere);
    if (isHere && thread % ${SCORE_LANES}u == 0u) { found[list + at].y = score; }
    workgroupBarrier();
  }
}
`;

/** Canonical scores of consecutive rows of a slab for one query; the token follows them. */
export const EXACT_SHADER: string = /* wgsl */ `
${CANONICAL}
@compute @workgroup_size(${ROW_THREADS})
fn main(
  @builtin(local_invocation_index) thread: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let index = groupOf(workgroup) * ${ROWS_AT_ONCE}u + thread / ${SCORE_LANES}u;
  let isRow = index < params.exactCount;
  let score = canonical(thread, 0u, params.exactFirst + index, isRow);
  if (!isRow || thread % ${SCORE_LANES}u != 0u) { return; }
  result[index] = score;
  if (index == 0u) { result[params.exactCount] = params.token; }
}
`;

/** Workgroups of `exact` for so many rows. */
export function exactWorkgroups(rows: number): number {
  return Math.ceil(rows / ROWS_AT_ONCE);
}
