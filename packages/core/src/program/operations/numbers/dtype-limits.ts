// Least and greatest values of numeric dtypes, from which reductions begin.

import type { NumericDtype } from "../../../tensor/dtype.ts";

/** Whether values are bigints. */
export const isWide = (dtype: NumericDtype): boolean => dtype === "int64" || dtype === "uint64";

/** Least and greatest value; of floats the infinities. */
export function limitsOf(dtype: NumericDtype): readonly [number | bigint, number | bigint] {
  if (dtype === "int64") return [-(2n ** 63n), 2n ** 63n - 1n];
  if (dtype === "uint64") return [0n, 2n ** 64n - 1n];
  if (dtype === "float32" || dtype === "float64") return [-Infinity, Infinity];
  const bits = Number(dtype.match(/\d+/)?.[0] ?? 1);
  if (dtype.startsWith("u") || dtype === "bool") return [0, 2 ** bits - 1];
  return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
}

const SINGLE_MAX = 3.4028234663852886e38;

/** Least and greatest finite value. */
export function finiteLimitsOf(dtype: NumericDtype): readonly [number | bigint, number | bigint] {
  if (dtype === "float32") return [-SINGLE_MAX, SINGLE_MAX];
  if (dtype === "float64") return [-Number.MAX_VALUE, Number.MAX_VALUE];
  return limitsOf(dtype);
}
