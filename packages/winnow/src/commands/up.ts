// `winnow up`: starts a cluster on this machine, says when it answers and how to ask it, and stops
// everything on Ctrl-C. For trying and testing; in production Kubernetes starts the same roles.

import { replicationOf } from "@winnow/cluster";
import {
  type Clock,
  WinnowError,
  assertDescriptors,
  hostPort,
  isModelName,
  isObjectUrl,
  misnamedModelText,
  systemClock,
  toWinnowError,
} from "@winnow/core";
import picocolors from "picocolors";
import {
  type LocalCluster,
  type ModelState,
  startLocalCluster,
  waitUntilLoaded,
} from "../local-cluster/local-cluster.ts";
import { isShownToFew } from "../process/exposure.ts";
import { type LocalFlags, isGiven, localClusterShape } from "../local-cluster/local-flags.ts";
import { watchLoading } from "../local-cluster/load-progress.ts";
import { assertPortFree } from "../local-cluster/local-ports.ts";
import { openModelConfig } from "../model-config/config-flags.ts";
import {
  type ModelSource,
  type VersionDirectory,
  isLookedInto,
  modelSource,
} from "../model-source/model-source.ts";
import {
  configuredVersions,
  namedVersionsAt,
  servedVersionsAt,
} from "../model-source/object-versions.ts";
import { endOnSignals, outliveOutput } from "../process/process-life.ts";
import { processLog } from "../process/process-log.ts";
import { processVariables } from "../process/process-settings.ts";
import { assertGrpcServed } from "../process/ssl-config.ts";
import { progressLine, waitingLine } from "../progress-line.ts";
import { terminalJson, terminalLine, terminalText } from "../terminal-text.ts";
import { watchVersions } from "../local-cluster/version-news.ts";
import { exampleRequest } from "../local-cluster/example-request.ts";
import type { ExampleRequest } from "../local-cluster/example-request.ts";

/** Flags of `winnow up`. */
export interface UpOptions extends LocalFlags {
  readonly port: number;
  readonly rest_api_port?: number;
  /** 0 or absent: no gRPC. */
  readonly grpcPort?: number;
  readonly keyFile?: string;
}

/** Runs a local cluster until a signal ends it. */
export async function runUp(options: UpOptions, script: string): Promise<void> {
  assertDescriptors();
  const log = processLog({
    level: options.logLevel,
    process: "up",
    format: options.logFormat ?? "text",
  });
  assertFitting(options);
  const source = modelSource(
    {
      models: options.models,
      modelName: options.model_name,
      modelBasePath: options.model_base_path,
    },
    processVariables,
  );
  const config = await openModelConfig(options, { clock: systemClock, log });
  const versions = await (config === undefined
    ? versionsOf(source, options)
    : configuredVersions(config.initial.models));
  const { grpcPort = 0 } = options;
  const ofCluster = localClusterShape(options, {
    source,
    script,
    port: options.rest_api_port ?? options.port,
  });
  const shape = {
    ...ofCluster,
    routerArgs: [...ofCluster.routerArgs, ...grpcArgs(options)],
    keyFile: options.keyFile,
  };
  await assertPortFree(shape.port, shape.host, "--port");
  await assertPortFree(grpcPort, shape.host, "--grpc-port");
  const startedMs = systemClock.nowMs();
  outliveOutput();
  say(startingText(options));
  const stop = new AbortController();
  let cluster: LocalCluster | undefined;
  const end = async (): Promise<void> => {
    stop.abort(new WinnowError("CANCELLED", "stopped while starting"));
    await cluster?.stop();
  };
  endOnSignals({ drain: end, close: end }, log);
  try {
    cluster = await startLocalCluster(shape, log);
    await assertAnswered(cluster, systemClock);
    say(`loading ${versions.map(({ model }) => terminalLine(model)).join(", ")}`);
    const areNamesFree = config !== undefined || source.kind !== "directory";
    const expected = versions.map((version) => unserved(version, areNamesFree));
    const loaded = await loadedStates(
      cluster,
      versions.filter((_, index) => expected[index] === undefined),
      { options, signal: stop.signal },
    );
    const states = versions.map(
      ({ model: name }, index) => expected[index] ?? loaded.find(({ model }) => model === name)!,
    );
    const seconds = ((systemClock.nowMs() - startedMs) / 1000).toFixed(1);
    // A model that cannot be opened has no example; the others have theirs.
    const examples = await Promise.all(
      versions.map(async (found, index) =>
        states[index]!.state === "AVAILABLE" ? exampleRequest(found, versions) : undefined,
      ),
    );
    process.stdout.write(readyText(cluster, { versions, states, examples }));
    if (grpcPort !== 0) process.stdout.write(`gRPC on ${hostPort(options.host, grpcPort)}\n`);
    if (isShownToFew({ host: options.host, knowsClients: isGiven(options.apiKeys) })) {
      process.stdout.write(`${cluster.url}/console/ shows the cluster\n`);
    }
    say(`up after ${seconds} s; Ctrl-C stops everything. For one machine, not for production.`);
    void watchVersions(cluster, say, { signal: stop.signal }); // Never rejects.
  } catch (error) {
    if (stop.signal.aborted) return;
    await cluster?.stop();
    throw toWinnowError(error);
  }
}

/**
 * The state of a version that no worker will load; `undefined` for one to wait for. `areNamesFree`: models are named by
 * settings, not by their directories.
 */
function unserved(
  { model, directory }: VersionDirectory,
  areNamesFree: boolean,
): ModelState | undefined {
  if (!areNamesFree && !isModelName(model)) {
    return { model, state: "END", error: misnamedModelText(model) };
  }
  if (isObjectUrl(directory) || isLookedInto(directory)) return undefined;
  return { model, state: "START", error: `there is no model file in ${directory} yet` };
}

/** Refuses flags that `winnow up` cannot use. @throws WinnowError INVALID_ARGUMENT */
function assertFitting({ ssl_config_file: file, grpcPort = 0, tlsClientCa }: UpOptions): void {
  if (isGiven(tlsClientCa)) {
    const text =
      "winnow up asks its router without a certificate: --tls-client-ca is for winnow router and winnow serve";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (isGiven(file)) assertGrpcServed("--ssl_config_file", grpcPort !== 0);
}

function startingText({ routers, workers, accelerator, replication }: UpOptions): string {
  const ofWorkers = `${workers} ${workers === 1 ? "worker" : "workers"}`;
  const ofRouters = routers === 1 ? "a router" : `${routers} routers`;
  return `starting ${ofWorkers} (${accelerator}, replication ${replication}) and ${ofRouters}`;
}

function grpcArgs({ ssl_config_file: file, grpcPort = 0 }: UpOptions): string[] {
  return [`--grpc-port=${grpcPort}`, ...(isGiven(file) ? ["--ssl_config_file", file] : [])];
}

/** How often a router that listens is asked anew before its error is told, and the ms between. */
const ASKED_MAX = 100;
const ASK_PAUSE_MS = 100;

/**
 * Without a valid key the router would not tell the states of its models. A router that ends meanwhile is started again.
 * @throws WinnowError UNAUTHENTICATED. @internal tests call it
 */
export async function assertAnswered(
  { url, client }: Pick<LocalCluster, "url" | "client">,
  clock: Clock,
): Promise<void> {
  let status: number | undefined;
  for (let asked = 1; status === undefined; asked += 1) {
    try {
      ({ status } = await client.ask(`${url}/v1/models`));
    } catch (cause) {
      const text = `The router listens at ${url} and does not answer: ${(cause as Error).message}`;
      if (asked === ASKED_MAX) throw new WinnowError("UNAVAILABLE", text, { cause });
      await new Promise<void>((resolve) => void clock.setTimer(ASK_PAUSE_MS, resolve));
    }
  }
  if (status !== 401 && status !== 403) return;
  const text =
    "winnow up asks its router, which wants a key of --api-keys with the role status: name a file with it (--key-file)";
  throw new WinnowError("UNAUTHENTICATED", text);
}

/** Waits for the models, and shows progress on a terminal. */
async function loadedStates(
  cluster: LocalCluster,
  versions: readonly VersionDirectory[],
  { options, signal }: { readonly options: UpOptions; readonly signal: AbortSignal },
): Promise<ModelState[]> {
  const loaded = new AbortController();
  const watched = process.stderr.isTTY
    ? watchLoading(
        {
          workerAddresses: cluster.workerAddresses,
          versions,
          replicationOf: (model) => Math.min(replicationOf(model, options), options.workers),
        },
        {
          opening: waitingLine("opening", process.stderr, systemClock),
          loading: progressLine(
            { label: "loading", unit: "replicas" },
            process.stderr,
            systemClock,
          ),
        },
        AbortSignal.any([loaded.signal, signal]),
      )
    : Promise.resolve();
  try {
    return await waitUntilLoaded(cluster, versions, { signal, onWait: say });
  } finally {
    loaded.abort();
    await watched;
  }
}

function versionsOf(
  source: ModelSource,
  { models, model_base_path: basePath }: UpOptions,
): Promise<VersionDirectory[]> {
  const ofModel = basePath === undefined ? undefined : "--model_base_path";
  const flag = models === undefined ? ofModel : "--models";
  if (source.kind === "directory") return servedVersionsAt(source.directory, flag);
  return namedVersionsAt(source.model, source.basePath, flag);
}

/** Models that a cluster was started for. */
interface StartedModels {
  readonly versions: readonly VersionDirectory[];
  /** The state of each version, with a request that it answers, if it does. */
  readonly states: readonly ModelState[];
  readonly examples: readonly (ExampleRequest | undefined)[];
}

/** What is told of a cluster that has started. @internal tests call it */
export function readyText(
  cluster: Pick<LocalCluster, "processIds" | "workerMetricsUrls" | "url">,
  { versions, states, examples }: StartedModels,
): string {
  const blocks = states.map(({ model, state, error }, index) => {
    const found = versions[index]!;
    if (state !== "AVAILABLE") {
      const why = error === "" ? `version ${found.version} is gone, or not wanted any more` : error;
      const word = state === "END" ? picocolors.red("failed") : picocolors.yellow("waits ");
      return `${word}  ${terminalLine(model)}, version ${found.version}: ${terminalLine(why)}\n`;
    }
    const ready = `${picocolors.green("ready")}   ${model}, version ${found.version}\n`;
    const example = examples[index];
    if (example === undefined) return ready;
    const { body, header } = example;
    const flags = [
      ...(header === undefined ? [] : ["-H", quoted(header)]),
      "-d",
      quoted(terminalJson(body)),
    ];
    return `${ready}        curl ${flags.join(" ")} ${cluster.url}/v1/models/${model}:predict\n`;
  });
  const processes = [...cluster.processIds].map(([name, pid]) => `${name} is process ${pid}`);
  const metrics = `metrics of the workers: ${cluster.workerMetricsUrls.join(", ")}`;
  const details = [processes.join(", "), metrics].map((line) => `${picocolors.dim(line)}\n`);
  return `\n${blocks.join("")}\n${picocolors.bold(cluster.url)}\n${details.join("")}`;
}

/** A word for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function say(text: string): void {
  process.stderr.write(`${picocolors.dim("winnow")}  ${terminalText(text)}\n`);
}
