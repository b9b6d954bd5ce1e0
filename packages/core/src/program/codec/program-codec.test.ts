// Programs cross a network: a decoded program equals the encoded one, and damaged bytes are
// DATA_LOSS.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { WinnowError } from "../../errors/errors.ts";
import { fingerprint } from "../../identity.ts";
import { StringColumn } from "../../tensor/string-column.ts";
import { stringTensor } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import {
  decodeProgram,
  decodeProgramPackage,
  encodeProgram,
  encodeProgramPackage,
} from "./program-codec.ts";
import type { ProgramPackage } from "./program-codec.ts";
import type { ModelProgram, SignatureProgram } from "../program.ts";
import { tensorOf } from "../operations/tensor-memory.ts";

const source = { tensor: "users", file: "variables.data-00000-of-00001", checksum: 0xfedcba98 };
const shape = { rows: 4, dim: 2, partitions: 1, sources: [source] };

const signature: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [
    { name: "user", graphTensor: "serving_default_user:0", value: 0, dtype: "string", shape: [-1] },
  ],
  outputs: [
    { name: "output_1", graphTensor: "call:0", value: 4, dtype: "float32", shape: [-1, 2] },
    { name: "output_2", graphTensor: "call:1", value: 5, dtype: "string", shape: undefined },
  ],
  constants: [{ value: 1, tensor: tensorOf("int64", [], BigInt64Array.of(-(2n ** 63n))) }],
  steps: [
    {
      kind: "host",
      op: "StringLower",
      node: "lower",
      attributes: {
        encoding: "utf-8",
        boundaries: [1.5, -0, Infinity],
        names: ["a", "__proto__"],
        keep_dims: true,
        axis: -1,
        empty: [],
      },
      vocabulary: 0,
      inputs: [0],
      outputs: [2],
    },
    { kind: "lookup", table: 0, node: "gather", keys: 2, output: 3 },
    {
      kind: "dense",
      model: 0,
      inputs: [{ name: "x", value: 3 }],
      outputs: [{ name: "y", value: 6, dtype: "float32" }],
      rankings: [
        { node: "top", scores: "z", items: 9, k: 2, best: "y" },
        { node: "other_top", scores: "z", items: 3, k: 3, rows: "y", described: 0 },
      ],
    },
    {
      kind: "topK",
      table: 1,
      node: "top_k",
      query: 6,
      k: 2,
      capped: false,
      scores: 4,
      rows: undefined,
      ids: 5,
      when: { predicate: 1, isTrue: false },
    },
    { kind: "choice", node: "cond", predicate: 1, branches: [4, 6], output: 7 },
    {
      kind: "topK",
      table: 1,
      node: "top_k_of_functions",
      query: 6,
      k: 2,
      capped: false,
      functions: [{ op: "Div", operand: 1 }, { op: "Sigmoid" }],
      masks: [
        {
          keeps: { kind: "test", column: "genre", is: "in", values: 2 },
          score: -1,
          functionsBefore: 1,
          penalty: 1,
          isFactor: true,
        },
      ],
      scores: 9,
      rows: 10,
      ids: undefined,
    },
    {
      kind: "topK",
      table: 1,
      node: "top_k_of_request",
      query: 6,
      k: { value: 1 },
      capped: true,
      masks: [
        {
          keeps: {
            kind: "and",
            of: [
              { kind: "not", of: { kind: "test", column: "genre", is: "in", values: 2 } },
              { kind: "test", column: "price", is: "lte", values: 1 },
            ],
          },
          score: -Infinity,
          functionsBefore: 0,
        },
      ],
      scores: undefined,
      rows: 8,
      ids: undefined,
    },
    {
      kind: "topK",
      table: 1,
      node: "top_k_of_masks",
      query: 6,
      k: 2,
      capped: false,
      functions: [{ op: "Tanh" }],
      masks: [
        {
          keeps: { kind: "test", column: "genre", is: "in", values: 2 },
          score: -Infinity,
          functionsBefore: 0,
        },
        {
          keeps: { kind: "test", column: "price", is: "lte", values: 1 },
          score: 0,
          functionsBefore: 1,
          penalty: 1,
          bonus: 1,
        },
        {
          keeps: { kind: "test", column: "genre", is: "in", values: 1 },
          score: 0,
          functionsBefore: 1,
          penalty: 2,
          isElse: true,
        },
      ],
      scores: 13,
      rows: 14,
      ids: undefined,
    },
    {
      kind: "topK",
      table: 1,
      node: "top_k_of_interests",
      query: 6,
      vectors: 2,
      k: 2,
      capped: false,
      scores: 11,
      rows: 12,
      ids: undefined,
    },
  ],
};

const program: ModelProgram = {
  fingerprint: fingerprint("ab12"),
  uncutTables: [
    { tensor: "kernel", bytes: 2 ** 40, ranking: "top", obstacle: { node: "soft", op: "Softmax" } },
  ],
  tables: [
    {
      kind: "keyed",
      name: "users",
      ...shape,
      keys: {
        kind: "vocabulary",
        keyDtype: "string",
        missing: { kind: "hash", firstRow: 1, buckets: 2 },
        fixed: { keys: stringTensor([""]), rows: [0] },
      },
    },
    {
      kind: "candidate",
      name: "movies",
      ...shape,
      idDtype: "string",
      added: 1,
      masks: [
        { name: "genre", type: "string", isList: false },
        { name: "price", type: "float", isList: false },
      ],
    },
    { kind: "keyed", name: "by row", ...shape, keys: { kind: "row" } },
    {
      kind: "candidate",
      name: "with added items",
      ...shape,
      partitions: 3,
      idDtype: "int64",
      original: { rows: 2, partitions: 1 },
    },
  ],
  vocabularies: [
    {
      name: "table",
      keys: stringTensor(["a", "日"]),
      values: tensorOf("int64", [2], BigInt64Array.of(1n, 2n)),
    },
  ],
  denseModels: [Uint8Array.of(8, 7, 1, 2, 3)],
  rankedItems: [
    {
      columns: [
        {
          spec: { name: "year", type: "integer", isList: false },
          values: Float64Array.of(1954, 1995),
          codes: Uint8Array.of(1, 2, 0),
        },
        {
          spec: { name: "genres", type: "string", isList: true },
          values: StringColumn.fromText(["crime", "日"]),
          codes: Uint8Array.of(0, 1, 2),
          offsets: Uint32Array.of(0, 2, 2, 3),
        },
        {
          spec: { name: "serial", type: "integer", isList: false },
          values: BigInt64Array.from({ length: 300 }, (_, at) => 2n ** 60n + BigInt(at)),
          codes: Uint16Array.of(299, 300, 0),
        },
      ],
    },
  ],
  signatures: [signature],
};

const contents: ProgramPackage = {
  program,
  inlineTables: new Map([
    [
      0,
      {
        partition: {
          globalRows: Uint32Array.of(0, 1, 2, 3),
          keys: stringTensor(["u1"]),
          keyRows: Uint32Array.of(3),
        },
        values: Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8),
      },
    ],
    [
      2,
      {
        partition: {
          globalRows: Uint32Array.of(0, 1, 2, 3),
          keys: undefined,
          keyRows: new Uint32Array(),
        },
        values: new Float32Array(8),
      },
    ],
  ]),
};

/** Attributes decode into objects without a prototype; they are compared as plain objects. */
function withPlainAttributes(packed: ProgramPackage): ProgramPackage {
  const signatures = packed.program.signatures.map((each) => {
    const steps = each.steps.map((step) => {
      return step.kind === "host" ? { ...step, attributes: { ...step.attributes } } : step;
    });
    return { ...each, steps };
  });
  return { ...packed, program: { ...packed.program, signatures } };
}

/** `undefined` for a message that decodes, the error code for one that is refused. */
function refusalOf(message: Uint8Array): string | undefined {
  try {
    decodeProgramPackage(message);
    return undefined;
  } catch (error) {
    return error instanceof WinnowError ? error.code : String(error);
  }
}

/** The message with its header changed as text. */
function withHeader(change: (header: string) => string): Uint8Array {
  const message = encodeProgramPackage(contents);
  const length = new DataView(message.buffer).getUint32(4, true);
  const text = change(Buffer.from(message.subarray(8, 8 + length)).toString());
  const header = Buffer.from(text);
  const start = Math.ceil((8 + header.length) / 8) * 8;
  const blobs = message.subarray(Math.ceil((8 + length) / 8) * 8);
  const changed = new Uint8Array(start + blobs.length);
  changed.set(message.subarray(0, 4));
  new DataView(changed.buffer).setUint32(4, header.length, true);
  changed.set(header, 8);
  changed.set(blobs, start);
  return changed;
}

const numbers = (length: number) => {
  const data = BigInt64Array.from({ length }, (_, at) => BigInt(at));
  return { dtype: "int64", shape: [length], data } as const;
};

describe("a program's bytes", () => {
  test("give back the program and its inline tables", () => {
    const decoded = decodeProgramPackage(encodeProgramPackage(contents));

    expect(withPlainAttributes(decoded)).toEqual(contents);
  });

  test("may lie anywhere in a larger buffer", () => {
    const message = encodeProgram(program);
    const padded = new Uint8Array(message.length + 3);
    padded.set(message, 3);

    expect(decodeProgram(padded.subarray(3)).tables).toEqual(program.tables);
  });

  test("are copied, but for a dense model that is most of them: that one is a view", () => {
    const onnx = Uint8Array.from({ length: 2 ** 16 }, (_, at) => at);
    const large = encodeProgram({ ...program, denseModels: [onnx] });
    const others = { name: "others", keys: numbers(2 ** 14), values: numbers(2 ** 14) };
    const vocabularies = [...program.vocabularies, others];
    const small = encodeProgram({ ...program, vocabularies, denseModels: [onnx] });

    const [most] = decodeProgram(large).denseModels;
    const decoded = decodeProgram(small);
    const [little] = decoded.denseModels;

    expect([most, little]).toEqual([onnx, onnx]);
    expect(most!.buffer).toBe(large.buffer);
    expect(little!.buffer).not.toBe(small.buffer);
  });

  test("keep tensors of every element type, and slices of columns", () => {
    const tensor = fc.oneof<fc.Arbitrary<Tensor>[]>(
      fc.float32Array().map((data) => tensorOf("float32", [data.length], data)),
      fc.bigInt64Array().map((data) => tensorOf("int64", [1, data.length], data)),
      fc.uint16Array().map((data) => tensorOf("uint16", [data.length, 1], data)),
      fc.array(fc.uint8Array()).map((strings) => {
        const column = StringColumn.fromBytes([Uint8Array.of(1), ...strings, Uint8Array.of(2)]);
        return tensorOf("string", [strings.length], column.slice(1, strings.length + 1));
      }),
    );

    fc.assert(
      fc.property(fc.array(tensor), (tensors) => {
        const constants = tensors.map((each, at) => ({ value: 100 + at, tensor: each }));
        const all = {
          ...program,
          signatures: [{ ...signature, constants: [...signature.constants, ...constants] }],
        };

        const decoded = decodeProgram(encodeProgram(all)).signatures[0]!.constants.slice(1);

        for (const [at, { tensor: copy }] of decoded.entries()) {
          const { data } = tensors[at]!;
          expect({ ...copy, data: [] }).toEqual({ ...tensors[at]!, data: [] });
          expect(copy.data instanceof StringColumn ? copy.data.toText() : copy.data).toEqual(
            data instanceof StringColumn ? data.toText() : data,
          );
        }
      }),
    );
  });

  test("with any byte changed decode, or are DATA_LOSS", () => {
    const message = encodeProgramPackage(contents);

    fc.assert(
      fc.property(fc.nat(message.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = message.slice();
        changed[at]! ^= change;

        expect([undefined, "DATA_LOSS"]).toContain(refusalOf(changed));
      }),
      { numRuns: 2000 },
    );
  });

  test("cut short at any length are DATA_LOSS", () => {
    const message = encodeProgramPackage(contents);
    const refusals = Array.from({ length: message.length - 8 }, (_, length) =>
      refusalOf(message.subarray(0, length)),
    );

    expect(new Set(refusals)).toEqual(new Set(["DATA_LOSS"]));
  });

  test.each([
    ["a table that is not there", '"kind":"lookup","table":0', '"kind":"lookup","table":9'],
    ["a lookup in a candidate table", '"kind":"lookup","table":0', '"kind":"lookup","table":1'],
    ["a value nobody defines", '"query":6', '"query":60'],
    ["a predicate nobody defines", '"when":{"predicate":1', '"when":{"predicate":8'],
    ["a mask by a column that is not there", '"column":"genre"', '"column":"genus"'],
    ["a bonus nobody defines", '"bonus":1', '"bonus":71'],
    ["several masks of which there are none", '"masks":[', '"masks":[],"musks":['],
    [
      "masks in another order than their functions",
      '"score":"-Infinity","functionsBefore":0},{',
      '"score":"-Infinity","functionsBefore":2},{',
    ],
    [
      "a mask that is else and replaces scores",
      '"penalty":2,"isElse":true',
      '"penulty":2,"isElse":true',
    ],
    [
      "a mask that is else before all others",
      '"score":"-Infinity","functionsBefore":0},{',
      '"score":0,"penalty":1,"isElse":true,"functionsBefore":0},{',
    ],
    ["queries of no vector", '"vectors":2', '"vectors":0'],
    ["a masked search without a mask", '"rows":8,"mask":', '"rows":8,"musk":'],
    ["a function that is not known", '"op":"Sigmoid"', '"op":"Sigmund"'],
    [
      "two softmaxes",
      '{"op":"Div","operand":1},{"op":"Sigmoid"}',
      '{"op":"Softmax"},{"op":"LogSoftmax"}',
    ],
    ["a function of a value nobody defines", '"op":"Div","operand":1', '"op":"Div","operand":77'],
    ["a penalty nobody defines", '"penalty":1', '"penalty":71'],
    ["a mask behind more functions than there are", '"functionsBefore":1', '"functionsBefore":3'],
    ["attributes of other items than those that are ranked", '"items":3', '"items":4'],
    ["attributes that nobody brings", '"described":0', '"described":1'],
    [
      "lists of values that are none",
      '"name":"year","type":"integer","isList":false',
      '"name":"year","type":"integer","isList":true',
    ],
    ["lists with other ends than they have", '"lists":3', '"lists":2'],
    ["codes of another number of values", '"shape":[300]', '"shape":[30]'],
    ["three branches", '"branches":[4,6]', '"branches":[4,6,6]'],
    ["a value defined twice", '"output":3', '"output":2'],
    ["an operation that does not exist", "StringLower", "StringLow3r"],
    ["a blob outside the message", '"data":[', '"data":[800'],
    ["a shape of more values than the blob holds", '"shape":[2]', '"shape":[3]'],
    ["an element type that does not exist", '"dtype":"int64"', '"dtype":"int46"'],
    ["a negative size", '"rows":4', '"rows":-4'],
    ["OOV rows outside the table", '"firstRow":1', '"firstRow":3'],
    ["no partitions", '"partitions":1', '"partitions":0'],
  ])("that name %s are DATA_LOSS", (_, from, to) => {
    const changed = withHeader((header) => {
      expect(header).toContain(from);
      return header.replace(from, to);
    });

    expect(refusalOf(changed)).toBe("DATA_LOSS");
  });

  test("call searches with masks, functions or several vectors by kinds of their own, so that who knows none refuses them", () => {
    const kinds: string[] = [];
    withHeader((header) => {
      kinds.push(...Array.from(header.matchAll(/"kind":"(\w*[tT]opK)"/g), ([, kind]) => kind!));
      return header;
    });

    expect(kinds).toEqual(["topK", "rankedTopK", "maskedTopK", "manyMaskTopK", "manyVectorTopK"]);
  });

  test("do not reach any prototype", () => {
    const polluted = withHeader((header) => header.replace("{", '{"__proto__":{"polluted":1},'));

    const decoded = decodeProgram(polluted);

    expect({}).not.toHaveProperty("polluted");
    expect(decoded).not.toHaveProperty("polluted");
    const [step] = decoded.signatures[0]!.steps;
    expect(Object.getPrototypeOf(step?.kind === "host" ? step.attributes : {})).toBeNull();
  });
});
