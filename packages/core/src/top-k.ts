// The order of candidates and the merge of partial answers. Candidates are ordered by score,
// descending, then by global row, ascending (what `tf.math.top_k` does for one table), so the merge
// of partial top-k lists over any cut of a table is the top-k of the whole table.
//
// Scores are canonical float32: never -0. NaN (possible only for a query that is not finite) ranks
// below every number, as -∞ would, and among NaNs the lower row is first.

/** Top-k lists of several queries, packed: query q owns positions [q·k, q·k + counts[q]). */
export interface TopKBlock {
  readonly queries: number;
  /** Room per query; the first `counts[q]` positions of it are filled. */
  readonly k: number;
  readonly counts: Uint32Array;
  /** `[queries, k]`, descending within a query. */
  readonly scores: Float32Array;
  /** `[queries, k]`, global rows of the candidate table. */
  readonly rows: Uint32Array;
}

/** A merged block with the origin of each candidate, by which its id is found. */
export interface MergedTopK extends TopKBlock {
  /** `[queries, k]`: index of the merged block that gave this candidate. */
  readonly blocks: Uint16Array;
  /** `[queries, k]`: its position in that block's arrays. */
  readonly positions: Uint32Array;
}

/** Negative if candidate a comes before candidate b. Total and strict for distinct rows. */
export function compareCandidates(
  a: { readonly score: number; readonly row: number },
  b: { readonly score: number; readonly row: number },
): number {
  if (a.score > b.score) return -1;
  if (a.score < b.score) return 1;
  const nanOrder = Number(Number.isNaN(a.score)) - Number(Number.isNaN(b.score));
  return nanOrder !== 0 ? nanOrder : a.row - b.row;
}

/**
 * Merges partial top-k lists of disjoint parts of one table into the best `k` of each query.
 * Every block must answer the same queries; a block may hold fewer or more than `k` per query.
 */
export function mergeTopK(blocks: readonly TopKBlock[], k: number): MergedTopK {
  const [first, other] = blocks;
  if (first !== undefined && other === undefined && first.k === k) return onlyBlock(first);
  const queries = first?.queries ?? 0;
  const merged: MergedTopK = {
    queries,
    k,
    counts: new Uint32Array(queries),
    scores: new Float32Array(queries * k),
    rows: new Uint32Array(queries * k),
    blocks: new Uint16Array(queries * k),
    positions: new Uint32Array(queries * k),
  };
  const cursors = new Uint32Array(blocks.length);
  for (let query = 0; query < queries; query += 1) {
    cursors.fill(0);
    mergeQuery(merged, { blocks, cursors, query });
  }
  return merged;
}

/** A block that there is nothing to merge with: its own arrays, and where each candidate stands in them. */
function onlyBlock({ queries, k, counts, scores, rows }: TopKBlock): MergedTopK {
  const positions = new Uint32Array(queries * k);
  for (let at = 0; at < positions.length; at += 1) positions[at] = at;
  return { queries, k, counts, scores, rows, blocks: new Uint16Array(queries * k), positions };
}

interface QueryMerge {
  readonly blocks: readonly TopKBlock[];
  /** How many candidates of each block are already taken for this query. */
  readonly cursors: Uint32Array;
  readonly query: number;
}

/** A k-way merge by linear search for the best head: the blocks of one query are few (workers). */
function mergeQuery(merged: MergedTopK, merge: QueryMerge): void {
  const base = merge.query * merged.k;
  let taken = 0;
  for (; taken < merged.k; taken += 1) {
    const from = bestHead(merge);
    if (from < 0) break;
    const block = merge.blocks[from]!;
    const position = merge.query * block.k + merge.cursors[from]!;
    merge.cursors[from]! += 1;
    merged.scores[base + taken] = block.scores[position]!;
    merged.rows[base + taken] = block.rows[position]!;
    merged.blocks[base + taken] = from;
    merged.positions[base + taken] = position;
  }
  merged.counts[merge.query] = taken;
}

/** The block whose next candidate of this query comes first, or -1 when all are used up. */
function bestHead({ blocks, cursors, query }: QueryMerge): number {
  let best = -1;
  let bestScore = 0;
  let bestRow = 0;
  for (let from = 0; from < blocks.length; from += 1) {
    const block = blocks[from]!;
    if (cursors[from]! >= block.counts[query]!) continue;
    const position = query * block.k + cursors[from]!;
    const score = block.scores[position]!;
    const row = block.rows[position]!;
    if (best < 0 || comesFirst(score, row, bestScore, bestRow)) {
      best = from;
      bestScore = score;
      bestRow = row;
    }
  }
  return best;
}

// Four numbers, not two objects: this function runs once per block and candidate of every answer.
// oxlint-disable-next-line max-params
function comesFirst(score: number, row: number, otherScore: number, otherRow: number): boolean {
  if (score > otherScore) return true;
  if (score < otherScore) return false;
  if (score === otherScore) return row < otherRow;
  const isNaN = Number.isNaN(score);
  return isNaN === Number.isNaN(otherScore) ? row < otherRow : !isNaN;
}
