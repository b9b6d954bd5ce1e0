// Embeddings of the demo: a direction per cluster, movies scattered around the direction of theirs,
// users between the directions of two clusters. Values come from a seeded generator, row by row, so
// that a table of any size is written in pieces and is the same every time.

import { CLUSTERS, clusterOf } from "./demo-titles.ts";
import type { WrittenMatrix } from "./model-description.ts";

const PIECE_VALUES = 2 ** 20;
const MOVIE_SCATTER = 0.35;
const USER_SCATTER = 0.15;
/** Weight of a user's second cluster; the first weighs 1. */
const SECOND_TASTE = 0.6;

/** Streams of random numbers; each table uses another one, so that tables of one seed differ. */
type DemoStream = "clusters" | "movies" | "users";

const STREAMS: Readonly<Record<DemoStream, number>> = {
  clusters: 0x9e3779b9,
  movies: 0x85ebca6b,
  users: 0xc2b2ae35,
};

/** Directions of the clusters, unit length, `[clusters, dim]`. */
export function clusterDirections(seed: number, dim: number): Float32Array {
  const directions = new Float32Array(CLUSTERS * dim);
  const random = generator(seed, "clusters");
  for (let cluster = 0; cluster < CLUSTERS; cluster += 1) {
    const row = directions.subarray(cluster * dim, (cluster + 1) * dim);
    for (let at = 0; at < dim; at += 1) row[at] = random() - random();
    const length = Math.hypot(...row);
    for (let at = 0; at < dim; at += 1) row[at]! /= length;
  }
  return directions;
}

/** How the rows of a demo table are made. */
export interface DemoRows {
  readonly seed: number;
  readonly dim: number;
  /** Rows before the first movie or user, for unknown ones; made like the others. */
  readonly unknownRows: number;
  readonly count: number;
  readonly onRows?: ((rows: number) => void) | undefined;
}

/** Movie embeddings: cluster direction plus scatter. */
export function movieEmbeddings(table: DemoRows): WrittenMatrix {
  const directions = clusterDirections(table.seed, table.dim);
  return matrixOf(table, "movies", ({ row, target, random }) => {
    const from = clusterOf(row) * table.dim;
    const scale = MOVIE_SCATTER * Math.sqrt(6 / table.dim);
    for (let at = 0; at < table.dim; at += 1) {
      target[at] = directions[from + at]! + scale * (random() - random());
    }
  });
}

/** User embeddings: two clusters they like, plus scatter. */
export function userEmbeddings(table: DemoRows): WrittenMatrix {
  const directions = clusterDirections(table.seed, table.dim);
  return matrixOf(table, "users", ({ target, random }) => {
    const first = Math.floor(random() * CLUSTERS) * table.dim;
    const second = Math.floor(random() * CLUSTERS) * table.dim;
    const scale = USER_SCATTER * Math.sqrt(6 / table.dim);
    for (let at = 0; at < table.dim; at += 1) {
      const taste = directions[first + at]! + SECOND_TASTE * directions[second + at]!;
      target[at] = taste + scale * (random() - random());
    }
  });
}

interface RowToFill {
  readonly row: number;
  readonly target: Float32Array;
  readonly random: () => number;
}

function matrixOf(
  table: DemoRows,
  stream: DemoStream,
  fill: (row: RowToFill) => void,
): WrittenMatrix {
  const { dim, unknownRows, count, seed, onRows } = table;
  function* pieces(): Generator<Float32Array, void, undefined> {
    const random = generator(seed, stream);
    const filled = (first: number, rows: number): Float32Array => {
      const piece = new Float32Array(rows * dim);
      for (let row = 0; row < rows; row += 1) {
        const target = piece.subarray(row * dim, (row + 1) * dim);
        fill({ row: first + row, target, random });
      }
      return piece;
    };
    if (unknownRows > 0) yield filled(0, unknownRows);
    const rowsPerPiece = Math.max(1, Math.floor(PIECE_VALUES / dim));
    for (let first = 0; first < count; first += rowsPerPiece) {
      const rows = Math.min(rowsPerPiece, count - first);
      yield filled(first, rows);
      onRows?.(rows);
    }
  }
  return { rows: unknownRows + count, dim, pieces };
}

/** Uniform in [0, 1): mulberry32 (Tommy Ettinger, public domain). */
function generator(seed: number, stream: DemoStream): () => number {
  let state = (seed ^ STREAMS[stream]) | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}
