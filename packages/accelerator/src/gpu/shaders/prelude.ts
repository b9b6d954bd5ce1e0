// The kernels of a search, in WGSL. Groups of 128 rows lie in slabs, which partitions share. Each
// group that a search covers has a number, its *slot*, counted slab by slab; *ranges* say which
// slots are which consecutive groups; `position` = slot · 128 + row within the group.
//
//   scan     per group and query: the largest int8 product, hence bounds of its best score
//   exclude  per query: a group that holds an excluded row gets no lower bound (0)
//   select   per query: a threshold that k lower bounds reach; no row below it is among the best k
//   sift     per group and query whose upper bound reaches it: its rows whose own upper bound does
//   score    the canonical scores of these candidates, in integers (soft-float.ts)
//   list     per query: the candidates that may be among the best k by their scores
//   rank     per query: the best k of these, score descending, then row ascending
//   exact    the canonical scores of all rows, for queries that the bounds cannot serve
//
// The proof is in docs/gpu.md; each constant below names its part of it. Bounds are compared as
// integers whose order is that of the floats; 0 is below every float and stands for "no row".

/** The largest int8 code; the smallest is its negative. */
export const CODE_MAX = 127;
/** Rows of a group; also the threads that scan it. */
export const GROUP_ROWS = 128;
/** Workgroups of a dispatch in x; more go to y. */
export const GRID_WIDTH = 32_768;
/** Queries of one pass over the device, at most. */
export const PASS_QUERIES_MAX = 256;
/** Queries that a scan reads together, at most: their buffer is a multiple of so many. */
export const QUERY_TILE = 64;
/** Queries that one pass over a group's codes serves in the batch variant of `scan`. */
export const SCAN_TILE = 8;
/** Rows of a thread there. */
export const SCAN_ROWS = 4;
/** Quads of codes that a thread of the scan has under way at once. */
export const QUADS_AT_ONCE = { hardware: 4, software: 1 } as const;
/** Threads of the kernels that work on one query: every device has workgroups of so many. */
export const SELECT_THREADS = 256;
/** Threads for a large k; devices with smaller workgroups have fewer. */
export const SELECT_THREADS_MAX = 1024;
/** Keys that each thread of these kernels keeps in registers. */
export const SELECT_KEYS = 16;
/** Threads of the kernels that work on single rows. */
export const ROW_THREADS = 64;
/** Threads that compute a canonical score: one for each of its lanes (canonical-score.ts). */
export const SCORE_LANES = 8;
/** Candidates at most that `list` takes as finalists without looking for a threshold. */
export const ORDER_AT_ONCE = 1024;
/** Groups whose bounds a workgroup of `sift` reads. */
export const SIFT_GROUPS = 8;
/** Words of a range: first slot, first group in its slab, rows, first global row. */
export const RANGE_WORDS = 4;
/** Words of a query's head on the device: threshold, candidates, kept groups. */
export const HEAD_WORDS = 3;
/** Words of a query's head in the result: kept groups, candidates, finalists, token. Rows and scores lie behind all heads. */
export const RESULT_HEAD_WORDS = 4;
/** Words of a row of the answer: its number, and the bits of its score behind all numbers. */
export const CANDIDATE_WORDS = 2;
/**
 * What `scan` adds to the reach of a bound, relative to the estimate and its error. It covers the
 * roundings of a dozen operations, each off by up to 2^-23 (WGSL leaves the direction open), and of
 * the canonical score.
 */
export const BOUND_MARGIN: number = 2 ** -19;
/** The value of a parameter that says: no mask, or no excluded rows. */
export const ABSENT = 0xffffffff;

/** What all kernels share: parameters, buffers, and which rows may be returned. */
export const PRELUDE: string = /* wgsl */ `
requires packed_4x8_integer_dot_product;

struct Params {
  firstSlot: u32, groups: u32, ranges: u32, exponent: i32,
  queries: u32, slots: u32, k: u32, token: u32,
  dim: u32, codeQuads: u32, valueQuads: u32, mask: u32,
  room: u32, finalRoom: u32, exclusions: u32, exactFirst: u32,
  exactCount: u32, unused0: u32, unused1: u32, unused2: u32,
}

// query: per query 1 + codeQuads + valueQuads quads: (step, norm, error norm, slack), int8 codes, the
// values as they are.
// scopeWords: the ranges; at params.mask 4 words per slot; at params.exclusions queries + 1 starts, and
// positions.
// bounds: lower [queries, slots], then upper [queries, slots].
// heads: per query its threshold, its number of candidates, its number of kept groups.
// found: per query its candidates (position, bits of the score) [room], then its finalists (global row,
// ordered bits of the score) [finalRoom].
// codes: per group (step, error norm, norm, exponent) of its rows, then int8 codes [codeQuads, 128].
// values: float32 bits [rows, valueQuads].
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scopeWords: array<u32>;
@group(0) @binding(3) var<storage, read_write> bounds: array<u32>;
@group(0) @binding(4) var<storage, read_write> heads: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> found: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> result: array<u32>;
@group(1) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(1) @binding(1) var<storage, read> values: array<vec4<u32>>;

/** Integers in the order of finite floats; never 0. */
fn ordered(value: f32) -> u32 { return orderedBits(bitcast<u32>(value)); }
fn orderedBits(bits: u32) -> u32 {
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) != 0u);
}

fn queryQuads() -> u32 { return 1u + params.codeQuads + params.valueQuads; }
fn groupOf(workgroup: vec3<u32>) -> u32 { return workgroup.y * ${GRID_WIDTH}u + workgroup.x; }

struct Range { firstSlot: u32, firstGroup: u32, rows: u32, firstRow: u32 }

/** The range that holds a slot: the last one that begins at or before it. */
fn rangeOf(slot: u32) -> Range {
  var low = 0u;
  var high = params.ranges;
  while (low + 1u < high) {
    let middle = (low + high) / 2u;
    if (scopeWords[middle * ${RANGE_WORDS}u] <= slot) { low = middle; } else { high = middle; }
  }
  let at = low * ${RANGE_WORDS}u;
  return Range(scopeWords[at], scopeWords[at + 1u], scopeWords[at + 2u], scopeWords[at + 3u]);
}

/** The group of a slot, in its slab. */
fn groupAt(range: Range, slot: u32) -> u32 { return range.firstGroup + slot - range.firstSlot; }

/** Whether the range has this row of the slot's group, and the mask, if any, admits it. */
fn isAdmitted(range: Range, slot: u32, lane: u32) -> bool {
  if ((slot - range.firstSlot) * ${GROUP_ROWS}u + lane >= range.rows) { return false; }
  if (params.mask == ${ABSENT}u) { return true; }
  let word = scopeWords[params.mask + slot * 4u + (lane >> 5u)];
  return ((word >> (lane & 31u)) & 1u) != 0u;
}
`;
