// GetModelStatus: the state of each version of a model. A label is ignored, as in TensorFlow Serving.

import { WinnowError, excerpt } from "@winnow/core";
import type { Predictor, VersionStatus } from "../../predictor.ts";
import { requiredSpec } from "./model-target.ts";
import type { GrpcAnswer, GrpcCall } from "./predict-call.ts";
import { readStatusRequest } from "./request-messages.ts";
import { encodeMessage } from "../serving-definition.ts";

/** Answers GetModelStatus. @throws WinnowError INVALID_ARGUMENT, NOT_FOUND */
export function getModelStatus(predictor: Predictor, call: GrpcCall): GrpcAnswer {
  const { name, version } = requiredSpec(readStatusRequest(call.bytes));
  call.names(name);
  const known = predictor.status(name);
  const versions = version === undefined ? (known ?? []) : (known ?? []).filter(isOf(version));
  if (versions.length === 0) {
    const what = version === undefined ? "any versions" : `version ${version}`;
    throw new WinnowError("NOT_FOUND", `Could not find ${what} of model ${excerpt(name)}`);
  }
  const bytes = encodeMessage("tensorflow.serving.GetModelStatusResponse", {
    model_version_status: versions.map((status) => ({
      version: String(status.version),
      state: status.state,
      status: { error_code: status.errorCode, error_message: status.errorMessage },
    })),
  });
  return { bytes, instances: 0 };
}

function isOf(version: bigint): (status: VersionStatus) => boolean {
  return (status) => BigInt(status.version) === version;
}
