// How a worker comes into being: options become settings, the compute side is started, and a worker
// made of both listens.

import { OrderBook, RefusedRecords, WorkerServer, noSecret } from "@winnow/cluster";
import type { Describe, ListenForRouters, MembershipStore } from "@winnow/cluster";
import type { Environment } from "@winnow/core";

import { type StartCompute, startComputeThread } from "./compute/compute-start.ts";
import { modelStorage } from "./models/either-storage.ts";
import type { ModelStorage } from "./models/version-watch.ts";
import type { WorkerObserver } from "./worker-observer.ts";
import { resolveWorkerOptions } from "./worker-settings.ts";
import type { WorkerOptions } from "./worker-settings.ts";
import { Worker } from "./worker.ts";

/** Dependencies that a process gives its worker. */
export interface WorkerDependencies {
  readonly environment: Environment;
  /** Closed by its owner, not by the worker. */
  readonly membership: MembershipStore;
  /** Closed by its owner, likewise. Default: orders are kept in memory alone. */
  readonly orders?: OrderBook;
  /** Default: a thread of its own. */
  readonly startCompute?: StartCompute;
  /** Default: the file system. */
  readonly storage?: ModelStorage;
  /** Default: gRPC. */
  readonly listen?: ListenForRouters;
  /** Asks who lives at another worker's address. Default: nobody is asked. */
  readonly describe?: Describe;
  /** Is called for everything that metrics count and measure. Default: none. */
  readonly observer?: WorkerObserver;
  /** Ends the process as SIGTERM does; it calls `drain()`. Default: an order to drain does that alone. */
  readonly onDrainOrder?: () => void;
}

const listenByGrpc: ListenForRouters = (parts, settings) => WorkerServer.listen(parts, settings);

/**
 * Starts a worker; resolves once it listens and its device is known, while it goes on loading.
 * @throws WinnowError INVALID_ARGUMENT for options that cannot work; as `StartCompute`
 */
export async function startWorker(
  options: WorkerOptions,
  dependencies: WorkerDependencies,
): Promise<Worker> {
  const settings = resolveWorkerOptions(options);
  const { environment, membership, describe, observer, onDrainOrder } = dependencies;
  const { startCompute = startComputeThread, storage = modelStorage } = dependencies;
  const { listen = listenByGrpc } = dependencies;
  const { orders = memoryBook(environment) } = dependencies;
  const compute = await startCompute(settings, environment.log);
  try {
    const worker = new Worker(
      {
        environment,
        membership,
        orders,
        compute,
        storage,
        listen,
        describe,
        observer,
        onDrainOrder,
      },
      settings,
    );
    await worker.listen();
    return worker;
  } catch (error) {
    await compute.shutdown();
    throw error;
  }
}

function memoryBook(environment: Environment): OrderBook {
  const refused = new RefusedRecords(environment.log);
  return new OrderBook({ environment, cluster: "default", secret: noSecret(), refused });
}
