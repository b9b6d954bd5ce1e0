// Features of any length: sparse (indices, values, shape) and ragged (values, row splits).

import type { Tensor } from "../../../tensor/tensor.ts";
import type { Example, Feature } from "./example-message.ts";
import { invalid } from "../../node-error.ts";
import { outputCount, stringsOf, tensorOf } from "../tensor-memory.ts";

/** Parsed examples, and the name of each in messages. */
export interface ExampleBatch {
  readonly examples: readonly Example[];
  readonly nameOf: (example: number) => string;
}

interface ListFeature {
  readonly key: string;
  readonly dtype: Feature["dtype"];
}

/** Every value with its (example, position); a missing feature has no values. */
export function sparseFeature(
  batch: ExampleBatch,
  feature: ListFeature,
): { readonly indices: Tensor; readonly values: Tensor; readonly shape: Tensor } {
  const lists = listsOf(batch, feature);
  const indices = lists.flatMap((list, row) =>
    list.flatMap((_, column) => [BigInt(row), BigInt(column)]),
  );
  const longest = lists.reduce((most, list) => Math.max(most, list.length), 0);
  return {
    indices: tensorOf("int64", [indices.length / 2, 2], BigInt64Array.from(indices)),
    values: flat(feature.dtype, lists),
    shape: tensorOf("int64", [2], BigInt64Array.of(BigInt(lists.length), BigInt(longest))),
  };
}

/** All values, and the row splits: the positions at which each example's values begin and end. */
export function raggedFeature(
  batch: ExampleBatch,
  feature: ListFeature & { readonly isNarrow: boolean },
): { readonly values: Tensor; readonly splits: Tensor } {
  const lists = listsOf(batch, feature);
  const ends = [0];
  for (const list of lists) ends.push(ends.at(-1)! + list.length);
  const splits = feature.isNarrow
    ? tensorOf("int32", [ends.length], Int32Array.from(ends))
    : tensorOf("int64", [ends.length], BigInt64Array.from(ends, BigInt));
  return { values: flat(feature.dtype, lists), splits };
}

type List = readonly (number | bigint | Uint8Array)[];

function listsOf({ examples, nameOf }: ExampleBatch, { key, dtype }: ListFeature): List[] {
  return examples.map((example, at) => {
    const found = example.get(key);
    if (found === undefined) return [];
    if (found.dtype !== dtype) {
      const types = `Data type: ${found.dtype} but expected type: ${dtype}`;
      throw invalid(
        `Name: ${nameOf(at)}, Key: ${key}, Index: ${at}.  Data types don't match. ${types}`,
      );
    }
    return found.values;
  });
}

function flat(dtype: Feature["dtype"], lists: readonly List[]): Tensor {
  const values = lists.flat();
  const shape = [outputCount([values.length])];
  return listTensor(dtype, shape, values);
}

/** Values of a feature's dtype as a tensor. */
export function listTensor(
  dtype: Feature["dtype"],
  shape: readonly number[],
  values: List,
): Tensor {
  if (dtype === "string") return stringsOf(shape, values as readonly Uint8Array[]);
  if (dtype === "int64")
    return tensorOf(dtype, shape, BigInt64Array.from(values as readonly bigint[]));
  return tensorOf(dtype, shape, Float32Array.from(values as readonly number[]));
}
