// Rows and queries from a seed, cheap enough for 10^10 values, and the reference's answers to a few
// queries, found while the rows pass by on their way to the device.

import { CandidateHeap, canonicalScore, widenQueries } from "./compiled-code.mjs";

const POOL = 2 ** 20;
const CHUNK_ROWS = 16_384;

/** Uniform numbers in [0, 1) that depend on the seed alone. */
export function xorshift(seed) {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

let pool;

/** 2^20 normal values, the same in every run. */
function normalPool() {
  if (pool !== undefined) return pool;
  const random = xorshift(12_345);
  pool = Float32Array.from(
    { length: POOL },
    () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()),
  );
  return pool;
}

/** Writes vectors: the sum of two windows of the pool, at random places and scales. */
function vectorSource(seed) {
  const values = normalPool();
  const random = xorshift(seed);
  return (target, at, length) => {
    const first = Math.floor(random() * (POOL - length));
    const second = Math.floor(random() * (POOL - length));
    const [a, b] = [0.5 + random(), random()];
    for (let j = 0; j < length; j += 1) {
      target[at + j] = values[first + j] * a + values[second + j] * b;
    }
  };
}

/** `count` queries, `[count, dim]`; a smaller count gives the first of them. */
export function queryVectors(count, dim, seed = 77) {
  const next = vectorSource(seed);
  const vectors = new Float32Array(count * dim);
  for (let query = 0; query < count; query += 1) next(vectors, query * dim, dim);
  return vectors;
}

/** A bitmap that admits about this share of the rows. */
export function randomMask(rows, share) {
  const random = xorshift(991);
  const bitmap = new Uint8Array(Math.ceil(rows / 8));
  for (let row = 0; row < rows; row += 1) {
    if (random() < share) bitmap[row >> 3] |= 1 << (row & 7);
  }
  return bitmap;
}

/**
 * A table in chunks. `answers` tells, once all chunks were taken, the k best of each checked query by
 * the reference's arithmetic; `hostMs` what generating and checking took here.
 */
export function passingTable({ rows, dim }, { k, vectors, checked, admittedRows }) {
  const widened = widenQueries(vectors.subarray(0, checked * dim), dim);
  const heaps = widened.map(() => new CandidateHeap(Math.min(k, rows)));
  const passing = { hostMs: 0, chunks: undefined, answers: undefined };
  const look = (chunk, firstRow) => {
    for (let at = 0, row = firstRow; at < chunk.length; at += dim, row += 1) {
      if (admittedRows !== undefined && (admittedRows[row >> 3] & (1 << (row & 7))) === 0) continue;
      for (const [index, query] of widened.entries()) {
        heaps[index].offer(canonicalScore(query, chunk, at), row);
      }
    }
  };
  passing.chunks = (function* chunks() {
    const next = vectorSource(rows + dim);
    for (let from = 0; from < rows; from += CHUNK_ROWS) {
      const start = performance.now();
      const count = Math.min(CHUNK_ROWS, rows - from);
      const chunk = new Float32Array(count * dim);
      for (let row = 0; row < count; row += 1) next(chunk, row * dim, dim);
      look(chunk, from);
      passing.hostMs += performance.now() - start;
      yield chunk;
    }
  })();
  passing.answers = () =>
    heaps.map((heap) => {
      const room = Math.min(k, rows);
      const [scores, found] = [new Float32Array(room), new Uint32Array(room)];
      const count = heap.drainInto({ scores, rows: found });
      return { scores: scores.subarray(0, count), rows: found.subarray(0, count) };
    });
  return passing;
}

/** The first difference between an answer and the reference, in words; `undefined` if there is none. */
export function differenceOf(block, answers) {
  for (const [query, expected] of answers.entries()) {
    const count = block.counts[query];
    if (count !== expected.rows.length) {
      return `query ${query}: ${count} rows instead of ${expected.rows.length}`;
    }
    for (let place = 0; place < count; place += 1) {
      const at = query * block.k + place;
      const isRow = block.rows[at] === expected.rows[place];
      if (isRow && Object.is(block.scores[at], expected.scores[place])) continue;
      const found = `row ${block.rows[at]} (${block.scores[at]})`;
      const wanted = `row ${expected.rows[place]} (${expected.scores[place]})`;
      return `query ${query}, place ${place}: ${found} is not ${wanted}`;
    }
  }
  return undefined;
}
