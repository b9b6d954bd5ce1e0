// HandleReloadConfigRequest: a new list of models for a running server. Workers hold the lists, so the call
// is UNIMPLEMENTED unless the process that runs the router passes a `ReloadModels`.

import { WinnowError } from "@winnow/core";
import type { RequestContext } from "../../request-context.ts";
import type { GrpcAnswer, GrpcCall } from "./predict-call.ts";
import { encodeMessage } from "../serving-definition.ts";
import { readReloadRequest } from "./reload-message.ts";
import type { PolicyMessage } from "./reload-message.ts";

/** One model of a reload, as models.config lists it. */
export interface ReloadedModel {
  readonly name: string;
  readonly basePath: string;
  /** Always `tensorflow`. */
  readonly platform: string;
  readonly versions: VersionPolicy;
  /** Version by label. */
  readonly labels: ReadonlyMap<string, number>;
}

/** Which versions of a model are to be served. */
export type VersionPolicy =
  | { readonly kind: "latest"; readonly count: number }
  | { readonly kind: "all" }
  | { readonly kind: "specific"; readonly versions: readonly number[] };

/**
 * Replaces the list of models. Resolves to a notice for the client, even if the reload succeeded.
 * @throws WinnowError when it cannot
 */
export type ReloadModels = (
  models: readonly ReloadedModel[],
  context: RequestContext,
) => Promise<string | undefined>;

/** Answers HandleReloadConfigRequest. @throws WinnowError UNIMPLEMENTED, INVALID_ARGUMENT, or as `reload` */
export async function reloadConfig(
  reload: ReloadModels | undefined,
  call: GrpcCall,
): Promise<GrpcAnswer> {
  if (reload === undefined) {
    throw new WinnowError(
      "UNIMPLEMENTED",
      "Cannot reload: Winnow's workers watch their model directories and load what appears there",
    );
  }
  const notice = await reload(readModels(call.bytes), call.context);
  const bytes = encodeMessage("tensorflow.serving.ReloadConfigResponse", {
    status: { error_code: "OK", error_message: notice ?? "" },
  });
  return { bytes, instances: 0 };
}

function readModels(bytes: Uint8Array): ReloadedModel[] {
  const models = readReloadRequest(bytes);
  if (models === undefined) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      "ServerModelConfig type not supported by HandleReloadConfigRequest. " +
        "Only ModelConfigList is currently supported",
    );
  }
  return models.map(({ name, basePath, platform, policy, labels }) => ({
    name,
    basePath,
    platform,
    versions: policyOf(policy),
    labels: new Map([...labels].map(([label, version]) => [label, versionOf(version)])),
  }));
}

function policyOf(policy: PolicyMessage): VersionPolicy {
  switch (policy.kind) {
    case "all":
      return { kind: "all" };
    case "specific":
      return { kind: "specific", versions: policy.versions.map(versionOf) };
    case "latest":
      return { kind: "latest", count: Math.max(1, policy.count) };
    case "none":
      return { kind: "latest", count: 1 };
  }
}

function versionOf(given: bigint): number {
  const version = Number(given);
  if (Number.isSafeInteger(version)) return version;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot serve version ${given}`);
}
