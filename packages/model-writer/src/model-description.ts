// What the writer can write: the two models of the TensorFlow Recommenders tutorials, described by
// their content. Large tables are given as generators of rows, so that they never lie in memory.

import type { StringColumn } from "@winnow/core";

/** A float32 matrix of known shape whose rows come in order, any number per piece. */
export interface WrittenMatrix {
  readonly rows: number;
  readonly dim: number;
  /** Whole matrix in row-major order; called once. */
  readonly pieces: () => Iterable<Float32Array>;
}

/** Strings → rows of an embedding table (Keras StringLookup and Embedding). */
export interface WrittenLookup {
  readonly vocabulary: StringColumn;
  /** Rows for unknown strings, before the vocabulary's rows; 1 by default. */
  readonly oovRows?: number | undefined;
  /** A string that stands for "no value", with row 0 of its own. */
  readonly maskToken?: string | undefined;
  /** Where the vocabulary lies: constants of the graph (default) or a text file. */
  readonly place?: "graph" | "asset" | undefined;
  /** `lookupRowsOf(lookup)` rows: mask, OOV, then the vocabulary's. */
  readonly embedding: WrittenMatrix;
}

/** A dense layer: `x · kernel + bias`, then maybe Relu. */
export interface WrittenLayer {
  /** `[inputs, units]`, row-major. */
  readonly kernel: Float32Array;
  readonly bias: Float32Array;
  readonly relu: boolean;
}

/** A retrieval model: user id → embedding (→ dense layers) → the best k candidates. */
export interface RetrievalModel {
  /** Name of the input; `input_1`, as Keras says, by default. */
  readonly inputName?: string | undefined;
  readonly users: WrittenLookup;
  readonly tower?: readonly WrittenLayer[] | undefined;
  readonly candidates: WrittenMatrix;
  /** One per candidate. */
  readonly identifiers: StringColumn;
  readonly k: number;
}

/** A ranking model: user and item embeddings side by side → dense layers → one score. */
export interface RankingModel {
  /** Inputs `user_id` and `movie_title` unless named otherwise; concatenated in this order. */
  readonly userName?: string | undefined;
  readonly itemName?: string | undefined;
  readonly users: WrittenLookup;
  readonly items: WrittenLookup;
  /** The last one has one unit. */
  readonly layers: readonly WrittenLayer[];
}

/** How a version directory is written. */
export interface WriteOptions {
  /** Data files the variables are spread over; 1 by default. */
  readonly dataFiles?: number | undefined;
}

/** Rows an embedding of this lookup must have. */
export function lookupRowsOf(lookup: Omit<WrittenLookup, "embedding">): number {
  return firstTokenRowOf(lookup) + lookup.vocabulary.length;
}

/** Row of the vocabulary's first string. */
export function firstTokenRowOf(lookup: Omit<WrittenLookup, "embedding">): number {
  return (lookup.maskToken === undefined ? 0 : 1) + (lookup.oovRows ?? 1);
}
