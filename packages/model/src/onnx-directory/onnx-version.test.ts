// From the files of an export to its program: signatures, vocabularies, searches, contents.

import { createHash } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { crc32c, decodeProgramPackage, encodeProgramPackage } from "@winnow/core";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { openModelVersion } from "../model-directory.ts";
import type { ModelVersion } from "../model-version.ts";
import {
  OnnxMessage,
  tensorMessage,
  valueMessage,
} from "../saved-model/graph/onnx/onnx-message.ts";
import type { WrittenGraph } from "./fixtures/onnx-exports.ts";
import { floats, identityModel, modelOf, npy, writeExport } from "./fixtures/onnx-exports.ts";

const root = temporaryDirectory();
let versions = 0;

type Files = Readonly<Record<string, Uint8Array | string | object>>;

function written(files: Files): string {
  versions += 1;
  return writeExport(path.join(root, String(versions)), files);
}

const opened = (files: Files): ModelVersion => openModelVersion(written(files));

/** A model of an embedding of four rows, looked up by `user`. */
function embeddingModel(dtype: "int64" | "int32" | "float32" = "int64"): Uint8Array {
  const table = { dtype: "float32", shape: [4, 2], data: new Float32Array(8) } as const;
  return modelOf({
    nodes: [{ op: "Gather", inputs: ["users", "user"], outputs: ["y"] }],
    initialisers: [tensorMessage("users", table)],
    inputs: [valueMessage("user", dtype, [-1])],
  });
}

function int64s(name: string, ...values: readonly bigint[]): OnnxMessage {
  const data = BigInt64Array.from(values);
  return tensorMessage(name, { dtype: "int64", shape: [values.length], data });
}

const described = { inputs: { user: { vocabulary: "users.txt" } } };
const LINES = "a\nb\nc\nd\n";

test("a model.onnx alone is a ranking model: its inputs and outputs are those of the signature", () => {
  const inputs = [floats("x", [-1, 2]), valueMessage("id", "int32", [-1])];
  const outputs = [floats("y", [-1, 2]), valueMessage("z", "int32", [-1])];
  const nodes = [
    { op: "Relu", inputs: ["x"], outputs: ["y"] },
    { op: "Neg", inputs: ["id"], outputs: ["z"] },
  ];
  const version = opened({ "model.onnx": modelOf({ nodes, inputs, outputs }) });
  const { program } = version;
  const [signature] = program.signatures;
  version.close();

  expect(signature).toEqual({
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [
      { name: "x", dtype: "float32", shape: [-1, 2], graphTensor: "x", value: 0 },
      { name: "id", dtype: "int32", shape: [-1], graphTensor: "id", value: 1 },
    ],
    outputs: [
      { name: "y", dtype: "float32", shape: [-1, 2], graphTensor: "y", value: 2 },
      { name: "z", dtype: "int32", shape: [-1], graphTensor: "z", value: 3 },
    ],
    constants: [],
    steps: [
      {
        kind: "dense",
        model: 0,
        inputs: [
          { name: "x", value: 0 },
          { name: "id", value: 1 },
        ],
        outputs: [
          { name: "y", value: 2, dtype: "float32" },
          { name: "z", value: 3, dtype: "int32" },
        ],
      },
    ],
  });
  expect(program.tables).toEqual([]);
  expect(
    decodeProgramPackage(encodeProgramPackage({ program, inlineTables: new Map() })).program,
  ).toEqual(program);
});

describe("a vocabulary", () => {
  test("makes an input one of strings, whatever integers the model has", () => {
    for (const dtype of ["int64", "int32"] as const) {
      const version = opened({
        "model.onnx": embeddingModel(dtype),
        "winnow.json": described,
        "users.txt": LINES,
      });
      const [signature] = version.program.signatures;

      expect(signature!.inputs[0]).toMatchObject({ name: "user", dtype: "string", shape: [-1] });
      expect(signature!.steps.some((step) => step.kind === "host" && step.op === "Cast")).toBe(
        dtype === "int32",
      );
      expect(version.program.vocabularies[0]!.values.data).toEqual(
        BigInt64Array.of(0n, 1n, 2n, 3n),
      );
      version.close();
    }
  });

  const files = { "model.onnx": embeddingModel(), "winnow.json": described };
  const unknown = (row: number): object => ({
    inputs: { user: { vocabulary: "users.txt", unknown: row } },
  });
  test.each<[string, Files, RegExp]>([
    [
      "that is cut",
      { ...files, "users.txt": "a\nb\nc\n" },
      /users\.txt has 3 entries where the embedding "users" has 4 rows; the file may be cut; where it is not, say which row is "unknown", or list the file in SHA256SUMS/,
    ],
    [
      "that is longer than its embedding",
      { ...files, "users.txt": `${LINES}e\n` },
      /users\.txt has 5 entries where the embedding "users" has 4 rows; export both of one training/,
    ],
    [
      "whose unknown row is beyond",
      { ...files, "users.txt": LINES, "winnow.json": unknown(4) },
      /"unknown" is 4 where the embedding "users" has 4 rows, of which the first is 0/,
    ],
    [
      "behind a byte order mark",
      { ...files, "users.txt": `\uFEFF${LINES}` },
      /Cannot read users\.txt: it begins with a byte order mark; write it as UTF-8 without one/,
    ],
    [
      "in Latin-1",
      { ...files, "users.txt": Buffer.from("a\nb\ncaf\xe9\nd\n", "latin1") },
      /Cannot read users\.txt: line 3 is not UTF-8; write the file in UTF-8/,
    ],
    [
      "with a key twice",
      { ...files, "users.txt": "a\nb\nb\nd\n" },
      /inputs\.user\.vocabulary: lines 2 and 3 of users\.txt are one key/,
    ],
    [
      "with an empty line",
      { ...files, "users.txt": "a\n\nb\nd\n" },
      /Invalid content in users\.txt: empty line/,
    ],
    ["that is empty", { ...files, "users.txt": "" }, /users\.txt: it holds no line/],
    ["that is not there", files, /users\.txt: there is no such file/],
    [
      "outside of the directory",
      { ...files, "winnow.json": { inputs: { user: { vocabulary: "../users.txt" } } } },
      /winnow\.json, line 1, inputs\.user\.vocabulary: "\.\.\/users\.txt" is not the name of a file/,
    ],
    [
      "of no input",
      {
        ...files,
        "users.txt": LINES,
        "winnow.json": { inputs: { reader: { vocabulary: "users.txt" } } },
      },
      /model\.onnx has no input "reader", but user/,
    ],
    [
      "of floats",
      { ...files, "users.txt": LINES, "model.onnx": embeddingModel("float32") },
      /input "user" of model\.onnx is float32; only int64 and int32/,
    ],
  ])("%s is refused", (_, of, message) => {
    expect(() => opened(of)).toThrow(message);
  });

  test("may be shorter than its embedding with a row for unknown strings, or where a manifest lists it", () => {
    const short = { ...files, "users.txt": "a\nb\nc\n" };
    opened({ ...short, "winnow.json": unknown(3) }).close();
    const sums = Object.entries(short).map(([name, content]) => {
      const bytes =
        content instanceof Uint8Array || typeof content === "string"
          ? content
          : JSON.stringify(content);
      return `${createHash("sha256").update(bytes).digest("hex")}  ${name}\n`;
    });
    const listed = opened({ ...short, SHA256SUMS: sums.join("") });

    expect(listed.files).toContainEqual(
      expect.objectContaining({ name: "users.txt", entries: 3, isListed: true }),
    );
    expect(() => opened({ ...short, SHA256SUMS: sums.slice(0, 2).join("") })).toThrow(
      /the version uses users\.txt, which SHA256SUMS does not list/,
    );
    expect(() => opened({ ...short, "users.txt": "a\nb\nd\n", SHA256SUMS: sums.join("") })).toThrow(
      /users\.txt is not the file that SHA256SUMS lists/,
    );
    listed.close();
  });
});

describe("retrieval", () => {
  const items = npy(["<f4", [3, 2]], Float32Array.of(1, 2, 3, 4, 5, 6));
  const wanted = (retrieval: object): Files => ({
    "model.onnx": identityModel(2),
    "items.npy": items,
    "winnow.json": { retrieval: { items: { file: "items.npy" }, k: 2, ...retrieval } },
  });
  const vectorsModel = (shape: readonly number[]): Uint8Array =>
    modelOf({
      nodes: [{ op: "Relu", inputs: ["x"], outputs: ["y"] }],
      inputs: [floats("x", shape)],
      outputs: [floats("y", shape)],
    });
  const twoOutputs = modelOf({
    nodes: [
      { op: "Relu", inputs: ["x"], outputs: ["y"] },
      { op: "Cast", inputs: ["x"], outputs: ["z"], attributes: { to: 7 } },
    ],
    outputs: [floats("y", [-1, 2]), valueMessage("z", "int64", [-1, 2])],
  });

  test("answers scores and rows, under the names that are wanted", () => {
    const version = opened({
      ...wanted({ query: "y", outputs: { ids: "books" } }),
      "model.onnx": twoOutputs,
    });
    const [signature] = version.program.signatures;
    version.close();

    expect(signature!.outputs).toEqual([
      { name: "scores", dtype: "float32", shape: [-1, 2], graphTensor: "scores", value: 3 },
      { name: "books", dtype: "int32", shape: [-1, 2], graphTensor: "books", value: 4 },
    ]);
    expect(signature!.steps.map(({ kind }) => kind)).toEqual(["dense", "topK"]);
  });

  test("searches with the best of several vectors if the query has them", () => {
    const files = { ...wanted({ ids: { file: "ids.txt" } }), "ids.txt": "a\nb\nc\n" };
    const version = opened({ ...files, "model.onnx": vectorsModel([-1, 3, 2]) });
    const { steps } = version.program.signatures[0]!;
    version.close();

    expect(steps.map(({ kind }) => kind)).toEqual(["dense", "dense", "topK"]);
    // Lists are put together by rows, whatever is answered.
    expect(steps[2]).toMatchObject({ vectors: 3, rows: expect.any(Number) as number });
  });

  test.each<[string, Pick<WrittenGraph, "nodes" | "initialisers">]>([
    [
      "view(-1, 3, 2)",
      {
        initialisers: [int64s("sizes", -1n, 3n, 2n)],
        nodes: [{ op: "Reshape", inputs: ["x", "sizes"], outputs: ["y"] }],
      },
    ],
    [
      "view(x.size(0), 3, 2)",
      {
        initialisers: [int64s("zero", 0n), int64s("rest", 3n, 2n)],
        nodes: [
          { op: "Shape", inputs: ["x"], outputs: ["shape"] },
          { op: "Gather", inputs: ["shape", "zero"], outputs: ["batch"] },
          { op: "Concat", inputs: ["batch", "rest"], outputs: ["sizes"], attributes: { axis: 0 } },
          { op: "Reshape", inputs: ["x", "sizes"], outputs: ["y"] },
        ],
      },
    ],
  ])("knows the vectors of a query that ends with %s, declared by names alone", (_, graph) => {
    const inputs = [floats("x", [-1, 6])];
    const model = modelOf({ ...graph, inputs, outputs: [floats("y", [-1, -1, -1])] });
    const version = opened({ ...wanted({}), "model.onnx": model });
    const { steps } = version.program.signatures[0]!;
    version.close();

    expect(steps.at(-1)).toMatchObject({ kind: "topK", vectors: 3 });
  });

  test("reads shapes that are stored as numbers, the largest int64 among them", () => {
    // onnx.helper.make_tensor writes int64_data, and the end of an open slice is the largest int64.
    const largest = Uint8Array.of(0x38, ...Array<number>(8).fill(0xff), 0x7f);
    const ends = new OnnxMessage().int(1, 1).int(2, 7).bytes(8, "ends").fields(largest);
    const version = opened({
      "model.onnx": modelOf({
        initialisers: [int64s("starts", 0n), ends],
        nodes: [{ op: "Slice", inputs: ["x", "starts", "ends"], outputs: ["y"] }],
      }),
    });
    const { signatures } = version.program;
    version.close();

    expect(signatures[0]!.inputs[0]).toMatchObject({ name: "x", shape: [-1, 2] });
  });

  test.each<[string, Files, RegExp]>([
    [
      "more vectors than a query may have",
      { ...wanted({}), "model.onnx": vectorsModel([-1, 16_385, 2]) },
      /a query of 16385 vectors of 2 values; it may have 32768 values/,
    ],
    [
      "a number of vectors that is not told",
      { ...wanted({}), "model.onnx": vectorsModel([-1, -1, 2]) },
      /float32 \[-1,-1,2\] where float32 \[batch,2\], .*, or \[batch,vectors,2\] with a fixed number of vectors/,
    ],
    [
      "more items than there are",
      wanted({ k: 4 }),
      /winnow\.json, line 1, retrieval\.k: 4 items are wanted where the table has 3/,
    ],
    [
      "an output that is not named",
      { ...wanted({}), "model.onnx": twoOutputs },
      /retrieval\.query: model\.onnx has not one output, but y, z; name one of them/,
    ],
    ["an output that is not there", wanted({ query: "q" }), /has not an output "q", but y/],
    [
      "an output of integers",
      { ...wanted({ query: "z" }), "model.onnx": twoOutputs },
      /output "z" of model\.onnx is int64 \[-1,2\] where float32 \[batch,2\]/,
    ],
    [
      "a query of other values",
      { ...wanted({}), "model.onnx": identityModel(3) },
      /output "y" of model\.onnx is float32 \[-1,3\] where float32 \[batch,2\], as the rows of items\.npy/,
    ],
  ])("of %s is refused", (_, files, message) => {
    expect(() => opened(files)).toThrow(message);
  });

  test("a table that was not cut is opened at partition 0 alone", () => {
    const version = opened(wanted({}));

    expect(version.openPartition(0, 0).rows).toBe(3);
    expect(() => version.openPartition(0, 1)).toThrow(/partitions 0 to 0, not 1/);
    version.close();
  });
});

describe("a directory", () => {
  test("of two models, or of half of one, is refused", () => {
    const both = written({
      "saved_model.pb": "",
      "winnow.json": {},
      "model.onnx": identityModel(2),
    });
    const half = written({ "winnow.json": {} });

    expect(() => openModelVersion(both)).toThrow(
      /holds both saved_model\.pb and winnow\.json; leave/,
    );
    expect(() => openModelVersion(half)).toThrow(
      /holds a winnow\.json, but no model\.onnx; the copy may be incomplete/,
    );
    expect(() => openModelVersion(written({}))).toThrow(
      /holds no saved_model\.pb, no model\.onnx, no pipeline\.yaml/,
    );
  });

  test.each(["model.onnx", "items.npy", "ids.txt"])(
    "whose %s is a pointer that Git has instead of the file is refused",
    (name) => {
      const files: Files = {
        "model.onnx": identityModel(2),
        "items.npy": npy(["<f4", [1, 2]], Float32Array.of(1, 2)),
        "ids.txt": "a\n",
        "winnow.json": {
          retrieval: { items: { file: "items.npy" }, ids: { file: "ids.txt" }, k: 1 },
        },
      };
      const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
      opened(files).close();

      expect(() => opened({ ...files, [name]: pointer })).toThrow(
        `Cannot read ${name}: it is a pointer of Git LFS, not the file; fetch it with "git lfs pull"`,
      );
    },
  );

  test("S7: whose table changes between opening and reading is noticed by its shares", () => {
    const values = Float32Array.of(1, 2, 3, 4);
    const directory = written({
      "model.onnx": identityModel(2),
      "items.npy": npy(["<f4", [2, 2]], values),
      "winnow.json": { retrieval: { items: { file: "items.npy" }, k: 1 } },
    });
    const version = openModelVersion(directory);
    writeFileSync(
      path.join(directory, "items.npy"),
      npy(["<f4", [2, 2]], Float32Array.of(1, 2, 3, 5)),
    );
    const reader = version.openPartition(0, 0);
    for (const _ of reader.chunks());
    const [source] = version.program.tables[0]!.sources;

    expect(source!.checksum).toBe(crc32c(new Uint8Array(values.buffer)));
    expect(reader.checksumShares()).not.toEqual([source!.checksum]);
    version.close();
    rmSync(directory, { recursive: true });
  });
});
