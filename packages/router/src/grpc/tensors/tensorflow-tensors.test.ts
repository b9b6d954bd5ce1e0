// Tensors as TensorFlow 2.21 itself serialises them (tf.make_tensor_proto): arrays as content, one value
// that fills a shape, strings. tf.make_ndarray and tf.io.parse_tensor read every answer written here back.

import { StringColumn, type Dtype, type Tensor } from "@winnow/core";
import { expect, test } from "vitest";
import { TensorBudget } from "./tensor-budget.ts";
import { readTensorProto } from "./tensor-proto-reader.ts";

type Row = readonly [Dtype, readonly number[], readonly unknown[], string];

const RECORDED: readonly Row[] = [
  ["float32", [3], [1.5, -0, 2], "0801120412020803220c0000c03f0000008000000040"],
  ["float32", [2, 2], [-0, -0, -0, -0], "0801120812020802120208022a0400000080"],
  [
    "float64",
    [3],
    [1.5, -0, 2],
    "08021204120208032218000000000000f83f00000000000000800000000000000040",
  ],
  ["float64", [2, 2], [-0, -0, -0, -0], "08021208120208021202080232080000000000000080"],
  ["int8", [3], [1, -2, 3], "0806120412020803220301fe03"],
  ["int8", [2, 2], [-2, -2, -2, -2], "0806120812020802120208023a0afeffffffffffffffff01"],
  ["uint8", [3], [1, 200, 3], "0804120412020803220301c803"],
  ["uint8", [2, 2], [200, 200, 200, 200], "0804120812020802120208023a02c801"],
  ["int16", [3], [1, -2, 300], "080512041202080322060100feff2c01"],
  ["int16", [2, 2], [-2, -2, -2, -2], "0805120812020802120208023a0afeffffffffffffffff01"],
  ["uint16", [3], [1, 2, 60_000], "08111204120208033a050102e0d403"],
  ["uint16", [2, 2], [2, 2, 2, 2], "0811120812020802120208023a0102"],
  ["int32", [3], [1, -2, 3], "0803120412020803220c01000000feffffff03000000"],
  ["int32", [2, 2], [-2, -2, -2, -2], "0803120812020802120208023a0afeffffffffffffffff01"],
  ["uint32", [3], [1, 2, 4_000_000_000], "0816120412020803220c010000000200000000286bee"],
  ["uint32", [2, 2], [2, 2, 2, 2], "08161208120208021202080282010102"],
  [
    "int64",
    [3],
    [1n, -2n, 2n ** 40n],
    "080912041202080322180100000000000000feffffffffffffff0000000000010000",
  ],
  ["int64", [2, 2], [-2n, -2n, -2n, -2n], "080912081202080212020802520afeffffffffffffffff01"],
  [
    "uint64",
    [3],
    [1n, 2n, 2n ** 63n],
    "08171204120208032218010000000000000002000000000000000000000000000080",
  ],
  ["uint64", [2, 2], [2n, 2n, 2n, 2n], "0817120812020802120208028a010102"],
  ["bool", [3], [1, 0, 1], "080a1204120208035a03010001"],
  ["bool", [2, 2], [0, 0, 0, 0], "080a120812020802120208025a0100"],
  ["string", [3], ["a", "", "é"], "080712041202080342016142004202c3a9"],
  ["string", [], ["a"], "08071200420161"],
];

const valuesOf = ({ data }: Tensor): unknown[] =>
  data instanceof StringColumn ? data.toText() : Array.from<unknown>(data);

test.each(RECORDED)("%s %j reads as TensorFlow wrote it", (...[dtype, shape, values, hex]) => {
  const expected = { name: "x", dtype };

  const tensor = readTensorProto(Buffer.from(hex, "hex"), expected, new TensorBudget(1000));

  expect(tensor).toMatchObject({ dtype, shape });
  expect(valuesOf(tensor)).toEqual(values);
});
