// Where the models are, from flags and environment variables of Winnow and of TensorFlow Serving:
//
//   --models DIR                      every model below DIR: DIR/<name>/<version>/
//   --model_name, --model_base_path   one model; the path is the one that holds its versions
//   MODEL_NAME, MODEL_BASE_PATH       as in TensorFlow Serving's image: MODEL_BASE_PATH/MODEL_NAME
//
// `--model_config_file` wins over all of these (`model-config/`).

import { existsSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { WinnowError, excerpt } from "@winnow/core";
import { MODEL_FILES } from "@winnow/model";
import { REMOTE_ADVICE, isUrl } from "./model-config/model-checks.ts";
import type { ConfiguredModel } from "./model-config/model-config.ts";

/** Flags and environment that say where models are. */
export interface ModelSourceOptions {
  readonly models?: string | undefined;
  readonly modelName?: string | undefined;
  readonly modelBasePath?: string | undefined;
}

/** Every model below a directory, or one model whose versions lie in `basePath`. */
export type ModelSource =
  | { readonly kind: "directory"; readonly directory: string }
  | { readonly kind: "model"; readonly model: string; readonly basePath: string };

const DEFAULT_DIRECTORY = "/models";
const DEFAULT_MODEL = "default";
const VERSION_NAME = /^\d+$/;

/** The names TensorFlow Serving's image gives these settings. */
export interface ModelEnvironment {
  readonly MODEL_NAME?: string | undefined;
  readonly MODEL_BASE_PATH?: string | undefined;
}

/**
 * Decides where models are. Flags win over environment.
 * @throws WinnowError INVALID_ARGUMENT for a URL, which is no directory
 */
export function modelSource(
  options: ModelSourceOptions,
  environment: ModelEnvironment,
): ModelSource {
  if (options.models !== undefined) {
    return { kind: "directory", directory: resolvedPath(options.models, "--models") };
  }
  if (options.modelBasePath !== undefined) {
    const model = options.modelName ?? environment.MODEL_NAME ?? DEFAULT_MODEL;
    return {
      kind: "model",
      model,
      basePath: resolvedPath(options.modelBasePath, "--model_base_path"),
    };
  }
  const directory = resolvedPath(
    environment.MODEL_BASE_PATH ?? DEFAULT_DIRECTORY,
    "MODEL_BASE_PATH",
  );
  const model = options.modelName ?? environment.MODEL_NAME;
  if (model === undefined) return { kind: "directory", directory };
  return { kind: "model", model, basePath: path.join(directory, model) };
}

/** A URL would become a path below the working directory, of which nobody has heard. */
function resolvedPath(directory: string, setting: string): string {
  if (!isUrl(directory)) return path.resolve(directory);
  const text = `${setting} is a directory, not "${excerpt(directory)}"; ${REMOTE_ADVICE}`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/** One version directory of one model. */
export interface VersionDirectory {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
}

/**
 * The newest version of every model that a path leads to: a version directory itself, a model's
 * directory, or a directory of models.
 * @throws WinnowError NOT_FOUND saying what lies there instead and what would work, INVALID_ARGUMENT for a URL
 */
export function newestVersions(directory: string): VersionDirectory[] {
  const absolute = resolvedPath(directory, "The path of models");
  if (!existsSync(absolute) || !statSync(absolute).isDirectory()) {
    throw new WinnowError("NOT_FOUND", `There is no directory ${absolute}`);
  }
  if (holdsModel(absolute)) {
    const version = Number(path.basename(absolute));
    const model = path.basename(path.dirname(absolute));
    return [{ model, version: Number.isInteger(version) ? version : 0, directory: absolute }];
  }
  const own = newestOf(path.basename(absolute), absolute);
  if (own !== undefined) return [own];
  const below = subdirectories(absolute)
    .map((name) => newestOf(name, path.join(absolute, name)))
    .filter((version) => version !== undefined);
  if (below.length > 0) return below;
  throw new WinnowError("NOT_FOUND", adviceFor(absolute));
}

/** The newest version in a model's directory, under the name it is served by. */
export function namedVersions(model: string, basePath: string): VersionDirectory[] {
  return newestVersions(basePath).map(({ version, directory }) => ({ model, version, directory }));
}

/**
 * The newest version of each configured model that its policy allows.
 * @throws WinnowError NOT_FOUND for a model without one
 */
export function configuredVersions(models: readonly ConfiguredModel[]): VersionDirectory[] {
  return models.flatMap(({ model, basePath, policy }) => {
    if (policy.kind !== "specific") {
      return namedVersions(model, basePath);
    }
    const there = existsSync(basePath) ? versionsBelow(model, basePath) : [];
    const found = there.filter(({ version }) => policy.versions.includes(version));
    const newest = found.toSorted((a, b) => b.version - a.version).slice(0, 1);
    if (newest.length > 0) return newest;
    const wanted = policy.versions.join(", ");
    throw new WinnowError("NOT_FOUND", `Model ${model}: ${basePath} has no version ${wanted}`);
  });
}

function newestOf(model: string, basePath: string): VersionDirectory | undefined {
  return versionsBelow(model, basePath).toSorted((a, b) => b.version - a.version)[0];
}

function versionsBelow(model: string, basePath: string): VersionDirectory[] {
  return subdirectories(basePath)
    .filter((name) => VERSION_NAME.test(name))
    .map((name) => ({ model, version: Number(name), directory: path.join(basePath, name) }));
}

function adviceFor(directory: string): string {
  const unversioned = subdirectories(directory).find((name) =>
    holdsModel(path.join(directory, name)),
  );
  const layout = `models lie at <directory>/<name>/<version number>/, each a ${MODEL_FILES.join(" or a ")}`;
  if (unversioned === undefined) return `There is no model in ${directory}; ${layout}`;
  const there = path.join(directory, unversioned);
  return `${there} holds a model but no version number: ${layout}. Move its files to ${path.join(there, "1")}`;
}

/** Whether a directory is the version of a model. */
function holdsModel(directory: string): boolean {
  return MODEL_FILES.some((file) => existsSync(path.join(directory, file)));
}

function subdirectories(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map((entry) => entry.name)
    .toSorted();
}
