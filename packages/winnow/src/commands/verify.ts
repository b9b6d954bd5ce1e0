// `winnow verify`: whether a running cluster answers what its model files say, or what another server answers.
// The files are read on a path of their own (`oracle/`); questions are made from them (`questions/`).

import { createDenseEngine, type DenseEngine } from "@winnow/accelerator";
import { type Clock, WinnowError, excerpt, toWinnowError } from "@winnow/core";
import type { VersionDirectory } from "../model-source/model-source.ts";
import { VersionOpener, newestVersionsAt } from "../model-source/object-versions.ts";
import { ReferenceModel } from "../oracle/reference-model.ts";
import { type ProgressOutput, progressLine } from "../progress-line.ts";
import { RequestPlan } from "../questions/request-plan.ts";
import type { RestTrust } from "../access/rest-client.ts";
import {
  type QuestionSource,
  type RequestsFile,
  questionsOfFiles,
  questionsOfRequests,
  readRequestsFile,
} from "../verify/question-sources.ts";
import { RestServer } from "../verify/rest-server.ts";
import { verifyModel } from "../verify/verification.ts";
import {
  type VerificationReport,
  type VerifiedModel,
  verdictOf,
} from "../verify/verification-report.ts";
import { type ModelProgress, VerificationState } from "../verify/verification-state.ts";

/** What to check. */
export interface VerifyCommand extends RestTrust {
  readonly url: string;
  /** Directory of models whose files say what is right. */
  readonly models?: string | undefined;
  /** Names of models; none: all of the directory. */
  readonly only: readonly string[];
  /** Another server to compare with. */
  readonly against?: string | undefined;
  /** A file of requests for the comparison of servers. */
  readonly requests?: string | undefined;
  /** Requests for each model. */
  readonly queries: number;
  readonly seed: number;
  readonly state?: string | undefined;
  readonly connections: number;
  readonly tolerance: number;
  readonly againstTolerance: number;
  readonly timeoutMs: number;
}

/** What the command takes from its process. */
export interface VerifyEnvironment {
  readonly clock: Clock;
  readonly output: ProgressOutput;
  readonly signal: AbortSignal;
}

/** Checks. @throws WinnowError for what cannot be asked or read at all */
export async function verify(
  command: VerifyCommand,
  environment: VerifyEnvironment,
): Promise<VerificationReport> {
  checkSources(command);
  const { seed, tolerance, againstTolerance: serverTolerance } = command;
  const server = serverOf(command.url, command, environment);
  const against =
    command.against === undefined ? undefined : serverOf(command.against, command, environment);
  const hasOwnFields = (await server.isWinnow()) && (await against?.isWinnow()) !== false;
  const requests = command.requests === undefined ? undefined : readRequestsFile(command.requests);
  const told = { url: server.url, against: against?.url, seed, tolerance, serverTolerance };
  const run = { ...told, ...(requests && { requests: requests.digest }) };
  const state = new VerificationState(run, command.state);
  const parts: RunParts = { command, environment, server, against, state };
  const models =
    requests === undefined
      ? await verifyFiles(await found(command.models!, command.only), hasOwnFields, parts)
      : [await verifyRequests(command.only[0]!, requests, parts)];
  return { ...told, verdict: verdictOf(models, environment.signal.aborted), models };
}

/** @throws WinnowError INVALID_ARGUMENT where flags do not say what to ask */
function checkSources({ models, requests, against, only }: VerifyCommand): void {
  if ((models === undefined) === (requests === undefined)) {
    const text =
      "Name what to ask: --models DIR makes questions and knows their answers; --requests FILE with --against URL and --model NAME compares two servers";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (requests !== undefined && (against === undefined || only.length !== 1)) {
    const text = "--requests needs --against URL and one --model NAME";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
}

function verifyRequests(
  model: string,
  requests: RequestsFile,
  parts: RunParts,
): Promise<VerifiedModel> {
  const asked = { model, version: undefined, count: parts.command.queries };
  return verifySource(questionsOfRequests(asked, requests, parts.server), parts);
}

interface RunParts {
  readonly command: VerifyCommand;
  readonly environment: VerifyEnvironment;
  readonly server: RestServer;
  readonly against: RestServer | undefined;
  readonly state: VerificationState;
}

function serverOf(
  url: string,
  { ca, keyFile, timeoutMs }: VerifyCommand,
  { clock }: VerifyEnvironment,
): RestServer {
  return new RestServer({ url, trust: { ca, keyFile }, clock, timeoutMs });
}

async function found(
  directory: string,
  only: readonly string[],
): Promise<readonly VersionDirectory[]> {
  const versions = await newestVersionsAt(directory);
  if (only.length === 0) return versions;
  const names = versions.map(({ model }) => model);
  const missing = only.find((name) => !names.includes(name));
  if (missing === undefined) return versions.filter(({ model }) => only.includes(model));
  const text = `There is no model "${excerpt(missing)}" in ${directory}, but ${names.join(", ")}`;
  throw new WinnowError("NOT_FOUND", text);
}

async function verifyFiles(
  versions: readonly VersionDirectory[],
  hasOwnFields: boolean,
  parts: RunParts,
): Promise<readonly VerifiedModel[]> {
  const engine = createDenseEngine();
  const opener = new VersionOpener();
  const verified: VerifiedModel[] = [];
  try {
    for (const version of versions) {
      if (parts.environment.signal.aborted) break;
      verified.push(await verifyVersion(version, hasOwnFields, { ...parts, engine, opener }));
    }
  } finally {
    await engine.close();
    await opener.close();
  }
  return verified;
}

async function verifyVersion(
  { model, version, directory }: VersionDirectory,
  hasOwnFields: boolean,
  parts: RunParts & { readonly engine: DenseEngine; readonly opener: VersionOpener },
): Promise<VerifiedModel> {
  const { command } = parts;
  const unchecked = (text: string): VerifiedModel => {
    return { model, version, wanted: command.queries, progress: undefined, unchecked: text };
  };
  try {
    const opened = await parts.opener.open(directory);
    try {
      const { pipeline, experiment } = opened.program;
      if (pipeline !== undefined || experiment !== undefined) {
        const kind = pipeline === undefined ? "an experiment" : "a pipeline";
        return unchecked(`${kind}: check the models that it asks`);
      }
      const reference = await ReferenceModel.load(opened, parts.engine, { model, version });
      const plan = new RequestPlan(reference, { model, seed: command.seed, hasOwnFields });
      const asked = { model, version, count: command.queries };
      const verified = await verifySource(questionsOfFiles(asked, reference, plan), parts);
      await reference.release();
      return verified;
    } finally {
      opened.close();
    }
  } catch (error) {
    const { code, message } = toWinnowError(error);
    // A bug is told as one, and so is a file of state that cannot be written.
    if (!(error instanceof WinnowError) || code === "UNAVAILABLE") throw error;
    return unchecked(`${code}: ${message}`);
  }
}

async function verifySource(source: QuestionSource, parts: RunParts): Promise<VerifiedModel> {
  const { command, environment, server, against, state } = parts;
  const { clock, output, signal } = environment;
  const { model, version, count } = source;
  const before = state.progressOf(model, source.fingerprint);
  const label = version === undefined ? model : `${model}/${version}`;
  const report = progressLine({ label, unit: "requests" }, output, clock);
  const done = ({ next, missing }: ModelProgress): number => Math.min(next, count) - missing.length;
  const progress = await verifyModel(
    source,
    {
      connections: command.connections,
      tolerance: command.tolerance,
      serverTolerance: command.againstTolerance,
    },
    {
      before,
      server,
      against,
      signal,
      keep: (kept) => {
        state.keep(kept);
        report(done(kept), count);
      },
    },
  );
  return { model, version, wanted: count, progress, unchecked: await uncheckedOf() };

  async function uncheckedOf(): Promise<string | undefined> {
    if (signal.aborted) return undefined;
    if (count === 0) return "it has no signature that takes inputs";
    if (progress.next < count) return `given up: ${await server.stateOf({ model, version })}`;
    return hasAnswers(progress) ? undefined : NOTHING_ANSWERED;
  }
}

const NOTHING_ANSWERED =
  "every request was refused, as the model refuses them: what its inputs mean cannot be guessed; --requests FILE with --against URL compares servers";

/** Whether anything but refusals was compared. */
function hasAnswers({ files, servers, missing }: ModelProgress): boolean {
  const counts = [files, servers].filter((each) => each !== undefined);
  return (
    missing.length > 0 ||
    counts.some(
      ({ exact, close, reordered, different }) => exact + close + reordered + different > 0,
    )
  );
}
