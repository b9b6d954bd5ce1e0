// Reads the requests of Classify, Regress and MultiInference from their bytes. Examples stay bytes: the graph parses them.

import type { ProtobufReader } from "@winnow/core";
import { checkInstances } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import { readerOf } from "../client-message.ts";
import { readModelSpec, tooManyNames } from "./request-messages.ts";
import type { ModelSpec } from "./request-messages.ts";

/** `Input`: serialized tf.Examples, and what comes before each of them. */
export interface ExampleInput {
  readonly context: Uint8Array;
  readonly examples: readonly Uint8Array[];
}

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

/** Parts in which a context may come: one, but for a sender that wants it merged. */
const CONTEXT_PARTS_MAX = 64;
/** The fields of `Input.kind`, of which the last one counts, and a repeated one adds to what it held. */
const LISTS: ReadonlySet<number> = new Set([1, 2]);
const CONTEXT = 2;

/** An `Input` that is being read. */
interface InputParts {
  kind: number;
  context: Uint8Array[];
  examples: Uint8Array[];
}

const noInput = (): InputParts => ({ kind: 0, context: [], examples: [] });
const inputOf = ({ context, examples }: InputParts): ExampleInput => {
  return { context: Buffer.concat(context), examples };
};

/** Reads the request of Classify or Regress. @throws WinnowError INVALID_ARGUMENT */
export function readExamplesRequest(bytes: Uint8Array, limits: Limits): ExamplesMessage {
  const reader = readerOf(bytes);
  let spec: ModelSpec | undefined;
  const input = noInput();
  while (reader.next()) {
    if (reader.field === 1) spec = readModelSpec(reader.message(), spec);
    else if (reader.field === 2) readInput(reader.message(), input, limits);
  }
  return { spec, input: inputOf(input) };
}

/** Reads the request of MultiInference. @throws WinnowError INVALID_ARGUMENT */
export function readMultiInferenceRequest(
  bytes: Uint8Array,
  limits: Limits & { readonly namesMax: number },
): MultiInferenceMessage {
  const reader = readerOf(bytes);
  const tasks: InferenceTask[] = [];
  const input = noInput();
  while (reader.next()) {
    if (reader.field === 1) tasks.push(readTask(reader.message()));
    else if (reader.field === 2) readInput(reader.message(), input, limits);
    if (tasks.length > limits.namesMax) throw tooManyNames(limits.namesMax);
  }
  return { tasks, input: inputOf(input) };
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

function readInput(reader: ProtobufReader, into: InputParts, limits: Limits): void {
  while (reader.next()) {
    const kind = reader.field;
    if (!LISTS.has(kind)) continue;
    if (into.kind !== kind) Object.assign(into, { ...noInput(), kind });
    readList(reader.message(), into, limits);
  }
}

/** `ExampleList` and `ExampleListWithContext`, which begin alike. */
function readList(reader: ProtobufReader, into: InputParts, limits: Limits): void {
  while (reader.next()) {
    if (reader.field === 1) {
      into.examples.push(reader.view());
      checkInstances(into.examples.length, limits);
    } else if (reader.field === CONTEXT && into.kind === CONTEXT) {
      into.context.push(reader.view());
      if (into.context.length > CONTEXT_PARTS_MAX) throw tooManyNames(CONTEXT_PARTS_MAX);
    }
  }
}
