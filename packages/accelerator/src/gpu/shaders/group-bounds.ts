// The kernels that bound scores by the products of codes: `scan` and `exclude` bound the best score of
// each group, `sift` that of each row of the groups that are left (see prelude.ts).

import {
  ABSENT,
  BOUND_MARGIN,
  GROUP_ROWS,
  HEAD_WORDS,
  PRELUDE,
  ROW_THREADS,
  SIFT_GROUPS,
} from "./prelude.ts";

/** `text` for each number from 0 to `count` - 1. */
function times(count: number, text: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => text(index)).join("\n");
}

/** The product of 16 codes of a row with those of a query. */
const QUAD_PRODUCT = /* wgsl */ `
fn quadProduct(c: vec4<u32>, p: vec4<u32>) -> i32 {
  return dot4I8Packed(c.x, p.x) + dot4I8Packed(c.y, p.y)
    + dot4I8Packed(c.z, p.z) + dot4I8Packed(c.w, p.w);
}
`;

/** The head of a query, where queries are read in quads. */
const QUERY_HEAD = /* wgsl */ `
fn queryHead(queryIndex: u32) -> vec4<u32> { return query[queryIndex * queryQuads()]; }
`;

/** WGSL of `boundsOf` and its parts; whoever uses it provides `queryHead`. */
export const BOUNDS: string = /* wgsl */ `
const NOTHING = -0x7fffffff;
/**
 * Zero where a float cannot hold it; the slack covers what is lost. Chosen among integers: a device may
 * assume that no float is ever NaN, even one that a select throws away.
 */
fn powerOfTwo(exponent: i32) -> f32 {
  return bitcast<f32>(select(0u, u32(exponent + 127) << 23u, exponent >= -126));
}

/** Step, error norm and norm of a group's rows. */
fn groupHead(group: u32) -> vec3<f32> {
  let head = codes[group * (1u + params.codeQuads * ${GROUP_ROWS}u)];
  return bitcast<vec3<f32>>(head.xyz) * powerOfTwo(bitcast<i32>(head.w) + params.exponent);
}

/** Bounds, as ordered bits, of the score of a row with this product of codes: for heads of query and group. */
fn boundsBetween(q: vec4<f32>, g: vec3<f32>, product: i32) -> vec2<u32> {
  let estimate = q.x * g.x * f32(product);
  // Cauchy-Schwarz for what the codes leave out; 2^-30 covers the order of the query's float64 sums.
  let error = q.y * g.y + q.z * g.z + q.y * (g.y + g.z) * 0x1p-30;
  let reach = error + (abs(estimate) + error) * ${BOUND_MARGIN}f + q.w;
  return vec2<u32>(ordered(estimate - reach), ordered(estimate + reach));
}

/** The same for a query and a group by their numbers. */
fn boundsOf(queryIndex: u32, group: u32, product: i32) -> vec2<u32> {
  return boundsBetween(bitcast<vec4<f32>>(queryHead(queryIndex)), groupHead(group), product);
}
`;

/** How a scan is cut. */
export interface ScanShape {
  /** Queries that one reading of the codes serves. */
  readonly tile: number;
  /** Rows of each thread. */
  readonly rowsEach: number;
  /** Quads of codes that a thread has under way at once. */
  readonly quadsAtOnce: number;
}

/**
 * Offers a thread's product to the group's largest. WGSL defines a subgroup operation over the lanes
 * that happen to be active, and a GPU whose lanes have diverged (`isAdmitted` returns early) need
 * not have reconverged. So no lane is elected to offer for the others: a lane offers its product if
 * that is the largest among the lanes it was compared with, and the largest of all is among these.
 */
function offerBest(index: number, { rowsEach }: ScanShape, hasSubgroups: boolean): string {
  const rows = Array.from({ length: rowsEach }, (_, row) => row);
  const own = rows
    .map((row) => `select(NOTHING, best${index}x${row}, admitted${row})`)
    .reduce((most, each) => `max(${most}, ${each})`);
  return hasSubgroups
    ? `{ let own = ${own}; if (own == subgroupMax(own)) { atomicMax(&best[${index}], own); } }`
    : `atomicMax(&best[${index}], ${own});`;
}

/** Adds the products of some quads of codes for all queries of the tile and all rows of the thread. */
function addProducts(
  { tile, rowsEach }: Pick<ScanShape, "tile" | "rowsEach">,
  quads: number,
): string {
  const stride = GROUP_ROWS / rowsEach;
  const load = (row: number, quad: number): string =>
    `let c${row}x${quad} = codes[base + (quad + ${quad}u) * ${GROUP_ROWS}u + ${row * stride}u];`;
  const product = (index: number, quad: number): string => `{
    let p = query[(first + ${index}u) * queryQuads() + 1u + quad + ${quad}u];
    ${times(rowsEach, (row) => `best${index}x${row} += quadProduct(c${row}x${quad}, p);`)}
  }`;
  return `
    ${times(quads, (quad) => times(rowsEach, (row) => load(row, quad)))}
    ${times(tile, (index) => times(quads, (quad) => product(index, quad)))}
    quad += ${quads}u;`;
}

/** The scan for a tile of queries at a time, with or without subgroup operations. */
export function scanShader(shape: ScanShape, hasSubgroups: boolean): string {
  const { tile, rowsEach, quadsAtOnce } = shape;
  const threads = GROUP_ROWS / rowsEach;
  return /* wgsl */ `
${hasSubgroups ? "enable subgroups;" : ""}
${PRELUDE}
${QUAD_PRODUCT}
${QUERY_HEAD}
${BOUNDS}
var<workgroup> best: array<atomic<i32>, ${tile}>;

@compute @workgroup_size(${threads})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let index = groupOf(workgroup);
  if (index >= params.groups) { return; }
  let slot = params.firstSlot + index;
  let range = rangeOf(slot);
  let group = groupAt(range, slot);
  let base = group * (1u + params.codeQuads * ${GROUP_ROWS}u) + 1u + lane;
  ${times(rowsEach, (row) => `let admitted${row} = isAdmitted(range, slot, lane + ${row * threads}u);`)}
  if (lane < ${tile}u) { atomicStore(&best[lane], NOTHING); }
  workgroupBarrier();
  for (var first = 0u; first < params.queries; first += ${tile}u) {
    ${times(tile, (at) => times(rowsEach, (row) => `var best${at}x${row} = 0;`))}
    var quad = 0u;
    ${quadsAtOnce > 1 ? `while (quad + ${quadsAtOnce}u <= params.codeQuads) { ${addProducts(shape, quadsAtOnce)} }` : ""}
    while (quad < params.codeQuads) { ${addProducts(shape, 1)} }
    ${times(tile, (at) => offerBest(at, shape, hasSubgroups))}
    workgroupBarrier();
    if (lane < ${tile}u) {
      let queryIndex = first + lane;
      let product = atomicLoad(&best[lane]);
      if (queryIndex < params.queries) {
        let at = queryIndex * params.slots + slot;
        let reach = select(boundsOf(queryIndex, group, product), vec2<u32>(0u), product == NOTHING);
        bounds[at] = reach.x;
        bounds[at + params.queries * params.slots] = reach.y;
      }
      atomicStore(&best[lane], NOTHING);
    }
    workgroupBarrier();
  }
}
`;
}

/**
 * Sets the lower bounds of groups with excluded rows to 0: a thread per excluded row and query, or
 * for several rows where the grid ends. Only the first of a group's rows writes, because two
 * threads that write to one place would be a data race, even with the same value.
 */
export const EXCLUDE_SHADER: string = /* wgsl */ `
${PRELUDE}
@compute @workgroup_size(${ROW_THREADS})
fn main(
  @builtin(global_invocation_id) id: vec3<u32>,
  @builtin(num_workgroups) grid: vec3<u32>,
) {
  let list = params.exclusions + params.queries + 1u;
  let first = scopeWords[params.exclusions + id.y];
  let end = scopeWords[params.exclusions + id.y + 1u];
  for (var at = first + id.x; at < end; at += grid.x * ${ROW_THREADS}u) {
    let slot = scopeWords[list + at] / ${GROUP_ROWS}u;
    if (at > first && scopeWords[list + at - 1u] / ${GROUP_ROWS}u == slot) { continue; }
    bounds[id.y * params.slots + slot] = 0u;
  }
}
`;

/**
 * Lists each query's candidates: rows whose upper bound reaches its threshold, in groups whose does. A
 * workgroup reads the bounds of some groups for up to 128 queries at a time, then takes the pairs
 * that are left one by one, a thread per row.
 */
export const SIFT_SHADER: string = /* wgsl */ `
${PRELUDE}
${QUAD_PRODUCT}
${QUERY_HEAD}
${BOUNDS}
const AT_ONCE = ${GROUP_ROWS}u / ${SIFT_GROUPS}u;
var<workgroup> listed: atomic<u32>;
var<workgroup> listedTotal: u32;
var<workgroup> thresholds: array<u32, ${GROUP_ROWS}>;
var<workgroup> pairs: array<u32, ${GROUP_ROWS * SIFT_GROUPS}>;

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

fn offerRow(queryIndex: u32, slot: u32, lane: u32) {
  let range = rangeOf(slot);
  if (!isAdmitted(range, slot, lane)) { return; }
  let group = groupAt(range, slot);
  let base = group * (1u + params.codeQuads * ${GROUP_ROWS}u) + 1u + lane;
  let queryAt = queryIndex * queryQuads() + 1u;
  var product = 0;
  var quad = 0u;
  while (quad + 4u <= params.codeQuads) {
    let c0 = codes[base + quad * ${GROUP_ROWS}u];
    let c1 = codes[base + (quad + 1u) * ${GROUP_ROWS}u];
    let c2 = codes[base + (quad + 2u) * ${GROUP_ROWS}u];
    let c3 = codes[base + (quad + 3u) * ${GROUP_ROWS}u];
    product += quadProduct(c0, query[queryAt + quad]) + quadProduct(c1, query[queryAt + quad + 1u])
      + quadProduct(c2, query[queryAt + quad + 2u]) + quadProduct(c3, query[queryAt + quad + 3u]);
    quad += 4u;
  }
  while (quad < params.codeQuads) {
    product += quadProduct(codes[base + quad * ${GROUP_ROWS}u], query[queryAt + quad]);
    quad += 1u;
  }
  if (boundsOf(queryIndex, group, product).y < thresholds[queryIndex % ${GROUP_ROWS}u]) { return; }
  let position = slot * ${GROUP_ROWS}u + lane;
  if (isExcluded(queryIndex, position)) { return; }
  let place = atomicAdd(&heads[queryIndex * ${HEAD_WORDS}u + 1u], 1u);
  if (place >= params.room) { return; }
  found[queryIndex * (params.room + params.finalRoom) + place] = vec2<u32>(position, 0u);
}

/** The upper bound of the thread's group for its query of this turn; 0 if there is none. */
fn upperOf(first: u32, turn: u32, turns: u32, lane: u32, firstSlot: u32) -> u32 {
  let queryIndex = first + turn * AT_ONCE + lane / ${SIFT_GROUPS}u;
  if (turn >= turns || queryIndex >= params.queries) { return 0u; }
  return bounds[(params.queries + queryIndex) * params.slots + firstSlot + lane % ${SIFT_GROUPS}u];
}

/** Lists the group for the query if its bound reaches the threshold. */
fn offerGroup(upper: u32, first: u32, turn: u32, lane: u32) {
  let at = turn * AT_ONCE + lane / ${SIFT_GROUPS}u;
  if (upper < thresholds[at]) { return; }
  pairs[atomicAdd(&listed, 1u)] = (first + at) * ${SIFT_GROUPS}u + lane % ${SIFT_GROUPS}u;
  atomicAdd(&heads[(first + at) * ${HEAD_WORDS}u + 2u], 1u);
}

@compute @workgroup_size(${GROUP_ROWS})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
) {
  let index = groupOf(workgroup) * ${SIFT_GROUPS}u;
  if (index >= params.groups) { return; }
  let firstSlot = params.firstSlot + index;
  let mine = lane % ${SIFT_GROUPS}u;
  let isSlot = index + mine < params.groups;
  for (var first = 0u; first < params.queries; first += ${GROUP_ROWS}u) {
    if (lane == 0u) { atomicStore(&listed, 0u); }
    thresholds[lane] = 0xffffffffu;
    if (first + lane < params.queries) {
      thresholds[lane] = atomicLoad(&heads[(first + lane) * ${HEAD_WORDS}u]);
    }
    workgroupBarrier();
    let turns = min(params.queries - first + AT_ONCE - 1u, ${GROUP_ROWS}u) / AT_ONCE;
    ${times(SIFT_GROUPS, (turn) => `let upper${turn} = upperOf(first, ${turn}u, turns, lane, firstSlot);`)}
    if (isSlot) {
      ${times(SIFT_GROUPS, (turn) => `offerGroup(upper${turn}, first, ${turn}u, lane);`)}
    }
    workgroupBarrier();
    if (lane == 0u) { listedTotal = atomicLoad(&listed); }
    let total = workgroupUniformLoad(&listedTotal);
    for (var at = 0u; at < total; at += 1u) {
      let pair = pairs[at];
      offerRow(pair / ${SIFT_GROUPS}u, firstSlot + pair % ${SIFT_GROUPS}u, lane);
    }
    workgroupBarrier();
  }
}
`;
