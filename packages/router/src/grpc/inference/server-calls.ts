// What the Open Inference Protocol says about the server and its models, over gRPC. Whether something is ready is
// an answer there, not an error; ModelMetadata gives the reason why not, as an error.

import { WinnowError } from "@winnow/core";
import { modelDocument, serverDocument } from "../../http/predict/inference/inference-documents.ts";
import { pinModel } from "../../http/predict/predict-handler.ts";
import type { Predictor } from "../../predictor.ts";
import type { GrpcAnswer, GrpcCall } from "../calls/predict-call.ts";
import { encodeMessage } from "../serving-definition.ts";
import { namedModel } from "./infer-call.ts";
import { readEmptyRequest, readModelRequest } from "./infer-message.ts";

/** @throws WinnowError INVALID_ARGUMENT for bytes that are no message */
export function serverLive({ bytes }: GrpcCall): GrpcAnswer {
  readEmptyRequest(bytes);
  return answerOf("ServerLiveResponse", { live: true });
}

/** @throws WinnowError INVALID_ARGUMENT for bytes that are no message */
export function serverReady({ ready }: Predictor, { bytes }: GrpcCall): GrpcAnswer {
  readEmptyRequest(bytes);
  return answerOf("ServerReadyResponse", { ready });
}

/** @throws WinnowError INVALID_ARGUMENT for bytes that are no message */
export function serverMetadata(release: string, { bytes }: GrpcCall): GrpcAnswer {
  readEmptyRequest(bytes);
  return answerOf("ServerMetadataResponse", serverDocument(release));
}

/** Of a model or version that nobody knows: not ready. @throws WinnowError INVALID_ARGUMENT without a name */
export async function modelReady(predictor: Predictor, call: GrpcCall): Promise<GrpcAnswer> {
  const { name, version } = readModelRequest(call.bytes);
  call.names(name);
  const model = namedModel(name, version);
  let ready = true;
  try {
    const pinned = await pinModel(predictor, model);
    pinned.release();
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    ready = false;
  }
  return answerOf("ModelReadyResponse", { ready });
}

/** @throws WinnowError INVALID_ARGUMENT, or as `Predictor.pin` */
export async function modelMetadata(predictor: Predictor, call: GrpcCall): Promise<GrpcAnswer> {
  const { name, version } = readModelRequest(call.bytes);
  call.names(name);
  const pinned = await pinModel(predictor, namedModel(name, version));
  try {
    const document = modelDocument(pinned, predictor.status(pinned.model) ?? []);
    return answerOf("ModelMetadataResponse", document);
  } finally {
    pinned.release();
  }
}

function answerOf(type: string, message: object): GrpcAnswer {
  return { bytes: encodeMessage(`inference.${type}`, message), instances: 0 };
}
