// The scan on matrix units ("tensor cores"), for batches: the same bounds, bit for bit, as those of
// group-bounds.ts, since integer products are exact however they are computed. WGSL has matrix units as
// an experiment of Dawn's (`chromium-experimental-subgroup-matrix`), so a device that offers them is
// asked to agree with the other scan before they are used (search/matrix-scans.ts).
//
// A subgroup of 32 threads keeps 64 queries in registers as matrices of 8 queries × 32 codes, while groups
// of 128 rows pass by in matrices of 16 rows. A WGSL matrix shows its elements only through memory, so
// products go through the workgroup's. The less of that memory a workgroup takes, the more of them share a
// processor, and that is what hides their waiting: hence the codes of 32 rows at once, whose
// successors are on their way into registers meanwhile, and the products of 32 queries at once.

import { BOUNDS } from "./group-bounds.ts";
import { ABSENT, GROUP_ROWS, PRELUDE, QUERY_TILE } from "./prelude.ts";

/** Threads of a workgroup, and of the subgroups that it needs. */
export const TENSOR_THREADS = 32;
/** Rows, queries and codes of the matrices. */
const MATRIX = { rows: 16, queries: 8, codes: 32 } as const;
/** Quads of codes at most: those of the queries are in registers. */
const QUADS_MAX = 8;
/**
 * Workgroups of a dispatch: enough for the largest devices, so few that each keeps its queries long. On an
 * H100 (132 processors) twice as many as run at once.
 */
const WORKGROUPS_MAX = 3168;

/** Whether rows of so many quads of codes can be scanned: whole matrices, few enough. */
export function fitsMatrices(codeQuads: number): boolean {
  return codeQuads % 2 === 0 && codeQuads <= QUADS_MAX;
}

/** Workgroups for so many groups of rows. */
export function tensorWorkgroups(groups: number): number {
  return Math.min(groups, WORKGROUPS_MAX);
}

/** `text` for each number from 0 to `count` - 1. */
function times(count: number, text: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => text(index)).join("\n");
}

/** Parts of a group whose codes are in the workgroup's memory by turns: a row for each thread. */
const PARTS = GROUP_ROWS / TENSOR_THREADS;
/** Parts of the queries whose products are there by turns: a query for each thread. */
const HALVES = QUERY_TILE / TENSOR_THREADS;
/** Matrices of queries in such a part. */
const DOWN = TENSOR_THREADS / MATRIX.queries;
/** Words from the products of a row to those of the next: else they would lie in the same banks of memory. */
const PRODUCT_WORDS = TENSOR_THREADS + 8;
/** Words from the codes of a row to those of the next, likewise. */
const rowWords = (codeQuads: number): number => codeQuads * 4 + 4;

/** Each thread fetches the codes of its row of a part. */
function fetch(codeQuads: number, part: number): string {
  return times(codeQuads, (quad) => {
    const at = quad * GROUP_ROWS + part * TENSOR_THREADS;
    return `next${quad} = codes[nextBase + ${at}u];`;
  });
}

/** Each thread puts what it fetched where all see it. */
function put(codeQuads: number): string {
  return times(
    codeQuads,
    (quad) => `{
        let c = bitcast<vec4<i32>>(next${quad});
        let at = lane * ${rowWords(codeQuads)}u + ${quad * 4}u;
        rowCodes[at] = c.x;
        rowCodes[at + 1u] = c.y;
        rowCodes[at + 2u] = c.z;
        rowCodes[at + 3u] = c.w;
      }`,
  );
}

/** The products of 16 rows with the queries of a half; each thread takes the largest of its query. */
function multiplyHalf(codeQuads: number, half: number, part: number): string {
  const { rows, queries } = MATRIX;
  const result = `subgroup_matrix_result<i32, ${queries}, ${rows}>`;
  const multiply = (m: number): string => `{
          var sum = ${result}();
          ${times(codeQuads / 2, (n) => `sum = subgroupMatrixMultiplyAccumulate(a${n}, b${half * DOWN + m}x${n}, sum);`)}
          subgroupMatrixStore<row_major>(&products, ${m * queries}u, sum, ${PRODUCT_WORDS}u);
        }`;
  const most = `most${half}`;
  return /* wgsl */ `
        ${times(DOWN, multiply)}
        workgroupBarrier();
        if (isWhole) {
          ${times(rows, (at) => `${most} = max(${most}, products[${at * PRODUCT_WORDS}u + lane]);`)}
        } else {
          let admitted = admittedWord(range, slot, ${part}u) >> row;
          for (var at = 0u; at < ${rows}u; at += 1u) {
            let isAdmitted = ((admitted >> at) & 1u) != 0u;
            ${most} = max(${most}, select(NOTHING, products[at * ${PRODUCT_WORDS}u + lane], isAdmitted));
          }
        }
        workgroupBarrier();`;
}

/** The scan of the 32 rows of a part, while the codes of the next part are on their way. */
function scanPart(codeQuads: number, part: number): string {
  const { rows, codes } = MATRIX;
  const left = `subgroup_matrix_left<i8, ${codes}, ${rows}>`;
  const readRows = (n: number): string =>
    `let a${n} = subgroupMatrixLoad<${left}, row_major>(&rowCodes, row * ${rowWords(codeQuads)}u + ${n * 8}u, ${rowWords(codeQuads)}u);`;
  const fetchGroup = /* wgsl */ `if (index + grid.x < params.groups) {
        nextBase = codesOf(params.firstSlot + index + grid.x) + lane;
        ${fetch(codeQuads, 0)}
      }`;
  return /* wgsl */ `{
      ${put(codeQuads)}
      workgroupBarrier();
      ${part + 1 < PARTS ? fetch(codeQuads, part + 1) : fetchGroup}
      for (var row = 0u; row < ${TENSOR_THREADS}u; row += ${rows}u) {
        ${times(codeQuads / 2, readRows)}
        ${times(HALVES, (half) => multiplyHalf(codeQuads, half, part))}
      }
      }`;
}

const FUNCTIONS = /* wgsl */ `
fn queryHead(queryIndex: u32) -> vec4<u32> {
  let at = queryIndex * queryQuads() * 4u;
  return bitcast<vec4<u32>>(
    vec4<i32>(queryWords[at], queryWords[at + 1u], queryWords[at + 2u], queryWords[at + 3u]));
}
${BOUNDS}

/** A bit for each of 32 rows of a slot's group: whether it may be returned. */
fn admittedWord(range: Range, slot: u32, word: u32) -> u32 {
  let first = (slot - range.firstSlot) * ${GROUP_ROWS}u + word * 32u;
  if (first >= range.rows) { return 0u; }
  let bits = 0xffffffffu >> (32u - min(range.rows - first, 32u));
  if (params.mask == ${ABSENT}u) { return bits; }
  return bits & scopeWords[params.mask + slot * 4u + word];
}

/** The first quad of codes of a slot's group. */
fn codesOf(slot: u32) -> u32 {
  return groupAt(rangeOf(slot), slot) * (1u + params.codeQuads * ${GROUP_ROWS}u) + 1u;
}

fn write(queryIndex: u32, slot: u32, reach: vec2<u32>) {
  let at = queryIndex * params.slots + slot;
  bounds[at] = reach.x;
  bounds[at + params.queries * params.slots] = reach.y;
}
`;

/** A thread's query of a half, and its head. */
function readHead(half: number): string {
  return `let query${half} = first + ${half * TENSOR_THREADS}u + lane;
    let head${half} = bitcast<vec4<f32>>(queryHead(min(query${half}, params.queries - 1u)));`;
}

/** Writes the bounds of a group for a thread's query of a half. */
function writeBounds(half: number): string {
  return `if (query${half} < params.queries) {
        let reach = boundsBetween(head${half}, group, most${half});
        write(query${half}, slot, select(reach, vec2<u32>(0u), most${half} == NOTHING));
      }`;
}

/** The scan of rows of `codeQuads` quads of codes. */
export function tensorScanShader(codeQuads: number): string {
  const right = `subgroup_matrix_right<i8, ${MATRIX.queries}, ${MATRIX.codes}>`;
  const readQueries = (m: number, n: number): string =>
    `let b${m}x${n} = subgroupMatrixLoad<${right}, col_major>(&queryWords, queryAt + ${m * MATRIX.queries}u * queryWordsEach + ${n * 8}u, queryWordsEach);`;
  return /* wgsl */ `
enable subgroups;
enable chromium_experimental_subgroup_matrix;
${PRELUDE.replace("var<storage, read> query: array<vec4<u32>>", "var<storage, read> queryWords: array<i32>")}
${FUNCTIONS}
var<workgroup> rowCodes: array<i32, ${TENSOR_THREADS * rowWords(codeQuads)}>;
var<workgroup> products: array<i32, ${MATRIX.rows * PRODUCT_WORDS}>;

@compute @workgroup_size(${TENSOR_THREADS})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) grid: vec3<u32>,
) {
  let queryWordsEach = queryQuads() * 4u;
  for (var first = 0u; first < params.queries; first += ${QUERY_TILE}u) {
    let queryAt = first * queryWordsEach + 4u;
    ${times(HALVES * DOWN, (m) => times(codeQuads / 2, (n) => readQueries(m, n)))}
    ${times(HALVES, readHead)}
    ${times(codeQuads, (quad) => `var next${quad} = vec4<u32>(0u);`)}
    var nextBase = codesOf(params.firstSlot + workgroup.x) + lane;
    ${fetch(codeQuads, 0)}
    for (var index = workgroup.x; index < params.groups; index += grid.x) {
      let slot = params.firstSlot + index;
      let range = rangeOf(slot);
      let isWhole = params.mask == ${ABSENT}u && (slot - range.firstSlot + 1u) * ${GROUP_ROWS}u <= range.rows;
      ${times(HALVES, (half) => `var most${half} = NOTHING;`)}
      ${times(PARTS, (part) => scanPart(codeQuads, part))}
      let group = groupHead(groupAt(range, slot));
      ${times(HALVES, writeBounds)}
    }
  }
}
`;
}
