// Whole SavedModels: those of the writer, and real exports, whole and damaged.

import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { ProtobufWriter, StringColumn, WinnowError } from "@winnow/core";
import { openModelVersion } from "../model-directory.ts";
import { RECORDED_MODELS } from "./fixtures/version-directory.ts";
import type { WrittenMatrix } from "@winnow/model-writer";
import { writeRankingModel, writeRetrievalModel } from "@winnow/model-writer";

const work = mkdtempSync(path.join(os.tmpdir(), "winnow-saved-model-"));

afterAll(() => rmSync(work, { recursive: true, force: true }));

function matrix(rows: number, dim: number): WrittenMatrix {
  const values = Float32Array.from({ length: rows * dim }, (_, index) => Math.fround(index / 7));
  return { rows, dim, pieces: () => [values] };
}

const words = (count: number, prefix: string): StringColumn =>
  StringColumn.fromText(Array.from({ length: count }, (_, index) => `${prefix}${index}`));

const FLOAT = 1;
const STRING = 7;

test("a signature written by hand has the types of its placeholders, and any shape where it states none", () => {
  const directory = path.join(work, "by-hand");
  mkdirSync(directory);
  const bytes = new ProtobufWriter()
    .message(2, (meta) => {
      meta.message(1, (tags) => tags.text(4, "serve"));
      meta.message(2, (graph) => {
        graph.message(1, (node) =>
          node
            .text(1, "tf_example")
            .text(2, "Placeholder")
            .entry(5, "dtype", (value) => value.int(6, STRING)),
        );
      });
      meta.entry(5, "regress", (signature) => {
        signature.entry(1, "inputs", (info) => info.text(1, "tf_example:0").int(2, FLOAT));
        signature.entry(2, "outputs", (info) => info.text(1, "tf_example:0").int(2, STRING));
      });
    })
    .finish();
  writeFileSync(path.join(directory, "saved_model.pb"), bytes);

  const version = openModelVersion(directory);
  const [signature] = version.program.signatures;
  version.close();

  expect(signature?.inputs).toMatchObject([{ name: "inputs", dtype: "string", shape: undefined }]);
});

describe("models of the writer", () => {
  test("a retrieval model becomes lookup, dense part and search", () => {
    const directory = path.join(work, "retrieval");
    writeRetrievalModel(directory, {
      users: { vocabulary: words(20, "u"), oovRows: 2, maskToken: "", embedding: matrix(23, 4) },
      tower: [{ kernel: new Float32Array(16), bias: new Float32Array(4), relu: true }],
      candidates: matrix(30, 4),
      identifiers: words(30, "item "),
      k: 5,
    });

    const version = openModelVersion(directory);
    const { program } = version;
    version.close();

    const signature = program.signatures.find(({ name }) => name === "serving_default");
    expect(signature?.steps.map(({ kind }) => kind)).toEqual(["lookup", "dense", "topK"]);
    expect(program.vocabularies).toEqual([]);
    expect(program.tables.map(({ kind, rows, dim }) => ({ kind, rows, dim }))).toEqual([
      { kind: "keyed", rows: 23, dim: 4 },
      { kind: "candidate", rows: 30, dim: 4 },
    ]);
    const [users] = program.tables;
    const keys = users?.kind === "keyed" ? users.keys : undefined;
    expect(keys).toMatchObject({
      kind: "vocabulary",
      missing: { kind: "hash", firstRow: 1, buckets: 2 },
      fixed: { rows: [0] },
    });
  });

  test("a vocabulary in assets/ and one in the graph give the same keyed table", () => {
    const parts = (["graph", "asset"] as const).map((place) => {
      const directory = path.join(work, place);
      writeRankingModel(directory, {
        users: { vocabulary: words(9, "u"), place, embedding: matrix(10, 2) },
        items: { vocabulary: words(5, "i"), place, embedding: matrix(6, 2) },
        layers: [{ kernel: new Float32Array(4), bias: new Float32Array(1), relu: false }],
      });
      const version = openModelVersion(directory);
      const readers = version.program.tables.map((table, number) => {
        return Array.from({ length: table.partitions }, (_, partition) => {
          return version.openPartition(number, partition).keyed;
        });
      });
      version.close();
      return {
        keys: version.program.tables.map((table) => "keys" in table && table.keys),
        readers,
      };
    });

    expect(parts[0]).toEqual(parts[1]);
  });

  test("opening reads no rows", () => {
    const directory = path.join(work, "large");
    writeRetrievalModel(directory, {
      users: { vocabulary: words(10, "u"), embedding: matrix(11, 64) },
      candidates: matrix(20_000, 64),
      identifiers: words(20_000, "item "),
      k: 5,
    });

    const version = openModelVersion(directory);
    const read = version.bytesRead;
    version.close();

    expect(read).toBeLessThan(200_000);
  });
});

/** Real exports that use many different operations between them. */
const FUZZED = ["keras3_features", "text_vectorization", "exclusions", "streaming", "tf_example"];

test("a graph that was copied as text says so", () => {
  const directory = path.join(work, "as-text");
  cpSync(path.join(RECORDED_MODELS, "dense_only", "1"), directory, { recursive: true });
  const file = path.join(directory, "saved_model.pb");
  writeFileSync(file, readFileSync(file).toString("utf8"));

  expect(() => openModelVersion(directory)).toThrow(
    /^Cannot read saved_model\.pb: .* it was copied as text .* copy it as bytes$/,
  );
});

describe.each(FUZZED)("a damaged %s", (name) => {
  const directory = path.join(work, `damaged-${name}`);
  cpSync(path.join(RECORDED_MODELS, name, "1"), directory, { recursive: true });
  const whole = readFileSync(path.join(directory, "saved_model.pb"));

  /** Opens the model with another graph file: it must open or be refused, never crash. */
  function openWith(bytes: Uint8Array): void {
    writeFileSync(path.join(directory, "saved_model.pb"), bytes);
    try {
      openModelVersion(directory).close();
    } catch (error) {
      if (!(error instanceof WinnowError)) throw error;
    }
  }

  test("is refused in words when cut off anywhere", () => {
    const lengths = Array.from({ length: 25 }, (_, part) => Math.floor((part * whole.length) / 25));

    for (const length of lengths) {
      expect(() => openWith(whole.subarray(0, length)), `${length} bytes`).not.toThrow();
    }
  });

  test("is refused in words or served when bytes change", () => {
    const change = fc.record({
      at: fc.integer({ min: 0, max: whole.length - 1 }),
      value: fc.integer({ min: 0, max: 255 }),
    });

    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), (changes) => {
        const bytes = Uint8Array.from(whole);
        for (const { at, value } of changes) bytes[at] = value;
        openWith(bytes);
      }),
      { numRuns: 120 },
    );
    expect(whole.length).toBeGreaterThan(0);
  });
});

test("a directory without a model is NOT_FOUND", () => {
  const empty = mkdtempSync(path.join(work, "empty-"));

  expect(() => openModelVersion(empty)).toThrow(/holds no saved_model.pb/);
});

test.each([
  [
    "model.keras",
    /^Cannot open .*: model\.keras is read by Keras alone; .*load_model\("model\.keras"\)\.export/,
  ],
  ["model.h5", /load_model\("model\.h5"\)\.export/],
  ["m.weights.h5", /belongs to weights without a model; load them into it/],
  ["checkpoint", /belongs to weights without a model/],
  ["model.tflite", /is for TensorFlow Lite/],
  ["model.pt", /is read by PyTorch alone; .*torch\.onnx\.export/],
  ["tower.onnx", /rename tower\.onnx/],
  [
    "export/saved_model.pb",
    /holds no saved_model\.pb.*; move the files beside its export\/saved_model\.pb one folder up/,
  ],
])("a directory with %s alone is refused with what to do", (name, message) => {
  const directory = mkdtempSync(path.join(work, "other-"));
  mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
  writeFileSync(path.join(directory, name), "");

  expect(() => openModelVersion(directory)).toThrow(message);
});

test("a graph saved as text is refused with advice", () => {
  const text = mkdtempSync(path.join(work, "text-"));
  copyFileSync(
    path.join(RECORDED_MODELS, "hashing/oracle.json"),
    path.join(text, "saved_model.pbtxt"),
  );

  expect(() => openModelVersion(text)).toThrow(/save it as binary/);
});

describe("a real export, altered", () => {
  /** Replaces text of one length everywhere in the graph file. */
  function altered(name: string, from: string, to: string): string {
    const directory = path.join(work, `altered-${name}-${to}`);
    cpSync(path.join(RECORDED_MODELS, name, "1"), directory, { recursive: true });
    const graph = path.join(directory, "saved_model.pb");
    const text = readFileSync(graph, "latin1").replaceAll(from, to);
    writeFileSync(graph, text, "latin1");
    return directory;
  }

  test("is refused by the name of an operation nobody knows, its node and signature", () => {
    const directory = altered("named_outputs", "Sigmoid", "Sigmund");

    const open = (): unknown => openModelVersion(directory);

    expect(open).toThrow(expect.objectContaining({ code: "UNIMPLEMENTED" }));
    expect(open).toThrow(/signature ".*" of saved_model.pb: operation Sigmund \(node .*Sigmund/);
  });

  test("is refused when nothing is tagged for serving", () => {
    const directory = altered("module_no_ids", "\u0005serve", "\u0005train");

    expect(() => openModelVersion(directory)).toThrow(
      /no graph tagged "serve"; its graphs: \[train\]/,
    );
  });

  test("is refused when a variable is missing from the checkpoint", () => {
    const directory = altered("module_no_ids", "candidates/.ATT", "candidatex/.ATT");

    expect(() => openModelVersion(directory)).toThrow(
      expect.objectContaining({
        code: "NOT_FOUND",
        message: expect.stringContaining("candidatex"),
      }),
    );
  });

  test("is refused when a dense weight does not match its checksum", () => {
    const directory = altered("dense_only", "model", "model");
    const data = path.join(directory, "variables/variables.data-00000-of-00001");
    const bytes = readFileSync(data);
    for (let at = 0; at < bytes.length; at += 16) bytes[at]! ^= 1;
    writeFileSync(data, bytes);

    expect(() => openModelVersion(directory)).toThrow(
      expect.objectContaining({ code: "DATA_LOSS" }),
    );
  });

  test("lists the initialiser among its signatures", () => {
    const version = openModelVersion(path.join(RECORDED_MODELS, "module_no_ids", "1"));
    version.close();

    const [initialiser] = version.program.signatures;

    expect(initialiser).toMatchObject({
      name: "__saved_model_init_op",
      methodName: "",
      inputs: [],
      outputs: [{ name: "__saved_model_init_op", graphTensor: "NoOp", shape: undefined }],
      steps: [],
    });
  });
});

describe("what real exports become", () => {
  const stepsOf = (name: string, signature = "serving_default"): string[] => {
    const version = openModelVersion(path.join(RECORDED_MODELS, name, "1"));
    version.close();
    const found = version.program.signatures.find((program) => program.name === signature);
    return (found?.steps ?? []).map((step) => (step.kind === "host" ? step.op : step.kind));
  };

  test.each([
    ["lookup_mask_token", ["lookup", "lookup", "dense"]],
    ["lookup_oov_buckets", ["lookup", "topK"]],
    ["lookup_integer", ["lookup", "topK"]],
    ["lookup_file_vocabulary", ["lookup", "topK"]],
    ["keras3_two_tower", ["lookup", "lookup", "dense"]],
    ["module_raw_query", ["topK"]],
    ["streaming", ["lookup", "topK"]],
    ["dense_only", ["dense"]],
    ["tf_example", ["ParseExampleV2", "lookup", "Cast", "RealDiv", "dense"]],
  ])("%s: %j", (name, steps) => {
    expect(stepsOf(name)).toEqual(steps);
  });

  test("ids that Keras takes by the rows of a search are those of the item table", () => {
    const version = openModelVersion(path.join(RECORDED_MODELS, "keras_rs_retrieval", "1"));
    version.close();

    expect(stepsOf("keras_rs_retrieval", "serve")).toEqual(["lookup", "dense", "topK"]);
    expect(stepsOf("keras_rs_retrieval", "ids_alone")).toEqual(["lookup", "dense", "topK"]);
    const items = version.program.tables.flatMap((table) =>
      table.kind === "candidate" ? table : [],
    );
    expect(items.filter(({ idDtype }) => idDtype === "int32")).toHaveLength(2);
  });

  test("titles of an inverse StringLookup are ids of the item table, its row for unknown keys too", () => {
    expect(stepsOf("keras_rs_retrieval", "titles")).toEqual(["lookup", "dense", "topK"]);
  });

  test("exclusions are handled after one search that both signatures share", () => {
    const version = openModelVersion(path.join(RECORDED_MODELS, "exclusions", "1"));
    version.close();

    expect(version.program.tables.map(({ kind }) => kind)).toEqual(["keyed", "candidate"]);
    expect(version.program.denseModels).toEqual([]);
    expect(stepsOf("exclusions", "unseen").slice(0, 2)).toEqual(["lookup", "topK"]);
  });
});
