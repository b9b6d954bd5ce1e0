// `winnow up`: starts a cluster on this machine, says when it answers and how to ask it, and stops
// everything on Ctrl-C. For trying and testing; in production Kubernetes starts the same roles.

import { availableParallelism } from "node:os";
import { replicationOf } from "@winnow/cluster";
import { WinnowError, systemClock, toWinnowError } from "@winnow/core";
import picocolors from "picocolors";
import {
  type LocalCluster,
  type LocalClusterShape,
  type ModelState,
  startLocalCluster,
  waitUntilLoaded,
} from "../local-cluster.ts";
import { watchLoading } from "../load-progress.ts";
import { assertPortFree } from "../local-ports.ts";
import {
  type LoadFlags,
  type ModelConfigFlags,
  type RequestFlags,
  argumentsOf,
  openModelConfig,
} from "../model-config/config-flags.ts";
import {
  type ModelSource,
  type VersionDirectory,
  configuredVersions,
  modelSource,
  namedVersions,
  newestVersions,
} from "../model-source.ts";
import { endOnSignals } from "../process-life.ts";
import type { AccessLogged } from "../access-log.ts";
import { type LogFormat, type LogLevel, processLog } from "../process-log.ts";
import { processVariables } from "../process-settings.ts";
import type { TlsFlags } from "../process-tls.ts";
import type { RedisFlags } from "../redis-access.ts";
import { progressLine } from "../progress-line.ts";
import { watchVersions } from "../version-news.ts";
import { exampleInstances } from "./example.ts";

/** Flags of `winnow up`. */
export interface UpOptions extends ModelConfigFlags, LoadFlags, RequestFlags, TlsFlags, RedisFlags {
  readonly workers: number;
  readonly replication: number;
  readonly modelReplication?: ReadonlyMap<string, number>;
  readonly partitionBytes?: number;
  readonly extraMemory?: number;
  readonly port: number;
  readonly rest_api_port?: number;
  readonly host: string;
  readonly accelerator: string;
  readonly logLevel: LogLevel;
  readonly logFormat?: LogFormat;
  readonly accessLog: AccessLogged;
  readonly models?: string;
  readonly model_name?: string;
  readonly model_base_path?: string;
  readonly apiKeys?: string;
  readonly keyFile?: string;
}

/** Runs a local cluster until a signal ends it. */
export async function runUp(options: UpOptions, script: string): Promise<void> {
  const log = processLog({
    level: options.logLevel,
    process: "up",
    format: options.logFormat ?? "text",
  });
  const source = modelSource(
    {
      models: options.models,
      modelName: options.model_name,
      modelBasePath: options.model_base_path,
    },
    processVariables,
  );
  const config = await openModelConfig(options, { clock: systemClock, log });
  const versions =
    config === undefined ? versionsOf(source) : configuredVersions(config.initial.models);
  const shape = clusterShape(options, source, script);
  await assertPortFree(shape.port, shape.host, "--port");
  const startedMs = systemClock.nowMs();
  const { replication, accelerator } = options;
  say(
    `starting ${shape.workers} workers (${accelerator}, replication ${replication}) and a router`,
  );
  const stop = new AbortController();
  let cluster: LocalCluster | undefined;
  const end = async (): Promise<void> => {
    stop.abort(new WinnowError("CANCELLED", "stopped while starting"));
    await cluster?.stop();
  };
  endOnSignals({ drain: end, close: end }, log);
  try {
    cluster = await startLocalCluster(shape, log);
    await assertAnswered(cluster);
    say(`loading ${versions.map(({ model }) => model).join(", ")}`);
    const states = await loadedStates(cluster, versions, { options, signal: stop.signal });
    const seconds = ((systemClock.nowMs() - startedMs) / 1000).toFixed(1);
    process.stdout.write(readyText(cluster, versions, states));
    say(`up after ${seconds} s; Ctrl-C stops everything. For one machine, not for production.`);
    void watchVersions(cluster, say, { signal: stop.signal }); // Never rejects.
  } catch (error) {
    if (stop.signal.aborted) return;
    await cluster?.stop();
    throw toWinnowError(error);
  }
}

/** Without a key the router would not tell what has become of its models. */
async function assertAnswered({ url, client }: LocalCluster): Promise<void> {
  const { status } = await client.ask(`${url}/v1/models`);
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
        progressLine({ label: "loading", unit: "replicas" }, process.stderr, systemClock),
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

function versionsOf(source: ModelSource): VersionDirectory[] {
  if (source.kind === "directory") return newestVersions(source.directory);
  return namedVersions(source.model, source.basePath);
}

function clusterShape(options: UpOptions, source: ModelSource, script: string): LocalClusterShape {
  const replication = String(Math.min(options.replication, options.workers));
  const ofModels = Array.from(
    options.modelReplication ?? [],
    ([model, count]) => `${model}=${count}`,
  );
  const common = [
    "--replication",
    replication,
    ...(ofModels.length === 0 ? [] : ["--model-replication", ofModels.join(",")]),
    "--log-level",
    options.logLevel,
    ...redisArgs(options),
    ...(options.logFormat === undefined ? [] : ["--log-format", options.logFormat]),
  ];
  const models =
    source.kind === "directory"
      ? ["--models", source.directory]
      : ["--model_name", source.model, "--model_base_path", source.basePath];
  return {
    workers: options.workers,
    host: options.host,
    port: options.rest_api_port ?? options.port,
    redis: options.redis,
    isSecure: isGiven(options.tlsCert),
    keyFile: options.keyFile,
    routerArgs: [
      ...common,
      "--access-log",
      String(options.accessLog),
      ...tlsArgs(options),
      ...(isGiven(options.apiKeys) ? ["--api-keys", options.apiKeys] : []),
      ...argumentsOf(options, ROUTER_FLAGS),
    ],
    workerArgs: [
      ...common,
      ...models,
      "--accelerator",
      options.accelerator,
      // The workers share this machine's cores: with a thread per core each, they would compete.
      "--threads",
      String(Math.max(1, Math.floor(availableParallelism() / options.workers))),
      ...partitionArgs(options),
      ...argumentsOf(options, WORKER_FLAGS),
    ],
    script,
  };
}

/** How the Redis of the URL, which is in a variable of theirs, is reached. */
function redisArgs(options: UpOptions): readonly string[] {
  const args = {
    "--redis-username": options.redisUsername,
    "--redis-password-file": options.redisPasswordFile,
    "--redis-ca": options.redisCa,
    "--redis-cert": options.redisCert,
    "--redis-key": options.redisKey,
  };
  return Object.entries(args).flatMap(([flag, text]) => (isGiven(text) ? [flag, text] : []));
}

function tlsArgs({ tlsCert, tlsKey, tlsClientCa }: UpOptions): readonly string[] {
  if (isGiven(tlsClientCa)) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      "winnow up asks its router without a certificate: --tls-client-ca is for winnow router",
    );
  }
  const args = { "--tls-cert": tlsCert, "--tls-key": tlsKey };
  return Object.entries(args).flatMap(([flag, file]) => (isGiven(file) ? [flag, file] : []));
}

function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== "";
}

function partitionArgs({ partitionBytes, extraMemory }: UpOptions): readonly string[] {
  return [
    ...(partitionBytes === undefined ? [] : ["--partition-bytes", String(partitionBytes)]),
    ...(extraMemory === undefined ? [] : ["--extra-memory", String(extraMemory)]),
  ];
}

/** Flags that `winnow up` passes on as they are: to both roles, to workers, to the router. */
const CONFIG_FLAGS = [
  "model_config_file",
  "model_config_file_poll_wait_seconds",
  "enable_model_warmup",
] as const;
const WORKER_FLAGS = [
  ...CONFIG_FLAGS,
  "file_system_poll_wait_seconds",
  "max_num_load_retries",
  "load_retry_interval_micros",
  "model_reload_root",
] as const;
const ROUTER_FLAGS = [
  ...CONFIG_FLAGS,
  "monitoring_config_file",
  "allow_version_labels_for_unavailable_models",
] as const;

function readyText(
  cluster: LocalCluster,
  versions: readonly VersionDirectory[],
  states: readonly ModelState[],
): string {
  const blocks = states.map(({ model, state, error }, index) => {
    const found = versions[index]!;
    if (state !== "AVAILABLE") {
      const why = error === "" ? `version ${found.version} is gone, or not wanted any more` : error;
      return `${picocolors.red("failed")}  ${model}: ${why}\n`;
    }
    const body = `{"instances":${exampleInstances(found)}}`.replaceAll("'", String.raw`'\''`);
    const curl = `curl -d '${body}' ${cluster.url}/v1/models/${model}:predict`;
    return `${picocolors.green("ready")}   ${model}, version ${found.version}\n        ${curl}\n`;
  });
  const processes = [...cluster.processIds].map(([name, pid]) => `${name} is process ${pid}`);
  const metrics = `metrics of the workers: ${cluster.workerMetricsUrls.join(", ")}`;
  const details = [processes.join(", "), metrics].map((line) => `${picocolors.dim(line)}\n`);
  return `\n${blocks.join("")}\n${picocolors.bold(cluster.url)}\n${details.join("")}`;
}

function say(text: string): void {
  process.stderr.write(`${picocolors.dim("winnow")}  ${text}\n`);
}
