// The signatures of a version as TensorFlow Serving answers them: two protobuf JSON texts glued
// together by hand (model_servers/http_rest_api_util.cc, ToJsonString), hence the odd line breaks
// and `signature_def` twice. Winnow adds the stages of a pipeline and the arms of an experiment.

import type { ModelProgram, SignatureProgram, SignatureTensor } from "@winnow/core";
import { stageWords } from "@winnow/core";
import { DTYPE_NAMES } from "../../dtype-names.ts";
import { protobufJson } from "./status-document.ts";

/** What the document describes. */
export interface DescribedModel {
  readonly model: string;
  readonly version: number;
  readonly program: ModelProgram;
}

/** The body for one version. */
export function metadataDocument(described: DescribedModel): Buffer {
  const spec = protobufJson({
    name: described.model,
    signature_name: "",
    version: String(described.version),
  });
  const signatures = described.program.signatures.map(
    (signature) => [signature.name, signatureDefinition(signature)] as const,
  );
  const map = protobufJson({ signature_def: Object.fromEntries(signatures) });
  const { experiment, pipeline } = described.program;
  const stages = pipeline?.stages.map((stage) => ({ stage: stage.kind, does: stageWords(stage) }));
  const more =
    (stages === undefined ? "" : `,\n"pipeline": ${protobufJson({ stages })}`) +
    (experiment === undefined ? "" : `,\n"experiment": ${protobufJson(experiment)}`);
  return Buffer.from(
    `{\n"model_spec":${spec}\n,\n"metadata": {"signature_def": ${map}${more}\n}\n}\n`,
  );
}

function signatureDefinition(signature: SignatureProgram): object {
  const describe = (tensor: SignatureTensor): readonly [string, object] => [
    tensor.name,
    tensorInfo(tensor, signature.methodName === ""),
  ];
  return {
    inputs: Object.fromEntries(signature.inputs.map(describe)),
    outputs: Object.fromEntries(signature.outputs.map(describe)),
    method_name: signature.methodName,
    defaults: {},
  };
}

/** The initialiser's output is an operation, not a tensor: it has neither dtype nor shape. */
function tensorInfo(tensor: SignatureTensor, isOperation: boolean): object {
  const shape = isOperation ? undefined : tensor.shape;
  return {
    dtype: isOperation ? "DT_INVALID" : DTYPE_NAMES[tensor.dtype],
    tensor_shape: {
      dim: (shape ?? []).map((size) => ({ size: String(size), name: "" })),
      unknown_rank: shape === undefined,
    },
    name: tensor.graphTensor,
  };
}
