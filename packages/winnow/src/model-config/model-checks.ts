// What a model of a configuration may be called and where it may lie, whether a file or a gRPC call
// lists it. Each check gives the fault in words, or `undefined`.

import path from "node:path";
import { excerpt, isObjectUrl, parseObjectUrl, toWinnowError } from "@winnow/core";

const NAME_CHARACTERS_MAX = 256;

/** What is wrong with a model's name. */
export function nameFault(model: string): string | undefined {
  if (model === "") return 'a model needs a name: name: "movies"';
  if (model.length <= NAME_CHARACTERS_MAX) return undefined;
  return `a model's name has at most ${NAME_CHARACTERS_MAX} characters`;
}

/** What is wrong with a model's directory, or with the URL of its place in an object store. */
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

/** Says that the platform is none of those that can be served. */
export function platformFault(model: string): string {
  return `model "${excerpt(model)}": the only platform here is "tensorflow"`;
}

/** Says that two models have one name. */
export function duplicateFault(model: string): string {
  return `model "${excerpt(model)}" is listed twice`;
}
