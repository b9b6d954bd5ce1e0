// What the Open Inference Protocol tells of the server and of a model. An input or output of any rank, which
// its metadata cannot say, has the shape [-1] there.

import type { SignatureProgram, SignatureTensor } from "@winnow/core";
import type { PinnedModel, VersionStatus } from "../../../predictor.ts";
import { DATATYPES } from "./inference-datatypes.ts";

const DEFAULT_SIGNATURE = "serving_default";

/** `GET /v2`. */
export function serverDocument(release: string): object {
  return { name: "winnow", version: release, extensions: ["binary_tensor_data"] };
}

/** `GET /v2/models/NAME`: the versions that can be asked for, ascending, and the tensors of the one pinned. */
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

/** The protocol knows no signatures; this one answers where no parameter names another. */
function servedSignature(signatures: readonly SignatureProgram[]): SignatureProgram | undefined {
  return signatures.find(({ name }) => name === DEFAULT_SIGNATURE);
}

function describe({ name, dtype, shape }: SignatureTensor): object {
  return { name, datatype: DATATYPES[dtype], shape: shape ?? [-1] };
}
