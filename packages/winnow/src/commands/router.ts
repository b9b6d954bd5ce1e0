// The router role: one process that speaks HTTP and gRPC, scatters and gathers. This file is its
// edge: it reads flags, makes clock, log, network and membership, and starts router and servers
// with them.

import { hostname } from "node:os";
import { type DenseEngine, createDenseEngine } from "@winnow/accelerator";
import { stateFileName } from "@winnow/cluster";
import type { TlsSource } from "@winnow/cluster";
import { type Clock, type Environment, type Logger, assertDescriptors } from "@winnow/core";
import type {
  GrpcServer,
  HttpOptions,
  HttpServer,
  MetricsPage,
  ReloadModels,
  Router,
  RouterOptions,
} from "@winnow/router";
import {
  ClusterWatch,
  createHttpServer,
  createMetrics,
  createRouter,
  openGrpcServer,
  resolveHttpOptions,
  resolveRouterOptions,
} from "@winnow/router";
import { type ClusterAccess, type ClusterOptions, openCluster } from "../access/cluster-access.ts";
import {
  type ModelConfigFlags,
  type RequestFlags,
  labelsOf,
  monitoringOf,
  openModelConfig,
} from "../model-config/config-flags.ts";
import { ownRequestId } from "../access/rest-client.ts";
import { sharingName } from "../local-cluster/page-messages.ts";
import { SharedMetrics } from "../local-cluster/shared-metrics.ts";
import { readyToListen, tellReady } from "../local-cluster/sharing-start.ts";
import type { ModelConfig } from "../model-config/model-config.ts";
import { ModelReload } from "../model-config/model-reload.ts";
import { openApiKeys } from "../process/api-keys.ts";
import { consoleFiles } from "../console-files.ts";
import {
  type Protection,
  allowedHosts,
  checkProtection,
  isShownToFew,
} from "../process/exposure.ts";
import {
  endOnSignals,
  isChildProcess,
  parentChannel,
  reportListening,
} from "../process/process-life.ts";
import { type AccessLogged, withAccessLog, withGrpcAccessLog } from "../tracing/access-log.ts";
import { type LogFormat, type LogLevel, processLog } from "../process/process-log.ts";
import { processEnvironment, wallClock } from "../process/process-settings.ts";
import { setServingFlags } from "../process/v8-flags.ts";
import { ProcessTls, type TlsFlags } from "../process/process-tls.ts";
import { assertGrpcServed } from "../process/ssl-config.ts";
import { limitsOf } from "../settings/limit-flags.ts";
import { type TracingFlags, openTracing } from "../tracing/open-tracing.ts";
import { winnowVersion } from "../version.ts";

/** Flags of `winnow router`. */
export interface RouterRoleOptions
  extends ClusterOptions, ModelConfigFlags, RequestFlags, TlsFlags, TracingFlags {
  readonly port: number;
  readonly rest_api_port?: number;
  readonly grpcPort?: number;
  readonly grpc_socket_path?: string;
  readonly host: string;
  readonly replication: number;
  readonly modelReplication?: ReadonlyMap<string, number>;
  readonly swapReplicas?: number;
  readonly rest_api_timeout_in_ms: number;
  readonly rest_api_enable_cors_support: boolean;
  readonly ssl_config_file?: string;
  readonly routerTableBytes: number;
  readonly logLevel: LogLevel;
  readonly logFormat?: LogFormat;
  readonly accessLog: AccessLogged;
  /** Redis with the items that users have seen. Default: that of membership. */
  readonly seenRedis?: string;
  readonly apiKeys?: string;
  readonly allowedHosts?: string;
  readonly requireSecurity: boolean;
  /** The number of this router among those that share its ports. */
  readonly sharing?: number;
  /** Whether it listens once it can answer, not at once. */
  readonly listenWhenReady?: boolean;
}

/**
 * Where a router listens; without `grpc` it speaks REST alone, without `rest` gRPC alone.
 *
 * @internal tests call it
 */
export interface RouterPorts {
  readonly rest: number | undefined;
  readonly grpc: number | undefined;
}

/**
 * The ports that the flags give. TensorFlow Serving's `--port=8500 --rest_api_port=8501` names the
 * gRPC port first; Winnow's own flags are `--port` for REST and `--grpc-port`, where 0 is off. Its
 * `--rest_api_port=0` is off, too.
 *
 * @internal tests call it
 */
export function routerPorts(
  options: Pick<RouterRoleOptions, "port" | "rest_api_port" | "grpcPort">,
  isPortTyped: boolean,
): RouterPorts {
  const { port, rest_api_port: restApiPort } = options;
  const typedPort = isPortTyped && restApiPort !== undefined ? port : undefined;
  const grpc = options.grpcPort ?? typedPort ?? 0;
  const rest = restApiPort === 0 ? undefined : (restApiPort ?? port);
  return { rest, grpc: grpc === 0 ? undefined : grpc };
}

/** Runs a router until a signal ends it. */
export async function runRouter(options: RouterRoleOptions, isPortTyped: boolean): Promise<void> {
  assertDescriptors();
  const { logLevel: level, logFormat: format } = options;
  const { name, instance } = namesOf(options);
  const log = processLog({ level, process: name, format });
  const untraced = processEnvironment(log);
  const service = { name: "winnow-router", version: winnowVersion, instance };
  const tracer = await openTracing(options, service, untraced);
  const environment = { ...untraced, tracer };
  const config = await openModelConfig(options, environment);
  const { metricsPath } = await monitoringOf(options, environment);
  const certificates = new ProcessTls(environment);
  const tls = await certificates.openPublic(options);
  const ports = checkedPorts(options, isPortTyped);
  const grpcTls = await certificates.openGrpc(options.ssl_config_file, tls);
  const cluster = await openCluster(options, environment, { certificates });
  const protection = protectionOf(options, tls, cluster);
  checkProtection(protection, options.requireSecurity, log);
  const metrics = createMetrics({
    version: winnowVersion,
    refusals: cluster.refusals,
    tls: certificates.statuses,
  });
  const denseEngine = openDenseEngine(environment, (lane) => metrics.denseProcessEnded(lane));
  const keys = await openApiKeys(options.apiKeys, environment, metrics.keys);
  const requestTimeoutMs = options.rest_api_timeout_in_ms;
  const httpOptions = httpOptionsOf(options, metricsPath);
  const settings = routerOptions(options, config?.initial);
  const watch = watchOf(environment, options, { http: httpOptions, router: settings });
  const router = createRouter(settings, {
    environment,
    connector: cluster.connector,
    membership: cluster.membership,
    denseEngine,
    seenItems: cluster.seenItems,
    ...keptOf(cluster, options, isPortTyped),
    observer: watch.refusals(metrics.router),
  });
  config?.follow((changed) => router.setLabels(labelsOf(changed)));
  metrics.watch(router);
  watch.watch(router);
  const { random } = environment;
  // The access log is written even if little else is logged.
  const accessLog = processLog({ level: "info", process: name, format });
  const starterId = isChildProcess() ? ownRequestId(process.ppid) : undefined;
  const accessParts = { log: accessLog, random, starterId };
  const observer = withAccessLog(watch.http(metrics.http), options.accessLog, accessParts);
  const grpcObserver = withGrpcAccessLog(watch.grpc(metrics.grpc), options.accessLog, accessParts);
  const http = createHttpServer(router, httpOptions, {
    ...environment,
    tls,
    keys: keys?.guard,
    hosts: allowedHosts(protection, options.allowedHosts, hostname()),
    observer,
    report: watch,
    release: winnowVersion,
    ...(isShownToFew(protection) && { pages: consoleFiles() }),
    ...(metricsPath !== undefined && { metrics: pageOf(metrics, options.sharing, environment) }),
  });
  metrics.watchDoor("http", () => http.held());
  const { host } = options;
  const openGrpc = async (): Promise<GrpcServer> => {
    const parts = {
      ...environment,
      tls: grpcTls,
      keys: keys?.guard,
      observer: grpcObserver,
      reload: reloadOf(options, environment, router),
      release: winnowVersion,
    };
    const grpcOptions = { ...limitsOf(options, "grpc"), requestTimeoutMs };
    const server = await openGrpcServer(router, grpcOptions, parts);
    metrics.watchDoor("grpc", () => server.held());
    const socket = socketOf(options);
    const where = { host, port: ports.grpc, socket, tls: grpcTls !== undefined };
    await listenForGrpc(server, where, log);
    return server;
  };
  let grpc: GrpcServer | undefined;
  const close = async (): Promise<void> => {
    config?.close();
    keys?.close();
    watch.close();
    await Promise.all([http.close(), grpc?.close()]);
    router.close();
    await denseEngine.close();
    await cluster.close();
    await tracer?.close();
  };
  const drain = async (): Promise<void> => {
    await Promise.all([ports.rest === undefined ? undefined : http.drain(), grpc?.drain()]);
    await router.drain();
    await close();
  };
  endOnSignals({ drain, close }, log);
  setServingFlags();
  await mayListen(options, router, environment.clock);
  await listenForRest(http, { host, port: ports.rest, tls: tls !== undefined }, log);
  if (hasGrpc(options, ports)) grpc = await openGrpc();
  reportListening();
}

/** The names of this process, in its log and in traces. */
function namesOf({ port, sharing }: RouterRoleOptions): { name: string; instance: string } {
  const place = `${hostname()}:${port}`;
  if (sharing === undefined) return { name: "router", instance: place };
  const number = sharingName(sharing);
  return { name: `router ${number}`, instance: `${place}/${number}` };
}

interface RestPlace {
  readonly host: string;
  readonly port: number | undefined;
  readonly tls: boolean;
}

interface GrpcPlace extends RestPlace {
  readonly socket: string | undefined;
}

/** Resolves when the router may listen. One that shares its ports tells its parent when it can answer. */
async function mayListen(
  { sharing, listenWhenReady }: RouterRoleOptions,
  router: Router,
  clock: Clock,
): Promise<void> {
  if (sharing !== undefined) void tellReady(router, clock, parentChannel);
  if (listenWhenReady === true) await readyToListen(router, clock);
}

/** Listens on the port, where there is one. @throws Error as Node does where it is taken */
async function listenForRest(
  http: HttpServer,
  { host, port, tls }: RestPlace,
  log: Logger,
): Promise<void> {
  if (port === undefined) return;
  const taken = await http.listen({ host, port });
  log.info("router listening", { host, port: taken.port, tls });
}

/** Listens on the port and on the socket, where they are named. @throws WinnowError UNAVAILABLE */
async function listenForGrpc(
  server: GrpcServer,
  { host, port, socket, tls }: GrpcPlace,
  log: Logger,
): Promise<void> {
  if (port !== undefined) {
    const taken = await server.listen({ host, port });
    log.info("router listening for gRPC", { host, port: taken.port, tls });
  }
  if (!isGiven(socket)) return;
  await server.listenOnSocket(socket);
  log.info("router listening for gRPC on a socket", { socket, tls });
}

function hasGrpc(options: RouterRoleOptions, { grpc }: RouterPorts): boolean {
  return grpc !== undefined || isGiven(socketOf(options));
}

/** The socket for gRPC. Routers that share ports cannot share it, so the first has it. */
function socketOf({
  sharing = 0,
  grpc_socket_path: socket,
}: RouterRoleOptions): string | undefined {
  return sharing === 0 ? socket : undefined;
}

/** The metrics that a scrape sees: of this router, or of all that share its ports. */
function pageOf(
  own: MetricsPage,
  index: number | undefined,
  environment: Environment,
): MetricsPage {
  if (index === undefined || !isChildProcess()) return own;
  return new SharedMetrics({ ...environment, own, index, parent: parentChannel });
}

/** Refuses certificates that no port would use, and a router that nobody could ask. @throws WinnowError INVALID_ARGUMENT */
function checkedPorts(options: RouterRoleOptions, isPortTyped: boolean): RouterPorts {
  const ports = routerPorts(options, isPortTyped);
  const isGrpc = hasGrpc(options, ports);
  if (isGiven(options.ssl_config_file)) assertGrpcServed("--ssl_config_file", isGrpc);
  if (ports.rest === undefined) assertGrpcServed("--rest_api_port=0", isGrpc);
  return ports;
}

function httpOptionsOf(options: RouterRoleOptions, metricsPath: string | undefined): HttpOptions {
  return {
    ...limitsOf(options, "http"),
    requestTimeoutMs: options.rest_api_timeout_in_ms,
    cors: options.rest_api_enable_cors_support,
    ...(metricsPath !== undefined && { metricsPath }),
  };
}

/** Makes the watch of the cluster for people. Its document shows the settings in effect, none of which is a secret. */
function watchOf(
  { clock }: Environment,
  { sharing }: RouterRoleOptions,
  { http, router }: { readonly http: HttpOptions; readonly router: RouterOptions },
): ClusterWatch {
  return new ClusterWatch({
    clock,
    version: winnowVersion,
    name: sharing === undefined ? undefined : sharingName(sharing),
    residentBytes: () => process.memoryUsage.rss(),
    settings: { ...resolveHttpOptions(http), ...resolveRouterOptions(router) },
    defaults: { ...resolveHttpOptions({}), ...resolveRouterOptions({}) },
  });
}

function openDenseEngine({ clock, log }: Environment, onEnd: (lane: string) => void): DenseEngine {
  return createDenseEngine({
    clock,
    observer: {
      processEnded: (lane, how, title) => {
        onEnd(lane);
        log.warn("dense process ended", { lane, how, running: title === "" ? "nothing" : title });
      },
      setApart: (title, why) => log.warn("dense part set apart", { title, why }),
    },
  });
}

function protectionOf(
  { host, apiKeys, members, redis, seenRedis }: RouterRoleOptions,
  tls: TlsSource | undefined,
  cluster: ClusterAccess,
): Protection {
  return {
    host,
    role: "router",
    hasTls: tls !== undefined,
    knowsClients: isGiven(apiKeys) || tls?.material.ca !== undefined,
    hasClusterTls: cluster.tls !== undefined,
    members,
    redis,
    seenRedis,
  };
}

/** The state that a router keeps across restarts. Routers of one machine may share a state directory. */
function keptOf(cluster: ClusterAccess, options: RouterRoleOptions, isPortTyped: boolean) {
  const { rest, grpc } = routerPorts(options, isPortTyped);
  const number = options.sharing === undefined ? "" : `/${sharingName(options.sharing)}`;
  const name = `${options.host}:${rest ?? grpc ?? options.grpc_socket_path}${number}`;
  return {
    orders: cluster.openOrders(stateFileName("router-order", name)),
    savedWorkers: cluster.savedWorkers(stateFileName("router-workers", name)),
  };
}

function reloadOf(
  options: RouterRoleOptions,
  environment: Environment,
  router: Router,
): ReloadModels {
  const allowUnavailableLabels = options.allow_version_labels_for_unavailable_models;
  const by = `router on ${hostname()}`;
  const reload = new ModelReload({ ...environment, router, allowUnavailableLabels, by, wallClock });
  return reload.run.bind(reload);
}

function routerOptions(options: RouterRoleOptions, config: ModelConfig | undefined): RouterOptions {
  return {
    ...limitsOf(options, "router"),
    replication: options.replication,
    modelReplication: options.modelReplication,
    swapReplicas: options.swapReplicas,
    routerTableBytesMax: options.routerTableBytes,
    labels: config === undefined ? new Map() : labelsOf(config),
    allowUnavailableLabels: options.allow_version_labels_for_unavailable_models,
    ...(!options.enable_model_warmup && { warmUpMsMax: 0 }),
  };
}

function isGiven(text: string | undefined): text is string {
  return text !== undefined && text !== "";
}
