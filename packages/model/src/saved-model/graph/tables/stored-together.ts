// Variables one after the other, as a graph concatenates the parts of a table that was too large for
// one variable: together they are one stored tensor, which can be cut into partitions, so that no
// worker reads more of them than its rows.

import { textOfStored } from "../../partitions/stored-table.ts";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import type { VersionFiles } from "../../version-files.ts";
import type { GraphValue } from "../graph-value.ts";

/** Stored tensors behind one value, at most: concatenations of concatenations could be many. */
const PARTS_MAX = 4096;

/**
 * The concatenation of values along an axis, where that is their first dimension (0, or counted from
 * the last one) and it can be read by range: each is
 * the whole content of a variable or constant, at least one of them of a variable, all are stored in
 * one format, and none occurs twice.
 */
export function storedTogether(
  values: readonly GraphValue[],
  axis: number,
  files: VersionFiles,
): GraphValue | undefined {
  const [first] = values;
  const shape = shapeTogether(values);
  if (first === undefined || shape === undefined) return undefined;
  if (axis !== 0 && axis !== -shape.length) return undefined;
  const parts: StoredTensor[] = [];
  for (const value of values) {
    const own = partsOf(value);
    if (own === undefined || parts.length + own.length > PARTS_MAX) return undefined;
    parts.push(...own);
  }
  const isStored = parts.some(({ kind }) => kind === "bundle");
  if (!isStored || !areDistinct(parts) || !haveOneFormat(parts, files)) return undefined;
  return { dtype: first.dtype, shape, stored: { kind: "concatenated", parts } };
}

/** The variable whose slices values are, one after the other along an axis, from the first to the last of them. */
export function wholeOf(
  values: readonly GraphValue[],
  axis: number,
  files: VersionFiles,
): GraphValue | undefined {
  const [first] = values;
  if (first?.stored?.kind !== "bundle") return undefined;
  const { key } = first.stored;
  const shape = files.entryOf(key)?.shape ?? [];
  const along = axis < 0 ? axis + shape.length : axis;
  let end = 0;
  for (const value of values) {
    const size = sizeOfSlice(value, key, { shape, along, start: end });
    if (size === undefined || value.dtype !== first.dtype) return undefined;
    end += size;
  }
  return end === shape[along]
    ? { dtype: first.dtype, shape, stored: { kind: "bundle", key } }
    : undefined;
}

/** How long a slice is along an axis, where it begins at a place of it and has all others whole. */
function sizeOfSlice(
  { stored, shape: sizes = [] }: GraphValue,
  key: string,
  {
    shape,
    along,
    start,
  }: { readonly shape: readonly number[]; readonly along: number; readonly start: number },
): number | undefined {
  const slice = stored?.kind === "bundle" && stored.key === key ? stored.slice : undefined;
  if (slice === undefined || sizes.length !== shape.length) return undefined;
  const isAtStart = slice.start.every((begin, at) => begin === (at === along ? start : 0));
  const isWhole = sizes.every((size, at) => at === along || size === shape[at]);
  return isAtStart && isWhole ? sizes[along] : undefined;
}

/** The shape of all values one after the other; `undefined` unless types and rows are alike. */
function shapeTogether(values: readonly GraphValue[]): readonly number[] | undefined {
  const [first] = values;
  if (first?.shape === undefined || first.shape.length === 0) return undefined;
  const rowShape = first.shape.slice(1);
  let rows = 0;
  for (const { dtype, shape } of values) {
    const isAlike = dtype === first.dtype && shape?.slice(1).join() === rowShape.join();
    if (!isAlike || shape?.[0] === undefined) return undefined;
    rows += shape[0];
  }
  return [rows, ...rowShape];
}

function partsOf({ stored, constant }: GraphValue): readonly StoredTensor[] | undefined {
  if (stored?.kind === "concatenated") return stored.parts;
  if (stored !== undefined) return [stored];
  if (constant === undefined) return undefined;
  return [{ kind: "constant", name: "a constant", tensor: constant }];
}

function areDistinct(parts: readonly StoredTensor[]): boolean {
  const keys = new Set(parts.map((part) => (part.kind === "bundle" ? textOfStored(part) : part)));
  return keys.size === parts.length;
}

/** Whether rows of all parts have the same bytes: not where some are half and others float32. */
function haveOneFormat(parts: readonly StoredTensor[], files: VersionFiles): boolean {
  const formats = parts.map((part) => {
    if (part.kind === "constant") return part.tensor.dtype;
    return part.kind === "bundle" ? files.entryOf(part.key)?.dtype : undefined;
  });
  return new Set(formats).size === 1;
}
