// How many rows a pass of the fast path keeps per query, how much working memory that
// takes, and hence how many queries go together.

import type { ScratchSizes } from "./scratch.ts";
import type { SearchScope } from "./search-scope.ts";
import { PARAMS_STRIDE } from "../device/kernels.ts";
import { STAGE_BYTES } from "../stage-timer.ts";
import {
  CANDIDATE_WORDS,
  GROUP_ROWS,
  HEAD_WORDS,
  ORDER_AT_ONCE,
  PASS_QUERIES_MAX,
  RESULT_HEAD_WORDS,
  QUERY_TILE,
} from "../shaders/prelude.ts";

/** Groups with excluded rows that are kept in addition, at most; they are often among the best. */
const EXCLUDED_GROUPS_MAX = 4096;

/** How much the buffers of a pass can hold of one query. */
export interface Rooms {
  /** Rows that may be scored. */
  readonly candidates: number;
  /** Rows among which the answer is put in order. */
  readonly finalists: number;
}

/** What the queries of a pass have in common. */
export interface PassShape {
  readonly k: number;
  /** Most excluded rows of one query, or `undefined` if none has any. */
  readonly excludedRowsMax: number | undefined;
  readonly isMasked: boolean;
}

/** Rooms with a reserve: the factor of the groups is one that random tables stay far below. */
export function roomsOf({ slots }: SearchScope, { k, excludedRowsMax = 0 }: PassShape): Rooms {
  const spared = Math.min(excludedRowsMax, EXCLUDED_GROUPS_MAX);
  const groups = Math.min(slots, 12 * k + 64 + spared);
  const candidates = groups * GROUP_ROWS;
  return { candidates, finalists: Math.min(candidates, Math.max(ORDER_AT_ONCE, 2 * k + 128)) };
}

/** Bytes of each buffer for `count` queries. */
export function passSizes(scope: SearchScope, shape: PassShape, count: number): ScratchSizes {
  const { candidates, finalists } = roomsOf(scope, shape);
  const { k, excludedRowsMax, isMasked } = shape;
  const tiles = Math.ceil(count / QUERY_TILE) * QUERY_TILE;
  const maskWords = isMasked ? (scope.slots * GROUP_ROWS) / 32 : 0;
  const exclusionWords = excludedRowsMax === undefined ? 0 : count + 1 + count * excludedRowsMax;
  const result = 4 * count * (RESULT_HEAD_WORDS + k * CANDIDATE_WORDS);
  return {
    params: scope.slabs.length * PARAMS_STRIDE,
    query: tiles * scope.layout.queryQuads * 16,
    scope: 4 * (scope.rangeWords.length + maskWords + exclusionWords),
    bounds: count * scope.slots * 8,
    heads: 4 * count * HEAD_WORDS,
    found: 8 * count * (candidates + finalists),
    result,
    staging: result + STAGE_BYTES,
  };
}

/** What limits a pass. */
export interface PassLimits {
  readonly scratchBytes: number;
  readonly bufferBytes: number;
  /** Queries that there are. */
  readonly queries: number;
}

/** Number of queries that fit into one pass; 0 if there is not memory for one. */
export function passQueries(scope: SearchScope, shape: PassShape, limits: PassLimits): number {
  const fits = (count: number): boolean => {
    const bytes = Object.values(passSizes(scope, shape, count));
    const total = bytes.reduce((sum, each) => sum + each, 0);
    return total <= limits.scratchBytes && Math.max(...bytes) <= limits.bufferBytes;
  };
  const wanted = Math.min(limits.queries, PASS_QUERIES_MAX);
  if (fits(wanted)) return wanted;
  let count = 0;
  for (let step = PASS_QUERIES_MAX; step >= 1; step /= 2) {
    if (count + step < wanted && fits(count + step)) count += step;
  }
  return count;
}
