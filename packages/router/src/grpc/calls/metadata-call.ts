// GetModelMetadata: the signatures of a version, packed into an Any as TensorFlow Serving does.

import { WinnowError, excerpt } from "@winnow/core";
import type { ModelProgram, SignatureProgram, SignatureTensor } from "@winnow/core";
import type { Predictor } from "../../predictor.ts";
import { WIRE_TYPES } from "../tensors/data-type.ts";
import type { GrpcSettings } from "../grpc-settings.ts";
import { requiredSpec, targetOf } from "./model-target.ts";
import type { GrpcAnswer, GrpcCall } from "./predict-call.ts";
import { readMetadataRequest } from "./request-messages.ts";
import { encodeMessage } from "../serving-definition.ts";

const SIGNATURE_DEF = "signature_def";
const SIGNATURE_DEF_MAP = "tensorflow.serving.SignatureDefMap";

/** Answers GetModelMetadata. @throws WinnowError INVALID_ARGUMENT, or as `Predictor.pin` */
export async function getModelMetadata(
  predictor: Predictor,
  call: GrpcCall,
  settings: GrpcSettings,
): Promise<GrpcAnswer> {
  const message = readMetadataRequest(call.bytes, settings.namesMax);
  const spec = requiredSpec(message.spec);
  call.names(spec.name);
  checkFields(message.fields);
  const pinned = await predictor.pin(targetOf(spec));
  try {
    const { model, version, program } = pinned;
    const bytes = encodeMessage("tensorflow.serving.GetModelMetadataResponse", {
      model_spec: { name: model, version: { value: String(version) } },
      metadata: {
        [SIGNATURE_DEF]: {
          type_url: `type.googleapis.com/${SIGNATURE_DEF_MAP}`,
          value: encodeMessage(SIGNATURE_DEF_MAP, signatureDefMap(program)),
        },
      },
    });
    return { bytes, instances: 0 };
  } finally {
    pinned.release();
  }
}

function checkFields(fields: readonly string[]): void {
  if (fields.length === 0) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      "GetModelMetadataRequest must specify at least one metadata_field",
    );
  }
  const unknown = fields.find((field) => field !== SIGNATURE_DEF);
  if (unknown === undefined) return;
  throw new WinnowError("INVALID_ARGUMENT", `Metadata field ${excerpt(unknown)} is not supported`);
}

function signatureDefMap({ signatures }: ModelProgram): object {
  return {
    signature_def: Object.fromEntries(
      signatures.map((signature) => [signature.name, signatureDef(signature)]),
    ),
  };
}

function signatureDef({ methodName, inputs, outputs }: SignatureProgram): object {
  const describe = (tensor: SignatureTensor): readonly [string, object] => [
    tensor.name,
    tensorInfo(tensor, methodName === ""),
  ];
  return {
    inputs: Object.fromEntries(inputs.map(describe)),
    outputs: Object.fromEntries(outputs.map(describe)),
    method_name: methodName,
  };
}

/** The initialiser's output is an operation, not a tensor: it has neither dtype nor shape. */
function tensorInfo(tensor: SignatureTensor, isOperation: boolean): object {
  const shape = isOperation ? undefined : tensor.shape;
  return {
    name: tensor.graphTensor,
    dtype: isOperation ? 0 : WIRE_TYPES[tensor.dtype].number,
    tensor_shape:
      shape === undefined
        ? { unknown_rank: true }
        : { dim: shape.map((size) => ({ size: String(size) })) },
  };
}
