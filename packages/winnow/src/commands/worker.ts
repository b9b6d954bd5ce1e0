// The worker role: one process that holds partitions and answers routers. This file is its edge: it
// reads flags, makes clock, log and membership, and starts the worker with them.

import path from "node:path";
import { type WorkerOptions, startWorker } from "@winnow/worker";
import { openCluster } from "../cluster-access.ts";
import {
  type LoadFlags,
  type ModelConfigFlags,
  openModelConfig,
} from "../model-config/config-flags.ts";
import { type ModelSource, modelSource } from "../model-source.ts";
import { DEVICE_LOST_EXIT_CODE, endOnSignals, reportListening } from "../process-life.ts";
import { type LogLevel, processLog } from "../process-log.ts";
import { processEnvironment, processVariables } from "../process-settings.ts";

/** Flags of `winnow worker`. */
export interface WorkerRoleOptions extends ModelConfigFlags, LoadFlags {
  readonly id?: string;
  readonly port: number;
  readonly host: string;
  readonly advertise?: string;
  readonly replication: number;
  readonly accelerator: "cpu" | "gpu" | "reference";
  readonly threads?: number;
  readonly memoryBytes?: number;
  readonly logLevel: LogLevel;
  readonly models?: string;
  readonly model_name?: string;
  readonly model_base_path?: string;
  readonly redis?: string;
  readonly members?: string;
  readonly cluster: string;
}

/** Runs a worker until a signal ends it. */
export async function runWorker(options: WorkerRoleOptions): Promise<void> {
  const name = options.id === undefined ? "worker" : `worker ${options.id}`;
  const log = processLog({
    level: options.logLevel,
    process: name,
    readable: process.stderr.isTTY,
  });
  const environment = processEnvironment(log);
  const cluster = openCluster(options, environment);
  const config = await openModelConfig(options, environment);
  const models = config === undefined ? locationsOf(options) : { models: config.initial.models };
  const worker = await startWorker(
    { ...workerOptions(options), ...models },
    { environment, membership: cluster.membership },
  );
  config?.follow((changed) => worker.setModels(changed.models));
  const close = async (): Promise<void> => {
    config?.close();
    await worker.close();
    await cluster.close();
  };
  endOnSignals(
    {
      drain: async () => {
        await worker.drain();
        await close();
      },
      close,
    },
    log,
  );
  reportListening();
  const failure = await worker.ended;
  // A worker that cannot compute is no worker: its supervisor starts another.
  if (failure !== undefined) process.exit(failure.lost === "device" ? DEVICE_LOST_EXIT_CODE : 1);
}

function workerOptions(options: WorkerRoleOptions): WorkerOptions {
  return {
    workerId: options.id,
    host: options.host,
    port: options.port,
    advertisedAddress: options.advertise,
    replication: options.replication,
    accelerator: options.accelerator,
    threads: options.threads,
    memoryBytesMax: options.memoryBytes,
    pollIntervalMs: options.file_system_poll_wait_seconds * 1000,
    maxLoadRetries: options.max_num_load_retries,
    loadRetryIntervalMs: options.load_retry_interval_micros / 1000,
    modelReloadRoot: reloadRootOf(options),
  };
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
