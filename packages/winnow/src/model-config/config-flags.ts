// TensorFlow Serving's flags for configuration files and for loading: their names and defaults, and how
// `winnow up` passes them to its processes.

import type { Clock, Logger } from "@winnow/core";
import type { VersionLabels } from "@winnow/router";
import type { Command } from "commander";
import { booleanValue, option, wholeNumber } from "../command-options.ts";
import type { ConfigFile } from "../process/config-file.ts";
import { openConfigFile } from "../process/config-file.ts";
import { type ModelConfig, readModelConfig } from "./model-config.ts";
import type { MonitoringConfig } from "./monitoring-config.ts";
import { defaultMonitoring, readMonitoringConfig } from "./monitoring-config.ts";

/** Flags of every role that reads the model configuration. */
export interface ModelConfigFlags {
  readonly model_config_file?: string;
  readonly model_config_file_poll_wait_seconds: number;
  /** Only routers use it; workers always check warm-up requests. */
  readonly enable_model_warmup: boolean;
}

/** Flags of roles that load models. */
export interface LoadFlags {
  readonly file_system_poll_wait_seconds: number;
  readonly max_num_load_retries: number;
  readonly load_retry_interval_micros: number;
  readonly model_reload_root?: string;
  readonly modelCacheDir?: string;
  readonly modelCacheBytes: number;
}

/** Flags of roles that answer requests. */
export interface RequestFlags {
  readonly monitoring_config_file?: string;
  readonly allow_version_labels_for_unavailable_models: boolean;
}

const DAY_SECONDS = 86_400;
const retryMicros = wholeNumber(0, DAY_SECONDS * 1_000_000);
/** A smaller cache could not hold what is read ahead. */
const CACHE_BYTES_MIN = 2 ** 26;
const CACHE_BYTES = 2 ** 34;

/** Adds the flags of `ModelConfigFlags`. */
export function addModelConfigOptions(command: Command): Command {
  return command
    .addOption(
      option(
        "--model_config_file <file>",
        "models, version policies and labels, in TensorFlow Serving's format",
        "WINNOW_MODEL_CONFIG_FILE",
      ),
    )
    .addOption(
      option(
        "--model_config_file_poll_wait_seconds <n>",
        "read that file again so often; 0: never",
        "WINNOW_MODEL_CONFIG_POLL_SECONDS",
      )
        .argParser(wholeNumber(0, DAY_SECONDS))
        .default(0),
    )
    .addOption(
      option(
        "--enable_model_warmup [yes]",
        "replay a version's warm-up requests before it answers",
        "WINNOW_ENABLE_MODEL_WARMUP",
      )
        .preset("true")
        .argParser(booleanValue)
        .default(true),
    );
}

/** Adds the flags of `LoadFlags`. */
export function addLoadOptions(command: Command): Command {
  return command
    .addOption(
      option(
        "--file_system_poll_wait_seconds <n>",
        "look for new versions so often; 0: once",
        "WINNOW_FILE_SYSTEM_POLL_SECONDS",
      )
        .argParser(wholeNumber(0, DAY_SECONDS))
        .default(1),
    )
    .addOption(
      option(
        "--max_num_load_retries <n>",
        "tries of a version that failed to load, beyond the first",
        "WINNOW_MAX_LOAD_RETRIES",
      )
        .argParser(wholeNumber(0, 1_000_000))
        .default(5),
    )
    .addOption(
      option(
        "--load_retry_interval_micros <n>",
        "microseconds between two such tries; below 0: as 0",
        "WINNOW_LOAD_RETRY_INTERVAL_MICROS",
      )
        .argParser((text) => (/^-\d+$/.test(text) ? 0 : retryMicros(text)))
        .default(10_000_000),
    )
    .addOption(
      option(
        "--model_reload_root <dir>",
        "gRPC reloads may name models below this directory (default: no reloads)",
        "WINNOW_MODEL_RELOAD_ROOT",
      ),
    )
    .addOption(
      option(
        "--model-cache-dir <dir>",
        "keep what was read of models in object stores here (default: nowhere)",
        "WINNOW_MODEL_CACHE_DIR",
      ),
    )
    .addOption(
      option(
        "--model-cache-bytes <n>",
        "bytes kept there by all that share it, those used last; the same for all of them",
        "WINNOW_MODEL_CACHE_BYTES",
      )
        .argParser(wholeNumber(CACHE_BYTES_MIN, Number.MAX_SAFE_INTEGER))
        .default(CACHE_BYTES),
    );
}

/** Adds the flags of `RequestFlags`. */
export function addRequestOptions(command: Command): Command {
  return command
    .addOption(
      option(
        "--monitoring_config_file <file>",
        "where metrics are shown, in TensorFlow Serving's format",
        "WINNOW_MONITORING_CONFIG_FILE",
      ),
    )
    .addOption(
      option(
        "--allow_version_labels_for_unavailable_models [yes]",
        "set new labels before their version is available",
        "WINNOW_ALLOW_UNAVAILABLE_LABELS",
      )
        .preset("true")
        .argParser(booleanValue)
        .default(false),
    );
}

/** The flags as arguments, for `winnow up`'s processes. */
export function argumentsOf(
  flags: Partial<ModelConfigFlags & LoadFlags & RequestFlags>,
  names: readonly (keyof (ModelConfigFlags & LoadFlags & RequestFlags))[],
): string[] {
  return names.flatMap((name) =>
    flags[name] === undefined ? [] : [`--${name}=${String(flags[name])}`],
  );
}

interface ConfigParts {
  readonly clock: Clock;
  readonly log: Logger;
}

/** Opens the model configuration, if the flag is given. @throws WinnowError as `openConfigFile` */
export async function openModelConfig(
  flags: ModelConfigFlags,
  parts: ConfigParts,
): Promise<ConfigFile<ModelConfig> | undefined> {
  const { model_config_file: file, model_config_file_poll_wait_seconds: seconds } = flags;
  if (file === undefined || file === "") return undefined;
  const read = (text: string, source: string): ModelConfig => {
    const config = readModelConfig(text, source);
    for (const field of config.idle) {
      parts.log.warn("a field of the model configuration has no meaning here", { field });
    }
    return config;
  };
  const flag = "--model_config_file";
  return openConfigFile({ file, flag, read, pollMs: seconds * 1000 }, parts);
}

/** Where metrics are shown. @throws WinnowError as `openConfigFile` */
export async function monitoringOf(
  flags: RequestFlags,
  parts: ConfigParts,
): Promise<MonitoringConfig> {
  const file = flags.monitoring_config_file;
  if (file === undefined || file === "") return defaultMonitoring;
  const flag = "--monitoring_config_file";
  const settings = { file, flag, read: readMonitoringConfig, pollMs: 0 };
  return (await openConfigFile(settings, parts)).initial;
}

/** All labels of a configuration, as a router takes them. */
export function labelsOf({ models }: Pick<ModelConfig, "models">): VersionLabels {
  return new Map(models.map(({ model, labels }) => [model, labels]));
}
