// Finds the format of a version directory from the files in it.

import { WinnowError, excerpt } from "@winnow/core";
import { withAttributes } from "./attributes/attributed-version.ts";
import { EXPERIMENT_FILE } from "./experiment-directory/experiment-description.ts";
import { openExperiment } from "./experiment-directory/experiment-version.ts";
import { withItemUpdates } from "./item-updates/updated-version.ts";
import type { UpdatedReadingOptions } from "./item-updates/updated-version.ts";
import type { ModelVersion } from "./model-version.ts";
import { DESCRIPTION_FILE } from "./onnx-directory/description/description.ts";
import { MODEL_FILE } from "./onnx-directory/graph/model-file.ts";
import { openOnnxDirectory } from "./onnx-directory/onnx-version.ts";
import { adviceOnFormats, isOtherFormat } from "./other-formats.ts";
import { PIPELINE_FILE } from "./pipeline-directory/pipeline-description.ts";
import { openPipeline } from "./pipeline-directory/pipeline-version.ts";
import { openSavedModel } from "./saved-model/saved-model-version.ts";
import { GRAPH_FILE } from "./saved-model/version-directory.ts";
import { StoredDirectory } from "./storage/stored-directory.ts";

/** Files that make a directory the version of a model. */
export const MODEL_FILES: readonly string[] = [
  GRAPH_FILE,
  MODEL_FILE,
  PIPELINE_FILE,
  EXPERIMENT_FILE,
];

/**
 * Whether a version directory with a file of this name is looked into. One with a model in another format is refused as
 * it is opened, which tells what to export.
 */
export function isModelFile(name: string): boolean {
  return MODEL_FILES.includes(name) || isOtherFormat(name);
}

/**
 * Opens a version directory (`/models/movies/7`) of any format Winnow reads; reads no table.
 * @throws WinnowError NOT_FOUND where there is no model, DATA_LOSS, INVALID_ARGUMENT or UNIMPLEMENTED
 * naming the file, and the signature and node where the graph is at fault
 */
export function openModelVersion(
  directory: string,
  options: UpdatedReadingOptions = {},
): ModelVersion {
  const files = new StoredDirectory(directory, options.store);
  const has = (file: string): boolean => files.has(file);
  const over = [PIPELINE_FILE, EXPERIMENT_FILE].find(has);
  if (over !== undefined) {
    refuseBeside(directory, over, has);
    return (over === PIPELINE_FILE ? openPipeline : openExperiment)(directory, options);
  }
  if (has(GRAPH_FILE) && has(DESCRIPTION_FILE)) {
    const text = `it holds both ${GRAPH_FILE} and ${DESCRIPTION_FILE}; leave the files of one model`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot open ${excerpt(directory)}: ${text}`);
  }
  if (has(GRAPH_FILE)) return withItems(openSavedModel(directory, options), options);
  if (has(MODEL_FILE)) return withItems(openOnnxDirectory(directory, options), options);
  if (has(DESCRIPTION_FILE)) {
    const text = `it holds a ${DESCRIPTION_FILE}, but no ${MODEL_FILE}; the copy may be incomplete`;
    throw new WinnowError("NOT_FOUND", `Cannot open ${excerpt(directory)}: ${text}`);
  }
  if (has(`${GRAPH_FILE}txt`)) {
    const message = `Cannot open ${excerpt(directory)}: ${GRAPH_FILE}txt is text; save it as binary`;
    throw new WinnowError("UNIMPLEMENTED", message);
  }
  throw withoutModel(directory, namesIn(files));
}

/** The version with what its directory says of its items. */
function withItems(version: ModelVersion, options: UpdatedReadingOptions): ModelVersion {
  return withAttributes(withItemUpdates(version, options), options.store);
}

/** None where the directory cannot be listed, or holds too much: the advice is left out then. */
function namesIn(files: StoredDirectory): string[] {
  try {
    return files.filesBelow(".");
  } catch {
    return [];
  }
}

/**
 * The refusal of a version that has no model file, by the names of its files at any depth: UNIMPLEMENTED for a model in
 * another format, else NOT_FOUND.
 */
export function withoutModel(directory: string, names: readonly string[]): WinnowError {
  const start = `Cannot open ${excerpt(directory)}`;
  const advice = adviceOnFormats(names);
  if (advice !== undefined) return new WinnowError("UNIMPLEMENTED", `${start}: ${advice}`);
  const none = `${start}: it holds no ${MODEL_FILES.join(", no ")}`;
  const below = names.find((name) => MODEL_FILES.includes(name.slice(name.indexOf("/") + 1)));
  const remedy =
    below === undefined ? "" : `; move the files beside its ${excerpt(below)} one folder up`;
  return new WinnowError("NOT_FOUND", none + remedy);
}

/** Refuses a directory that has a model besides an experiment or a pipeline. @throws WinnowError INVALID_ARGUMENT */
function refuseBeside(directory: string, over: string, has: (file: string) => boolean): void {
  const kinds = [EXPERIMENT_FILE, GRAPH_FILE, MODEL_FILE, DESCRIPTION_FILE];
  const beside = kinds.find((file) => file !== over && has(file));
  if (beside === undefined) return;
  const text = `it holds both ${over} and ${beside}; leave the files of one model`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot open ${excerpt(directory)}: ${text}`);
}
