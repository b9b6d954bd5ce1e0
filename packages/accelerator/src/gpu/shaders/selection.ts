// The kernels that choose per query: `select` a threshold among groups; among scored candidates, `list`
// the finalists and `rank` the answer (see prelude.ts).

import {
  CANDIDATE_WORDS,
  GROUP_ROWS,
  HEAD_WORDS,
  ORDER_AT_ONCE,
  PRELUDE,
  RESULT_HEAD_WORDS,
  ROW_THREADS,
  SELECT_KEYS,
} from "./prelude.ts";

/** What these kernels are compiled for. */
export interface SelectShape {
  readonly threads: number;
  readonly hasSubgroups: boolean;
}

/** Bits of a threshold that are looked for; those below are 0, which can only lower it. */
const THRESHOLD_BITS = 24;

/** `text` for each register. */
function keys(text: (register: number) => string): string {
  return Array.from({ length: SELECT_KEYS }, (_, register) => text(register)).join("\n");
}

/**
 * WGSL of `reachedByK`: a number, as large as can be told quickly, that at least k of `count`
 * integers reach; at least 1, also where there are fewer than k, so that 0 ("no row") is always
 * below it. `key` is the WGSL of the integer at `index`. Integers are dealt out to registers, of which
 * each keeps the largest; where every register has one integer at most and `THRESHOLD_BITS` tell them
 * apart, the number is the k-th largest. All threads of the workgroup call it.
 */
function reachedByK(key: string, { threads, hasSubgroups }: SelectShape): string {
  const count = hasSubgroups
    ? `let together = subgroupAdd(own);
      if (subgroupElect()) { atomicAdd(&reached[step], together); }`
    : "if (own > 0u) { atomicAdd(&reached[step], own); }";
  return /* wgsl */ `
var<workgroup> reached: array<atomic<u32>, ${THRESHOLD_BITS}>;

fn reachedByK(lane: u32, queryIndex: u32, count: u32) -> u32 {
  ${keys((at) => `var key${at} = 0u;`)}
  for (var first = lane; first < count; first += ${SELECT_KEYS * threads}u) {
    ${keys((at) => `{ let index = first + ${at * threads}u; if (index < count) { key${at} = max(key${at}, ${key}); } }`)}
  }
  if (lane < ${THRESHOLD_BITS}u) { atomicStore(&reached[lane], 0u); }
  workgroupBarrier();
  var threshold = 0u;
  for (var step = 0u; step < ${THRESHOLD_BITS}u; step += 1u) {
    let tried = threshold | (0x80000000u >> step);
    var own = 0u;
    ${keys((at) => `own += u32(key${at} >= tried);`)}
    ${count}
    workgroupBarrier();
    if (atomicLoad(&reached[step]) >= params.k) { threshold = tried; }
  }
  return max(threshold, 1u);
}
`;
}

const enabled = ({ hasSubgroups }: SelectShape): string =>
  hasSubgroups ? "enable subgroups;" : "";

/** Computes each query's threshold among groups, from their lower bounds. */
export function selectShader(shape: SelectShape): string {
  return /* wgsl */ `
${enabled(shape)}
${PRELUDE}
${reachedByK("bounds[queryIndex * params.slots + index]", shape)}
@compute @workgroup_size(${shape.threads})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let threshold = reachedByK(lane, workgroup.y, params.slots);
  if (lane == 0u) { atomicStore(&heads[workgroup.y * ${HEAD_WORDS}u], threshold); }
}
`;
}

/** Lists each query's finalists: the candidates whose scores reach a threshold that k scores reach. */
export function listShader(shape: SelectShape): string {
  const { threads } = shape;
  return /* wgsl */ `
${enabled(shape)}
${PRELUDE}
${reachedByK("orderedBits(found[queryIndex * (params.room + params.finalRoom) + index].y)", shape)}
var<workgroup> candidates: u32;
var<workgroup> listed: atomic<u32>;

@compute @workgroup_size(${threads})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let queryIndex = workgroup.y;
  let head = queryIndex * ${RESULT_HEAD_WORDS}u;
  let list = queryIndex * (params.room + params.finalRoom);
  let finals = list + params.room;
  if (lane == 0u) {
    let all = atomicLoad(&heads[queryIndex * ${HEAD_WORDS}u + 1u]);
    result[head] = atomicLoad(&heads[queryIndex * ${HEAD_WORDS}u + 2u]);
    result[head + 1u] = all;
    candidates = min(all, params.room);
    atomicStore(&listed, 0u);
  }
  let count = workgroupUniformLoad(&candidates);
  var threshold = 0u;
  if (count > ${ORDER_AT_ONCE}u) { threshold = reachedByK(lane, queryIndex, count); }
  for (var index = lane; index < count; index += ${threads}u) {
    let candidate = found[list + index];
    let key = orderedBits(candidate.y);
    if (key < threshold) { continue; }
    let place = atomicAdd(&listed, 1u);
    if (place >= params.finalRoom) { continue; }
    let slot = candidate.x / ${GROUP_ROWS}u;
    let range = rangeOf(slot);
    let row = range.firstRow + (slot - range.firstSlot) * ${GROUP_ROWS}u + candidate.x % ${GROUP_ROWS}u;
    found[finals + place] = vec2<u32>(row, key);
  }
  workgroupBarrier();
  if (lane == 0u) { result[head + 2u] = atomicLoad(&listed); }
}
`;
}

/** Finalists that a workgroup of `rank` has at hand at once. */
const RIVALS = 512;
/** Rivals that a thread compares with in a turn of its loop, so that their loads overlap. */
const RIVALS_A_TURN = 8;

/** Writes each query's best k finalists at their rank: the number of finalists before them. A thread ranks one. */
export const RANK_SHADER: string = /* wgsl */ `
${PRELUDE}
var<workgroup> finalists: u32;
var<workgroup> rivals: array<vec2<u32>, ${RIVALS}>;

fn scoreBits(key: u32) -> u32 { return select(~key, key & 0x7fffffffu, (key >> 31u) != 0u); }

@compute @workgroup_size(${ROW_THREADS})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) grid: vec3<u32>,
) {
  let queryIndex = workgroup.y;
  let head = queryIndex * ${RESULT_HEAD_WORDS}u;
  let finals = queryIndex * (params.room + params.finalRoom) + params.room;
  if (lane == 0u) {
    finalists = min(result[head + 2u], params.finalRoom);
    if (workgroup.x == 0u) { result[head + 3u] = params.token; }
  }
  let total = workgroupUniformLoad(&finalists);
  let rows = params.queries * ${RESULT_HEAD_WORDS}u + queryIndex * params.k * ${CANDIDATE_WORDS}u;
  for (var first = workgroup.x * ${ROW_THREADS}u; first < total; first += grid.x * ${ROW_THREADS}u) {
    let index = first + lane;
    var own = vec2<u32>(0u);
    if (index < total) { own = found[finals + index]; }
    var rank = 0u;
    for (var other = 0u; other < total; other += ${RIVALS}u) {
      workgroupBarrier();
      for (var at = lane; at < ${RIVALS}u; at += ${ROW_THREADS}u) {
        // No key is 0: who is absent comes before nobody.
        rivals[at] = vec2<u32>(0u);
        if (other + at < total) { rivals[at] = found[finals + other + at]; }
      }
      workgroupBarrier();
      let end = min(total - other, ${RIVALS}u);
      for (var at = 0u; at < end; at += ${RIVALS_A_TURN}u) {
        ${Array.from(
          { length: RIVALS_A_TURN },
          (_, turn) => `{
          let rival = rivals[at + ${turn}u];
          rank += u32(rival.y > own.y || (rival.y == own.y && rival.x < own.x));
        }`,
        ).join("\n")}
      }
    }
    if (index < total && rank < params.k) {
      result[rows + rank] = own.x;
      result[rows + params.k + rank] = scoreBits(own.y);
    }
  }
}
`;
