// What a body means to a signature, and every sentence with which one is refused.

import {
  WinnowError,
  fingerprint,
  type Dtype,
  type ModelProgram,
  type SignatureProgram,
} from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JsonReader } from "../json/json-reader.ts";
import {
  parseRequestBody,
  readPredictInputs,
  readSignatureName,
  signatureNamed,
} from "./predict-request.ts";

function signatureOf(inputs: Readonly<Record<string, Dtype>>): SignatureProgram {
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: Object.entries(inputs).map(([name, dtype], value) => ({
      name,
      dtype,
      shape: undefined,
      graphTensor: name,
      value,
    })),
    outputs: [],
    constants: [],
    steps: [],
  };
}

function read(body: string | Uint8Array): JsonReader {
  const document = new JsonReader({ valuesMax: 1e6 });
  parseRequestBody(document, Buffer.from(body));
  return document;
}

const inputsOf = (
  body: string | object,
  inputs: Readonly<Record<string, Dtype>> = { x: "string" },
): ReturnType<typeof readPredictInputs> =>
  readPredictInputs(
    read(typeof body === "string" ? body : JSON.stringify(body)),
    signatureOf(inputs),
  );

describe("readPredictInputs()", () => {
  test("adds the batch dimension to rows and leaves columns as they are", () => {
    const rows = inputsOf({ instances: [[[1, 2]], [[3, 4]]] }, { x: "float32" });
    const columns = inputsOf(
      { inputs: { x: [[1, 2]], y: 5, other: "ignored" } },
      {
        x: "float32",
        y: "int64",
      },
    );

    expect(rows.inputs.get("x")).toEqual({
      dtype: "float32",
      shape: [2, 1, 2],
      data: Float32Array.of(1, 2, 3, 4),
    });
    expect(columns.inputs.get("x")?.shape).toEqual([1, 2]);
    expect(columns.inputs.get("y")).toEqual({
      dtype: "int64",
      shape: [],
      data: BigInt64Array.of(5n),
    });
    expect([rows.format, rows.instances, columns.format]).toEqual(["row", 2, "column"]);
  });

  test("count the instances of columns by those that have a batch", () => {
    const columns = inputsOf(
      { inputs: { k: 5, user: ["a", "b"] } },
      { k: "int32", user: "string" },
    );

    expect(columns.instances).toBe(2);
  });

  test.each<[Dtype, string, readonly (number | bigint)[]]>([
    [
      "float32",
      "[1, -2.5, NaN, 1e300, -Infinity, 16777217]",
      [1, -2.5, NaN, Infinity, -Infinity, 16_777_216],
    ],
    ["float64", "[1, 0.1, 18446744073709551615]", [1, 0.1, 18_446_744_073_709_552_000]],
    ["int8", "[-128, 127]", [-128, 127]],
    ["uint8", "[0, 255]", [0, 255]],
    ["int16", "[-32768, 32767]", [-32_768, 32_767]],
    ["uint16", "[0, 65535]", [0, 65_535]],
    ["int32", "[-2147483648, 2147483647]", [-2_147_483_648, 2_147_483_647]],
    ["uint32", "[0, 4294967295]", [0, 4_294_967_295]],
    [
      "int64",
      "[-9223372036854775808, 9223372036854775807, -0]",
      [-(2n ** 63n), 2n ** 63n - 1n, 0n],
    ],
    ["uint64", "[0, 18446744073709551615]", [0n, 2n ** 64n - 1n]],
    ["bool", "[true, false]", [1, 0]],
  ])("reads %s from %s", (dtype, list, values) => {
    const { inputs } = inputsOf(`{"inputs": ${list}}`, { x: dtype });

    const data = inputs.get("x")!.data as ArrayLike<number | bigint>;
    expect(Array.from(data)).toEqual(values);
  });

  test.each<[Dtype, string]>([
    ["int8", "128"],
    ["uint8", "-1"],
    ["int16", "32768"],
    ["uint16", "65536"],
    ["int32", "2147483648"],
    ["int32", "1.0"],
    ["uint32", "-1"],
    ["int64", "9223372036854775808"],
    ["uint64", "-1"],
    ["uint64", "18446744073709551616"],
    ["bool", "1"],
    ["float32", '"1"'],
    ["float64", "null"],
    ["string", "1"],
  ])("refuses for %s the value %s", (dtype, value) => {
    const name = { float32: "float", float64: "double" }[dtype as string] ?? dtype;

    expect(() => inputsOf(`{"inputs": ${value}}`, { x: dtype })).toThrow(
      ` is not of expected type: ${name}`,
    );
  });

  test("keeps strings as bytes, UTF-8 or not", () => {
    const body = Buffer.concat([
      Buffer.from('{"instances": ["'),
      Buffer.from([0xff, 0x00 + 0x41]),
      Buffer.from('", {"b64": "AP8="}]}'),
    ]);

    const { inputs } = readPredictInputs(read(body), signatureOf({ x: "string" }));

    const { data } = inputs.get("x") as { data: { at(index: number): Uint8Array } };
    expect([...data.at(0)]).toEqual([0xff, 0x41]);
    expect([...data.at(1)]).toEqual([0, 0xff]);
  });

  // JSON.stringify writes -0 as 0, hence the sum.
  test("reads any strings and float32 matrix as what they are", () => {
    const strings = fc.array(fc.string({ unit: "grapheme" }), { minLength: 1, maxLength: 20 });
    const numbers = fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), {
      minLength: 3,
      maxLength: 3,
    });
    fc.assert(
      fc.property(strings, numbers, (texts, vector) => {
        const instances = texts.map((text) => ({ text, vector }));

        const { inputs } = inputsOf({ instances }, { text: "string", vector: "float32" });

        const { data } = inputs.get("text") as { data: { toText(): string[] } };
        expect(data.toText()).toEqual(texts);
        expect(inputs.get("vector")!.data).toEqual(
          Float32Array.from(texts.flatMap(() => vector.map((value) => value + 0))),
        );
      }),
    );
  });

  test.each<[string, string, Record<string, Dtype>?]>([
    ["{}", "Missing 'inputs' or 'instances' key"],
    [
      '{"instances": ["a"], "inputs": 1}',
      'JSON Value: {\n    "instances": ["a"],\n    "inputs": 1\n} Not formatted correctly ' +
        "expecting only one of 'inputs' or 'instances' keys to exist ",
    ],
    [
      '{"instances": 5}',
      "JSON Value: {\n    \"instances\": 5\n} Expecting 'instances' to be an list/array",
    ],
    ['{"instances": []}', "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"],
    [
      '{"instances": ["a", {"x": "b"}]}',
      "Expecting value/list but got object at item 1 of input list",
    ],
    ['{"instances": [{"x": "b"}, "a"]}', "Expecting object but got list at item 1 of input list"],
    [
      '{"instances": [["a", "b"], ["c"]]}',
      "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: " +
        "Expecting tensor size: 2 but got: 1",
    ],
    [
      '{"instances": [["a"], [["c"]]]}',
      "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: " +
        "Expecting shape [1] but got: [1,1]",
    ],
    [
      '{"inputs": [["a", "b"], ["c"]]}',
      "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
    ],
    ['{"inputs": ["a", ["b"]]}', "Encountered list at unexpected level: 1 expected < 1"],
    [
      '{"inputs": [["a"], "b"]}',
      'JSON Value: "b" found at incorrect level: 2 in the JSON DOM. Expected at level: 2',
    ],
    ['{"inputs": {"b64": "A"}}', "Unable to base64 decode"],
    [
      '{"inputs": [{"b64": 5}]}',
      'JSON Value: {\n    "b64": 5\n} not formatted correctly for base64 data',
    ],
    [
      '{"instances": [{"x": {"y": 1}}]}',
      "Failed to process element: 0 key: x of 'instances' list. Error: INVALID_ARGUMENT: " +
        'JSON Value: {\n    "y": 1\n} not formatted correctly for base64 data',
    ],
    [
      '{"instances": [{"b": "1"}]}',
      'Failed to process element: 0 of \'instances\' list. JSON object: {\n    "b": "1"\n} ' +
        "keys must be equal to: a,b",
      { b: "string", a: "string" },
    ],
    [
      '{"instances": [{"b64": "AAAA"}]}',
      "input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. " +
        "Missing but required: {b}.",
      { b: "string", a: "string" },
    ],
    [
      '{"inputs": {"b": "1"}}',
      "Missing named input: a in 'inputs' object.",
      { b: "string", a: "string" },
    ],
  ])("refuses %s", (body, message, inputs) => {
    expect(() => inputsOf(body, inputs)).toThrow(new WinnowError("INVALID_ARGUMENT", message));
  });

  test("takes the first of two values of one name in a row", () => {
    const { inputs } = inputsOf('{"instances": [{"x": "first", "x": "second"}, {"x": "b"}]}');

    const { data } = inputs.get("x") as { data: { toText(): string[] } };
    expect(data.toText()).toEqual(["first", "b"]);
  });

  test("refuses a long name with a short message", () => {
    const body = `{"instances": [{"${"y".repeat(1e6)}": 1}]}`;

    expect(() => inputsOf(body)).toThrow(/^[^]{1,1000}$/);
  });

  test("refuses nesting beyond the dimensions of any tensor", () => {
    const body = `{"inputs": ${"[".repeat(100_000)}1${"]".repeat(100_000)}}`;

    expect(() => inputsOf(body, { x: "float32" })).toThrow(/nested more than 254 deep/);
  });
});

describe("readSignatureName() and signatureNamed()", () => {
  const program: ModelProgram = {
    fingerprint: fingerprint("00"),
    tables: [],
    vocabularies: [],
    denseModels: [],
    signatures: [signatureOf({ x: "string" }), { ...signatureOf({}), name: "init" }],
  };

  test("take an absent or empty name for serving_default", () => {
    expect(readSignatureName(read("{}"))).toBe("");
    expect(signatureNamed(program.signatures, "").name).toBe("serving_default");
  });

  test("refuse other types, unknown names and signatures without inputs", () => {
    expect(() => readSignatureName(read('{"signature_name": 5}'))).toThrow(
      "not formatted correctly. 'signature_name' key must be a string value.",
    );
    expect(() => signatureNamed(program.signatures, "x")).toThrow(
      'Serving signature name: "x" not found in signature def',
    );
    expect(() => signatureNamed(program.signatures, "init")).toThrow(
      "Failed to get input map for signature: init",
    );
  });
});
