// Which version a URL means, with TensorFlow Serving's messages where it has some: a label is checked before
// the model; no version means the default. A version that the client names is answered by that version or not
// at all (S4).

import { excerpt, WinnowError } from "@winnow/core";
import type {
  Announcement,
  RoutedModel,
  RoutedVersion,
  RoutedWorker,
  RoutingTable,
} from "@winnow/cluster";
import { isSameVersion, isServable } from "@winnow/cluster";
import type { ModelTarget, VersionStatus } from "../predictor.ts";

/** What a URL is resolved by. */
export interface ResolutionContext {
  readonly table: RoutingTable;
  /** Last announcements of workers that cannot be asked at present. */
  readonly unreachable: () => readonly Announcement[];
  /** The version that a label means. @throws WinnowError for a label without a meaning (yet) */
  readonly versionOfLabel: (model: string, label: string) => number;
}

/**
 * The version that a target means; it may be asked. @throws WinnowError the error of `versionOfLabel` for a
 * label; NOT_FOUND for a model or version that no worker knows or none could load; FAILED_PRECONDITION for
 * one that this router cannot run; UNAVAILABLE for one that is loading or whose workers cannot be reached
 */
export function resolveVersion(target: ModelTarget, context: ResolutionContext): RoutedVersion {
  const { label, version } = target;
  const number = label === undefined ? version : context.versionOfLabel(target.model, label);
  const model = context.table.models.get(target.model);
  const isEmpty = model === undefined || model.versions.length === 0;
  if (isEmpty && isUnreachable(target.model, undefined, context)) throw unreachable(target.model);
  if (isEmpty) assertModelsKnown([...context.table.workers.values()]);
  if (model === undefined) throw notFound(target.model, number);
  return number === undefined ? defaultVersion(model) : namedVersion(model, number, context);
}

/** What a router knows of a version's program: why it is not ready, or a notice on it. */
export interface ProgramState {
  readonly error: WinnowError | undefined;
  readonly notice: string;
}

/**
 * Versions as the status endpoint gives them, descending. A notice on a program is the message beside the
 * code OK, where TensorFlow Serving says nothing.
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
  const named = model.versions.filter(({ key }) => key.version === number);
  const [version] = named;
  if (version === undefined || named.every(isLeaving)) {
    if (isUnreachable(model.name, number, context)) throw unreachable(model.name);
    throw notFound(model.name, number);
  }
  return checked(version, number);
}

/**
 * The default version. If there is none yet, none that this router can run, or it lacks partitions: the
 * newest version that can answer for everything. A router that cannot reach one worker may see no successor
 * of a version that all others have left, until its last replicas are gone. @throws WinnowError as
 * `resolveVersion`
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

/** Whether this router has no program of the version, and will get none, since all workers give the version up. */
function isLeaving({ known, status }: RoutedVersion): boolean {
  return !known && status.state === "UNLOADING";
}

/** Whether this router can never run the version; clients are told why. */
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

/** A client that is told NOT_FOUND would not ask again. @throws WinnowError UNAVAILABLE while models may still be named */
function assertModelsKnown(workers: readonly RoutedWorker[]): void {
  if (!workers.every(({ isLooking }) => isLooking)) return;
  const text =
    workers.length === 0
      ? "No worker has been reached yet"
      : "The workers have just started, and have not said yet which models there are";
  throw new WinnowError("UNAVAILABLE", `${text}; try again`);
}

function notFound(model: string, version: number | undefined): WinnowError {
  const wanted =
    version === undefined ? `Latest(${excerpt(model)})` : `Specific(${excerpt(model)}, ${version})`;
  return new WinnowError("NOT_FOUND", `Servable not found for request: ${wanted}`);
}
