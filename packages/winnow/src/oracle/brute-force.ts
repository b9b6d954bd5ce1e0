// What a search must answer, worked out in the plainest way: every row is multiplied with the query, in
// float64, and the best are picked by sorting. It shares no code with the scan, the merge or the placement
// of what it judges.
//
// ARCHITECTURE.md defines a score to the bit: eight lanes, one tree, one rounding to float32. A sum in
// another order differs from that by less than a bound that is known beforehand (each of at most n + 8
// additions errs by 2⁻⁵³ of what it adds up, Cauchy-Schwarz bounds that). Rounding to float32 never turns
// an order round: where both ends of the bound round to one float32, the defined score is that float32,
// proven without the definition. Only where they do not, the definition is followed step by step.

/** A table's rows in pieces, in row order. */
export interface RowPieces {
  readonly rows: number;
  readonly dim: number;
  readonly pieces: readonly RowPiece[];
}

/** Some rows. */
export interface RowPiece {
  /** Row-major. */
  readonly values: Float32Array;
  /** The Euclidean length of each row. */
  readonly lengths: Float64Array;
}

/** Rows, row-major, with their lengths. */
export function rowPiece(values: Float32Array, dim: number): RowPiece {
  const lengths = new Float64Array(values.length / dim);
  for (let row = 0; row < lengths.length; row += 1) {
    lengths[row] = lengthOf(values.subarray(row * dim, (row + 1) * dim));
  }
  return { values, lengths };
}

/** One query's best rows, best first. */
export interface BestRows {
  readonly rows: Int32Array;
  readonly scores: Float32Array;
}

/** The defined scores of all rows for each query. `vectors` is `[queries, dim]`; gives `[rows]` for each. */
export function scoresOf(vectors: Float32Array, table: RowPieces): Float32Array[] {
  const { dim, rows } = table;
  const queries = Array.from({ length: dim === 0 ? 0 : vectors.length / dim }, (_, query) =>
    Float64Array.from(vectors.subarray(query * dim, (query + 1) * dim)),
  );
  const found = queries.map(() => new Float32Array(rows));
  let firstRow = 0;
  for (const piece of table.pieces) {
    for (const [at, query] of queries.entries()) {
      scorePiece(query, piece, found[at]!.subarray(firstRow));
    }
    firstRow += piece.lengths.length;
  }
  return found;
}

function scorePiece(
  query: Float64Array,
  { values, lengths }: RowPiece,
  scores: Float32Array,
): void {
  const dim = query.length;
  // Twice the bound, for two sums that err in opposite directions, and twice again for its own rounding.
  const errorFraction = 4 * (dim + 8) * 2 ** -53 * lengthOf(query);
  for (let row = 0, at = 0; row < lengths.length; row += 1, at += dim) {
    let sum = 0;
    for (let j = 0; j < dim; j += 1) sum += query[j]! * values[at + j]!;
    const error = errorFraction * lengths[row]!;
    const low = Math.fround(sum - error);
    const isProven = low === Math.fround(sum + error);
    scores[row] = (isProven ? low : definedScore(query, values.subarray(at, at + dim))) + 0;
  }
}

/** A score by its definition. */
export function definedScore(query: ArrayLike<number>, row: ArrayLike<number>): number {
  const lanes = new Float64Array(8);
  for (let j = 0; j < query.length; j += 1) lanes[j % 8]! += query[j]! * row[j]!;
  const even = lanes[0]! + lanes[4]! + (lanes[2]! + lanes[6]!);
  const odd = lanes[1]! + lanes[5]! + (lanes[3]! + lanes[7]!);
  return Math.fround(even + odd) + 0;
}

function lengthOf(vector: ArrayLike<number>): number {
  let sum = 0;
  for (let j = 0; j < vector.length; j += 1) sum += vector[j]! * vector[j]!;
  return Math.sqrt(sum);
}

/** The best `k` rows that are not excluded: score descending, equal scores by ascending row, NaN last. */
export function bestRows(
  scores: Float32Array,
  k: number,
  excluded: ReadonlySet<number> = new Set(),
): BestRows {
  const left = [...excluded].filter((row) => row < scores.length).length;
  const count = Math.min(k, scores.length - left);
  if (count === 0) return { rows: new Int32Array(), scores: new Float32Array() };
  const least = leastOfBest(scores, count, excluded);
  const rows: number[] = [];
  for (let row = 0; row < scores.length; row += 1) {
    const isAmong = Number.isNaN(least) || scores[row]! >= least;
    if (isAmong && !excluded.has(row)) rows.push(row);
  }
  rows.sort((a, b) => comesBefore(scores[a]!, scores[b]!) || a - b);
  const best = Int32Array.from(rows.slice(0, count));
  return { rows: best, scores: Float32Array.from(best, (row) => scores[row]!) };
}

/** The score of the last of the best; NaN where there are fewer numbers than that. */
function leastOfBest(scores: Float32Array, count: number, excluded: ReadonlySet<number>): number {
  const numbers = scores.filter((score, row) => !Number.isNaN(score) && !excluded.has(row));
  return numbers.length < count ? NaN : numbers.toSorted()[numbers.length - count]!;
}

function comesBefore(a: number, b: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  if (a === b) return 0;
  return a > b ? -1 : 1;
}
