// What JSON costs per request, beside the JSON.* of the engine. Requests: n instances, each a user
// id; answers: n × k = 100 scores (float32) and ids of about 16 bytes. JSON.* gets the best of it:
// no fix-up for NaN, first-wins, bytes that are not UTF-8 or errors with offsets when reading, and
// no TensorFlow layout when writing; it starts and ends in bytes and in tensors like the other.
// Microseconds per request = 1000 / (kHz shown as "hz").

import { stringTensor, tensor, type SignatureProgram, type Tensor } from "@winnow/core";
import { bench, describe } from "vitest";
import { JsonReader } from "./json-reader.ts";
import { parseRequestBody, readPredictInputs } from "../predict/predict-request.ts";
import { writePrediction } from "../predict/predict-response.ts";

const K = 100;
const SIGNATURE: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [{ name: "input_1", dtype: "string", shape: [-1], graphTensor: "", value: 0 }],
  outputs: [],
  constants: [],
  steps: [],
};
const VECTORS: SignatureProgram = {
  ...SIGNATURE,
  inputs: [{ name: "input_1", dtype: "float32", shape: [-1, 64], graphTensor: "", value: 0 }],
};
const LIMITS = { answerBytesMax: Infinity };
const reader = new JsonReader({ valuesMax: 1e7 });

function score(index: number): number {
  return Math.fround(Math.sin(index * 12.9898) * 8);
}

function answerOf(instances: number): ReadonlyMap<string, Tensor> {
  const count = instances * K;
  const scores = Float32Array.from({ length: count }, (_, index) => score(index));
  const ids = Array.from({ length: count }, (_, index) => `Movie ${index % 1000} (1995)`);
  return new Map<string, Tensor>([
    ["output_1", tensor("float32", [instances, K], scores)],
    ["output_2", stringTensor(ids, [instances, K])],
  ]);
}

function stringified(answer: ReadonlyMap<string, Tensor>, instances: number): Buffer {
  const scores = answer.get("output_1") as Tensor & { data: Float32Array };
  const ids = answer.get("output_2") as Tensor & { data: { toText(): string[] } };
  const texts = ids.data.toText();
  const predictions = Array.from({ length: instances }, (_, row) => ({
    output_1: Array.from(scores.data.subarray(row * K, row * K + K)),
    output_2: texts.slice(row * K, row * K + K),
  }));
  return Buffer.from(JSON.stringify({ predictions }));
}

describe.each([1, 100, 1000])("How much does a request of %i users cost?", (instances) => {
  const users = Array.from({ length: instances }, (_, index) => `user_${index * 7919}`);
  const body = Buffer.from(JSON.stringify({ instances: users }));

  bench("Winnow: bytes to string tensor", () => {
    parseRequestBody(reader, Buffer.from(body));
    readPredictInputs(reader, SIGNATURE);
  });

  bench("JSON.parse: bytes to string tensor", () => {
    const parsed = JSON.parse(body.toString("utf8")) as { instances: string[] };
    stringTensor(parsed.instances);
  });
});

describe.each([1, 100, 1000])(
  "How much does a request of %i vectors cost? dim = 64",
  (instances) => {
    const rows = Array.from({ length: instances }, (_, row) =>
      Array.from({ length: 64 }, (_, column) => Number(score(row * 64 + column).toFixed(6))),
    );
    const body = Buffer.from(JSON.stringify({ instances: rows }));

    bench("Winnow: bytes to float32 tensor", () => {
      parseRequestBody(reader, Buffer.from(body));
      readPredictInputs(reader, VECTORS);
    });

    bench("JSON.parse: bytes to float32 tensor", () => {
      const parsed = JSON.parse(body.toString("utf8")) as { instances: number[][] };
      tensor("float32", [instances, 64], Float32Array.from(parsed.instances.flat()));
    });
  },
);

describe.each([1, 100, 1000])("How much does an answer for %i users cost? k = 100", (instances) => {
  const answer = answerOf(instances);

  bench("Winnow: tensors to bytes", async () => {
    await writePrediction({ outputs: answer }, "row", LIMITS);
  });

  bench("JSON.stringify: tensors to bytes", () => {
    stringified(answer, instances);
  });
});
