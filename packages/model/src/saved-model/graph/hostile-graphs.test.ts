// Small graphs that claim to be large: what they expand to stays within bounds, or is refused.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ProtobufWriter, WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { openModelVersion } from "../../model-directory.ts";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { constantValue, integersOf } from "./graph-value.ts";
import { readTensorProto } from "./definition/tensor-proto.ts";

const FLOAT = 1;
const BOOL = 10;
const HALF = 19;
const BFLOAT16 = 14;
const INT32 = 3;
const STRING = 7;

/** Fields of TensorProto. */
const INT_FIELD = 7;
const HALF_FIELD = 13;

interface Node {
  readonly name: string;
  readonly op: string;
  readonly inputs?: readonly string[];
  readonly attributes?: Readonly<Record<string, (value: ProtobufWriter) => unknown>>;
}

const type =
  (number: number) =>
  (value: ProtobufWriter): unknown =>
    value.int(6, number);

const count =
  (number: number) =>
  (value: ProtobufWriter): unknown =>
    value.int(3, number);

/** A constant with a shape and either no values or some. */
function constant(
  name: string,
  ...[dtype, shape, values = []]: [number, readonly number[], (readonly number[])?]
): Node {
  const value = (attribute: ProtobufWriter): unknown =>
    attribute.message(8, (tensor) => tensorOf(tensor, dtype, shape, values));
  return { name, op: "Const", attributes: { dtype: type(dtype), value } };
}

function tensorOf(
  tensor: ProtobufWriter,
  ...[dtype, shape, values]: [number, readonly number[], readonly number[]]
): void {
  tensor.int(1, dtype);
  tensor.message(2, (dims) => {
    for (const size of shape) dims.message(2, (dim) => dim.int(1, size));
  });
  for (const value of values) tensor.int(dtype === HALF ? HALF_FIELD : INT_FIELD, value);
}

/** saved_model.pb with one float input `x` and one output. */
function modelOf(nodes: readonly Node[], output: string): Uint8Array {
  const all = [{ name: "x", op: "Placeholder", attributes: { dtype: type(FLOAT) } }, ...nodes];
  const info = (name: string) => (tensor: ProtobufWriter) =>
    tensor
      .text(1, `${name}:0`)
      .int(2, FLOAT)
      .message(3, (shape) => shape.message(2, (dim) => dim.int(1, -1)));
  return new ProtobufWriter()
    .message(2, (meta) => {
      meta.message(1, (tags) => tags.text(4, "serve"));
      meta.message(2, (graph) => {
        for (const { name, op, inputs = [], attributes = {} } of all) {
          graph.message(1, (node) => {
            node.text(1, name).text(2, op);
            for (const input of inputs) node.text(3, input);
            for (const [key, write] of Object.entries(attributes)) {
              node.entry(5, key, (value) => void write(value));
            }
          });
        }
      });
      meta.entry(5, "serving_default", (signature) => {
        signature.entry(1, "x", (tensor) => void info("x")(tensor));
        signature.entry(2, "y", (tensor) => void info(output)(tensor));
        signature.text(3, "tensorflow/serving/predict");
      });
    })
    .finish();
}

const root = temporaryDirectory();

/** Bytes of the dense parts of a version with this graph, or the reason of its refusal. */
function outcomeOf(nodes: readonly Node[], output: string): number | string {
  mkdirSync(path.join(root, "1"), { recursive: true });
  writeFileSync(path.join(root, "1", "saved_model.pb"), modelOf(nodes, output));
  try {
    const version = openModelVersion(path.join(root, "1"));
    version.close();
    return version.program.denseModels.reduce((sum, { length }) => sum + length, 0);
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    return `${error.code} ${error.message}`;
  }
}

const add = (name: string, inputs: readonly string[]): Node => ({
  name,
  op: "AddV2",
  inputs,
  attributes: { T: type(FLOAT) },
});

describe("a graph that claims to be large", () => {
  test("in constants without values: up to 256 MiB are filled in, over all of them", () => {
    const sums = (count: number, size: number): Node[] =>
      Array.from({ length: count }, (_, index) => [
        constant(`c${index}`, FLOAT, [size]),
        add(`y${index}`, [index === 0 ? "x" : `y${index - 1}`, `c${index}`]),
      ]).flat();

    expect(outcomeOf(sums(2, 1000), "y1")).toBeGreaterThan(8000);
    expect(outcomeOf(sums(40, 2 ** 21), "y39")).toMatch(
      /^RESOURCE_EXHAUSTED .*constant c32: values that the file leaves out take \d+ bytes/,
    );
  });

  test("in constants that are worked out: what is too much stays an operation", () => {
    const fills = (count: number): Node[] =>
      Array.from({ length: count }, (_, index) => [
        constant(`d${index}`, INT32, [1], [2 ** 22]),
        {
          name: `f${index}`,
          op: "Fill",
          inputs: [`d${index}`, "zero"],
          attributes: { T: type(FLOAT), index_type: type(INT32) },
        },
        add(`y${index}`, [index === 0 ? "x" : `y${index - 1}`, `f${index}`]),
      ]).flat();
    const bytes = outcomeOf([constant("zero", FLOAT, []), ...fills(8)], "y7");

    // At most 2²⁴ floats of four bytes are folded; the eight fills of 2²² are twice as many.
    expect(bytes).toBeGreaterThan(2 ** 25);
    expect(bytes).toBeLessThan(2 ** 26 + 2 ** 20);
  });

  test("in roundings of its items, one behind the other: as many as there are, and no stack overflows", () => {
    const casts = Array.from({ length: 20_000 }, (_, index): Node => {
      const inputs = [index === 0 ? "items" : `r${index - 1}`];
      const to = type(index % 2 === 0 ? HALF : BFLOAT16);
      return { name: `r${index}`, op: "Cast", inputs, attributes: { DstT: to } };
    });
    const ranked: readonly Node[] = [
      constant("sizes", INT32, [2], [-1, 2]),
      constant("items", FLOAT, [4, 2]),
      { name: "q", op: "Reshape", inputs: ["x", "sizes"], attributes: { T: type(FLOAT) } },
      ...casts,
      { name: "v", op: "Cast", inputs: ["r19999"], attributes: { DstT: type(FLOAT) } },
      {
        name: "p",
        op: "MatMul",
        inputs: ["q", "v"],
        attributes: { T: type(FLOAT), transpose_b: (value) => value.int(5, 1) },
      },
      constant("k", INT32, [], [2]),
      { name: "y", op: "TopKV2", inputs: ["p", "k"], attributes: { T: type(FLOAT) } },
    ];

    expect(outcomeOf(ranked, "y")).toBeGreaterThan(0);
  });

  test("in operands of an addition to the scores of one vector: they are not looked at by pairs", () => {
    const scores: readonly Node[] = [
      constant("column", INT32, [2], [2, 1]),
      constant("flat", INT32, [1], [3]),
      constant("items", FLOAT, [3, 2], [1, 2, 3, 4, 5, 6]),
      { name: "q", op: "Reshape", inputs: ["x", "column"], attributes: { T: type(FLOAT) } },
      { name: "p", op: "MatMul", inputs: ["items", "q"], attributes: { T: type(FLOAT) } },
      { name: "s", op: "Reshape", inputs: ["p", "flat"], attributes: { T: type(FLOAT) } },
      constant("w", FLOAT, [3], [1, 2, 3]),
    ];
    const ranked: readonly Node[] = [
      ...scores,
      add("v", [...Array.from({ length: 20_000 }, () => "w"), "s"]),
      constant("k", INT32, [], [2]),
      { name: "y", op: "TopKV2", inputs: ["v", "k"], attributes: { T: type(FLOAT) } },
    ];

    expect(outcomeOf(ranked, "y")).toBeGreaterThan(0);
  });

  test("in flags beside scores, one behind the other: they are followed for some steps", () => {
    const named = (op: string, name: string, inputs: readonly string[]): Node => {
      return { name, op, inputs, attributes: { T: type(FLOAT) } };
    };
    const scores: readonly Node[] = [
      constant("sizes", INT32, [2], [-1, 2]),
      constant("items", FLOAT, [2, 4]),
      constant("one", FLOAT, [], [1]),
      constant("k", INT32, [], [2]),
      named("Reshape", "q", ["x", "sizes"]),
      named("MatMul", "p", ["q", "items"]),
      named("Greater", "c0", ["p", "one"]),
    ];
    const conditions = Array.from({ length: 40 }, (_, at) => {
      return named("LogicalAnd", `c${at + 1}`, [`c${at}`, `c${at}`]);
    });
    const cast: Node = {
      ...named("Cast", "f0", ["c40"]),
      attributes: { SrcT: type(BOOL), DstT: type(FLOAT) },
    };
    const flags = Array.from({ length: 20_000 }, (_, at) => {
      return named("Sub", `f${at + 1}`, ["one", `f${at}`]);
    });
    for (const last of ["f0", "f9", "f20000"]) {
      const sum = named("AddV2", "s", ["p", last]);
      const ranked = [...scores, ...conditions, cast, ...flags, sum];

      expect(outcomeOf([...ranked, named("TopKV2", "y", ["s", "k"])], "y")).toBeGreaterThan(0);
    }
  });

  test("in dimensions: as many as TensorFlow has", () => {
    const zero = constant("zero", INT32, []);
    const expanded = Array.from({ length: 300 }, (_, index) => ({
      name: `e${index}`,
      op: "ExpandDims",
      inputs: [index === 0 ? "x" : `e${index - 1}`, "zero"],
      attributes: { T: type(FLOAT), Tdim: type(INT32) },
    }));

    expect(outcomeOf([zero, ...expanded], "e299")).toMatch(/^INVALID_ARGUMENT .*255 dimensions/);
    const sizes = Array.from({ length: 300 }, () => 1);
    expect(outcomeOf([constant("c", FLOAT, sizes), add("y", ["x", "c"])], "y")).toMatch(
      /^DATA_LOSS .*more than 254 dimensions/,
    );
  });

  test("in a list of sizes: it is not taken for a shape", () => {
    const list = constantValue({ dtype: "int32", shape: [70_000], data: new Int32Array(70_000) });

    expect(integersOf(list)).toBeUndefined();
    const sizes = constant("sizes", INT32, [2 ** 24]);
    const shaped = { name: "y", op: "Reshape", inputs: ["x", "sizes"] };
    const attributes = { T: type(FLOAT), Tshape: type(INT32) };
    expect(outcomeOf([sizes, { ...shaped, attributes }], "y")).toBeDefined();
  });

  test("in strings: a list is as long as its bytes allow", () => {
    const content = new ProtobufWriter();
    tensorOf(content, STRING, [2 ** 30], []);
    const bytes = content.text(4, "short").finish();

    expect(() => readTensorProto(bytes, "words")).toThrow(/words: it holds 5 bytes of strings/);
    const claimed = new ProtobufWriter();
    tensorOf(claimed, STRING, [2 ** 30], []);
    expect(() => readTensorProto(claimed.finish(), "words")).toThrow(
      /up to 268435456 are filled in/,
    );
  });

  test("in constants one after the other, again and again", () => {
    const doubled = Array.from({ length: 60 }, (_, index) => {
      const part = index === 0 ? "c" : `d${index - 1}`;
      const attributes = { N: count(2), T: type(FLOAT), Tidx: type(INT32) };
      return { name: `d${index}`, op: "ConcatV2", inputs: [part, part, "zero"], attributes };
    });
    const nodes = [constant("c", FLOAT, [4]), constant("zero", INT32, []), ...doubled];

    // What is too large to be worked out stays an operation of the dense part.
    expect(outcomeOf([...nodes, add("y", ["x", "d59"])], "y")).toBeLessThan(2 ** 27);
  });
});

describe("half values", () => {
  const half = constant("half", HALF, [2], [0x3c00, 0x4000]);
  const cast: Node = {
    name: "wide",
    op: "Cast",
    inputs: ["sum"],
    attributes: { SrcT: type(HALF), DstT: type(FLOAT) },
  };
  const sum = { name: "sum", op: "AddV2", inputs: ["half", "half"], attributes: { T: type(HALF) } };

  test("that are computed with are float32 that is rounded after each operation", () => {
    expect(outcomeOf([half, sum, cast, add("y", ["x", "wide"])], "y")).toBeGreaterThan(8);
  });

  test("that are cast to float32 first are constants like others", () => {
    const wide = { ...cast, inputs: ["half"] };

    expect(outcomeOf([half, wide, add("y", ["x", "wide"])], "y")).toBeGreaterThan(8);
  });
});
