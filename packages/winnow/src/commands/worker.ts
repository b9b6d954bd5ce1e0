// The worker role: one process that holds partitions and answers routers. This file is its edge: it
// reads flags, makes clock, log and membership, and starts the worker with them.

import path from "node:path";
import { exitAtOnce } from "@winnow/accelerator";
import {
  type AddressRules,
  type Describe,
  type TlsSource,
  WorkerServer,
  isWorkerId,
  stateFileName,
} from "@winnow/cluster";
import { type Logger, WinnowError, assertDescriptors, excerpt, systemClock } from "@winnow/core";
import { CacheCounts, type CacheSettings } from "@winnow/model";
import {
  type MetricsOptions,
  type MetricsServer,
  type MetricsServerParts,
  type Worker,
  type WorkerOptions,
  createWorkerMetrics,
  listenForMetrics,
  startWorker,
} from "@winnow/worker";
import { openApiKeys } from "../process/api-keys.ts";
import { type ClusterAccess, type ClusterOptions, openCluster } from "../access/cluster-access.ts";
import {
  type LoadFlags,
  type ModelConfigFlags,
  openModelConfig,
} from "../model-config/config-flags.ts";
import { modelCache } from "../model-source/model-cache.ts";
import { type ModelSource, modelSource } from "../model-source/model-source.ts";
import { type Protection, checkProtection } from "../process/exposure.ts";
import { DEVICE_LOST_EXIT_CODE, endOnSignals, reportListening } from "../process/process-life.ts";
import { type LogFormat, type LogLevel, processLog } from "../process/process-log.ts";
import { processEnvironment, processVariables } from "../process/process-settings.ts";
import { ProcessTls, type TlsFlags } from "../process/process-tls.ts";
import { setServingFlags, startsInLowerTiers } from "../process/v8-flags.ts";
import { limitsOf } from "../settings/limit-flags.ts";
import { type TracingFlags, openTracing } from "../tracing/open-tracing.ts";
import { winnowVersion } from "../version.ts";

/** Flags of `winnow worker`. */
export interface WorkerRoleOptions
  extends ClusterOptions, ModelConfigFlags, LoadFlags, TlsFlags, TracingFlags {
  readonly id?: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly host: string;
  readonly advertise?: string;
  readonly replication: number;
  readonly modelReplication?: ReadonlyMap<string, number>;
  readonly swapReplicas?: number;
  readonly partitionBytes?: number;
  readonly extraMemory?: number;
  readonly accelerator: "cpu" | "gpu" | "reference";
  readonly threads?: number;
  readonly machine?: string;
  readonly memoryBytes?: number;
  readonly logLevel: LogLevel;
  readonly logFormat?: LogFormat;
  readonly apiKeys?: string;
  readonly requireSecurity: boolean;
  readonly models?: string;
  readonly model_name?: string;
  readonly model_base_path?: string;
}

/**
 * Runs a worker until a signal ends it. If the default metrics port is taken, the worker runs without one; a
 * port that was given (`isMetricsPortChosen`) must be free.
 */
export async function runWorker(
  options: WorkerRoleOptions,
  isMetricsPortChosen: boolean,
): Promise<void> {
  assertDescriptors();
  if (options.id !== undefined && !isWorkerId(options.id)) {
    const text = `--id is "${excerpt(options.id)}": it must be 1 to 128 characters without control characters`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const name = options.id === undefined ? "worker" : `worker ${options.id}`;
  const log = processLog({
    level: options.logLevel,
    process: name,
    format: options.logFormat,
  });
  const untraced = processEnvironment(log);
  const service = { name: "winnow-worker", version: winnowVersion, instance: ownName(options) };
  const tracer = await openTracing(options, service, untraced);
  const environment = { ...untraced, tracer };
  const certificates = new ProcessTls(environment);
  const tls = await certificates.openPublic(options);
  const opener = { worker: ownName(options), certificates };
  const cluster = await openCluster(options, environment, opener);
  checkProtection(protectionOf(options, tls, cluster), options.requireSecurity, log);
  const config = await openModelConfig(options, environment);
  const cache = await modelCache(options, log);
  const metrics = createWorkerMetrics({
    clock: environment.clock,
    version: winnowVersion,
    refusals: cluster.refusals,
    tls: certificates.statuses,
    modelCache: cacheTold(cache),
  });
  const keys = await openApiKeys(options.apiKeys, environment);
  let worker: Worker | undefined;
  let endInOrder: ((reason: string) => void) | undefined;
  const readiness = {
    get isReady(): boolean {
      return worker?.isReady === true;
    },
  };
  let door: MetricsServer | undefined;
  const close = async (): Promise<void> => {
    config?.close();
    keys?.close();
    await worker?.close();
    await cluster.close();
    await door?.close();
    await tracer?.close();
  };
  try {
    const parts = { metrics, worker: readiness, keys: keys?.guard, tls };
    door = await openMetrics(parts, options, { log, isMetricsPortChosen });
    const models = config === undefined ? locationsOf(options) : { models: config.initial.models };
    worker = await startWorker(
      { ...workerOptions(options), ...models, modelCache: cache },
      {
        environment,
        membership: cluster.membership,
        orders: cluster.openOrders(workerStateName(options)),
        describe: describeBy(cluster),
        observer: metrics.observer,
        onDrainOrder: () => endInOrder?.("an order to drain"),
        listen: (parts, settings) => WorkerServer.listen({ ...parts, tls: cluster.tls }, settings),
      },
    );
    // Only now, since its main thread and its compute thread have loaded what they begin with.
    setServingFlags();
    void worker.started.then(startsInLowerTiers(systemClock));
    assertAddressAllowed(worker.address, cluster.addresses);
  } catch (error) {
    await close();
    throw error;
  }
  const started = worker;
  metrics.watch(started);
  config?.follow((changed) => started.setModels(changed.models));
  endInOrder = endOnSignals(
    {
      drain: async () => {
        await started.drain();
        await close();
      },
      close,
    },
    log,
  );
  reportListening();
  const failure = await started.ended;
  // A worker that cannot compute exits, so that its supervisor starts another one.
  if (failure?.lost === "device") exitAtOnce(DEVICE_LOST_EXIT_CODE);
  if (failure !== undefined) process.exit(1);
}

function cacheTold(cache: CacheSettings | undefined): MetricsOptions["modelCache"] {
  if (cache?.counts === undefined) return undefined;
  const counts = new CacheCounts(cache.counts);
  return { bytesMax: cache.bytesMax, tallies: () => counts.tallies };
}

function protectionOf(
  { host, metricsPort, apiKeys, redis }: WorkerRoleOptions,
  tls: TlsSource | undefined,
  cluster: ClusterAccess,
): Protection {
  // Without a metrics port there are no metrics to protect.
  const isSilent = metricsPort === 0;
  return {
    host,
    role: "worker",
    hasTls: isSilent || tls !== undefined,
    knowsClients: isSilent || apiKeys !== undefined || tls?.material.ca !== undefined,
    hasClusterTls: cluster.tls !== undefined,
    redis,
  };
}

/** Fails at once if the address rules would keep routers from connecting to this worker. */
function assertAddressAllowed(address: string, addresses: AddressRules): void {
  const fault = addresses.faultOf(address);
  if (fault === undefined) return;
  const text = `This worker would announce itself at "${address}": ${fault}; say another with --advertise`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/**
 * Opens the server for metrics and probes, unless its port is 0.
 * @throws WinnowError UNAVAILABLE
 */
async function openMetrics(
  parts: MetricsServerParts,
  { host, metricsPort: port }: WorkerRoleOptions,
  { log, isMetricsPortChosen }: { readonly log: Logger; readonly isMetricsPortChosen: boolean },
): Promise<MetricsServer | undefined> {
  if (port === 0) return undefined;
  try {
    const door = await listenForMetrics(parts, { host, port });
    log.info("worker listening for metrics", {
      host,
      port: door.port,
      tls: parts.tls !== undefined,
    });
    return door;
  } catch (error) {
    if (isMetricsPortChosen) throw error;
    log.warn("no metrics: the port is taken, choose one with --metrics-port", { host, port });
    return undefined;
  }
}

function workerOptions(options: WorkerRoleOptions): WorkerOptions {
  return {
    ...limitsOf(options, "worker"),
    workerId: options.id,
    release: winnowVersion,
    host: options.host,
    port: options.port,
    advertisedAddress: options.advertise,
    replication: options.replication,
    modelReplication: options.modelReplication,
    swapReplicas: options.swapReplicas,
    partitionBytes: options.partitionBytes,
    extraMemoryRatio: options.extraMemory,
    accelerator: options.accelerator,
    threads: options.threads,
    machine: options.machine,
    memoryBytesMax: options.memoryBytes,
    pollIntervalMs: options.file_system_poll_wait_seconds * 1000,
    maxLoadRetries: options.max_num_load_retries,
    loadRetryIntervalMs: options.load_retry_interval_micros / 1000,
    modelReloadRoot: reloadRootOf(options),
  };
}

/** Keeps no connection for an address at which nobody answers: records may name any number of them. */
function describeBy({ connector }: ClusterAccess): Describe {
  return async (address, timeoutMs) => {
    try {
      return await connector.describe(address, timeoutMs);
    } catch (error) {
      connector.forget(address);
      throw error;
    }
  };
}

/** The worker's id; in place of one made from the machine's name, the address on which it listens. */
function ownName({ id, advertise, host, port }: WorkerRoleOptions): string {
  return id ?? advertise ?? `${host}:${port}`;
}

/** Workers of one machine may share a state directory. */
function workerStateName(options: WorkerRoleOptions): string {
  return stateFileName("worker-order", ownName(options));
}

function reloadRootOf({ model_reload_root: root }: WorkerRoleOptions): string | undefined {
  return root === undefined || root === "" ? undefined : path.resolve(root);
}

function locationsOf(options: WorkerRoleOptions): Pick<WorkerOptions, "models" | "modelsPath"> {
  const { models, model_name: modelName, model_base_path: modelBasePath } = options;
  const source: ModelSource = modelSource({ models, modelName, modelBasePath }, processVariables);
  return source.kind === "directory"
    ? { modelsPath: source.directory }
    : { models: [{ model: source.model, basePath: source.basePath }] };
}
