// Models that cannot be served, and what becomes of loops and of weights in other files.

import path from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { openModelVersion } from "../../model-directory.ts";
import {
  OnnxMessage,
  nodeMessage,
  tensorMessage,
  valueMessage,
} from "../../saved-model/graph/onnx/onnx-message.ts";
import {
  externalTensor,
  floats,
  graphOf,
  modelOf,
  valueOfType,
  writeExport,
} from "../fixtures/onnx-exports.ts";
import type { WrittenGraph, WrittenNode } from "../fixtures/onnx-exports.ts";

const root = temporaryDirectory();
let versions = 0;

/** Opens a directory with these files. */
function opened(files: Readonly<Record<string, Uint8Array | string | object>>) {
  versions += 1;
  return openModelVersion(writeExport(path.join(root, String(versions)), files));
}

const open =
  (model: Uint8Array): (() => unknown) =>
  () =>
    opened({ "model.onnx": model });
const relu: WrittenNode = { op: "Relu", inputs: ["x"], outputs: ["y"] };

const integer = (name: string, value: number): OnnxMessage =>
  tensorMessage(name, { dtype: "int64", shape: [], data: BigInt64Array.of(BigInt(value)) });

/** A loop that doubles `x` as often as the value `iterations` says. */
function loopOf(iterations: string, inner: readonly WrittenNode[] = []): WrittenNode {
  const body = graphOf({
    nodes: [
      { op: "Identity", inputs: ["go"], outputs: ["go_on"] },
      { op: "Add", inputs: ["state", "state"], outputs: ["sum"] },
      ...inner,
    ],
    inputs: [
      valueMessage("iteration", "int64", []),
      valueMessage("go", "bool", []),
      floats("state", [-1, 2]),
    ],
    outputs: [valueMessage("go_on", "bool", []), floats("sum", [-1, 2])],
  });
  return {
    op: "Loop",
    inputs: [iterations, "", "x"],
    outputs: ["y"],
    name: "doubling",
    attributes: { body },
  };
}

describe("a model.onnx is refused", () => {
  test.each([
    ["of a later format", { irVersion: 14 }, /version 14 of the format; up to 13 are read/],
    ["of an older operator set", { opsets: { "": 6 } }, /operator set 6; 7 to 26 are read/],
    ["of a later operator set", { opsets: { "": 27 } }, /operator set 27; 7 to 26 are read/],
    ["of no operator set", { opsets: {} }, /names no operator set of ONNX/],
  ])("%s", (_, model, message) => {
    expect(open(modelOf({ nodes: [relu] }, model))).toThrow(message);
  });

  test.each<[string, WrittenGraph, RegExp]>([
    [
      "with operations that nobody has, all of them named",
      {
        nodes: [
          { op: "Frobnicate", inputs: ["x"], outputs: ["z"], name: "first" },
          { op: "Fuse", domain: "our.team", inputs: ["z"], outputs: ["y"] },
        ],
      },
      /operation Frobnicate \(node first\), operation our\.team\.Fuse \(node Fuse of y\); export/,
    ],
    [
      "that draws random numbers",
      { nodes: [{ op: "RandomNormalLike", inputs: ["x"], outputs: ["y"], name: "noise" }] },
      /RandomNormalLike \(node noise\) would draw random numbers; call eval\(\)/,
    ],
    [
      "that drops values out",
      { nodes: [{ op: "Dropout", inputs: ["x", "ratio", "training"], outputs: ["y"] }] },
      /Dropout .* random numbers/,
    ],
    [
      "with a batch of fixed size",
      { nodes: [relu], inputs: [floats("x", [1, 2])] },
      /input "x" has the fixed shape \[1,2\]; export with .*dynamic_shapes/,
    ],
    [
      "with scalars for all inputs, which tell no number of instances",
      { nodes: [relu], inputs: [floats("x", [])] },
      /input "x" has the fixed shape \[\]/,
    ],
    ["without an input", { nodes: [relu], inputs: [] }, /it has no input/],
    ["without an output", { nodes: [relu], outputs: [] }, /it has no output/],
    [
      "with two outputs of one name",
      { nodes: [relu], outputs: [floats("y", [-1]), floats("y", [-1])] },
      /two of its outputs are called "y"/,
    ],
    [
      "with strings for an input",
      { nodes: [relu], inputs: [valueOfType("x", 8)] },
      /input "x" is of type string; let it be an integer, .*vocabulary in winnow\.json/,
    ],
    [
      "with strings for an output",
      { nodes: [relu], outputs: [valueOfType("y", 8)] },
      /output "y" is of type string; leave it out of the model, or let it be an integer/,
    ],
    [
      "with complex numbers for an output",
      { nodes: [relu], outputs: [valueOfType("y", 14)] },
      /output "y" is of type complex64; cast it to float32/,
    ],
    [
      "with a sequence for an output",
      { nodes: [relu], outputs: [new OnnxMessage().bytes(1, "y").message(2, new OnnxMessage())] },
      /output "y" is a sequence, a map or an optional value, .*zipmap=False/,
    ],
  ])("%s", (_, graph, message) => {
    expect(open(modelOf(graph))).toThrow(message);
  });

  test("that is cut at any byte", () => {
    const whole = modelOf({ nodes: [relu] });
    for (let length = 0; length < whole.length; length += 1) {
      expect(open(whole.slice(0, length))).toThrow(/model\.onnx/);
    }
  });

  test("whose graphs lie in each other without an end", () => {
    let node: WrittenNode = relu;
    for (let depth = 0; depth < 40; depth += 1) {
      const attributes = { then_branch: graphOf({ nodes: [node] }) };
      node = { op: "If", inputs: ["x"], outputs: ["y"], attributes };
    }

    expect(open(modelOf({ nodes: [node] }))).toThrow(
      /graphs lie 17 deep in each other; at most 16/,
    );
  });
});

describe("a model.onnx is served", () => {
  test.each<[string, WrittenGraph, Readonly<Record<string, number>>]>([
    [
      "with a scalar beside inputs with instances",
      { nodes: [relu], inputs: [floats("temperature", []), floats("x", [-1, 2])] },
      { "": 17 },
    ],
    ["of operator set 7", { nodes: [relu] }, { "": 7 }],
    [
      "of trees alone, which need no operator set of ONNX",
      { nodes: [{ ...relu, op: "TreeEnsembleRegressor", domain: "ai.onnx.ml" }] },
      { "ai.onnx.ml": 1 },
    ],
  ])("%s", (_, graph, opsets) => {
    const model = modelOf(graph, { opsets });
    const version = opened({ "model.onnx": model });

    expect(version.program.denseModels).toEqual([model]);
    version.close();
  });
});

describe("loops", () => {
  test("of too many iterations are refused, those of one nest multiplied", () => {
    const many = { nodes: [loopOf("iterations")], initialisers: [integer("iterations", 100_001)] };
    const nest = {
      nodes: [
        loopOf("iterations", [
          { ...loopOf("again"), inputs: ["again", "", "sum"], outputs: ["z"] },
        ]),
      ],
      initialisers: [integer("iterations", 1000), integer("again", 101)],
    };

    expect(open(modelOf(many))).toThrow(
      /node doubling may take 100001 iterations .* at most 100000/,
    );
    expect(open(modelOf(nest))).toThrow(/node doubling may take 101000 iterations/);
  });

  test("of as many iterations as allowed are served as they are", () => {
    const model = modelOf({
      nodes: [loopOf("iterations")],
      initialisers: [integer("iterations", 100_000)],
    });
    const version = opened({ "model.onnx": model });

    expect(version.program.denseModels).toEqual([model]);
    version.close();
  });

  test("that end by a condition are bounded in their bodies, and refused without one or within another graph", () => {
    const go = tensorMessage("go_first", { dtype: "bool", shape: [], data: Uint8Array.of(1) });
    const conditional = { ...loopOf(""), inputs: ["", "go_first", "x"] };
    const inner = { ...conditional, inputs: ["", "go_first", "sum"], outputs: ["z"] };
    const initialisers = [go, integer("two", 2)];
    const version = opened({ "model.onnx": modelOf({ nodes: [conditional], initialisers }) });

    expect(Buffer.from(version.program.denseModels[0]!).toString("latin1")).toContain(
      "loop doubling takes more than 100000 iterations",
    );
    expect(open(modelOf({ nodes: [loopOf("")] }))).toThrow(
      /node doubling never ends, so .*; give the loop a number of iterations/,
    );
    expect(open(modelOf({ nodes: [loopOf("two", [inner])], initialisers }))).toThrow(
      /node doubling ends only by a condition inside of another graph, so.*EmbeddingBag with a padding_idx so: export/,
    );
    version.close();
  });

  test("that compute their iterations are bounded in the model, and refused within another loop or a function", () => {
    const count = valueMessage("count", "int64", [-1]);
    const inputs = [floats("x", [-1, 2]), count];
    const computed = { nodes: [loopOf("count")], inputs };
    const inner = {
      nodes: [loopOf("two", [loopOf("count")])],
      initialisers: [integer("two", 2)],
      inputs,
    };
    const body = new OnnxMessage().bytes(1, "Twice").bytes(10, "own");
    const opset = new OnnxMessage().bytes(1, "").int(2, 17);
    body.message(7, nodeMessage({ name: "", attributes: {}, ...loopOf("n") })).message(9, opset);
    const called = { op: "Twice", domain: "own", inputs: ["x"], outputs: ["y"] };
    const version = opened({ "model.onnx": modelOf(computed) });

    expect(Buffer.from(version.program.denseModels[0]!).toString("latin1")).toContain(
      "loop doubling takes more than 100000 iterations",
    );
    expect(open(modelOf(inner))).toThrow(
      /node doubling computes its iterations inside of another graph/,
    );
    expect(open(modelOf({ nodes: [called] }, { functions: [body] }))).toThrow(
      /node doubling is in a function/,
    );
    version.close();
  });
});

describe("weights beside the model", () => {
  const add: WrittenNode = { op: "Add", inputs: ["x", "w"], outputs: ["y"] };
  const modelWith = (entries: Readonly<Record<string, string>>): Uint8Array =>
    modelOf({ nodes: [add], initialisers: [externalTensor("w", [2], entries)] });
  const place = { location: "weights.bin", offset: "4", length: "8" };

  test("are put into it, and belong to the fingerprint", () => {
    const model = modelWith(place);
    const fingerprints = [0, 1].map((last) => {
      const weights = new Uint8Array(Float32Array.of(9, 1, 2, last).buffer);
      const version = opened({ "model.onnx": model, "weights.bin": weights });
      const { denseModels, fingerprint } = version.program;
      version.close();

      expect(Buffer.from(denseModels[0]!).includes(Buffer.from(weights.subarray(4, 12)))).toBe(
        true,
      );
      expect(Buffer.from(denseModels[0]!).includes("weights.bin")).toBe(false);
      return fingerprint;
    });

    expect(new Set(fingerprints).size).toBe(2);
  });

  test.each([
    [
      "that lead out of the directory",
      { ...place, location: "../weights.bin" },
      /tensor "w", location: "\.\.\/weights\.bin" is not the name of a file in the version directory/,
    ],
    [
      "at an absolute path",
      { ...place, location: "/etc/passwd" },
      /"\/etc\/passwd" is not the name/,
    ],
    ["without a place", {}, /"" is not the name of a file/],
    [
      "in a file that is not there",
      { ...place, location: "none.bin" },
      /none\.bin: there is no such file; model\.onnx has weights in it: copy it too, under the name/,
    ],
    ["of another length", { ...place, length: "12" }, /length "12" where 8 bytes belong/],
    ["at no offset", { ...place, offset: "-4" }, /offset "-4"/],
    [
      "behind the end of their file",
      { ...place, offset: "12" },
      /weights\.bin ends at byte 16 instead of 20; the file may be truncated/,
    ],
  ])("%s are refused", (_, entries, message) => {
    const files = { "model.onnx": modelWith(entries), "weights.bin": new Uint8Array(16) };

    expect(() => opened(files)).toThrow(message);
  });

  test("beyond 2 GiB are refused before they are read", () => {
    const initialisers = [externalTensor("w", [2 ** 20, 512], place)];
    const files = { "model.onnx": modelOf({ nodes: [add], initialisers }) };

    expect(() => opened(files)).toThrow(/takes 2147483\d+ bytes; up to 2147483647 are served/);
  });
});

test("a table within the model is told of where it would have been cut", () => {
  const directory = path.join(root, "large");
  const node = { op: "Gather", inputs: ["users", "x"], outputs: ["y"], name: "users/Gather" };
  const users = { dtype: "float32", shape: [5, 2], data: new Float32Array(10) } as const;
  const model = modelOf({
    nodes: [node],
    initialisers: [tensorMessage("users", users)],
    inputs: [valueMessage("x", "int64", [-1])],
  });
  writeExport(directory, { "model.onnx": model });
  const version = openModelVersion(directory, { partitionBytes: 39 });
  const { uncutTables } = version.program;
  version.close();
  const small = openModelVersion(directory, { partitionBytes: 40 });

  expect(uncutTables).toEqual([
    {
      tensor: "users",
      bytes: 40,
      ranking: undefined,
      obstacle: { node: "users/Gather", op: "Gather" },
    },
  ]);
  expect(small.program).not.toHaveProperty("uncutTables");
  small.close();
});
