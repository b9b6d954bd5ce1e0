// One Predict call from bytes to bytes, with TensorFlow Serving's checks in their order
// (servables/tensorflow/predict_util.cc):
//
//   message ─▶ spec ─▶ pin ─▶ signature ─▶ inputs ─▶ output_filter ─▶ predict ─▶ answer
//                      └── released once, and its memory, whatever happens ────┘
//
// `k`, exclusions and filters are inputs with names of their own (`item-conditions.ts`). Partial answers do
// not exist here, because TensorFlow's messages have no field that could mark them.

import { WinnowError, nearestName } from "@winnow/core";
import type { SignatureProgram, Tensor } from "@winnow/core";
import { ATTRIBUTES_OUTPUT, EXPLANATION_OUTPUT, VECTORS_OUTPUT } from "../../predictor.ts";
import type { Degradation, Predictor, UnknownUsers } from "../../predictor.ts";
import type { RequestContext } from "../../request-context.ts";
import { checkInstances, checkShapeToRead, instancesOf } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import type { GrpcSettings } from "../grpc-settings.ts";
import {
  CONDITION_NAMES,
  CONDITION_PREFIX,
  readConditions,
  splitInputs,
} from "./item-conditions.ts";
import { inTurns } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";
import { strictJsonTexts } from "./json-texts.ts";
import { predictSignature, requiredSpec, targetOf } from "./model-target.ts";
import { writePredictAnswer } from "./predict-answer.ts";
import { readPredictRequest } from "./request-messages.ts";
import type { PredictMessage } from "./request-messages.ts";
import { TensorBudget } from "../tensors/tensor-budget.ts";
import type { TensorMemory } from "../tensors/tensor-memory.ts";
import { readingTensorProto } from "../tensors/tensor-proto-reader.ts";

/** One call as the handlers see it. */
export interface GrpcCall {
  readonly bytes: Uint8Array;
  readonly context: RequestContext;
  /** An entry of the call's metadata, by its key in lower case. */
  readonly header?: (name: string) => string | undefined;
  /** To be called as soon as the request has named a model, known or not. */
  readonly names: (model: string) => void;
  /** Of the tensors of all calls. */
  readonly memory: TensorMemory;
}

/** An answer, and what logs and metrics need to know of it. */
export interface GrpcAnswer {
  readonly bytes: Buffer;
  readonly instances: number;
  /** Of a prediction: the version that answered. */
  readonly version?: number | undefined;
  /** What the answer of a pipeline or an experiment lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  /** Of a pipeline: users that its model does not know. */
  readonly unknownUsers?: readonly UnknownUsers[] | undefined;
  /** The arms of an experiment that answered. */
  readonly arms?: string | undefined;
  /** Of an inference request: names of parameters that mean nothing, fit for a header. */
  readonly ignored?: readonly string[] | undefined;
}

/** Answers Predict. @throws WinnowError as the request or the cluster is at fault */
export async function predict(
  predictor: Predictor,
  call: GrpcCall,
  settings: GrpcSettings,
): Promise<GrpcAnswer> {
  const message = readPredictRequest(call.bytes, settings.namesMax);
  const spec = requiredSpec(message.spec);
  call.names(spec.name);
  const pinned = await predictor.pin(targetOf(spec));
  const budget = new TensorBudget(settings.tensorBytesMax, call.memory);
  try {
    const signature = predictSignature(pinned.program, spec.signatureName);
    const sent = splitInputs(message.inputs, signature);
    const reading = readingInputs(signature, sent.inputs, { budget, limits: predictor.limits });
    const read = inTurns(reading, call.context.signal);
    const inputs = read instanceof Promise ? await read : read;
    const instances = instancesOf(signature, inputs);
    checkInstances(instances, predictor.limits, inputs);
    const names = wantedOutputs(signature, message.outputFilter);
    const { context, header } = call;
    context.signal.throwIfAborted();
    const of = { instances, limits: predictor.limits };
    const conditions = readConditions(sent.conditions, of, budget);
    const request = { signature, inputs, context, header, ...conditions };
    const prediction = await predictor.predict(pinned, request);
    const { outputs, version, attributes, vectors, explanation } = prediction;
    const { degradations, unknownUsers, arms } = prediction;
    const given = names.map((name) => [name, outputNamed(outputs, name)] as const);
    const strict = async (texts: Tensor): Promise<Tensor> =>
      inTurns(strictJsonTexts(texts), context.signal);
    const answer = {
      model: pinned.model,
      version: version.version,
      signatureName: signature.name,
      outputs: new Map([
        ...given,
        ...(attributes ? ([[ATTRIBUTES_OUTPUT, await strict(attributes)]] as const) : []),
        ...(vectors ? ([[VECTORS_OUTPUT, vectors]] as const) : []),
        ...(explanation ? ([[EXPLANATION_OUTPUT, await strict(explanation)]] as const) : []),
      ]),
    };
    const bytes = writePredictAnswer(answer, settings.messageBytesMax);
    return { bytes, instances, version: version.version, degradations, unknownUsers, arms };
  } finally {
    budget.close();
    pinned.release();
  }
}

function* readingInputs(
  signature: SignatureProgram,
  inputs: PredictMessage["inputs"],
  { budget, limits }: { readonly budget: TensorBudget; readonly limits: RequestLimits },
): Steps<Map<string, Tensor>> {
  checkNames(signature, inputs);
  const read = new Map<string, Tensor>();
  for (const input of signature.inputs) {
    const proto = inputs.get(input.name);
    if (proto === undefined) throw missing(signature, inputs, input.name);
    const { name, dtype } = input;
    const checkShape = (shape: readonly number[]): void => checkShapeToRead(input, shape, limits);
    read.set(name, yield* readingTensorProto(proto, { name, dtype, checkShape }, budget));
  }
  return read;
}

/** Checks the number of inputs against the signature's. Their names are checked when they are read. */
function checkNames(signature: SignatureProgram, inputs: ReadonlyMap<string, unknown>): void {
  const declared = signature.inputs.map(({ name }) => name).toSorted();
  const sent = [...inputs.keys()].toSorted();
  if (sent.length === declared.length) return;
  const extra = sent.filter((name) => !declared.includes(name));
  const lacking = declared.filter((name) => !inputs.has(name));
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `input size does not match signature: ${sent.length}!=${declared.length} ` +
      `len({${sent.join(",")}}) != len({${declared.join(",")}}). ` +
      `Sent extra: {${extra.join(",")}}. Missing but required: {${lacking.join(",")}}.` +
      misspelt(extra),
  );
}

/** What was meant by names that begin like Winnow's own inputs and are none of them. */
function misspelt(extra: readonly string[]): string {
  const name = extra.find((each) => each.startsWith(CONDITION_PREFIX));
  if (name === undefined) return "";
  const nearest = nearestName(name, CONDITION_NAMES);
  const hint = nearest === undefined ? "" : `; did you mean ${nearest}?`;
  return ` Inputs of Winnow are ${CONDITION_NAMES.join(", ")}${hint}`;
}

function missing(
  signature: SignatureProgram,
  inputs: ReadonlyMap<string, unknown>,
  name: string,
): WinnowError {
  const feed = signature.inputs.find((input) => input.name === name)?.graphTensor ?? "";
  const sent = [...inputs.keys()].toSorted().join(",");
  return new WinnowError(
    "INVALID_ARGUMENT",
    `Signature input alias: ${name}(feed name: ${feed}) not found in request and no default value ` +
      `provided. Inputs expected to be in the request {${sent}}, or default input alias set: `,
  );
}

/** Names of the outputs to send: those of the filter, or all. */
function wantedOutputs(signature: SignatureProgram, filter: readonly string[]): readonly string[] {
  const known = signature.outputs.map(({ name }) => name);
  if (filter.length === 0) return known;
  const seen = new Set<string>();
  for (const name of filter) {
    if (!known.includes(name)) {
      throw new WinnowError(
        "INVALID_ARGUMENT",
        `output tensor alias not found in signature: ${name} Outputs expected to be in the set ` +
          `{${known.toSorted().join(",")}}.`,
      );
    }
    if (seen.has(name)) {
      throw new WinnowError("INVALID_ARGUMENT", `duplicate output tensor alias: ${name}`);
    }
    seen.add(name);
  }
  return filter;
}

function outputNamed(outputs: ReadonlyMap<string, Tensor>, name: string): Tensor {
  const found = outputs.get(name);
  if (found === undefined) throw new RangeError(`prediction without output "${name}"`);
  return found;
}
