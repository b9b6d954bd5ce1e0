// The metadata of the server and of models in the Open Inference Protocol. An input or output of unknown rank
// has the shape [-1], because the protocol has no word for it.

import type { SignatureProgram, SignatureTensor } from "@winnow/core";
import type { PinnedModel, VersionStatus } from "../../../predictor.ts";
import { DATATYPES } from "./inference-datatypes.ts";

const DEFAULT_SIGNATURE = "serving_default";

/** `GET /v2`. */
export function serverDocument(release: string): object {
  return { name: "winnow", version: release, extensions: ["binary_tensor_data"] };
}

/** `GET /v2/models/NAME`: the versions that can be asked for, ascending, and the tensors of the pinned one. */
export function modelDocument(
  { model, program }: PinnedModel,
  versions: readonly VersionStatus[],
): object {
  const signature = servedSignature(program.signatures);
  return {
    name: model,
    versions: versions
      .filter(({ state }) => state === "AVAILABLE")
      .map(({ version }) => String(version))
      .toReversed(),
    platform: "winnow",
    inputs: (signature?.inputs ?? []).map(describe),
    outputs: (signature?.outputs ?? []).map(describe),
  };
}

/** The protocol has no signatures; this one answers unless a parameter names another. */
function servedSignature(signatures: readonly SignatureProgram[]): SignatureProgram | undefined {
  return signatures.find(({ name }) => name === DEFAULT_SIGNATURE);
}

function describe({ name, dtype, shape }: SignatureTensor): object {
  return { name, datatype: DATATYPES[dtype], shape: shape ?? [-1] };
}
