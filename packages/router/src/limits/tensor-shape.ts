// Which shapes a request's tensors may have, before anything is allocated for them.

import { elementCount } from "@winnow/core";

/** Dimensions of a tensor, as in TensorFlow. */
export const RANK_MAX = 254;
/**
 * The largest product of the other dimensions of a shape that holds no values. Nothing is allocated for such
 * a shape, but operations may count along every axis; no real request has rows of such length.
 */
const EMPTY_SIZES_MAX = 2 ** 24;

/** Whether a shape holds more values than can be counted, or none of rows that are too long. */
export function isVastShape(shape: readonly number[]): boolean {
  const count = elementCount(shape);
  if (count > 0) return !Number.isSafeInteger(count);
  return elementCount(shape.filter((size) => size > 0)) > EMPTY_SIZES_MAX;
}
