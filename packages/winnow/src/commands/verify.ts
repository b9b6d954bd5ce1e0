// `winnow verify`: whether a running cluster answers what its model files say, or what another server answers.
// The files are read on a path of their own (`oracle/`); questions are made from them (`questions/`).

import { setMaxListeners } from "node:events";
import { createDenseEngine } from "@winnow/accelerator";
import { type Clock, WinnowError, excerpt, toWinnowError } from "@winnow/core";
import type { VersionDirectory } from "../model-source/model-source.ts";
import { VersionOpener, newestVersionsAt } from "../model-source/object-versions.ts";
import { type OpeningParts, openReference } from "../oracle/opened-references.ts";
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
import type { PredictServer } from "../verify/exchange.ts";
import type { GrpcServer } from "../verify/grpc-server.ts";
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
  /** The same router's gRPC port, as host:port, to be asked as well. */
  readonly grpc?: string | undefined;
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
  // Each request under way listens.
  setMaxListeners(0, environment.signal);
  const { seed, tolerance, againstTolerance: serverTolerance } = command;
  const server = serverOf(command.url, command, environment);
  const against =
    command.against === undefined ? undefined : serverOf(command.against, command, environment);
  const hasOwnFields = (await server.isWinnow()) && (await against?.isWinnow()) !== false;
  const requests = command.requests === undefined ? undefined : readRequestsFile(command.requests);
  const grpc =
    command.grpc === undefined ? undefined : await grpcOf(command.grpc, command, environment);
  const told = {
    url: server.url,
    grpc: grpc?.url,
    against: against?.url,
    seed,
    tolerance,
    serverTolerance,
  };
  const run = { ...told, ...(requests && { requests: requests.digest }) };
  const state = new VerificationState(run, command.state);
  const parts: RunParts = { command, environment, server, grpc, against, state };
  try {
    const models =
      requests === undefined
        ? await verifyFiles(hasOwnFields, parts)
        : [await verifyRequests(command.only[0]!, requests, parts)];
    return { ...told, verdict: verdictOf(models, environment.signal.aborted), models };
  } finally {
    grpc?.close();
  }
}

/** @throws WinnowError INVALID_ARGUMENT where flags do not say what to ask */
function checkSources({ models, requests, against, only, grpc }: VerifyCommand): void {
  if (grpc !== undefined && models === undefined) {
    const text = "--grpc needs --models DIR, whose files say what is right";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
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
  readonly grpc: PredictServer | undefined;
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

/** gRPC is loaded where it is asked for. @throws WinnowError INVALID_ARGUMENT for an address that is none */
async function grpcOf(
  address: string,
  { url, ca, keyFile, timeoutMs }: VerifyCommand,
  { clock }: VerifyEnvironment,
): Promise<GrpcServer> {
  const { GrpcServer } = await import("../verify/grpc-server.ts");
  const isSecure = url.startsWith("https:");
  return new GrpcServer({ address, isSecure, trust: { ca, keyFile }, clock, timeoutMs });
}

function wantedOf(
  versions: readonly VersionDirectory[],
  { models, only }: VerifyCommand,
): readonly VersionDirectory[] {
  if (only.length === 0) return versions;
  const names = versions.map(({ model }) => model);
  const missing = only.find((name) => !names.includes(name));
  if (missing === undefined) return versions.filter(({ model }) => only.includes(model));
  const text = `There is no model "${excerpt(missing)}" in ${models}, but ${names.join(", ")}`;
  throw new WinnowError("NOT_FOUND", text);
}

async function verifyFiles(
  hasOwnFields: boolean,
  parts: RunParts,
): Promise<readonly VerifiedModel[]> {
  const newest = await newestVersionsAt(parts.command.models!, { flag: "--models" });
  const wanted = wantedOf(newest, parts.command);
  const engine = createDenseEngine();
  const opener = new VersionOpener();
  const opening = { engine, newest, open: (directory: string) => opener.open(directory) };
  const verified: VerifiedModel[] = [];
  try {
    for (const version of wanted) {
      if (parts.environment.signal.aborted) break;
      verified.push(await verifyVersion(version, hasOwnFields, { ...parts, opening }));
    }
  } finally {
    await engine.close();
    await opener.close();
  }
  return verified;
}

async function verifyVersion(
  located: VersionDirectory,
  hasOwnFields: boolean,
  parts: RunParts & { readonly opening: OpeningParts },
): Promise<VerifiedModel> {
  const { command } = parts;
  const { model, version } = located;
  const nothing = { model, version, wanted: command.queries, progress: undefined };
  try {
    const opened = await openReference(located, parts.opening);
    const { reference } = opened;
    try {
      if (reference.untold !== undefined) return { ...nothing, unchecked: reference.untold };
      const plan = new RequestPlan(reference, { model, seed: command.seed, hasOwnFields });
      const asked = { model, version, count: command.queries };
      return await verifySource(questionsOfFiles(asked, reference, plan), parts);
    } finally {
      await opened.close();
    }
  } catch (error) {
    const { code, message } = toWinnowError(error);
    // Bugs are reported as bugs, and so is a state file that cannot be written.
    if (!(error instanceof WinnowError) || code === "UNAVAILABLE") throw error;
    return { ...nothing, unchecked: `${code}: ${message}` };
  }
}

async function verifySource(source: QuestionSource, parts: RunParts): Promise<VerifiedModel> {
  const { command, environment, server, grpc, against, state } = parts;
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
      grpc,
      against,
      signal,
      keep: (kept) => {
        state.keep(kept);
        report(done(kept), count);
      },
    },
  );
  if (signal.aborted && done(progress) < count) report(done(progress), count, "end");
  return { model, version, wanted: count, progress, unchecked: await uncheckedOf() };

  async function uncheckedOf(): Promise<string | undefined> {
    if (signal.aborted) return undefined;
    if (count === 0) return "it has no signature that takes inputs";
    if (progress.next < count) {
      const state = await server.stateOf({ model, version });
      return `given up: ${state === "available" ? (progress.missingText ?? state) : state}`;
    }
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
