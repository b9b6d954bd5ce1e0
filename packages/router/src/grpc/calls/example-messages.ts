// Reads the requests of Classify, Regress and MultiInference from their bytes. Examples stay bytes: the graph parses them.

import { ExampleInput } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { checkInstances } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import { readerOf } from "../client-message.ts";
import { readModelSpec, tooManyNames } from "./request-messages.ts";
import type { ModelSpec } from "./request-messages.ts";

/** `ClassificationRequest` and `RegressionRequest`, which have the same fields. */
export interface ExamplesMessage {
  readonly spec: ModelSpec | undefined;
  readonly input: ExampleInput;
}

/** `InferenceTask`. */
export interface InferenceTask {
  readonly spec: ModelSpec | undefined;
  readonly methodName: string;
}

/** `MultiInferenceRequest`. */
export interface MultiInferenceMessage {
  readonly tasks: readonly InferenceTask[];
  readonly input: ExampleInput;
}

type Limits = Pick<RequestLimits, "instancesMax">;

/** The examples of a request, no more than it may have instances. */
function inputWithin(limits: Limits): ExampleInput {
  return new ExampleInput((examples) => checkInstances(examples, limits));
}

/** Reads the request of Classify or Regress. @throws WinnowError INVALID_ARGUMENT */
export function readExamplesRequest(bytes: Uint8Array, limits: Limits): ExamplesMessage {
  const reader = readerOf(bytes);
  let spec: ModelSpec | undefined;
  const input = inputWithin(limits);
  while (reader.next()) {
    if (reader.field === 1) spec = readModelSpec(reader.message(), spec);
    else if (reader.field === 2) input.read(reader.message());
  }
  return { spec, input };
}

/** Reads the request of MultiInference. @throws WinnowError INVALID_ARGUMENT */
export function readMultiInferenceRequest(
  bytes: Uint8Array,
  limits: Limits & { readonly namesMax: number },
): MultiInferenceMessage {
  const reader = readerOf(bytes);
  const tasks: InferenceTask[] = [];
  const input = inputWithin(limits);
  while (reader.next()) {
    if (reader.field === 1) tasks.push(readTask(reader.message()));
    else if (reader.field === 2) input.read(reader.message());
    if (tasks.length > limits.namesMax) throw tooManyNames(limits.namesMax);
  }
  return { tasks, input };
}

function readTask(reader: ProtobufReader): InferenceTask {
  let spec: ModelSpec | undefined;
  let methodName = "";
  while (reader.next()) {
    if (reader.field === 1) spec = readModelSpec(reader.message(), spec);
    else if (reader.field === 2) methodName = reader.text();
  }
  return { spec, methodName };
}
