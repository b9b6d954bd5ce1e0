// Status and metadata, byte for byte.

import { fingerprint, type ModelProgram } from "@winnow/core";
import { expect, test } from "vitest";
import { metadataDocument } from "./metadata-document.ts";
import { statusDocument } from "./status-document.ts";

test("statusDocument() indents by one and escapes as protobuf does", () => {
  const document = statusDocument([
    { version: 2, state: "END", errorCode: "NOT_FOUND", errorMessage: 'no "<op>"' },
  ]);

  expect(document.toString()).toBe(
    '{\n "model_version_status": [\n  {\n   "version": "2",\n   "state": "END",\n' +
      '   "status": {\n    "error_code": "NOT_FOUND",\n' +
      '    "error_message": "no \\"\\u003cop\\u003e\\""\n   }\n  }\n ]\n}\n',
  );
});

test("metadataDocument() glues the spec and the signatures together", () => {
  const program: ModelProgram = {
    fingerprint: fingerprint("00"),
    tables: [],
    vocabularies: [],
    denseModels: [],
    signatures: [
      {
        name: "__saved_model_init_op",
        methodName: "",
        inputs: [],
        outputs: [{ name: "o", graphTensor: "NoOp", dtype: "float32", shape: [1], value: 0 }],
        constants: [],
        steps: [],
      },
      {
        name: "serving_default",
        methodName: "tensorflow/serving/predict",
        inputs: [{ name: "x", graphTensor: "x:0", dtype: "int64", shape: [-1, 3], value: 0 }],
        outputs: [{ name: "y", graphTensor: "y:0", dtype: "bool", shape: undefined, value: 1 }],
        constants: [],
        steps: [],
      },
    ],
  };

  const text = metadataDocument({ model: "m", version: 12, program }).toString();

  expect(text.startsWith('{\n"model_spec":{\n "name": "m",\n "signature_name": "",\n')).toBe(true);
  expect(text).toContain(
    '\n "version": "12"\n}\n,\n"metadata": {"signature_def": {\n "signature_def"',
  );
  expect(text.endsWith("}\n}\n}\n")).toBe(true);
  expect(JSON.parse(text)).toMatchObject({
    metadata: {
      signature_def: {
        signature_def: {
          __saved_model_init_op: {
            inputs: {},
            outputs: {
              o: {
                dtype: "DT_INVALID",
                tensor_shape: { dim: [], unknown_rank: true },
                name: "NoOp",
              },
            },
            method_name: "",
          },
          serving_default: {
            inputs: {
              x: {
                dtype: "DT_INT64",
                tensor_shape: {
                  dim: [
                    { size: "-1", name: "" },
                    { size: "3", name: "" },
                  ],
                  unknown_rank: false,
                },
              },
            },
            outputs: { y: { dtype: "DT_BOOL", tensor_shape: { dim: [], unknown_rank: true } } },
          },
        },
      },
    },
  });
});

test("metadataDocument() tells the arms of an experiment behind the signatures", () => {
  const arms = [{ name: "control", model: "movies", version: 3, weight: 90 }];
  const none = { tables: [], vocabularies: [], denseModels: [], signatures: [] };
  const program: ModelProgram = { fingerprint: fingerprint("00"), ...none, experiment: { arms } };

  const text = metadataDocument({ model: "feed", version: 4, program }).toString();

  expect(JSON.parse(text)).toMatchObject({
    model_spec: { name: "feed", version: "4" },
    metadata: { signature_def: {}, experiment: { arms } },
  });
});

test("metadataDocument() tells the stages of a pipeline in words", () => {
  const none = { tables: [], vocabularies: [], denseModels: [], signatures: [] };
  const retrieve = {
    kind: "retrieve",
    model: "movies",
    signature: "serving_default",
    k: 100,
    inputs: [],
    scores: "output_1",
    ids: "output_2",
  } as const;
  const outputs = { scores: "output_1", ids: "output_2" };
  const pipeline = { stages: [retrieve, { kind: "limit", count: 5 } as const], outputs };
  const program: ModelProgram = { fingerprint: fingerprint("00"), ...none, pipeline };

  const text = metadataDocument({ model: "feed", version: 4, program }).toString();

  expect(JSON.parse(text)).toMatchObject({
    metadata: {
      pipeline: {
        stages: [
          { stage: "retrieve", does: "movies, k=100" },
          { stage: "limit", does: "5" },
        ],
      },
    },
  });
});
