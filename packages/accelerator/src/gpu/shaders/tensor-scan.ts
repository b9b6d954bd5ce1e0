// The scan on matrix units ("tensor cores"), for batches: the same bounds, bit for bit, as those of
// group-bounds.ts, since integer products are exact however they are computed. WGSL has matrix units as
// an experiment of Dawn's (`chromium-experimental-subgroup-matrix`), so a device that offers them is
// asked to agree with the other scan before they are used (search/matrix-scans.ts).
//
// A subgroup of 32 threads keeps 64 queries in registers as matrices of 8 queries × 32 codes, while groups
// of 128 rows pass by in matrices of 16 rows. A WGSL matrix shows its elements only through memory, so
// products go through the workgroup's.

import { BOUNDS } from "./group-bounds.ts";
import { ABSENT, GROUP_ROWS, PRELUDE, QUERY_TILE } from "./prelude.ts";

/** Threads of a workgroup, and of the subgroups that it needs. */
export const TENSOR_THREADS = 32;
/** Rows, queries and codes of the matrices. */
const MATRIX = { rows: 16, queries: 8, codes: 32 } as const;
/** Quads of codes at most: those of the queries are in registers. */
const QUADS_MAX = 8;
/** Workgroups of a dispatch: enough for the largest devices, so few that each keeps its queries long. */
const WORKGROUPS_MAX = 2048;

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

/** The scan of rows of `codeQuads` quads of codes. */
export function tensorScanShader(codeQuads: number): string {
  const across = codeQuads / 2;
  const down = QUERY_TILE / MATRIX.queries;
  // More than a row: else the rows of a matrix would lie in the same banks of memory.
  const rowWords = codeQuads * 4 + 4;
  const productWords = QUERY_TILE + 8;
  const left = `subgroup_matrix_left<i8, ${MATRIX.codes}, ${MATRIX.rows}>`;
  const right = `subgroup_matrix_right<i8, ${MATRIX.queries}, ${MATRIX.codes}>`;
  const result = `subgroup_matrix_result<i32, ${MATRIX.queries}, ${MATRIX.rows}>`;
  const readQueries = (m: number, n: number): string =>
    `let b${m}x${n} = subgroupMatrixLoad<${right}, col_major>(&queryWords, queryAt + ${m * MATRIX.queries}u * queryWordsEach + ${n * 8}u, queryWordsEach);`;
  const readRows = (n: number): string =>
    `let a${n} = subgroupMatrixLoad<${left}, row_major>(&rowCodes, firstRow * ${rowWords}u + ${n * 8}u, ${rowWords}u);`;
  const multiply = (m: number): string => `{
          var sum = ${result}();
          ${times(across, (n) => `sum = subgroupMatrixMultiplyAccumulate(a${n}, b${m}x${n}, sum);`)}
          subgroupMatrixStore<row_major>(&products, ${m * MATRIX.queries}u, sum, ${productWords}u);
        }`;
  return /* wgsl */ `
enable subgroups;
enable chromium_experimental_subgroup_matrix;
${PRELUDE.replace("var<storage, read> query: array<vec4<u32>>", "var<storage, read> queryWords: array<i32>")}
fn queryHead(queryIndex: u32) -> vec4<u32> {
  let at = queryIndex * queryQuads() * 4u;
  return bitcast<vec4<u32>>(
    vec4<i32>(queryWords[at], queryWords[at + 1u], queryWords[at + 2u], queryWords[at + 3u]));
}
${BOUNDS}
var<workgroup> rowCodes: array<i32, ${GROUP_ROWS * rowWords}>;
var<workgroup> products: array<i32, ${MATRIX.rows * productWords}>;

/** A bit for each of 32 rows of a slot's group: whether it may be returned. */
fn admittedWord(range: Range, slot: u32, word: u32) -> u32 {
  let first = (slot - range.firstSlot) * ${GROUP_ROWS}u + word * 32u;
  if (first >= range.rows) { return 0u; }
  let bits = 0xffffffffu >> (32u - min(range.rows - first, 32u));
  if (params.mask == ${ABSENT}u) { return bits; }
  return bits & scopeWords[params.mask + slot * 4u + word];
}

@compute @workgroup_size(${TENSOR_THREADS})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) grid: vec3<u32>,
) {
  let queryWordsEach = queryQuads() * 4u;
  for (var first = 0u; first < params.queries; first += ${QUERY_TILE}u) {
    let queryAt = first * queryWordsEach + 4u;
    ${times(down, (m) => times(across, (n) => readQueries(m, n)))}
    for (var index = workgroup.x; index < params.groups; index += grid.x) {
      let slot = params.firstSlot + index;
      let range = rangeOf(slot);
      let group = groupAt(range, slot);
      let base = group * (1u + params.codeQuads * ${GROUP_ROWS}u) + 1u + lane;
      ${times(4, (part) =>
        times(
          codeQuads,
          (quad) => `{
        let c = bitcast<vec4<i32>>(codes[base + ${quad * GROUP_ROWS + part * 32}u]);
        let at = (lane + ${part * 32}u) * ${rowWords}u + ${quad * 4}u;
        rowCodes[at] = c.x;
        rowCodes[at + 1u] = c.y;
        rowCodes[at + 2u] = c.z;
        rowCodes[at + 3u] = c.w;
      }`,
        ),
      )}
      workgroupBarrier();
      var most0 = NOTHING;
      var most1 = NOTHING;
      for (var firstRow = 0u; firstRow < ${GROUP_ROWS}u; firstRow += ${MATRIX.rows}u) {
        ${times(across, readRows)}
        ${times(down, multiply)}
        workgroupBarrier();
        let admitted = admittedWord(range, slot, firstRow / 32u) >> (firstRow % 32u);
        for (var row = 0u; row < ${MATRIX.rows}u; row += 1u) {
          let isAdmitted = ((admitted >> row) & 1u) != 0u;
          let at = row * ${productWords}u + lane;
          most0 = max(most0, select(NOTHING, products[at], isAdmitted));
          most1 = max(most1, select(NOTHING, products[at + 32u], isAdmitted));
        }
        workgroupBarrier();
      }
      for (var half = 0u; half < 2u; half += 1u) {
        let queryIndex = first + half * 32u + lane;
        if (queryIndex >= params.queries) { break; }
        let product = select(most0, most1, half == 1u);
        let at = queryIndex * params.slots + slot;
        let reach = select(boundsOf(queryIndex, group, product), vec2<u32>(0u), product == NOTHING);
        bounds[at] = reach.x;
        bounds[at + params.queries * params.slots] = reach.y;
      }
    }
  }
}
`;
}
