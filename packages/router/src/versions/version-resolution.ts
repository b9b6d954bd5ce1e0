// Which version a URL means, in TensorFlow Serving's words where it has some: a label is checked
// before the model exists; no version means the default. A version the client names is answered by
// it or not at all (S4).

import { excerpt, WinnowError } from "@winnow/core";
import type { Announcement, RoutedModel, RoutedVersion, RoutingTable } from "@winnow/cluster";
import { isSameVersion, isServable } from "@winnow/cluster";
import type { ModelTarget, VersionStatus } from "../predictor.ts";

/** The versions and labels that a URL is resolved by. */
export interface ResolutionContext {
  readonly table: RoutingTable;
  /** Last words of workers that cannot be asked now. */
  readonly unreachable: () => readonly Announcement[];
  /** @throws WinnowError for a label that means nothing (yet) */
  readonly versionOfLabel: (model: string, label: string) => number;
  /** Whether all versions of the model have been unloaded. */
  readonly isOver: (model: RoutedModel) => boolean;
}

/**
 * The version a target means; it may be asked. @throws WinnowError what `versionOfLabel` says of a
 * label; NOT_FOUND for a model or version that no worker knows or none could load; FAILED_PRECONDITION
 * for one that this router cannot run; UNAVAILABLE for one that is loading or whose workers cannot be
 * reached
 */
export function resolveVersion(target: ModelTarget, context: ResolutionContext): RoutedVersion {
  const { label, version } = target;
  const number = label === undefined ? version : context.versionOfLabel(target.model, label);
  const model = context.table.models.get(target.model);
  const isEmpty = model === undefined || model.versions.length === 0;
  if (isEmpty && isUnreachable(target.model, undefined, context)) throw unreachable(target.model);
  if (context.table.workers.size === 0 && isEmpty) {
    throw new WinnowError("UNAVAILABLE", "No worker has been reached yet; try again");
  }
  if (model === undefined || context.isOver(model)) throw notFound(target.model, number);
  return number === undefined ? defaultVersion(model) : namedVersion(model, number, context);
}

/** What a router knows of a version's program: why it is not here, or what is to be said of it. */
export interface ProgramState {
  readonly error: WinnowError | undefined;
  readonly notice: string;
}

/**
 * Versions as the status endpoint tells them, descending. What is to be said of a program stands
 * beside the code OK, where TensorFlow Serving says nothing.
 */
export function statusesOf(
  model: RoutedModel,
  programStateOf: (version: RoutedVersion) => ProgramState,
): VersionStatus[] {
  return model.versions.map((version) => {
    const { error: programError, notice } = programStateOf(version);
    const error = version.status.error ?? programError;
    return {
      version: version.key.version,
      state: version.status.state,
      errorCode: error?.code ?? "OK",
      errorMessage: error?.message ?? notice,
    };
  });
}

function namedVersion(
  model: RoutedModel,
  number: number,
  context: ResolutionContext,
): RoutedVersion {
  const version = model.versions.find(({ key }) => key.version === number);
  if (version === undefined) {
    if (isUnreachable(model.name, number, context)) throw unreachable(model.name);
    throw notFound(model.name, number);
  }
  return checked(version, number);
}

/**
 * The version that serves; where none does yet, not on this router, or not for everything, the newest
 * that can answer for everything. A router that cannot reach one worker may see no successor of a version
 * that all others have left, and the last of its replicas go. @throws WinnowError as `resolveVersion`
 */
export function defaultVersion(model: RoutedModel): RoutedVersion {
  const { serving } = model;
  const version = serving && model.versions.find(({ key }) => isSameVersion(key, serving));
  if (isServable(version)) return version;
  const other = model.versions.find(isServable);
  if (other !== undefined) return other;
  if (version !== undefined) return checked(version, undefined);
  const alive = model.versions.find(({ status }) => status.state !== "END");
  if (alive === undefined && model.versions.length > 0) {
    throw model.versions.find(isUnrunnable)?.refusal ?? notFound(model.name, undefined);
  }
  throw new WinnowError(
    "UNAVAILABLE",
    alive?.refusal?.message ?? `Model ${excerpt(model.name)} has no version that can answer yet`,
  );
}

function checked(version: RoutedVersion, asked: number | undefined): RoutedVersion {
  if (version.refusal === undefined) return version;
  if (isUnrunnable(version)) throw version.refusal;
  if (version.status.state === "END") throw notFound(version.key.model, asked);
  throw new WinnowError("UNAVAILABLE", version.refusal.message);
}

/** Whether this router can never run it: clients are told why. */
function isUnrunnable({ refusal }: RoutedVersion): boolean {
  return refusal?.code === "FAILED_PRECONDITION";
}

function isUnreachable(
  model: string,
  version: number | undefined,
  { unreachable }: ResolutionContext,
): boolean {
  return unreachable()
    .flatMap((worker) => worker.versions)
    .some((each) => each.model === model && (version === undefined || each.version === version));
}

function unreachable(model: string): WinnowError {
  return new WinnowError(
    "UNAVAILABLE",
    `Model ${excerpt(model)}: no worker that knows it can be reached; try again`,
  );
}

function notFound(model: string, version: number | undefined): WinnowError {
  const wanted =
    version === undefined ? `Latest(${excerpt(model)})` : `Specific(${excerpt(model)}, ${version})`;
  return new WinnowError("NOT_FOUND", `Servable not found for request: ${wanted}`);
}
