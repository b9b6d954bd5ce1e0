// Classify, Regress and MultiInference from bytes to bytes, with TensorFlow Serving's checks
// (servables/tensorflow/classifier.cc, regressor.cc, multi_inference.cc). Each is a prediction of a signature that takes
// serialized tf.Examples; MultiInference runs several of one version.

import { EXAMPLES_INPUT, WinnowError, excerpt, tensor } from "@winnow/core";
import type { ExampleInput, ModelProgram, Tensor } from "@winnow/core";
import { classificationsOf, regressionsOf } from "../../examples/example-results.ts";
import { DEFAULT_SIGNATURE, exampleSignature } from "../../examples/example-signature.ts";
import type { ExampleMethod } from "../../examples/example-signature.ts";
import type { PinnedModel, Predictor } from "../../predictor.ts";
import { inTurns } from "../../turns/turns.ts";
import type { GrpcSettings } from "../grpc-settings.ts";
import { readExamplesRequest, readMultiInferenceRequest } from "./example-messages.ts";
import type { InferenceTask } from "./example-messages.ts";
import { writeExamplesAnswer, writeInferenceAnswer } from "./examples-answer.ts";
import type { ExamplesAnswer } from "./examples-answer.ts";
import { requiredSpec, targetOf } from "./model-target.ts";
import type { GrpcAnswer, GrpcCall } from "./predict-call.ts";
import type { ModelSpec } from "./request-messages.ts";

const METHODS: ReadonlyMap<string, ExampleMethod> = new Map([
  ["tensorflow/serving/classify", "classify"],
  ["tensorflow/serving/regress", "regress"],
]);

/** One signature to run. */
interface ExampleTask {
  readonly method: ExampleMethod;
  readonly signatureName: string;
}

/** Answers Classify or Regress. @throws WinnowError as the request or the cluster is at fault */
export async function classifyOrRegress(
  predictor: Predictor,
  call: GrpcCall & { readonly method: ExampleMethod },
  settings: GrpcSettings,
): Promise<GrpcAnswer> {
  const { method, context } = call;
  const message = readExamplesRequest(call.bytes, predictor.limits);
  const spec = requiredSpec(message.spec);
  call.names(spec.name);
  const pinned = await predictor.pin(targetOf(spec));
  try {
    const task = { method, signatureName: spec.signatureName };
    const examples = columnOf(message.input);
    const answer = await answerOf(predictor, { pinned, task, examples }, call);
    const steps = writeExamplesAnswer(answer, settings.messageBytesMax);
    const bytes = await inTurns(steps, context.signal);
    return { bytes, instances: examples.data.length, version: answer.version };
  } finally {
    pinned.release();
  }
}

/** Answers MultiInference. @throws WinnowError as the request or the cluster is at fault */
export async function multiInference(
  predictor: Predictor,
  call: GrpcCall,
  settings: GrpcSettings,
): Promise<GrpcAnswer> {
  const limits = { ...predictor.limits, namesMax: settings.namesMax };
  const { tasks, input } = readMultiInferenceRequest(call.bytes, limits);
  const spec = requiredSpec(tasks[0]?.spec);
  call.names(spec.name);
  const pinned = await predictor.pin(targetOf(spec));
  try {
    const wanted = exampleTasks(spec.name, tasks);
    checkSignatures(pinned.program, wanted);
    const examples = columnOf(input);
    const answers: ExamplesAnswer[] = [];
    for (const task of wanted) {
      answers.push(await answerOf(predictor, { pinned, task, examples }, call));
    }
    const steps = writeInferenceAnswer(answers, settings.messageBytesMax);
    const bytes = await inTurns(steps, call.context.signal);
    const instances = examples.data.length * answers.length;
    return { bytes, instances, version: answers[0]?.version };
  } finally {
    pinned.release();
  }
}

/** What the tasks run, all of one model and each of another signature. @throws WinnowError INVALID_ARGUMENT, UNIMPLEMENTED */
function exampleTasks(model: string, tasks: readonly InferenceTask[]): readonly ExampleTask[] {
  const seen = new Set<string>();
  return tasks.map(({ spec, methodName }) => {
    checkModel(spec, model);
    const signatureName = spec?.signatureName || DEFAULT_SIGNATURE;
    if (seen.has(signatureName)) {
      throw invalid(`Duplicate evaluation of signature: ${excerpt(signatureName)}`);
    }
    seen.add(signatureName);
    const method = METHODS.get(methodName);
    if (method !== undefined) return { method, signatureName };
    const text = `Unsupported signature method_name: ${excerpt(methodName)}`;
    throw new WinnowError("UNIMPLEMENTED", text);
  });
}

function checkSignatures(program: ModelProgram, tasks: readonly ExampleTask[]): void {
  for (const { method, signatureName } of tasks) {
    if (!program.signatures.some(({ name }) => name === signatureName)) {
      throw invalid(`Requested signature not found in model graph: ${excerpt(signatureName)}`);
    }
    exampleSignature(program, method, signatureName);
  }
}

function checkModel(spec: ModelSpec | undefined, model: string): void {
  if (spec === undefined || spec.name === "") {
    throw invalid("Found ModelSpec with an empty model name.");
  }
  if (spec.name === model) return;
  throw invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.");
}

type StringTensor = Extract<Tensor, { readonly dtype: "string" }>;

/** The serialized examples as an input. @throws WinnowError INVALID_ARGUMENT where there are none */
function columnOf(input: ExampleInput): StringTensor {
  const column = input.column();
  return tensor("string", [column.length], column);
}

async function answerOf(
  predictor: Predictor,
  asked: {
    readonly pinned: PinnedModel;
    readonly task: ExampleTask;
    readonly examples: StringTensor;
  },
  { context, header }: GrpcCall,
): Promise<ExamplesAnswer> {
  const { pinned, task, examples } = asked;
  const { method } = task;
  const signature = exampleSignature(pinned.program, method, task.signatureName);
  context.signal.throwIfAborted();
  const inputs = new Map([[EXAMPLES_INPUT, examples]]);
  const { outputs, version } = await predictor.predict(pinned, {
    signature,
    inputs,
    context,
    header,
  });
  const instances = examples.data.length;
  const result =
    method === "regress"
      ? ({ kind: "regress", values: regressionsOf(outputs, instances) } as const)
      : ({ kind: "classify", found: classificationsOf(outputs, instances) } as const);
  const signatureName = signature.name;
  return { model: pinned.model, version: version.version, signatureName, result };
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
