// Bands and diagonals of matrices: the masks of causal attention, the pairs that a dot interaction
// keeps. A matrix is the last two axes; positions are compared with each other, once for all matrices.

import type { Translation, Translators } from "./translation.ts";
import { chosen } from "./elementwise.ts";
import { shapeOf, sizesOf } from "./sizes.ts";
import type { Size } from "./sizes.ts";

/** Translators of operations on matrices. */
export const matrices: Translators = {
  MatrixBandPart: bandPart,
  MatrixDiagV3: diagonalMatrix,
  MatrixDiagPartV3: diagonalPart,
  MatrixSetDiagV3: withDiagonal,
};

/** How far right of its diagonal each place of a matrix lies, as int64 `[rows, columns]`. */
function distances(t: Translation, [rows, columns]: readonly [Size, Size]): string {
  const column = t.node("Unsqueeze", [positions(t, rows), t.model.integers([1])]);
  return t.node("Sub", [positions(t, columns), column]);
}

function positions(t: Translation, size: Size): string {
  const { model } = t;
  const count =
    typeof size === "number"
      ? model.integers(size)
      : t.node("Squeeze", [size, model.integers([0])]);
  return t.node("Range", [model.integers(0), count, model.integers(1)]);
}

/** Rows and columns of an input's matrices. */
function matrixOf(t: Translation, position: number): readonly [Size, Size] {
  const [rows, columns] = sizesOf(t, position).slice(-2);
  if (rows === undefined || columns === undefined) throw t.untranslatable("is given no matrix");
  return [rows, columns];
}

/**
 * Only bounds that TensorFlow allows for a matrix of any size, or of the known size, are translated:
 * the host refuses the others.
 */
function bandPart(t: Translation): string {
  const sizes = matrixOf(t, 0);
  const lower = t.integer(1);
  const upper = t.integer(2);
  for (const [axis, bound] of [lower, upper].entries()) {
    const size = sizes[axis]!;
    if (bound > (typeof size === "number" ? size : 0)) {
      throw t.untranslatable(`keeps ${bound} diagonals of a matrix that may have less`);
    }
  }
  if (lower < 0 && upper < 0) return t.node("Identity", [t.name(0)]);
  const distance = distances(t, sizes);
  const isBelow = t.node("GreaterOrEqual", [distance, t.model.integers(-lower)]);
  const isAbove = t.node("LessOrEqual", [distance, t.model.integers(upper)]);
  const isKept = lower < 0 ? isAbove : upper < 0 ? isBelow : t.node("And", [isBelow, isAbove]);
  return chosen(t, isKept, t.name(0), zero(t));
}

function zero(t: Translation): string {
  return t.dtype(0) === "bool" ? "" : t.model.scalar(t.dtype(0), 0);
}

function requireMainDiagonal(t: Translation, position: number): void {
  if (t.integers(position).some((k) => k !== 0)) throw t.untranslatable("means another diagonal");
}

function mainDiagonal(t: Translation, sizes: readonly [Size, Size]): string {
  return t.node("Equal", [distances(t, sizes), t.model.integers(0)]);
}

/** A square matrix with the given values on its diagonal. */
function diagonalMatrix(t: Translation): string {
  requireMainDiagonal(t, 1);
  const isSquare = [2, 3].every((position) => t.integer(position) === -1);
  if (!isSquare) throw t.untranslatable("asks for a matrix that is not square");
  const size = sizesOf(t, 0).at(-1);
  if (size === undefined) throw t.untranslatable("is given a scalar");
  const values = t.node("Unsqueeze", [t.name(0), t.model.integers([-1])]);
  return chosen(t, mainDiagonal(t, [size, size]), values, t.name(4));
}

/** The values on the diagonal, picked from each matrix as one row. */
function diagonalPart(t: Translation): string {
  requireMainDiagonal(t, 1);
  const sizes = matrixOf(t, 0);
  if (typeof sizes[0] !== "number" || sizes[0] !== sizes[1]) {
    throw t.untranslatable("needs a square matrix of a known size");
  }
  const size = sizes[0];
  const places = Array.from({ length: size }, (_, row) => row * (size + 1));
  const flat = shapeOf(t, [...sizesOf(t, 0).slice(0, -2), size * size]);
  const rows = t.node("Reshape", [t.name(0), flat], { allowzero: 1 });
  return t.node("Gather", [rows, t.model.integers(places)], { axis: -1 });
}

function withDiagonal(t: Translation): string {
  requireMainDiagonal(t, 2);
  const sizes = matrixOf(t, 0);
  const isSquare = typeof sizes[0] === "number" && sizes[0] === sizes[1];
  if (!isSquare) throw t.untranslatable("needs a square matrix of a known size");
  const values = t.node("Unsqueeze", [t.name(1), t.model.integers([-1])]);
  return chosen(t, mainDiagonal(t, sizes), values, t.name(0));
}
