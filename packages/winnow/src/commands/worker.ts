// The worker role: one process that holds partitions and answers routers. This file is its edge: it
// reads flags, makes clock, log and membership, and starts the worker with them.

import { systemClock } from "@winnow/core";
import { type WorkerOptions, startWorker } from "@winnow/worker";
import { openCluster } from "../cluster-access.ts";
import { type ModelSource, modelSource } from "../model-source.ts";
import { endOnSignals, reportListening } from "../process-life.ts";
import { type LogLevel, processLog } from "../process-log.ts";

/** Flags of `winnow worker`. */
export interface WorkerRoleOptions {
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
  const environment = { clock: systemClock, random: Math.random, log };
  const cluster = openCluster(options, environment);
  const worker = await startWorker(workerOptions(options), {
    environment,
    membership: cluster.membership,
  });
  const close = async (): Promise<void> => {
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
  if (failure !== undefined) process.exit(1);
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
    ...locationsOf(
      modelSource(
        {
          models: options.models,
          modelName: options.model_name,
          modelBasePath: options.model_base_path,
        },
        process.env,
      ),
    ),
  };
}

function locationsOf(source: ModelSource): Pick<WorkerOptions, "models" | "modelsPath"> {
  return source.kind === "directory"
    ? { modelsPath: source.directory }
    : { models: [{ model: source.model, basePath: source.basePath }] };
}
