// Requests choose the tensors that reach host operations. For any tensors an operation gives
// well-formed tensors or throws a WinnowError, and its output is never out of proportion.

import fc from "fast-check";
import { expect, test } from "vitest";

import { isBigInts } from "../../tensor/dtype.ts";
import type { Dtype } from "../../tensor/dtype.ts";
import { WinnowError } from "../../errors/errors.ts";
import { StringColumn } from "../../tensor/string-column.ts";
import { elementCount } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { hostOperationNames, runHostStep } from "./host-operations.ts";
import type { Attribute } from "../program.ts";
import { stringsOf, tensorOf, zeros } from "./tensor-memory.ts";
import { indexVocabularies } from "../vocabulary-index.ts";

const dtypes = ["string", "int32", "int64", "float32", "bool", "uint8", "float64"] as const;
const shapes = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 3 });
const integer = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: -2, max: 4 }) },
  { weight: 1, arbitrary: fc.constantFrom(2 ** 31 - 1, -(2 ** 31), 2 ** 24, 1000) },
);

function tensorWith(dtype: Dtype, shape: readonly number[], values: readonly number[]): Tensor {
  const count = elementCount(shape);
  const valueAt = (at: number): number => values[at % values.length]!;
  if (dtype === "string") {
    const texts = ["", "a b", "12", "\u65e5", "a|b", "\xff"];
    return stringsOf(
      shape,
      Array.from({ length: count }, (_, at) => Buffer.from(texts.at(valueAt(at) % 6)!, "latin1")),
    );
  }
  const data = zeros(dtype, shape);
  for (let at = 0; at < count; at += 1) {
    if (isBigInts(data)) data[at] = BigInt(valueAt(at));
    else data[at] = dtype === "bool" ? valueAt(at) & 1 : valueAt(at);
  }
  return tensorOf(dtype, shape, data);
}

const anyTensor = fc
  .tuple(fc.constantFrom(...dtypes), shapes, fc.array(integer, { minLength: 1, maxLength: 9 }))
  .map(([dtype, shape, values]) => tensorWith(dtype, shape, values));

const attributes: fc.Arbitrary<Record<string, Attribute>> = fc.record({
  axis: fc.integer({ min: -3, max: 3 }),
  DstT: fc.constantFrom(...dtypes),
  out_type: fc.constantFrom("int32", "int64", "float32"),
  batch_dims: fc.integer({ min: -1, max: 2 }),
  num_split: fc.integer({ min: 0, max: 3 }),
  num: fc.integer({ min: 0, max: 3 }),
  shrink_axis_mask: fc.nat(7),
  new_axis_mask: fc.nat(7),
  ellipsis_mask: fc.constantFrom(0, 1, 2, 4),
  begin_mask: fc.nat(7),
  end_mask: fc.nat(7),
  keep_dims: fc.boolean(),
  binary_output: fc.boolean(),
  pattern: fc.constantFrom("a", "", "(a", "[[:punct:]]", "b*"),
  rewrite: fc.constantFrom("", "\\0", "\\9"),
  num_buckets: fc.constantFrom(0, 7, 2 ** 40),
  hash_key: fc.constant(956_888_297_470),
  key: fc.constant([1, 2]),
  unit: fc.constantFrom("BYTE", "UTF8_CHAR"),
  row_partition_types: fc.constantFrom<string[]>(
    ["ROW_SPLITS"],
    ["ROW_SPLITS", "ROW_SPLITS"],
    ["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
    ["VALUE_ROWIDS"],
    [],
  ),
  ngram_widths: fc.constant([1, 2]),
  maxsplit: fc.integer({ min: -1, max: 2 }),
  boundaries: fc.constant([0, 2]),
  Tdense: fc.constantFrom<string[]>(["string"], ["int64", "float32"]),
  dense_shapes: fc.constantFrom<string[]>([""], ["2", "-1"], []),
  sparse_types: fc.constantFrom<string[]>(["string"], []),
  squeeze_dims: fc.constantFrom<number[]>([], [0], [1]),
});

const vocabularies = indexVocabularies([
  { name: "v", keys: tensorWith("string", [2], [0, 1]), values: tensorWith("int64", [2], [5, 6]) },
]);

/** The fault of an operation; `undefined` if it gives well-formed tensors or a WinnowError. */
function faultOf(run: () => readonly Tensor[]): string | undefined {
  try {
    for (const { dtype, shape, data } of run()) {
      if (data.length !== elementCount(shape))
        return `${data.length} values in [${shape.join(",")}]`;
      if ((dtype === "string") !== data instanceof StringColumn) return `${dtype} in another array`;
    }
    return undefined;
  } catch (error) {
    return error instanceof WinnowError ? undefined : `threw ${String(error)}`;
  }
}

test.each(hostOperationNames)(
  "%s gives well formed tensors or refuses, whatever it is given",
  (op) => {
    fc.assert(
      fc.property(fc.array(anyTensor, { maxLength: 5 }), attributes, (inputs, given) => {
        const step = {
          kind: "host",
          op,
          node: "n",
          attributes: given,
          vocabulary: 0,
          inputs: [],
          outputs: [],
        } as const;

        expect(faultOf(() => runHostStep(step, inputs, vocabularies))).toBeUndefined();
      }),
      { numRuns: 100 },
    );
  },
);
