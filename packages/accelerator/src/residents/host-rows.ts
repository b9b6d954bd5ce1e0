// Rows in the memory of this process, float32 `[rows, dim]`: filled by a load, copied by a lookup.

import { WinnowError } from "@winnow/core";
import { takeRows } from "./row-taking.ts";
import type { RowSource } from "./row-taking.ts";
import { checkFinite } from "../queries/top-k-request.ts";

/**
 * Copies the rows of a load. @throws WinnowError as `takeRows`, RESOURCE_EXHAUSTED without memory
 */
export async function takeHostRows(source: RowSource): Promise<Float32Array> {
  const { rows, dim } = source.shape;
  const values = allocate(rows * dim);
  await takeRows(source, (chunk, progress) => {
    checkFinite(progress, chunk);
    values.set(chunk, progress.taken);
  });
  return values;
}

/** Copies of rows, `[localRows.length, dim]`. */
export function gatherHostRows(
  values: Float32Array,
  dim: number,
  localRows: Uint32Array,
): Float32Array {
  const gathered = new Float32Array(localRows.length * dim);
  for (const [index, row] of localRows.entries()) {
    gathered.set(values.subarray(row * dim, (row + 1) * dim), index * dim);
  }
  return gathered;
}

/** Zeros. @throws WinnowError RESOURCE_EXHAUSTED when the JavaScript engine cannot allocate them */
function allocate(length: number): Float32Array {
  try {
    return new Float32Array(length);
  } catch (cause) {
    const message = `Cannot allocate ${length} float32 values`;
    throw new WinnowError("RESOURCE_EXHAUSTED", message, { cause });
  }
}
