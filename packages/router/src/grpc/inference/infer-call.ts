// One ModelInfer call from bytes to bytes: an inference request by the Open Inference Protocol, as
// `POST /v2/models/NAME/infer` takes it, in the messages of its gRPC service.
//
//   message ─▶ pin ─▶ signature ─▶ inputs, parameters ─▶ predict ─▶ answer
//              └── released once, and its memory, whatever happens ───┘

import { WinnowError, excerpt } from "@winnow/core";
import type { SignatureProgram, Tensor } from "@winnow/core";
import { readingBinaryTensor } from "../../http/predict/inference/binary-tensors.ts";
import {
  checkDatatype,
  checkShape,
  declaredInput,
  inputsInOrder,
  refuseParameters,
} from "../../http/predict/inference/inference-tensors.ts";
import { pinModel } from "../../http/predict/predict-handler.ts";
import { signatureNamed } from "../../http/predict/predict-request.ts";
import { readExtensions } from "../../http/predict/request-extensions.ts";
import { inferenceModel } from "../../http/request-path.ts";
import type { NamedModel } from "../../http/request-path.ts";
import { checkInstances, checkShapeToRead, instancesOf } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import type { Predictor } from "../../predictor.ts";
import { inTurns } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";
import type { GrpcAnswer, GrpcCall } from "../calls/predict-call.ts";
import type { GrpcSettings } from "../grpc-settings.ts";
import { TensorBudget } from "../tensors/tensor-budget.ts";
import { writeInferAnswer } from "./infer-answer.ts";
import { readInferRequest } from "./infer-message.ts";
import type { InferInput, InferMessage } from "./infer-message.ts";
import { fieldsOfParameters, flagOf, ignoredParameters, textOf } from "./infer-parameters.ts";
import { readingContents } from "./tensor-contents.ts";

/** @throws WinnowError as the request or the cluster is at fault */
export async function modelInfer(
  predictor: Predictor,
  call: GrpcCall,
  settings: GrpcSettings,
): Promise<GrpcAnswer> {
  const message = readInferRequest(call.bytes, settings.namesMax);
  call.names(message.model);
  const pinned = await pinModel(predictor, namedModel(message.model, message.version));
  const budget = new TensorBudget(settings.tensorBytesMax, call.memory);
  try {
    const { id, parameters, outputs } = message;
    const signature = signatureNamed(
      pinned.program.signatures,
      textOf(parameters, "signature_name") ?? "",
    );
    const { limits } = predictor;
    const reading = readingInputs(message, signature, { budget, limits });
    const read = inTurns(reading, call.context.signal);
    const inputs = read instanceof Promise ? await read : read;
    const instances = instancesOf(signature, inputs);
    checkInstances(instances, limits, inputs);
    const fields = fieldsOfParameters(parameters, limits);
    const wanted = readExtensions(fields, instances, limits);
    const isRaw = flagOf(parameters, "binary_data_output") ?? message.raw.length > 0;
    const names = wantedNames(outputs);
    const { context, header } = call;
    context.signal.throwIfAborted();
    const request = { signature, inputs, context, header, ...wanted };
    const prediction = await predictor.predict(pinned, request);
    const bytes = await writeInferAnswer(
      prediction,
      { id, names, isRaw },
      settings.messageBytesMax,
    );
    const { degradations, unknownUsers, arms } = prediction;
    const { version } = prediction.version;
    const ignored = ignoredParameters(parameters);
    return { bytes, instances, version, degradations, unknownUsers, arms, ignored };
  } finally {
    budget.close();
    pinned.release();
  }
}

/** What a request is about. @throws WinnowError INVALID_ARGUMENT without a name */
export function namedModel(model: string, version: string): NamedModel {
  if (model !== "") return inferenceModel(model, version);
  throw new WinnowError("INVALID_ARGUMENT", "The request names no model");
}

/** The inputs of a signature, all of them and no others, in its order. */
function* readingInputs(
  { inputs, raw }: InferMessage,
  signature: SignatureProgram,
  { budget, limits }: { readonly budget: TensorBudget; readonly limits: RequestLimits },
): Steps<ReadonlyMap<string, Tensor>> {
  if (raw.length > 0 && raw.length !== inputs.length) {
    refuse(
      `raw_input_contents has ${raw.length} elements for ${inputs.length} inputs; it must have one for each`,
    );
  }
  const read = new Map<string, Tensor>();
  for (const [at, input] of inputs.entries()) {
    const declared = declaredInput(signature, input.name, read);
    checkDatatype(declared, input.datatype);
    refuseParameters((name) => input.parameters.has(name), `input "${input.name}"`);
    const outline = { name: input.name, dtype: declared.dtype, shape: shapeOf(input) };
    checkShapeToRead(declared, outline.shape, limits);
    const bytes = raw[at];
    if (bytes === undefined) {
      read.set(input.name, yield* readingContents(input.contents ?? NO_BYTES, outline, budget));
      continue;
    }
    if (input.contents !== undefined && input.contents.length > 0) {
      refuse(
        `Input "${input.name}" has contents beside raw_input_contents; one of them holds its values`,
      );
    }
    budget.take(bytes.length);
    read.set(input.name, yield* readingBinaryTensor(bytes, outline));
  }
  return inputsInOrder(signature, read);
}

const NO_BYTES = new Uint8Array();

function shapeOf({ name, shape }: InferInput): readonly number[] {
  const negative = shape.find((size) => size < 0n);
  if (negative !== undefined) {
    refuse(`Input "${name}" has the size ${negative} in its shape; sizes are integers from 0`);
  }
  const sizes = shape.map(Number);
  checkShape(name, sizes);
  return sizes;
}

/** Names of the outputs to send; `undefined`: all. */
function wantedNames(outputs: InferMessage["outputs"]): readonly string[] | undefined {
  const names = new Set<string>();
  for (const { name, parameters } of outputs) {
    if (names.has(name)) refuse(`Output "${excerpt(name)}" stands twice in "outputs"`);
    names.add(name);
    refuseParameters((each) => parameters.has(each), `output "${excerpt(name)}"`);
  }
  return names.size === 0 ? undefined : [...names];
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
