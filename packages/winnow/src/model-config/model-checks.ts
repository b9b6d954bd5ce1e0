// Checks of a model's name and path in a configuration, from a file or a gRPC call. Each check gives the
// fault as text, or `undefined`.

import path from "node:path";
import { ANNOUNCED_NAME, excerpt, isObjectUrl, parseObjectUrl, toWinnowError } from "@winnow/core";

/** The fault of a model's name. */
export function nameFault(model: string): string | undefined {
  if (model === "") return 'a model needs a name: name: "movies"';
  if (ANNOUNCED_NAME.test(model)) return undefined;
  return `"${excerpt(model)}" cannot be a model's name: write up to 255 letters, digits, _, -, ., :, [ and ], but not . or ..`;
}

/** The fault of a model's directory or object store URL. */
export function basePathFault(model: string, basePath: string): string | undefined {
  if (path.isAbsolute(basePath)) return undefined;
  if (isObjectUrl(basePath)) return urlFault(model, basePath);
  const text = `model "${excerpt(model)}" needs an absolute base_path, not "${excerpt(basePath)}"`;
  return `${text}; it holds the version directories, as in /models/movies`;
}

function urlFault(model: string, url: string): string | undefined {
  try {
    parseObjectUrl(url);
    return undefined;
  } catch (error) {
    return `model "${excerpt(model)}": ${toWinnowError(error).message}`;
  }
}

/** The fault of a platform that cannot be served. */
export function platformFault(model: string): string {
  return `model "${excerpt(model)}": the only platform here is "tensorflow"`;
}

/** The fault of two models with one name. */
export function duplicateFault(model: string): string {
  return `model "${excerpt(model)}" is listed twice`;
}
