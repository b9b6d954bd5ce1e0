// Which format a version directory is in, told from the files it holds.

import { existsSync } from "node:fs";
import path from "node:path";
import { WinnowError, excerpt } from "@winnow/core";
import type { ModelVersion } from "./model-version.ts";
import { openSavedModel } from "./saved-model/saved-model-version.ts";
import type { ReadingOptions } from "./saved-model/version-files.ts";
import { GRAPH_FILE } from "./saved-model/version-directory.ts";

/**
 * Opens a version directory (`/models/movies/7`) of any format Winnow reads; reads no table.
 * @throws WinnowError NOT_FOUND where there is no model, DATA_LOSS, INVALID_ARGUMENT or UNIMPLEMENTED
 * naming the file, and the signature and node where the graph is at fault
 */
export function openModelVersion(directory: string, options?: ReadingOptions): ModelVersion {
  if (existsSync(path.join(directory, GRAPH_FILE))) return openSavedModel(directory, options);
  const isText = existsSync(path.join(directory, `${GRAPH_FILE}txt`));
  if (isText) {
    const message = `Cannot open ${excerpt(directory)}: ${GRAPH_FILE}txt is text; save it as binary`;
    throw new WinnowError("UNIMPLEMENTED", message);
  }
  const message = `Cannot open ${excerpt(directory)}: it holds no ${GRAPH_FILE}`;
  throw new WinnowError("NOT_FOUND", message);
}
