// TensorFlow Serving's model configuration file (`--model_config_file`): which models to serve,
// which of their versions, under which labels. Field names are those of `model_server_config.proto`
// and `file_system_storage_path_source.proto`; checks are those of its server core, with longer
// messages.

import { excerpt } from "@winnow/core";
import type { VersionPolicy } from "@winnow/worker";
import type { MessageShape, TextMessage } from "../text-proto/text-message.ts";
import { readMessage } from "../text-proto/text-message.ts";
import { basePathFault, duplicateFault, nameFault, platformFault } from "./model-checks.ts";

/** One model of the file. */
export interface ConfiguredModel {
  readonly model: string;
  /** Absolute. */
  readonly basePath: string;
  readonly policy: VersionPolicy;
  /** Label → version. */
  readonly labels: ReadonlyMap<string, number>;
}

/** The content of the file. */
export interface ModelConfig {
  readonly models: readonly ConfiguredModel[];
  /** Fields that are accepted but have no meaning here, for a warning. */
  readonly idle: readonly string[];
}

const UINT32 = { kind: "integer", min: 0, max: 2 ** 32 - 1 } as const;
const VERSION = { kind: "integer", min: 0, max: Number.MAX_SAFE_INTEGER } as const;
const choice = "policy_choice";

const POLICY: MessageShape = {
  name: "ServableVersionPolicy",
  fields: {
    latest: {
      kind: "message",
      choice,
      shape: { name: "Latest", fields: { num_versions: UINT32 } },
    },
    all: { kind: "message", choice, shape: { name: "All", fields: {} } },
    specific: {
      kind: "message",
      choice,
      shape: { name: "Specific", fields: { versions: { ...VERSION, repeated: true } } },
    },
  },
};

const MODEL: MessageShape = {
  name: "ModelConfig",
  fields: {
    name: { kind: "string" },
    base_path: { kind: "string" },
    model_type: { kind: "enum", names: ["MODEL_TYPE_UNSPECIFIED", "TENSORFLOW", "OTHER"] },
    model_platform: { kind: "string" },
    model_version_policy: { kind: "message", shape: POLICY },
    version_labels: {
      kind: "message",
      repeated: true,
      shape: { name: "VersionLabelsEntry", fields: { key: { kind: "string" }, value: VERSION } },
    },
    logging_config: { kind: "any" },
    logging_configs: { kind: "any", repeated: true },
  },
};

const CONFIG: MessageShape = {
  name: "ModelServerConfig",
  fields: {
    model_config_list: {
      kind: "message",
      choice: "config",
      shape: {
        name: "ModelConfigList",
        fields: { config: { kind: "message", repeated: true, shape: MODEL } },
      },
    },
    custom_model_config: { kind: "any", choice: "config" },
  },
};

/** Reads the file's text; `source` names it in errors. @throws WinnowError INVALID_ARGUMENT */
export function readModelConfig(text: string, source: string): ModelConfig {
  const config = readMessage(text, CONFIG, source);
  if (config.has("custom_model_config")) {
    throw config.fault(
      "custom_model_config needs code of its own; list the models in model_config_list",
      "custom_model_config",
    );
  }
  const list = config.message("model_config_list");
  if (list === undefined) throw config.fault("expected model_config_list { config { … } }");
  const entries = list.messages("config");
  const models = entries.map(modelOf);
  for (const [index, { model }] of models.entries()) {
    if (models.findIndex((other) => other.model === model) === index) continue;
    throw entries[index]!.fault(duplicateFault(model), "name");
  }
  const idle = ["logging_config", "logging_configs"].filter((name) =>
    entries.some((entry) => entry.has(name)),
  );
  return { models, idle };
}

function modelOf(entry: TextMessage): ConfiguredModel {
  const model = entry.text("name");
  const fault = nameFault(model);
  if (fault !== undefined) throw entry.fault(fault, "name");
  checkPlatform(entry, model);
  return {
    model,
    basePath: basePathOf(entry, model),
    policy: policyOf(entry.message("model_version_policy")),
    labels: labelsOf(entry, model),
  };
}

/** TensorFlow Serving requires one of these fields; here the platform is implied, because there is only one. */
function checkPlatform(entry: TextMessage, model: string): void {
  const platform = entry.text("model_platform");
  const isOther = entry.has("model_platform") && platform !== "tensorflow";
  if (isOther || entry.text("model_type") === "OTHER") {
    const field = isOther ? "model_platform" : "model_type";
    throw entry.fault(platformFault(model), field);
  }
}

function basePathOf(entry: TextMessage, model: string): string {
  const basePath = entry.text("base_path");
  const fault = basePathFault(model, basePath);
  if (fault !== undefined) throw entry.fault(fault, "base_path");
  return basePath;
}

function policyOf(policy: TextMessage | undefined): VersionPolicy {
  if (policy?.has("all") === true) return { kind: "all" };
  const specific = policy?.message("specific");
  if (specific !== undefined) {
    const versions = [...new Set(specific.integers("versions"))];
    if (versions.length > 0) return { kind: "specific", versions };
    throw specific.fault("specific { } names no version: specific { versions: 42 }");
  }
  const count = policy?.message("latest")?.integer("num_versions") ?? 1;
  return { kind: "latest", count: Math.max(1, count) };
}

function labelsOf(entry: TextMessage, model: string): ReadonlyMap<string, number> {
  const labels = new Map<string, number>();
  for (const label of entry.messages("version_labels")) {
    const key = label.text("key");
    if (key === "" || !label.has("value")) {
      throw label.fault('a label is written version_labels { key: "stable" value: 42 }');
    }
    if (labels.has(key)) {
      const text = `label "${excerpt(key)}" of model "${excerpt(model)}" is given twice`;
      throw label.fault(text, "key");
    }
    labels.set(key, label.integer("value"));
  }
  return labels;
}
