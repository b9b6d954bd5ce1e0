// Predict over a real socket, asked by a client that has the .proto files and nothing else.

import { status } from "@grpc/grpc-js";
import { WinnowError, stringTensor, tensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import {
  RETRIEVAL,
  closeAll,
  metadataOf,
  shapeOf,
  start,
  strings,
  type PredictMessage,
  type TensorMessage,
} from "../fixtures/grpc-client.ts";

afterEach(closeAll);

const textsOf = (tensor: TensorMessage | undefined): string[] | undefined =>
  tensor?.string_val.map((bytes) => bytes.toString());
const sizesOf = (tensor: TensorMessage | undefined): string[] | undefined =>
  tensor?.tensor_shape.dim.map((dim) => dim.size);

interface Refusal {
  readonly code: number;
  readonly details: string;
}

async function predict(request: object): Promise<PredictMessage> {
  const { prediction, predictor } = await start();
  const answer = (await prediction.call("Predict", request)) as PredictMessage;
  expect(predictor.pins).toBe(0);
  return answer;
}

describe("Predict", () => {
  test("retrieval answers scores and ids, best first, for each instance", async () => {
    const { outputs, model_spec: spec } = await predict({
      model_spec: { name: "retrieval" },
      inputs: { input_1: strings(["42", "1", "nobody"]) },
    });

    expect(outputs["output_1"]?.dtype).toBe("DT_FLOAT");
    expect(sizesOf(outputs["output_1"])).toEqual(["3", "3"]);
    expect(outputs["output_1"]?.float_val).toEqual([21, Math.fround(6.1), 3, 7, 2, 1, 3.5, 1, 0.5]);
    expect(outputs["output_1"]?.tensor_content).toHaveLength(0);
    expect(outputs["output_2"]?.dtype).toBe("DT_STRING");
    expect(textsOf(outputs["output_2"])?.slice(0, 3)).toEqual([
      "Brazil (1985)",
      "Alien (1979)",
      "Heat (1995)",
    ]);
    expect(spec).toMatchObject({
      name: "retrieval",
      version: { value: "1" },
      signature_name: "serving_default",
    });
  });

  test("of a pipeline gives what its stages did, and says what the answer lacks", async () => {
    const { prediction, predictor } = await start();
    const text = '{"stages":[]}';
    predictor.told = {
      explanation: stringTensor([text]),
      degradations: [
        { stage: "seen", reason: "late" },
        { stage: "seen", reason: "late" },
      ],
      unknownUsers: [{ answer: "list", instances: 1 }],
    };

    const call = prediction.begin("Predict", {
      model_spec: { name: "retrieval" },
      inputs: {
        input_1: strings(["42"]),
        "winnow.explain": { dtype: "DT_BOOL", tensor_shape: shapeOf(), bool_val: [true] },
      },
    });
    const { outputs } = (await call.answer) as PredictMessage;

    expect(predictor.requests.at(-1)).toMatchObject({ explain: true });
    expect(textsOf(outputs["explain"])).toEqual([text]);
    expect((await call.metadata).get("x-winnow-degraded")).toEqual(["seen=late"]);
    expect((await call.metadata).get("x-winnow-unknown-users")).toEqual(["list=1"]);
    predictor.told = {};
    const whole = prediction.begin("Predict", {
      model_spec: { name: "retrieval" },
      inputs: { input_1: strings(["42"]) },
    });
    await whole.answer;
    expect(predictor.requests.at(-1)?.explain).toBeUndefined();
    expect((await whole.metadata).get("x-winnow-degraded")).toEqual([]);
    expect((await whole.metadata).get("x-winnow-unknown-users")).toEqual([]);
  });

  test("gives the vectors of items, every bit of them", async () => {
    const { prediction, predictor } = await start();
    const bits = Uint32Array.of(0x8000_0001, 0x7fc0_1234);
    const vectors = tensor("float32", [1, 1, 2], new Float32Array(bits.buffer));
    predictor.told = { vectors };

    const call = prediction.begin("Predict", {
      model_spec: { name: "retrieval" },
      inputs: {
        input_1: strings(["42"]),
        "winnow.return_vectors": { dtype: "DT_BOOL", tensor_shape: shapeOf(), bool_val: [true] },
      },
    });
    const { outputs } = (await call.answer) as PredictMessage;

    expect(predictor.requests.at(-1)).toMatchObject({ vectors: true });
    expect(outputs["vectors"]).toMatchObject({ dtype: "DT_FLOAT" });
    expect(sizesOf(outputs["vectors"])).toEqual(["1", "1", "2"]);
    const given = Float32Array.from(outputs["vectors"]!.float_val ?? []);
    expect(given).toEqual(vectors.data);
  });

  test("of an experiment says which arm answered, and hands down the metadata that may choose it", async () => {
    const { prediction, predictor } = await start();
    predictor.told = { arms: "control;n=1, new;n=2" };
    const request = { model_spec: { name: "retrieval" }, inputs: { input_1: strings(["42"]) } };

    const call = prediction.begin("Predict", request);
    await call.answer;
    const unkeyed = predictor.requests.at(-1)?.header?.("x-user");
    await prediction.callWith("Predict", request, metadataOf({ "x-user": "42" }));

    expect((await call.metadata).get("x-winnow-arm")).toEqual(["control;n=1, new;n=2"]);
    expect([unkeyed, predictor.requests.at(-1)?.header?.("x-user")]).toEqual([undefined, "42"]);
  });

  test("ranking takes several inputs", async () => {
    const { outputs } = await predict({
      model_spec: { name: "ranking", signature_name: "serving_default" },
      inputs: { user_id: strings(["42", "1"]), movie_title: strings(["Heat (1995)"], [2]) },
    });

    expect(Object.keys(outputs)).toEqual(["output_1"]);
    expect(sizesOf(outputs["output_1"])).toEqual(["2", "1"]);
    expect(outputs["output_1"]?.float_val).toEqual([3.375, 2.375]);
  });

  test("strings in tensor_content are the same request as in string_val", async () => {
    const content = Buffer.concat([Buffer.from([2, 1]), Buffer.from("421")]);
    const inContent = { dtype: "DT_STRING", tensor_shape: shapeOf(2), tensor_content: content };

    const one = await predict({ ...RETRIEVAL, inputs: { input_1: inContent } });
    const other = await predict({ ...RETRIEVAL, inputs: { input_1: strings(["42", "1"]) } });

    expect(one).toEqual(other);
  });

  test.each([
    ["a version", { version: { value: 1 } }],
    ["a label", { version_label: "stable" }],
  ])("%s of the spec is what answers", async (_, choice) => {
    const answer = await predict({ ...RETRIEVAL, model_spec: { name: "retrieval", ...choice } });

    expect(answer.model_spec.version.value).toBe("1");
  });

  test("output_filter chooses the outputs that are sent", async () => {
    const { outputs } = await predict({ ...RETRIEVAL, output_filter: ["output_2"] });

    expect(Object.keys(outputs)).toEqual(["output_2"]);
  });

  test("Winnow's own inputs are what REST has beside the instances", async () => {
    const { prediction, predictor } = await start();
    const filter = strings(['{"year":{"$gte":1990}}', ""]);
    await prediction.call("Predict", {
      model_spec: { name: "retrieval" },
      inputs: {
        input_1: strings(["42", "1"]),
        "winnow.k": { dtype: "DT_INT64", tensor_shape: shapeOf(), int64_val: [2] },
        "winnow.exclude": strings(["a", "b"]),
        "winnow.include": strings(["c", "d", "e", "f"], [2, 2]),
        "winnow.filter": filter,
        "winnow.return": strings(["year", "title", "year"]),
      },
    });
    const { k, exclude, include, filter: filters, attributes } = predictor.requests.at(-1)!;
    const idsOf = (lists: typeof exclude) =>
      lists?.map((ids) => (ids.dtype === "string" ? ids.data.toText() : []));
    expect(k).toBe(2);
    expect(idsOf(exclude)).toEqual([["a", "b"]]);
    expect(idsOf(include)).toEqual([
      ["c", "d"],
      ["e", "f"],
    ]);
    expect(filters).toEqual([
      { kind: "test", attribute: "year", is: "gte", values: [1990] },
      { kind: "and", of: [] },
    ]);
    expect(attributes).toEqual(["year", "title"]);
  });

  test.each<[string, object]>([
    ["a scalar", strings([""], [])],
    ["one for two instances", strings([""])],
  ])("an empty filter is none: %s", async (_, filter) => {
    const { prediction, predictor } = await start();
    const inputs = { input_1: strings(["42", "1"]), "winnow.filter": filter };
    await prediction.call("Predict", { model_spec: { name: "retrieval" }, inputs });
    expect(predictor.requests.at(-1)!.filter).toBeUndefined();
  });

  test.each<[string, object, string]>([
    ["winnow.k", { dtype: "DT_INT64", tensor_shape: shapeOf(2), int64_val: [2, 3] }, "a scalar"],
    ["winnow.k", strings(["3"]), 'Input "winnow.k" must be int64, not string'],
    ["winnow.exclude", strings(["a", "b", "c"], [3, 1]), "has shape [3,1]"],
    ["winnow.filter", strings(["{}", "{}", "{}"]), "3 filters for 1 instances"],
    ["winnow.filter", strings(["{"]), "winnow.filter is no JSON"],
    ["winnow.filter", strings(['{"a":{"$x":1}}']), "is no operator here"],
    ["winnow.filter", strings([" ".repeat(5_000_000)]), "has 5000000 bytes; at most 4194304"],
  ])("refuses %s of %.80j", async (name, tensor, details) => {
    const asked = predict({ ...RETRIEVAL, inputs: { ...RETRIEVAL.inputs, [name]: tensor } });
    await expect(asked).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(asked).rejects.toThrow(details);
  });

  const spec = { name: "retrieval" };
  const { inputs } = RETRIEVAL;
  test.each<[string, object, Refusal]>([
    ["no spec", { inputs }, { code: 3, details: "Missing ModelSpec" }],
    [
      "no name",
      { model_spec: {}, inputs },
      { code: 3, details: "ModelSpec has no name specified." },
    ],
    [
      "an unknown model",
      { model_spec: { name: "x" }, inputs },
      { code: 5, details: "Servable not found for request: Latest(x)" },
    ],
    [
      "an unknown version",
      { model_spec: { ...spec, version: { value: 9 } }, inputs },
      { code: 5, details: "Servable not found for request: Specific(retrieval, 9)" },
    ],
    [
      "a negative version",
      { model_spec: { ...spec, version: { value: -1 } }, inputs },
      { code: 5, details: "Servable not found for request: Specific(retrieval, -1)" },
    ],
    [
      "version 0, which is a version and not none",
      { model_spec: { ...spec, version: { value: 0 } }, inputs },
      { code: 5, details: "Servable not found for request: Specific(retrieval, 0)" },
    ],
    [
      "a version beyond what a number holds",
      { model_spec: { ...spec, version: { value: "9223372036854775807" } }, inputs },
      {
        code: 5,
        details: "Servable not found for request: Specific(retrieval, 9223372036854775807)",
      },
    ],
    [
      "an unknown label",
      { model_spec: { ...spec, version_label: "canary" }, inputs },
      { code: 3, details: "Unrecognized servable version label: canary" },
    ],
    [
      "an unknown signature",
      { model_spec: { ...spec, signature_name: "x" }, inputs },
      { code: 9, details: 'Serving signature key "x" not found.' },
    ],
    [
      "the initialiser's signature",
      { model_spec: { ...spec, signature_name: "__saved_model_init_op" }, inputs },
      {
        code: 13,
        details:
          "Expected prediction signature method_name to be one of {tensorflow/serving/predict, " +
          "tensorflow/serving/classify, tensorflow/serving/regress}. Was: ",
      },
    ],
    [
      "an input too few",
      { model_spec: { name: "ranking" }, inputs: { user_id: strings(["1"]) } },
      {
        code: 3,
        details:
          "input size does not match signature: 1!=2 len({user_id}) != len({movie_title,user_id}). " +
          "Sent extra: {}. Missing but required: {movie_title}.",
      },
    ],
    [
      "an input too many",
      { model_spec: spec, inputs: { ...inputs, k: strings(["1"]) } },
      {
        code: 3,
        details:
          "input size does not match signature: 2!=1 len({input_1,k}) != len({input_1}). " +
          "Sent extra: {k}. Missing but required: {}.",
      },
    ],
    [
      "one of Winnow's inputs by a name that it does not have",
      { model_spec: spec, inputs: { ...inputs, "winnow.filtr": strings(["{}"]) } },
      {
        code: 3,
        details:
          "input size does not match signature: 2!=1 len({input_1,winnow.filtr}) != len({input_1}). " +
          "Sent extra: {winnow.filtr}. Missing but required: {}. Inputs of Winnow are winnow.k, " +
          "winnow.exclude, winnow.include, winnow.filter, winnow.return, winnow.return_vectors, " +
          "winnow.explain; did you mean winnow.filter?",
      },
    ],
    [
      "an input of another name",
      { model_spec: spec, inputs: { user: strings(["1"]) } },
      {
        code: 3,
        details:
          "Signature input alias: input_1(feed name: serving_default_input_1:0) not found in request " +
          "and no default value provided. Inputs expected to be in the request {user}, " +
          "or default input alias set: ",
      },
    ],
    [
      "an input of another dtype",
      { model_spec: spec, inputs: { input_1: { dtype: "DT_INT64", int64_val: ["42"] } } },
      { code: 3, details: 'Input "input_1" must be string, not int64' },
    ],
    [
      "an input without dtype",
      { model_spec: spec, inputs: { input_1: {} } },
      { code: 3, details: "tensor parsing error: input_1: it has no dtype" },
    ],
    [
      "an unknown output",
      { model_spec: spec, inputs, output_filter: ["y"] },
      {
        code: 3,
        details:
          "output tensor alias not found in signature: y Outputs expected to be in the set " +
          "{output_1,output_2}.",
      },
    ],
    [
      "an output twice",
      { model_spec: spec, inputs, output_filter: ["output_1", "output_1"] },
      { code: 3, details: "duplicate output tensor alias: output_1" },
    ],
  ])("%s is refused in TensorFlow Serving's words", async (_, request, refusal) => {
    const { prediction, predictor } = await start();

    const failure = prediction.call("Predict", request);

    await expect(failure).rejects.toMatchObject(refusal);
    expect(predictor.pins).toBe(0);
    expect(predictor.requests).toEqual([]);
  });

  test("details are cut at 1024 bytes, between characters", async () => {
    const { prediction } = await start();
    const name = "é".repeat(3000);

    const failure = prediction.call("Predict", { ...RETRIEVAL, output_filter: [name] });

    await expect(failure).rejects.toMatchObject({
      code: 3,
      details: expect.stringMatching(/^output tensor alias .*: é{490}\.\.\.TRUNCATED$/),
    });
  });

  test("a fault of the router is INTERNAL and says nothing of itself", async () => {
    const { prediction, predictor } = await start();
    predictor.beforeAnswer = () => Promise.reject(new TypeError("secret"));

    const failure = prediction.call("Predict", RETRIEVAL);

    await expect(failure).rejects.toMatchObject({
      code: status.INTERNAL,
      details: "The router failed to answer; its log says why",
    });
    expect(predictor.pins).toBe(0);
  });

  test("the cluster's own refusals keep their code", async () => {
    const { prediction, predictor } = await start();
    predictor.beforeAnswer = () => Promise.reject(new WinnowError("UNAVAILABLE", "no worker"));

    const failure = prediction.call("Predict", RETRIEVAL);

    await expect(failure).rejects.toMatchObject({ code: status.UNAVAILABLE, details: "no worker" });
  });
});
