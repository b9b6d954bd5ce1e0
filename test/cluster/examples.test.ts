// Classify, Regress and MultiInference as TensorFlow Serving's clients ask them, of a model with signatures for them, on
// real processes: the results are made of what TensorFlow answered for the same serialized examples.

import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { clientOf, messageType } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { supplyPorts } from "../port-supply.ts";
import { pause } from "./running-cluster.ts";
import { Served, killServed } from "./serve-process.ts";

const MODEL = "example_classes";
/** Codes of gRPC. */
const INVALID_ARGUMENT = 3;
const UNIMPLEMENTED = 12;
const recorded = path.resolve(import.meta.dirname, "../data/savedmodels", MODEL);

type Method = "classify" | "regress";

interface Outputs {
  readonly classes?: readonly (readonly string[])[];
  readonly scores?: readonly (readonly number[])[];
  readonly outputs?: readonly (number | readonly number[])[];
}

interface Case {
  readonly signature_name: string;
  readonly inputs: { readonly inputs: readonly { readonly b64: string }[] };
  readonly outputs: Outputs;
}

const read = (name: string): unknown => JSON.parse(readFileSync(path.join(recorded, name), "utf8"));
/** A body as text: JavaScript would write 1.0 as 1, which is another kind of feature. */
const requests = read("requests.json") as readonly { method: Method; body: string }[];
/** The first case is of no request, and the last an error. */
const cases = (read("oracle.json") as { cases: readonly Case[] }).cases.slice(1, -1);
const asked = requests.map((request, index) => ({ ...request, ...cases[index]! }));

const models = mkdtempSync(path.join(tmpdir(), "winnow-examples-"));
let url: string;
let grpcPort: number;

beforeAll(async () => {
  cpSync(path.join(recorded, "1"), path.join(models, MODEL, "1"), { recursive: true });
  const [grpc, rest] = (await supplyPorts(2)) as [number, number];
  const ports = ["--host=127.0.0.1", `--port=${grpc}`, `--rest_api_port=${rest}`];
  const served = new Served([...ports, "--models", models]);
  await served.line("serving");
  [grpcPort, url] = [grpc, `http://127.0.0.1:${rest}/v1/models/${MODEL}`];
  while ((await post("classify", requests[0]!.body)).status !== 200) await pause(50);
});
afterAll(() => {
  killServed();
  rmSync(models, { recursive: true, force: true });
});

async function post(method: Method, body: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${url}:${method}`, { method: "POST", body });
  return { status: answer.status, text: await answer.text() };
}

/** What REST answers, by TensorFlow's outputs: label and score of each class, or a value. */
function resultsOf({ classes, scores, outputs }: Outputs): unknown {
  if (outputs !== undefined) return outputs.flat().map(near);
  const rows = (classes ?? scores)!;
  return rows.map((row, at) =>
    row.map((_, each) => [classes?.[at]![each] ?? "", near(scores?.[at]![each] ?? 0)]),
  );
}

/** Dense parts round like TensorFlow's, but not to the same bit. */
const near = (value: number): unknown => expect.closeTo(value, 5) as unknown;

test.each(asked)("REST: $method by $signature_name", async ({ method, body, outputs }) => {
  const { status: code, text } = await post(method, body);

  expect(code).toBe(200);
  expect(JSON.parse(text)).toEqual({ results: resultsOf(outputs) });
});

test.each([
  ["classify", "none", "No signature was found with the name: none"],
  ["classify", "rating", 'at least one of "classes" or "scores". It has "outputs"'],
  ["classify", "both", 'No classification inputs found in SignatureDef: its input is "examples"'],
  ["classify", "flat", "Expected Tensor shape: [batch_size num_classes] but got [1]"],
  ["regress", "serving_default", "Expected one output Tensor."],
  ["regress", "squares", "[batch_size] or [batch_size, 1] but got [1,2]"],
] as const)("REST: %s by %s is refused", async (method, signature, problem) => {
  const body = `{"signature_name": "${signature}", "examples": [{"user": "u01"}]}`;
  const { status: code, text } = await post(method, body);

  expect(code).toBe(400);
  expect(JSON.parse(text)).toEqual({ error: expect.stringContaining(problem) as unknown });
});

test("REST: the operation that parses examples says what one lacks", async () => {
  const { status: code, text } = await post("classify", '{"examples": [{"age": 1}]}');

  expect(code).toBe(400);
  expect(text).toContain("Feature: user (data type: string) is required but could not be found.");
});

/** The recorded examples as a client's library makes them. */
const examplesOf = ({ inputs }: Pick<Case, "inputs">): object[] =>
  inputs.inputs.map(({ b64 }) => {
    return messageType("tensorflow.Example").deserialize(Buffer.from(b64, "base64"));
  });

/** A result over gRPC, by TensorFlow's outputs. */
function messageFrom({ classes, scores, outputs }: Outputs): unknown {
  if (outputs !== undefined) {
    return { regressions: outputs.flat().map((value) => ({ value: near(value) })) };
  }
  const rows = (classes ?? scores)!;
  const classifications = rows.map((row, at) => ({
    classes: row.map((_, each) => ({
      label: classes?.[at]![each] ?? "",
      score: near(scores?.[at]![each] ?? 0),
    })),
  }));
  return { classifications };
}

const specOf = (signature: string): object => ({
  name: MODEL,
  version: { value: "1" },
  signature_name: signature,
});

async function called(method: string, request: object): Promise<unknown> {
  const connection = clientOf("PredictionService", grpcPort);
  return await connection.call(method, request).finally(() => connection.close());
}

/** A context before an example replaces its features when this client reads both; it has a test of its own. */
const plain = asked.filter(({ body }) => !body.includes('"context"'));

test.each(plain)("gRPC: $method by $signature_name", async (each) => {
  const { method, signature_name, outputs } = each;
  const answer = await called(method === "classify" ? "Classify" : "Regress", {
    model_spec: { name: MODEL, signature_name },
    input: { example_list: { examples: examplesOf(each) } },
  });

  expect(answer).toMatchObject({
    model_spec: specOf(signature_name),
    result: messageFrom(outputs),
  });
});

/** The third request is of a context and three examples, of which the first has nothing of its own but its user. */
const [, , contextual] = asked;
const age = { int64_list: { value: [61] } };
const taste = { float_list: { value: [0.125, 1e-3, -2.5] } };
const user = { bytes_list: { value: [Buffer.from("u02")] } };
const input = {
  example_list_with_context: {
    context: { features: { feature: { age, taste } } },
    examples: [{ features: { feature: { user } } }],
  },
};
const firstOf = ({ classes, scores, outputs }: Outputs): Outputs => ({
  ...(classes && { classes: classes.slice(0, 1) }),
  ...(scores && { scores: scores.slice(0, 1) }),
  ...(outputs && { outputs: outputs.slice(0, 1) }),
});
const task = (method: string, signature_name = "", name = MODEL): object => ({
  model_spec: { name, signature_name },
  method_name: `tensorflow/serving/${method}`,
});

test("gRPC: a context is part of each example", async () => {
  const answer = await called("Classify", { model_spec: { name: MODEL }, input });

  expect(answer).toMatchObject({ result: messageFrom(firstOf(contextual!.outputs)) });
});

test("gRPC: MultiInference runs several signatures on the same examples", async () => {
  const rating = asked.findLast(({ signature_name }) => signature_name === "rating")!;
  const tasks = [task("regress", "rating"), task("classify")];
  const answer = await called("MultiInference", { tasks, input });

  expect(answer).toMatchObject({
    results: [
      { model_spec: specOf("rating"), regression_result: messageFrom(firstOf(rating.outputs)) },
      {
        model_spec: specOf("serving_default"),
        classification_result: messageFrom(firstOf(contextual!.outputs)),
      },
    ],
  });
});

test.each([
  ["no task", [], "Missing ModelSpec"],
  ["a task without a name", [task("regress", "", "")], "ModelSpec has no name specified."],
  ["two models", [task("classify"), task("regress", "rating", "x")], "the same model name."],
  ["a signature twice", [task("classify"), task("classify")], "Duplicate evaluation of signature"],
  ["an unknown signature", [task("regress", "none")], "not found in model graph: none"],
  ["another method", [task("predict")], "Unsupported signature method_name"],
])("gRPC: MultiInference with %s is refused", async (_, tasks, details) => {
  await expect(called("MultiInference", { tasks, input })).rejects.toMatchObject({
    code: details.startsWith("Unsupported") ? UNIMPLEMENTED : INVALID_ARGUMENT,
    details: expect.stringContaining(details) as unknown,
  });
});

test("gRPC: a request without examples is refused", async () => {
  const asking = called("Classify", { model_spec: { name: MODEL } });

  await expect(asking).rejects.toMatchObject({
    code: INVALID_ARGUMENT,
    details: "Input is empty.",
  });
});
