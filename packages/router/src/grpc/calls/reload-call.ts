// HandleReloadConfigRequest: a new list of models for a running server. Workers hold the lists, so the call
// is UNIMPLEMENTED unless the process that runs the router passes a `ReloadModels`.

import { WinnowError, excerpt } from "@winnow/core";
import type { RequestContext } from "../../request-context.ts";
import type { GrpcAnswer, GrpcCall } from "./predict-call.ts";
import { decodeMessage, encodeMessage } from "../serving-definition.ts";

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

interface ModelConfig {
  readonly name: string;
  readonly base_path: string;
  readonly model_platform: string;
  readonly model_version_policy: PolicyMessage | null;
  readonly version_labels: Readonly<Record<string, string>>;
}

interface PolicyMessage {
  readonly policy_choice?: "latest" | "all" | "specific";
  readonly latest?: { readonly num_versions: number };
  readonly specific?: { readonly versions: readonly string[] };
}

interface ReloadConfigRequest {
  readonly config: {
    readonly model_config_list?: { readonly config: readonly ModelConfig[] } | null;
  } | null;
}

function readModels(bytes: Uint8Array): ReloadedModel[] {
  const { config } = readRequest(bytes);
  const list = config?.model_config_list;
  if (list === undefined || list === null) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      "ServerModelConfig type not supported by HandleReloadConfigRequest. " +
        "Only ModelConfigList is currently supported",
    );
  }
  return list.config.map((model) => ({
    name: model.name,
    basePath: model.base_path,
    platform: model.model_platform,
    versions: policyOf(model.model_version_policy),
    labels: new Map(
      Object.entries(model.version_labels).map(([label, text]) => [label, versionOf(text)]),
    ),
  }));
}

function readRequest(bytes: Uint8Array): ReloadConfigRequest {
  try {
    return decodeMessage("tensorflow.serving.ReloadConfigRequest", bytes) as ReloadConfigRequest;
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", "Cannot read the message", { cause });
  }
}

function policyOf(policy: PolicyMessage | null): VersionPolicy {
  switch (policy?.policy_choice) {
    case "all":
      return { kind: "all" };
    case "specific":
      return { kind: "specific", versions: (policy.specific?.versions ?? []).map(versionOf) };
    case "latest":
    case undefined:
      return { kind: "latest", count: Math.max(1, policy?.latest?.num_versions ?? 1) };
  }
}

function versionOf(text: string): number {
  const version = Number(text);
  if (Number.isSafeInteger(version)) return version;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot serve version ${excerpt(text)}`);
}
