// What a model of a configuration may be called and where it may lie, whether a file or a gRPC call
// lists it. Each check gives the fault in words, or `undefined`.

import path from "node:path";
import { excerpt } from "@winnow/core";

const NAME_CHARACTERS_MAX = 256;

/** What to do about models that lie in an object store. */
export const REMOTE_ADVICE = "files are read from directories: mount the bucket, or copy the model";

/** Whether a location is no path but names a protocol: `s3://bucket/models`. */
export function isUrl(location: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(location);
}

/** What is wrong with a model's name. */
export function nameFault(model: string): string | undefined {
  if (model === "") return 'a model needs a name: name: "movies"';
  if (model.length <= NAME_CHARACTERS_MAX) return undefined;
  return `a model's name has at most ${NAME_CHARACTERS_MAX} characters`;
}

/** What is wrong with a model's directory. */
export function basePathFault(model: string, basePath: string): string | undefined {
  if (path.isAbsolute(basePath)) return undefined;
  const advice = isUrl(basePath)
    ? REMOTE_ADVICE
    : "it holds the version directories, as in /models/movies";
  const text = `model "${excerpt(model)}" needs an absolute base_path, not "${excerpt(basePath)}"`;
  return `${text}; ${advice}`;
}

/** Says that the platform is none of those that can be served. */
export function platformFault(model: string): string {
  return `model "${excerpt(model)}": the only platform here is "tensorflow"`;
}

/** Says that two models have one name. */
export function duplicateFault(model: string): string {
  return `model "${excerpt(model)}" is listed twice`;
}
