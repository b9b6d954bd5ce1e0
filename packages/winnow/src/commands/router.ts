// The router role: one process that speaks HTTP, scatters and gathers. This file is its edge: it reads
// flags, makes clock, log, network and membership, and starts router and HTTP server with them.

import { createDenseEngine } from "@winnow/accelerator";
import { type Environment, systemClock } from "@winnow/core";
import { createHttpServer, createMetrics, createRouter } from "@winnow/router";
import { openCluster } from "../cluster-access.ts";
import { endOnSignals, reportListening } from "../process-life.ts";
import { type LogLevel, processLog } from "../process-log.ts";

/** Flags of `winnow router`. */
export interface RouterRoleOptions {
  readonly port: number;
  readonly rest_api_port?: number;
  readonly host: string;
  readonly replication: number;
  readonly rest_api_timeout_in_ms: number;
  readonly rest_api_enable_cors_support?: true;
  readonly routerTableBytes: number;
  readonly logLevel: LogLevel;
  readonly redis?: string;
  readonly members?: string;
  readonly cluster: string;
}

/** TensorFlow Serving reads 0 as "no limit"; Winnow bounds every wait, so that is one day. */
const UNLIMITED_TIMEOUT_MS = 24 * 3600 * 1000;

/** Runs a router until a signal ends it. */
export async function runRouter(options: RouterRoleOptions): Promise<void> {
  const log = processLog({
    level: options.logLevel,
    process: "router",
    readable: process.stderr.isTTY,
  });
  const environment: Environment = { clock: systemClock, random: Math.random, log };
  const cluster = openCluster(options, environment);
  const denseEngine = createDenseEngine({});
  const metrics = createMetrics();
  const requestTimeoutMs = options.rest_api_timeout_in_ms || UNLIMITED_TIMEOUT_MS;
  const router = createRouter(
    {
      replication: options.replication,
      routerTableBytesMax: options.routerTableBytes,
      requestTimeoutMs,
    },
    {
      environment,
      connector: cluster.connector,
      membership: cluster.membership,
      denseEngine,
      observer: metrics.router,
    },
  );
  metrics.watch(router);
  const http = createHttpServer(
    router,
    { requestTimeoutMs, cors: options.rest_api_enable_cors_support === true },
    { ...environment, observer: metrics.http, metrics },
  );
  const port = options.rest_api_port ?? options.port;
  const listening = await http.listen({ host: options.host, port });
  log.info("router listening", { host: options.host, port: listening.port });
  const close = async (): Promise<void> => {
    await http.close();
    router.close();
    await denseEngine.close();
    await cluster.close();
  };
  endOnSignals(
    {
      drain: async () => {
        await http.drain();
        await router.drain();
        await close();
      },
      close,
    },
    log,
  );
  reportListening();
}
