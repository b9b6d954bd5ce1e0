// What a model stores of each item (genre, language, price, whether it is in stock), as columns of which masks make tests.

import type { Tensor } from "@winnow/core";
import type { StoredTensor } from "../../../partitions/stored-table.ts";
import { producerOf } from "../../graph-value.ts";
import type { GraphValue } from "../../graph-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { vectorBefore } from "../values/rearrangement.ts";

/** Where a condition stands. */
export interface Within {
  readonly items: number;
  readonly scalars: ScalarReader;
  readonly depth: number;
}

/** The operands of one of these operations; none where another one gave the value. */
export function operandsOf(value: GraphValue, ...ops: readonly string[]): readonly GraphValue[] {
  return producerOf(value, ...ops)?.inputs ?? [];
}

/** How many scores a query has; -1 where that is not known. */
export function itemsOf({ shape }: GraphValue): number {
  return shape?.length === 2 ? shape[1]! : -1;
}

/** What is true of each row: a condition on queries alone keeps all rows of those for which it is true. */
export function everyItem(items: number): StoredTensor {
  const tensor: Tensor = { dtype: "bool", shape: [items], data: new Uint8Array(items).fill(1) };
  return { kind: "constant", name: `every row [${items}]`, tensor };
}

/** The number of each row. */
export function rowColumn(items: number): StoredTensor {
  const data = Int32Array.from({ length: items }, (_, row) => row);
  const tensor: Tensor = { dtype: "int32", shape: [items], data };
  return { kind: "constant", name: `rows [${items}]`, tensor };
}

const REARRANGEMENTS_MAX = 16;
const DTYPES: ReadonlySet<string> = new Set(["string", "int32", "int64", "float32", "bool"]);

/** A stored vector with one value per item, which stands at this axis from the last one. */
export function columnOf(
  value: GraphValue,
  items: number,
  fromLast: number,
): StoredTensor | undefined {
  if (value.shape?.at(-1 - fromLast) !== items || !DTYPES.has(value.dtype)) return undefined;
  let vector: GraphValue | undefined = value;
  for (let step = 0; vector !== undefined && step < REARRANGEMENTS_MAX; step += 1) {
    const { shape, dtype, stored, constant } = vector;
    const isVector = shape?.filter((size) => size !== 1).join() === String(items);
    if (!isVector || dtype !== value.dtype) return undefined;
    if (stored !== undefined) return stored;
    if (constant !== undefined) {
      return { kind: "constant", name: `constant [${items}]`, tensor: constant };
    }
    vector = vectorBefore(vector);
  }
  return undefined;
}
