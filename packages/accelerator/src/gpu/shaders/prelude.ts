// The kernels of a search, in WGSL. Groups of 128 rows have one number each, their *slot*, counted
// through all slabs that one call searches; `position` = slot · 128 + row within the group.
//
//   scan     per group and query: the largest int8 product, hence bounds of its best score
//   exclude  a group that holds an excluded row of a query promises nothing to that query
//   select   per query: the k-th largest lower bound; no row below it can be among the best k
//   rescore  per group and query whose upper bound reaches it: every row in float32, with its error
//   finish   per query: the same selection among rows; what remains are the finalists
//   score    the finalists' canonical scores in integers (soft-float.ts)
//   exact    the canonical scores of all rows, for queries that the bounds cannot serve
//
// The proof is in docs/gpu.md; each constant below names its part of it. Bounds are compared as
// integers whose order is that of the floats; 0 is below every float and stands for "no row".

/** Rows of a group; also the threads that scan it. */
export const GROUP_ROWS = 128;
/** Workgroups of a dispatch in x; more go to y. */
export const GRID_WIDTH = 32_768;
/** Queries that one pass over a group's codes serves in the batch variant of `scan`. */
export const SCAN_TILE = 8;
/** Threads of the kernels that work on one query. */
export const SELECT_THREADS = 256;
/** Threads of the kernels that work on single rows. */
export const ROW_THREADS = 64;
/** Words of a query's head in the result: kept groups, finalists, token, unused. */
export const RESULT_HEAD_WORDS = 4;
/** Words of a finalist in the result: position, then its float64 score, low word first. */
export const FINALIST_WORDS = 3;

/** What every kernel knows: parameters, buffers, and which rows may be returned. */
export const PRELUDE: string = /* wgsl */ `
requires packed_4x8_integer_dot_product;

struct Params {
  firstSlot: u32, groups: u32, rows: u32, exponent: i32,
  queries: u32, slots: u32, k: u32, token: u32,
  dim: u32, codeQuads: u32, valueQuads: u32, hasMask: u32,
  keptRoom: u32, finalRoom: u32, exclusions: u32, exactQuery: u32,
  exactFirst: u32, exactCount: u32, valueFactor: f32, unused: u32,
}

// query: per query 1 + codeQuads + 2 · valueQuads quads: (step, norm, error norm, slack), int8 codes,
// the values scaled by a power of two, the values as they are.
// filter: the mask if there is one (4 words per slot); then queries + 1 starts, and positions.
// bounds: lower [queries, slots], then upper [queries, slots].
// kept: per query its threshold and its number of kept groups; then slots [queries, keptRoom].
// rough: lower and upper of rows, [queries, keptRoom · 128].
// codes: per group (step, error norm, norm, exponent) of its rows, then int8 codes [codeQuads, 128].
// values: float32 bits [rows, valueQuads].
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> filter_words: array<u32>;
@group(0) @binding(3) var<storage, read_write> bounds: array<u32>;
@group(0) @binding(4) var<storage, read_write> kept: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> rough: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> result: array<u32>;
@group(1) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(1) @binding(1) var<storage, read> values: array<vec4<u32>>;

/** Integers in the order of finite floats; never 0. */
fn ordered(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) != 0u);
}

fn queryQuads() -> u32 { return 1u + params.codeQuads + 2u * params.valueQuads; }
fn groupOf(workgroup: vec3<u32>) -> u32 { return workgroup.y * ${GRID_WIDTH}u + workgroup.x; }

/** Whether the slab has this row of the group, and the mask, if any, admits it. */
fn isAdmitted(group: u32, lane: u32) -> bool {
  if (group * ${GROUP_ROWS}u + lane >= params.rows) { return false; }
  if (params.hasMask == 0u) { return true; }
  let word = filter_words[(params.firstSlot + group) * 4u + (lane >> 5u)];
  return ((word >> (lane & 31u)) & 1u) != 0u;
}
`;
