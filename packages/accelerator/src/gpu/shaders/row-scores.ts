// The kernels that score rows: `rescore` in float32 with its error, `score` and `exact` canonically
// (see prelude.ts).

import {
  ABSENT,
  FINALIST_WORDS,
  GROUP_ROWS,
  PRELUDE,
  RESULT_HEAD_WORDS,
  ROUGH_UNITS,
  ROW_THREADS,
} from "./prelude.ts";
import { SOFT_FLOAT } from "./soft-float.ts";

/** Float32 scores, with bounds of their error, of all rows of the groups that a query keeps. */
export const RESCORE_SHADER: string = /* wgsl */ `
${PRELUDE}
var<workgroup> listed: atomic<u32>;
var<workgroup> listedTotal: u32;
var<workgroup> queries: array<u32, ${GROUP_ROWS}>;
var<workgroup> places: array<u32, ${GROUP_ROWS}>;

/** Whether the row at this position is excluded for the query: a search in its ascending list. */
fn isExcluded(queryIndex: u32, position: u32) -> bool {
  if (params.exclusions == ${ABSENT}u) { return false; }
  let list = params.exclusions + params.queries + 1u;
  var low = scopeWords[params.exclusions + queryIndex];
  let end = scopeWords[params.exclusions + queryIndex + 1u];
  var high = end;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (scopeWords[list + middle] < position) { low = middle + 1u; } else { high = middle; }
  }
  return low < end && scopeWords[list + low] == position;
}

fn roughBounds(queryIndex: u32, row: u32) -> vec2<u32> {
  let head = queryIndex * queryQuads();
  let queryAt = head + 1u + params.codeQuads;
  var sum = vec4<f32>(0.0);
  var magnitude = vec4<f32>(0.0);
  for (var quad = 0u; quad < params.valueQuads; quad += 1u) {
    let x = bitcast<vec4<f32>>(query[queryAt + quad]);
    let y = bitcast<vec4<f32>>(values[row * params.valueQuads + quad]) * params.valueFactor;
    sum += x * y;
    magnitude += abs(x * y);
  }
  let score = (sum.x + sum.y) + (sum.z + sum.w);
  let total = (magnitude.x + magnitude.y) + (magnitude.z + magnitude.w);
  // Any order of additions, fused or not, and the canonical score's own rounding.
  let units = ${ROUGH_UNITS.perValue}u * params.dim + ${ROUGH_UNITS.more}u;
  let relative = f32(units) * 0x1p-23;
  let reach = relative * total + bitcast<vec4<f32>>(query[head]).w;
  return vec2<u32>(ordered(score - reach), ordered(score + reach));
}

@compute @workgroup_size(${GROUP_ROWS})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let index = groupOf(workgroup);
  if (index >= params.groups) { return; }
  let slot = params.firstSlot + index;
  let range = rangeOf(slot);
  let row = groupAt(range, slot) * ${GROUP_ROWS}u + lane;
  let admitted = isAdmitted(range, slot, lane);
  for (var first = 0u; first < params.queries; first += ${GROUP_ROWS}u) {
    if (lane == 0u) { atomicStore(&listed, 0u); }
    workgroupBarrier();
    let mine = first + lane;
    if (mine < params.queries) {
      let upper = bounds[(params.queries + mine) * params.slots + slot];
      if (upper >= atomicLoad(&kept[mine * 2u])) {
        let place = atomicAdd(&kept[mine * 2u + 1u], 1u);
        if (place < params.keptRoom) {
          atomicStore(&kept[params.queries * 2u + mine * params.keptRoom + place], slot);
          let at = atomicAdd(&listed, 1u);
          queries[at] = mine;
          places[at] = place;
        }
      }
    }
    workgroupBarrier();
    if (lane == 0u) { listedTotal = atomicLoad(&listed); }
    let total = workgroupUniformLoad(&listedTotal);
    for (var at = 0u; at < total; at += 1u) {
      var reach = vec2<u32>(0u);
      if (admitted && !isExcluded(queries[at], slot * ${GROUP_ROWS}u + lane)) {
        reach = roughBounds(queries[at], row);
      }
      rough[(queries[at] * params.keptRoom + places[at]) * ${GROUP_ROWS}u + lane] = reach;
    }
    workgroupBarrier();
  }
}
`;

const CANONICAL = /* wgsl */ `
${PRELUDE}
${SOFT_FLOAT}
/** The bits of the canonical score of canonical-score.ts. */
fn canonical(queryIndex: u32, row: u32) -> u32 {
  let x = queryIndex * queryQuads() + 1u + params.codeQuads + params.valueQuads;
  let y = row * params.valueQuads;
  var lanes: array<Wide, 8>;
  for (var lane = 0u; lane < 8u; lane += 1u) {
    var sum = WIDE_ZERO;
    for (var j = lane; j < params.dim; j += 8u) {
      sum = wideSum(sum, wideProduct(query[x + (j >> 2u)][j & 3u], values[y + (j >> 2u)][j & 3u]));
    }
    lanes[lane] = sum;
  }
  let even = wideSum(wideSum(lanes[0], lanes[4]), wideSum(lanes[2], lanes[6]));
  let odd = wideSum(wideSum(lanes[1], lanes[5]), wideSum(lanes[3], lanes[7]));
  return wideRounded32(wideSum(even, odd));
}
`;

/** Rows and canonical scores of the finalists that lie in this slab: one thread per finalist. */
export const SCORE_SHADER: string = /* wgsl */ `
${CANONICAL}
@compute @workgroup_size(${ROW_THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let finalists = min(result[id.y * ${RESULT_HEAD_WORDS}u + 1u], params.finalRoom);
  if (id.x >= finalists) { return; }
  let list = params.queries * (2u + params.keptRoom);
  let at = list + (id.y * params.finalRoom + id.x) * ${FINALIST_WORDS}u;
  let position = atomicLoad(&kept[at]);
  let slot = position / ${GROUP_ROWS}u;
  if (slot < params.firstSlot || slot >= params.firstSlot + params.groups) { return; }
  let range = rangeOf(slot);
  let lane = position % ${GROUP_ROWS}u;
  let row = range.firstRow + (slot - range.firstSlot) * ${GROUP_ROWS}u + lane;
  atomicStore(&kept[at + 1u], row);
  atomicStore(&kept[at + 2u], canonical(id.y, groupAt(range, slot) * ${GROUP_ROWS}u + lane));
}
`;

/** Canonical scores of consecutive rows of a slab for one query; the token follows them. */
export const EXACT_SHADER: string = /* wgsl */ `
${CANONICAL}
@compute @workgroup_size(${ROW_THREADS})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let index = groupOf(workgroup) * ${ROW_THREADS}u + lane;
  if (index >= params.exactCount) { return; }
  result[index] = canonical(0u, params.exactFirst + index);
  if (index == 0u) { result[params.exactCount] = params.token; }
}
`;
