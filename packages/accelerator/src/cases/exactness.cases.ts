// Tables and queries that have broken, or could break, an exact search: ties, cancellation, tiny and
// huge norms, values that are not finite. Each is answered by sorting all canonical scores, and an
// accelerator must give the same bits.

import { compareCandidates } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import type { Accelerator, Resident, RowFilter, TopKQuery } from "../accelerator.ts";
import { canonicalScore, widenQueries } from "../canonical-score.ts";
import type { WideQuery } from "../canonical-score.ts";

/** A table and the queries over it. */
export interface SearchProblem {
  readonly dim: number;
  /** float32 `[rows, dim]`. */
  readonly table: Float32Array;
  /** float32 `[queries, dim]`. */
  readonly vectors: Float32Array;
  readonly k: number;
  readonly excludedRows?: readonly (Uint32Array | undefined)[];
  /** Per query: the rows that it may return, as a bitmap, or all of them. */
  readonly admittedRows?: readonly (Uint8Array | undefined)[];
}

/** Uniform numbers in [0, 1) that depend on the seed alone (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Random = () => number;

interface Candidate {
  readonly row: number;
  readonly score: number;
}

/** `count` normal values with mean 0 and deviation 1. */
export function normalValues(random: Random, count: number): Float32Array {
  return Float32Array.from({ length: count }, () => normal(random));
}

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

interface Size {
  readonly rows: number;
  readonly dim: number;
  readonly queries: number;
  readonly k: number;
}

const SIZE: Size = { rows: 3000, dim: 24, queries: 5, k: 20 };

/** A problem whose table and queries are filled value by value by two generators. */
function problem(
  size: Size,
  tableValue: (random: Random, row: number, j: number) => number,
  queryValue: (random: Random, query: number, j: number) => number = normal,
): SearchProblem {
  const random = seededRandom(size.rows * 31 + size.dim * 7 + size.k);
  const { rows, dim, queries, k } = size;
  const fill = (count: number, value: typeof tableValue): Float32Array =>
    Float32Array.from({ length: count * dim }, (_, at) =>
      value(random, Math.floor(at / dim), at % dim),
    );
  return { dim, k, table: fill(rows, tableValue), vectors: fill(queries, queryValue) };
}

/** Rows that differ from a common row by a unit in the last place in some values. */
function nearTies(random: Random, _row: number, j: number): number {
  const base = Math.fround(Math.sin(j + 1));
  const bits = new Int32Array(Float32Array.of(base).buffer);
  bits[0] = bits[0]! + Math.floor(random() * 3) - 1;
  return new Float32Array(bits.buffer)[0]!;
}

/**
 * A value that int8 codes represent without error, if the table also holds the largest such value.
 */
const exactCode = (random: Random): number => Math.floor(random() * 256) - 127.5;

const ternary = (random: Random): number => Math.floor(random() * 3) - 1;
const signedZero = (random: Random): number => (random() < 0.5 ? 0 : -0);
const subnormal = (random: Random): number => Math.floor(random() * 1000) * 2 ** -149;

const FAMILIES: Readonly<Record<string, () => SearchProblem>> = {
  "normal values": () => problem({ ...SIZE, rows: 20_000, dim: 64, queries: 9, k: 100 }, normal),
  "normal values, dim 128": () => problem({ ...SIZE, rows: 6000, dim: 128, queries: 7 }, normal),
  "k = 1": () => problem({ ...SIZE, rows: 9000, k: 1 }, normal),
  "k = 1000": () => problem({ ...SIZE, rows: 5000, k: 1000 }, normal),
  "k = rows": () => problem({ ...SIZE, rows: 300, k: 300 }, normal),
  "k > rows": () => problem({ ...SIZE, rows: 130, k: 1000 }, normal),
  "one row": () => problem({ ...SIZE, rows: 1 }, normal),
  "63, 64 and 65 rows per query": () => problem({ ...SIZE, rows: 65, k: 64, queries: 64 }, normal),
  "equal rows": () => problem(SIZE, (_random, _row, j) => Math.sin(j)),
  "many equal rows of a large table": () =>
    problem({ ...SIZE, rows: 10_000, k: 100, queries: 2 }, (_random, _row, j) => Math.sin(j)),
  "duplicates of 100 rows": () =>
    problem(SIZE, (_random, row, j) => Math.sin((row % 100) * 1000 + j)),
  "ternary ties": () => problem(SIZE, ternary, ternary),
  "all zero": () => problem(SIZE, () => 0),
  "signed zeros": () => problem(SIZE, signedZero, (random) => normal(random)),
  "zero queries": () => problem(SIZE, normal, signedZero),
  "negative scores only": () =>
    problem(
      SIZE,
      (random) => -Math.abs(normal(random)) - 0.1,
      (random) => Math.abs(normal(random)) + 0.1,
    ),
  "near ties": () => problem(SIZE, nearTies),
  "near ties of opposite sign": () =>
    problem(SIZE, (random, row, j) => nearTies(random, row, j) * (j % 2 === 0 ? 1 : -1), nearTies),
  // With exact codes, a row's score and its bound differ by the rounding of the score alone.
  "codes without error": () =>
    problem({ ...SIZE, rows: 5000, dim: 2, k: 5 }, exactCode, (_random, query, j) =>
      j === query % 2 ? 127 : 1 - query,
    ),
  "codes without error, scores that are rounded": () =>
    problem(
      { ...SIZE, rows: 400, dim: 2304 },
      (random) => 127.5 - (random() < 0.004 ? Math.floor(random() * 3) : 0),
      (random) => 127 - (random() < 0.01 ? Math.floor(random() * 3) : 0),
    ),
  "codes without error, subnormal scores": () =>
    problem(
      { ...SIZE, rows: 900, dim: 2 },
      (random) => exactCode(random) * 2 ** -75,
      (random, query) => Math.floor(random() * 255 - 127) * 2 ** -(86 + query),
    ),
  "subnormal rows": () => problem(SIZE, subnormal),
  "subnormal rows and queries": () => problem(SIZE, subnormal, subnormal),
  "subnormal scores": () =>
    problem(
      SIZE,
      (random) => normal(random) * 2 ** -75,
      (random) => normal(random) * 2 ** -70,
    ),
  "norms from 2^-30 to 2^30": () =>
    problem(SIZE, (random, row) => normal(random) * 2 ** ((row % 61) - 30)),
  "norms from 2^-120 to 2^120": () =>
    problem(SIZE, (random, row) => normal(random) * 2 ** ((row % 241) - 120)),
  "log-normal norms": () => {
    const scales = normalValues(seededRandom(5), 20_000).map((value) => Math.exp(0.8 * value));
    return problem(
      { ...SIZE, rows: 20_000, k: 50 },
      (random, row) => normal(random) * scales[row]!,
    );
  },
  "norms that decide": () => {
    const scales = normalValues(seededRandom(6), 7000).map((value) => Math.exp(0.3 * value));
    const size = { ...SIZE, rows: 7000, dim: 2, k: 300 };
    return problem(size, (random, row) => normal(random) * scales[row]!);
  },
  "one dominating dimension": () =>
    problem({ ...SIZE, rows: 5000 }, (random, _row, j) =>
      j === 3 ? 1000 + random() : normal(random),
    ),
  "one large dimension that queries weigh little": () =>
    problem(
      { ...SIZE, rows: 5000 },
      (random, _row, j) => normal(random) * (j === 3 ? 1000 : 1),
      (random, _query, j) => normal(random) * (j === 3 ? 0.001 : 1),
    ),
  "rows of signs, queries with one large value": () =>
    problem(
      { ...SIZE, rows: 9000 },
      (random) => (random() < 0.5 ? -1 : 1),
      (random, _query, j) => normal(random) * (j === 3 ? 100 : 2),
    ),
  "dimensions from 2^-60 to 2^60": () =>
    problem(
      SIZE,
      (random, _row, j) => normal(random) * 2 ** (5 * (j - 12)),
      (random, _query, j) => normal(random) * 2 ** (-5 * (j - 12)),
    ),
  "outliers among tiny values": () =>
    problem(SIZE, (random, row) => (row % 97 === 0 ? 1e6 : 1e-6) * normal(random)),
  "scores that overflow": () =>
    problem(
      SIZE,
      (random) => normal(random) * 1e25,
      (random) => normal(random) * 1e20,
    ),
  "scores near the largest float": () =>
    problem(
      SIZE,
      (random) => normal(random) * 1e19,
      (random) => normal(random) * 3e18,
    ),
  "tiny queries": () => problem(SIZE, normal, (random) => normal(random) * 1e-42),
  "queries with NaN": () =>
    problem(SIZE, normal, (random, query, j) => (query === 1 && j === 5 ? NaN : normal(random))),
  "queries with infinities": () =>
    problem(SIZE, signedZeroOrNormal, (random, query, j) =>
      j === query ? (query % 2 === 0 ? Infinity : -Infinity) : normal(random),
    ),
  "NaN beside numbers": () =>
    problem({ ...SIZE, k: 2900 }, signedZeroOrNormal, (random, query, j) =>
      j === 0 && query < 2 ? Infinity : normal(random),
    ),
};

function signedZeroOrNormal(random: Random): number {
  return random() < 0.3 ? signedZero(random) : normal(random);
}

/** What `make` gives, which is made when it is first asked for. */
function madeOnce<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** Every family of tables, by name; each is made once for all tests of a process, which must not change it. */
export const EXACTNESS_FAMILIES: Readonly<Record<string, () => SearchProblem>> = Object.fromEntries(
  Object.entries(FAMILIES).map(([name, make]) => [name, madeOnce(make)]),
);

const answers = new WeakMap<SearchProblem, TopKBlock>();

/** The answer, by sorting all canonical scores; it is worked out once for each problem. */
export function bruteForce(of: SearchProblem): TopKBlock {
  const known = answers.get(of);
  if (known !== undefined) return known;
  const queries = widenQueries(of.vectors, of.dim);
  const room = Math.min(of.k, of.table.length / of.dim);
  const block: TopKBlock = {
    queries: queries.length,
    k: room,
    counts: new Uint32Array(queries.length),
    scores: new Float32Array(queries.length * room),
    rows: new Uint32Array(queries.length * room),
  };
  for (const [position, query] of queries.entries()) {
    const best = bestRows(of, query, position).slice(0, room);
    block.counts[position] = best.length;
    for (const [place, { row, score }] of best.entries()) {
      block.rows[position * room + place] = row;
      block.scores[position * room + place] = score;
    }
  }
  answers.set(of, block);
  return block;
}

/** The candidates of a query in order: at least k, if there are as many. */
function bestRows(of: SearchProblem, query: WideQuery, position: number): Candidate[] {
  const rows = admittedRowsOf(of, position);
  const scores = Float32Array.from(rows, (row) => canonicalScore(query, of.table, row * of.dim));
  // Sorted without a function of ours, which is the cheaper part; NaN, which comes last, needs all candidates.
  const kth = scores.toSorted().at(-of.k) ?? NaN;
  const isEach = rows.length <= of.k || scores.some((score) => Number.isNaN(score));
  const candidates: Candidate[] = [];
  for (const [at, score] of scores.entries()) {
    if (isEach || score >= kth) candidates.push({ row: rows[at]!, score });
  }
  return candidates.toSorted(compareCandidates);
}

/** The rows of a table that a query may return. */
function admittedRowsOf(of: SearchProblem, position: number): Uint32Array {
  const excluded = new Set(of.excludedRows?.[position]);
  const mask = of.admittedRows?.[position];
  return Uint32Array.from({ length: of.table.length / of.dim }, (_, row) => row).filter(
    (row) =>
      !excluded.has(row) &&
      (mask === undefined || ((mask[row >> 3] ?? 0) & (1 << (row & 7))) !== 0),
  );
}

/** The first difference between two answers in words, or `undefined` if all bits agree. */
export function firstDifference(actual: TopKBlock, expected: TopKBlock): string | undefined {
  if (actual.queries !== expected.queries) return `${actual.queries} queries`;
  for (let query = 0; query < expected.queries; query += 1) {
    const count = expected.counts[query]!;
    if (actual.counts[query] !== count) {
      return `query ${query}: ${actual.counts[query]} candidates, not ${count}`;
    }
    for (let place = 0; place < count; place += 1) {
      const [a, e] = [query * actual.k + place, query * expected.k + place];
      const isSame =
        actual.rows[a] === expected.rows[e] && Object.is(actual.scores[a], expected.scores[e]);
      if (!isSame) {
        const got = `row ${actual.rows[a]} (${actual.scores[a]})`;
        return `query ${query}, place ${place}: ${got}, not row ${expected.rows[e]} (${expected.scores[e]})`;
      }
    }
  }
  return undefined;
}

/** Loads a table cut into `parts` contiguous residents. */
export async function loadParts(
  accelerator: Accelerator,
  { table, dim }: Pick<SearchProblem, "table" | "dim">,
  parts: number,
): Promise<Resident[]> {
  const rows = table.length / dim;
  const residents: Resident[] = [];
  for (let part = 0; part < parts; part += 1) {
    const firstRow = Math.floor((part * rows) / parts);
    const endRow = Math.floor(((part + 1) * rows) / parts);
    const shape = { rows: endRow - firstRow, dim, firstRow, use: "search" } as const;
    const chunk = table.subarray(firstRow * dim, endRow * dim);
    residents.push(await accelerator.load(shape, [chunk]));
  }
  return residents;
}

/** Filters of bitmaps of global rows; queries of one bitmap share theirs. */
function filtersOf(
  accelerator: Accelerator,
  residents: readonly Resident[],
  admittedRows: SearchProblem["admittedRows"],
): TopKQuery["filters"] {
  const made = new Map<Uint8Array, readonly RowFilter[]>();
  return admittedRows?.map((bits) => {
    if (bits === undefined) return undefined;
    const filters =
      made.get(bits) ??
      residents.map((resident) => accelerator.filter(resident, localBits(bits, resident)));
    made.set(bits, filters);
    return filters;
  });
}

/** The part of a bitmap of global rows that is a resident's; it ends where the bitmap does. */
function localBits(bits: Uint8Array, { firstRow, rows }: Resident): Uint8Array {
  const end = Math.max(0, Math.min(rows, bits.length * 8 - firstRow));
  const local = new Uint8Array(Math.ceil(end / 8));
  for (let row = 0; row < end; row += 1) {
    const global = firstRow + row;
    if ((bits[global >> 3]! & (1 << (global & 7))) !== 0) local[row >> 3]! |= 1 << (row & 7);
  }
  return local;
}

/** Loads the table, answers the queries, releases the table. */
export async function answer(
  accelerator: Accelerator,
  of: SearchProblem,
  parts: number,
): Promise<TopKBlock> {
  const residents = await loadParts(accelerator, of, parts);
  const { vectors, k, excludedRows } = of;
  const filters = filtersOf(accelerator, residents, of.admittedRows);
  const query: TopKQuery = { residents, vectors, k, excludedRows, filters };
  const block = await accelerator.topK(query);
  for (const filter of filters?.flat() ?? []) {
    if (filter !== undefined) accelerator.releaseFilter(filter);
  }
  await Promise.all(residents.map((resident) => accelerator.release(resident)));
  return block;
}
