// Where the models are, from flags and environment variables of Winnow and of TensorFlow Serving:
//
//   --models DIR                      every model below DIR: DIR/<name>/<version>/
//   --model_name, --model_base_path   one model; the path is the one that holds its versions
//   MODEL_NAME, MODEL_BASE_PATH       as in TensorFlow Serving's image: MODEL_BASE_PATH/MODEL_NAME
//
// `--model_config_file` wins over all of these (`model-config/`). Each path may be a URL of an object store, s3://bucket/prefix.

import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import type { Dirent } from "node:fs";
import path from "node:path";
import {
  WinnowError,
  accessDeniedText,
  indexVersions,
  isObjectUrl,
  joinObjectUrl,
  parseObjectUrl,
} from "@winnow/core";
import { MODEL_FILES, adviceOnFormats, isModelFile } from "@winnow/model";
import { nameFault } from "../model-config/model-checks.ts";
import type { ConfiguredModel } from "../model-config/model-config.ts";

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

/** The names TensorFlow Serving's image gives these settings. */
export interface ModelEnvironment {
  readonly MODEL_NAME?: string | undefined;
  readonly MODEL_BASE_PATH?: string | undefined;
}

/**
 * Decides where models are. Flags win over the environment.
 * @throws WinnowError INVALID_ARGUMENT for a URL of an unknown kind of store
 */
export function modelSource(
  options: ModelSourceOptions,
  environment: ModelEnvironment,
): ModelSource {
  if (options.models !== undefined) {
    return { kind: "directory", directory: resolved(options.models) };
  }
  // Empty is TensorFlow Serving's default of this flag.
  if (options.modelBasePath !== undefined && options.modelBasePath !== "") {
    const model = options.modelName ?? environment.MODEL_NAME ?? DEFAULT_MODEL;
    return { kind: "model", model: named(model), basePath: resolved(options.modelBasePath) };
  }
  const directory = resolved(environment.MODEL_BASE_PATH ?? DEFAULT_DIRECTORY);
  const model = options.modelName ?? environment.MODEL_NAME;
  if (model === undefined) return { kind: "directory", directory };
  return { kind: "model", model: named(model), basePath: joined(directory, model) };
}

/** @throws WinnowError INVALID_ARGUMENT for a name that workers could not announce */
function named(model: string): string {
  const fault = nameFault(model);
  if (fault === undefined) return model;
  throw new WinnowError("INVALID_ARGUMENT", `--model_name (MODEL_NAME): ${fault}`);
}

/** An absolute path, or a URL. @throws WinnowError INVALID_ARGUMENT for a URL of an unknown kind of store */
function resolved(location: string): string {
  if (!isObjectUrl(location)) return path.resolve(location);
  parseObjectUrl(location);
  return location;
}

const joined = (location: string, name: string): string =>
  isObjectUrl(location) ? joinObjectUrl(location, name) : path.join(location, name);

/** One version directory of one model. */
export interface VersionDirectory {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
}

/**
 * The newest version of every model that a path leads to: a version directory itself, a model's directory, or
 * a directory of models. `flag` is the one that named the path, for errors.
 * @throws WinnowError NOT_FOUND saying what is there instead, and what would work
 */
export function newestVersions(directory: string, flag?: string): VersionDirectory[] {
  const absolute = path.resolve(directory);
  if (!isDirectory(absolute)) {
    if (existsSync(absolute)) {
      const holder = path.dirname(absolute);
      throw new WinnowError(
        "NOT_FOUND",
        `${absolute}${flag === undefined ? "" : ` (${flag})`} is no directory; one that may work is ${holder}`,
      );
    }
    const text = `There is no directory ${absolute}`;
    const isUnnamed = absolute === DEFAULT_DIRECTORY;
    const remedy = isUnnamed ? "; name the one of your models with --models" : "";
    throw new WinnowError("NOT_FOUND", text + (flag === undefined ? remedy : ` (${flag})`));
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
  assertReadable(absolute);
  throw new WinnowError("NOT_FOUND", adviceFor(absolute));
}

/** @throws WinnowError PERMISSION_DENIED where a folder on the way may not be entered */
function isDirectory(location: string): boolean {
  try {
    return statSync(location).isDirectory();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EACCES") throw denied(location);
    return false;
  }
}

/** @throws WinnowError PERMISSION_DENIED */
function assertReadable(directory: string): void {
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
  } catch {
    throw denied(directory);
  }
}

function denied(location: string): WinnowError {
  return new WinnowError("PERMISSION_DENIED", `Cannot read ${location}: ${accessDeniedText()}`);
}

/**
 * The newest version that a configured model's policy allows.
 * @throws WinnowError NOT_FOUND if none of them exists
 */
export function versionOfPolicy(
  { model, basePath }: ConfiguredModel,
  wanted: readonly number[],
): VersionDirectory[] {
  const there = existsSync(basePath) ? versionsBelow(model, basePath) : [];
  const found = there.filter(({ version }) => wanted.includes(version));
  const newest = found.toSorted((a, b) => b.version - a.version).slice(0, 1);
  if (newest.length > 0) return newest;
  const text = `${basePath} has no version ${wanted.join(", ")}`;
  throw new WinnowError("NOT_FOUND", `Model ${model}: ${text}`);
}

function newestOf(model: string, basePath: string): VersionDirectory | undefined {
  return versionsBelow(model, basePath).at(-1);
}

/**
 * The version that workers serve where they find the newest one: they pass over a directory without a model file, which
 * may be a copy in progress. `undefined` if no directory of the model has one.
 */
export function servedInstead(newest: VersionDirectory): VersionDirectory | undefined {
  if (isLookedInto(newest.directory)) return newest;
  return versionsBelow(newest.model, path.dirname(newest.directory)).findLast(({ directory }) =>
    isLookedInto(directory),
  );
}

/** Ascending. */
function versionsBelow(model: string, basePath: string): VersionDirectory[] {
  return [...indexVersions(subdirectories(basePath)).names].map(([version, name]) => ({
    model,
    version,
    directory: path.join(basePath, name),
  }));
}

function adviceFor(directory: string): string {
  const unversioned = subdirectories(directory).find((name) =>
    holdsModel(path.join(directory, name)),
  );
  const layout = `models lie at <directory>/<name>/<version number>/, each with one of ${MODEL_FILES.join(", ")}`;
  if (unversioned === undefined) {
    const advice = adviceOnFormats(entriesOf(directory).map(({ name }) => name)) ?? layout;
    return `There is no model in ${directory}; ${advice}`;
  }
  const there = path.join(directory, unversioned);
  const isVersion = /^\d+$/.test(path.basename(directory));
  const place = isVersion ? directory : path.join(there, "1");
  return `${there} holds a model but no version number: ${layout}. Move its files to ${place}`;
}

/** Whether a directory is the version of a model. */
function holdsModel(directory: string): boolean {
  return MODEL_FILES.some((file) => existsSync(path.join(directory, file)));
}

/** Whether workers open a version directory, be it only to refuse it for its format. */
export function isLookedInto(directory: string): boolean {
  return holdsModel(directory) || entriesOf(directory).some(({ name }) => isModelFile(name));
}

/** None of what is no directory, has gone, or may not be read, such as the `lost+found` of a volume. */
function subdirectories(directory: string): string[] {
  return entriesOf(directory)
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map((entry) => entry.name)
    .toSorted();
}

function entriesOf(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (["ENOTDIR", "ENOENT", "EACCES", "ELOOP"].includes(code ?? "")) return [];
    throw error;
  }
}
