// Whether a worker takes an order to replace its models. An order comes from the network and names
// directories that this worker would read. Therefore it takes none unless it was started with a root
// directory, in which all ordered directories must lie after links are resolved. Links inside a model's
// directory are followed, because whoever may write there decides what is served anyway.

import { realpath } from "node:fs/promises";
import path from "node:path";

import type { OrderedModel } from "@winnow/cluster";
import { WinnowError, excerpt } from "@winnow/core";
import type { VersionPolicy } from "./version-policy.ts";

/** A model by name and the directory of its versions. */
export interface NamedModel {
  readonly model: string;
  readonly basePath: string;
  readonly policy?: VersionPolicy;
}

/** The settings of a worker that decide on orders. */
export interface ReplacementSettings {
  /** Directory in which ordered base paths must lie; `undefined`: no order is taken. */
  readonly reloadRoot: string | undefined;
  /** Whether the worker serves every model of a directory, which no list of models can replace. */
  readonly isWholeDirectory: boolean;
}

/** A path with its links resolved; rejects if it does not exist. */
export type RealPath = (name: string) => Promise<string>;

/** One ordered model: the model with its real path, or the error that it cannot be watched for. */
export interface JudgedModel {
  readonly model: string;
  readonly outcome: NamedModel | WinnowError;
}

/**
 * This worker's judgement of each model: PERMISSION_DENIED for a path outside the root, NOT_FOUND for one
 * that does not exist. @throws WinnowError FAILED_PRECONDITION where no order is taken
 */
export async function judgedModels(
  models: readonly OrderedModel[],
  { reloadRoot, isWholeDirectory }: ReplacementSettings,
  realPath: RealPath = realpath,
): Promise<JudgedModel[]> {
  if (reloadRoot === undefined) {
    throw refusal("it takes no models over the network; start workers with --model_reload_root");
  }
  if (isWholeDirectory) {
    const advice = "start workers with --model_config_file or --model_name to have a list of them";
    throw refusal(`it serves every model of a directory; ${advice}`);
  }
  const realRoot = await realPath(reloadRoot).catch(() => {
    throw refusal(`its --model_reload_root ${reloadRoot} cannot be read`);
  });
  const roots = [path.resolve(reloadRoot), realRoot];
  return Promise.all(
    models.map(async ({ model, basePath, policy }) => {
      // A path outside the root is refused before it is looked at: the answer would tell what exists there.
      if (!roots.some((root) => isInside(root, path.resolve(basePath)))) {
        return { model, outcome: outside(model) };
      }
      const found = await realPath(basePath).catch(() => undefined);
      if (found === undefined) {
        const text = `Model "${excerpt(model)}": ${excerpt(basePath)} cannot be read`;
        return { model, outcome: new WinnowError("NOT_FOUND", text) };
      }
      const isAllowed = isInside(realRoot, found);
      return { model, outcome: isAllowed ? { model, basePath: found, policy } : outside(model) };
    }),
  );

  function outside(model: string): WinnowError {
    const text = `Model "${excerpt(model)}": its base path lies outside of --model_reload_root`;
    return new WinnowError("PERMISSION_DENIED", `${text} ${reloadRoot}`);
  }
}

/**
 * All models with their real paths.
 * @throws WinnowError as `judgedModels`, or the first error that it gives
 */
export async function acceptedModels(
  models: readonly OrderedModel[],
  settings: ReplacementSettings,
  realPath: RealPath = realpath,
): Promise<NamedModel[]> {
  const judged = await judgedModels(models, settings, realPath);
  return judged.map(({ outcome }) => {
    if (outcome instanceof WinnowError) throw outcome;
    return outcome;
  });
}

function isInside(root: string, name: string): boolean {
  const relative = path.relative(root, name);
  return relative !== ".." && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);
}

function refusal(why: string): WinnowError {
  return new WinnowError("FAILED_PRECONDITION", `This worker's models stay: ${why}`);
}
