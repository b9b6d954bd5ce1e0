// Where the rows, ids and keys of a table lie. The graph folder makes these descriptions, because
// it knows what each variable means; partition-reading.ts reads by them.

import type { AttributeColumn, TableSpec, Tensor } from "@winnow/core";
import type { TensorSlice } from "../bundle/tensor-slice.ts";
import type { RowStep } from "./row-computation.ts";

/**
 * A tensor by its checkpoint key (of which a variable may hold a slice alone), a constant of the
 * graph (already in memory), several of them one after the other along their first dimension, or
 * neighbouring rows of one.
 */
export type StoredTensor =
  | { readonly kind: "bundle"; readonly key: string; readonly slice?: TensorSlice | undefined }
  | { readonly kind: "constant"; readonly name: string; readonly tensor: Tensor }
  | { readonly kind: "concatenated"; readonly parts: readonly StoredTensor[] }
  | {
      readonly kind: "rows";
      readonly of: StoredTensor;
      readonly firstRow: number;
      readonly rows: number;
    };

/** What keeps a length, or its square, from being zero: maximum(x, value) or x + value. */
export interface RowLength {
  readonly kind: "atLeast" | "plus";
  readonly value: number;
}

/**
 * A row over its length: x · (1/√s) with a factor of at most `factorMax`, x / √s, or that with 0
 * where √s is 0; s is the sum of squares.
 */
export interface RowNormalisation {
  readonly operation: "reciprocal" | "division" | "divisionOrZero";
  readonly squares: RowLength | undefined;
  readonly length: RowLength | undefined;
  readonly factorMax?: number | undefined;
}

/**
 * How the rows of a candidate table are made of stored tensors, in this order, where they are not
 * stored as they are searched: items that are the columns of a kernel, that a graph brings to one
 * length, or that have a bias, which is one dimension more (row [item ‖ bias], query [query ‖ 1]).
 */
export interface RowDerivation {
  /** Whether the matrix is stored as `[dim, rows]`. */
  readonly isByColumn: boolean;
  /** Of a matrix stored as `[dim, more than rows]`: the column that is the first row. Absent: 0, of as many as rows. */
  readonly firstColumn?: number | undefined;
  readonly normalisation: RowNormalisation | undefined;
  /** What is computed of the values of each row before anything is appended. Absent: they are taken as they are. */
  readonly computed?: RowComputation | undefined;
  /** float32 tensors of one value per row, each the last dimension of the rows before it. */
  readonly appended: readonly StoredTensor[];
  /** What the values of each row are multiplied with, in this order. Absent: nothing. */
  readonly factors?: readonly RowFactor[] | undefined;
  /**
   * Whether the sum of squares of the stored (and normalised) values follows as the last dimension, for distances:
   * row [item ‖ appended ‖ Σ item²]. Absent: no.
   */
  readonly hasSquares?: boolean | undefined;
}

/** What a graph computes of each item by itself, of one stored matrix or of several: an item tower. */
export interface RowComputation {
  /** Matrices of as many rows as the table's own. */
  readonly beside: readonly StoredMatrix[];
  /** What the last one gives are the values of the row. */
  readonly steps: readonly RowStep[];
}

/** A stored matrix with so many values in each row. */
export interface StoredMatrix {
  readonly stored: StoredTensor;
  readonly dim: number;
}

/** A float32 tensor of one value per row, by which a row is multiplied or divided, and rounded. */
export interface RowFactor {
  readonly stored: StoredTensor;
  readonly isDivisor: boolean;
  /** How many of the appended values are changed too, those before. */
  readonly appended: number;
}

/**
 * The tensors beside the table's own that a derivation needs: of one value per row those appended, then factors; then
 * matrices.
 */
export function tensorsBeside(derivation: RowDerivation | undefined): readonly StoredMatrix[] {
  const { appended = [], factors = [], computed } = derivation ?? {};
  const vectors = [...appended, ...factors.map(({ stored }) => stored)];
  return [...vectors.map((stored) => ({ stored, dim: 1 })), ...(computed?.beside ?? [])];
}

/** Values of a row behind those of the stored item. */
export function addedValues(derivation: RowDerivation | undefined): number {
  const { appended = [], hasSquares = false } = derivation ?? {};
  return appended.length + (hasSquares ? 1 : 0);
}

/** A table of a program, and the stored tensors that its content is read from. */
export interface StoredTable {
  /** `sources` made by `VersionFiles.sourceOf` of `rows`, then of `ids` where there are any, then of `tensorsBeside`. */
  readonly spec: TableSpec;
  /** float32, half or bfloat16 `[rows, dim]`, unless `derivation` says otherwise. */
  readonly rows: StoredTensor;
  /** Of a candidate table whose rows are not searched as they are stored. */
  readonly derivation?: RowDerivation | undefined;
  /** string, int32 or int64 `[rows]`; `undefined` for a table without stored identifiers. */
  readonly ids: StoredTensor | undefined;
  /** Columns of all rows of a candidate table by which searches mask rows, as `spec.masks` names them. */
  readonly masks?: readonly AttributeColumn[] | undefined;
  /** Of a keyed table whose keys are a vocabulary: `keys[i]` leads to row `values[i]` (int64). */
  readonly vocabulary: { readonly keys: Tensor; readonly values: Tensor } | undefined;
}

/** How a lookup table reads a text file (`InitializeTableFromTextFileV2`). */
export interface TextVocabulary {
  /** File name under `assets/`, from the graph's `asset_file_def`, or in `folder`. */
  readonly file: string;
  /** Folder of the file, for messages; default `assets/`. */
  readonly folder?: string;
  readonly keyDtype: "string" | "int64";
  readonly valueDtype: "string" | "int64";
  /** -2: the whole line; -1: the line's number; else a column, from 0. */
  readonly keyIndex: number;
  readonly valueIndex: number;
  /** Lines that must exist and are read; -1 reads all. */
  readonly vocabularySize: number;
  /** Between columns, one byte; TensorFlow's default is a tab. */
  readonly delimiter: string;
  /** Added to line numbers, which count from 0. */
  readonly offset: number;
}

/** A text that differs for different tensors of the checkpoint. */
export function textOfStored({ key, slice }: StoredTensor & { readonly kind: "bundle" }): string {
  return slice === undefined ? key : `${key} [${slice.start.join()}] of [${slice.length.join()}]`;
}
