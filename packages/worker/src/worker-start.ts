// How a worker comes into being: options become settings, the compute side starts, and a worker made of both
// listens.

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

/** What a process gives its worker. */
export interface WorkerDependencies {
  readonly environment: Environment;
  /** Closed by its owner, not by the worker. */
  readonly membership: MembershipStore;
  /** Closed by its owner, not by the worker. Default: orders are kept in memory alone. */
  readonly orders?: OrderBook;
  /** Starts the compute side. Default: in a thread of its own. */
  readonly startCompute?: StartCompute;
  /** Where model directories lie. Default: the file system. */
  readonly storage?: ModelStorage;
  /** How routers are listened for. Default: gRPC. */
  readonly listen?: ListenForRouters;
  /**
   * Asks which worker answers at another worker's address, and what it holds. Default: nobody is asked, and what is
   * announced of other workers is believed.
   */
  readonly describe?: Describe;
  /** Called for everything that metrics count and measure. Default: nothing is. */
  readonly observer?: WorkerObserver;
  /** Ends the process as SIGTERM does, which calls `drain()`. Default: an order to drain only drains the worker. */
  readonly onDrainOrder?: () => void;
}

const listenByGrpc: ListenForRouters = (parts, settings) => WorkerServer.listen(parts, settings);

/**
 * Starts a worker. Resolves once it listens and its device is known, while it goes on loading.
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
