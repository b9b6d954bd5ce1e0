// `winnow serve`: the counterpart of one TensorFlow Serving container, with its flags, ports and variables: a
// router and its workers on one machine, kept running, drained on SIGTERM. Unlike `winnow up` it does not
// wait for models, prints log lines, and listens on all interfaces unless told otherwise.

import {
  WinnowError,
  assertDescriptors,
  hostPort,
  memoryLimitBytes,
  rowMemoryBytes,
} from "@winnow/core";
import { type LocalCluster, startLocalCluster } from "../local-cluster/local-cluster.ts";
import { isShownToFew } from "../process/exposure.ts";
import { type LocalFlags, isGiven, localClusterShape } from "../local-cluster/local-flags.ts";
import { assertPortFree } from "../local-cluster/local-ports.ts";
import { modelSource } from "../model-source/model-source.ts";
import { endOnSignals } from "../process/process-life.ts";
import { processLog } from "../process/process-log.ts";
import { processVariables } from "../process/process-settings.ts";
import { assertGrpcServed } from "../process/ssl-config.ts";
import { ROUTER_OWNERS, lowerDefaultArguments } from "../settings/limit-flags.ts";

/** Flags of `winnow serve`. */
export interface ServeOptions extends LocalFlags {
  /** The gRPC port; 0: none. */
  readonly port: number;
  /** The REST port; 0: none. */
  readonly rest_api_port: number;
  readonly grpc_socket_path?: string;
  readonly threads?: number;
  readonly memoryBytes?: number;
  readonly requireSecurity: boolean;
}

/** Serves until a signal ends it. */
export async function runServe(options: ServeOptions, script: string): Promise<void> {
  assertDescriptors();
  const { logLevel: level, logFormat: format, host, port: grpcPort, rest_api_port: port } = options;
  const log = processLog({ level, process: "serve", format });
  const { models, model_name: modelName, model_base_path: modelBasePath } = options;
  const source = modelSource({ models, modelName, modelBasePath }, processVariables);
  assertPortsFit(options);
  const shape = localClusterShape(options, { source, script, port });
  await assertPortFree(port, host, "--rest_api_port");
  await assertPortFree(grpcPort, host, "--port");
  let cluster: LocalCluster | undefined;
  let isEnding = false;
  const stop = async (): Promise<void> => {
    isEnding = true;
    await cluster?.stop();
  };
  const drain = async (): Promise<void> => {
    isEnding = true;
    await cluster?.drain();
  };
  endOnSignals({ drain, close: stop }, log);
  const started = await startLocalCluster(
    {
      ...shape,
      routerArgs: [...shape.routerArgs, ...routerArgs(options)],
      workerArgs: [...shape.workerArgs, ...workerArgs(options)],
    },
    log,
  );
  cluster = started;
  if (isEnding) return started.stop();
  const processes = Object.fromEntries(started.processIds);
  const placeOf = (of: number): string => (of === 0 ? "none" : hostPort(host, of));
  const [rest, grpc] = [placeOf(port), placeOf(grpcPort)];
  log.info("serving", { rest, grpc, console: consoleOf(options, started), ...source, processes });
}

/** Refuses ports on which nobody could ask, or that are one. @throws WinnowError INVALID_ARGUMENT */
function assertPortsFit(options: ServeOptions): void {
  const { port, rest_api_port: restPort, grpc_socket_path: socket, routers } = options;
  if (restPort === 0) assertGrpcServed("--rest_api_port=0", port !== 0 || isGiven(socket));
  if (restPort === 0 && port === 0 && routers > 1) {
    const text = `--routers=${routers} needs a port to share: --grpc_socket_path is one router's`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (restPort === port && port !== 0) {
    const text = `--port and --rest_api_port are both ${port}: gRPC and REST need a port each`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
}

/** The URL of the console, or why there is none, by the router's own rule. */
function consoleOf(options: ServeOptions, { url }: LocalCluster): string {
  const { host, apiKeys, tlsClientCa, rest_api_port: port } = options;
  if (port === 0) return "none: there is no REST port";
  const isShown = isShownToFew({ host, knowsClients: isGiven(apiKeys) || isGiven(tlsClientCa) });
  return isShown
    ? `${url}/console/`
    : "none: beyond loopback it needs --api-keys or --tls-client-ca";
}

/** Least part of the memory that the routers count on, however much is given to rows. */
const ROUTER_RATIO_MIN = 0.1;

/** The memory that the workers' rows leave to each router of one container. */
function routerMemoryBytes({ routers, workers, memoryBytes }: ServeOptions): number {
  const all = memoryLimitBytes();
  const left = all - workers * (memoryBytes ?? rowMemoryBytes(all));
  return Math.max(ROUTER_RATIO_MIN * all, left) / routers;
}

function routerArgs(options: ServeOptions): string[] {
  const { ssl_config_file: file, grpc_socket_path: socket, rest_api_port: port } = options;
  return [
    ...lowerDefaultArguments(options, ROUTER_OWNERS, routerMemoryBytes(options)),
    `--grpc-port=${options.port}`,
    `--require-security=${options.requireSecurity}`,
    ...(port === 0 ? ["--rest_api_port=0"] : []),
    ...(isGiven(file) ? ["--ssl_config_file", file] : []),
    ...(isGiven(socket) ? [`--grpc_socket_path=${socket}`] : []),
  ];
}

function workerArgs({ threads, memoryBytes }: ServeOptions): string[] {
  return [
    ...(threads === undefined ? [] : [`--threads=${threads}`]),
    ...(memoryBytes === undefined ? [] : [`--memory-bytes=${memoryBytes}`]),
  ];
}
