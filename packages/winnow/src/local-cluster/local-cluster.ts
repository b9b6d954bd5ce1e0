// A whole cluster on this machine: routers, which share their ports, and workers, each a process of its own, found by
// a fixed address list, or through Redis when a URL is given.

import { type Clock, type Logger, hostPort, systemClock } from "@winnow/core";
import { freePorts } from "./local-ports.ts";
import { RestClient } from "../access/rest-client.ts";
import { sharingName } from "./page-messages.ts";
import { PageRounds } from "./page-rounds.ts";
import { READY_MESSAGE } from "./sharing-start.ts";
import { type Program, Supervisor } from "./supervisor.ts";
import { StandStill, WaitReasons } from "./wait-reasons.ts";

/** The cluster to start. */
export interface LocalClusterShape {
  readonly routers: number;
  readonly workers: number;
  readonly host: string;
  readonly port: number;
  /** Redis, or `undefined` for a fixed address list. */
  readonly redis: string | undefined;
  /** Redis with the items that users have seen, if it is another one. */
  readonly seenRedis: string | undefined;
  /** Whether the routers use HTTPS. */
  readonly isSecure: boolean;
  /** A file with a key that the routers accept. */
  readonly keyFile: string | undefined;
  /** Further flags of every router. */
  readonly routerArgs: readonly string[];
  /** Further flags of every worker. */
  readonly workerArgs: readonly string[];
  /** The script that runs a role: `bin/winnow.js`. */
  readonly script: string;
}

/** A running local cluster. */
export interface LocalCluster {
  readonly url: string;
  /** Routers that answer at that URL. */
  readonly routers: number;
  /** Whether each of them has been able to answer. */
  areReady(): boolean;
  /** The client that asks a router. */
  readonly client: RestClient;
  /** host:port of each worker. */
  readonly workerAddresses: readonly string[];
  /** The metrics page of each worker. */
  readonly workerMetricsUrls: readonly string[];
  /** Process ids by name, for people who want to kill one. */
  readonly processIds: ReadonlyMap<string, number>;
  /** Closes the routers, then the workers. */
  stop(): Promise<void>;
  /** Drains the routers, then closes everything. */
  drain(): Promise<void>;
}

/** A router cuts what is left after 30 s of drain, and then needs time to close. */
const DRAIN_WAIT_MS = 35_000;

/**
 * Starts the processes; resolves when all listen. A router whose port is 0 gets a free one, which the cluster's `url` names.
 * @throws WinnowError UNAVAILABLE if one cannot
 */
export async function startLocalCluster(
  wanted: LocalClusterShape,
  log: Logger,
): Promise<LocalCluster> {
  const names = routerNames(wanted.routers);
  const pages = new PageRounds(names, {
    clock: systemClock,
    send: (name, message) => supervisor.send(name, message),
  });
  const ready = new Set<string>();
  const onMessage = (name: string, message: unknown): void => {
    if (message === READY_MESSAGE) ready.add(name);
    else pages.received(name, message);
  };
  const supervisor = new Supervisor({ clock: systemClock, log, onMessage });
  const [freePort, ...free] = await freePorts(2 * wanted.workers + 1);
  const shape = { ...wanted, port: wanted.port === 0 ? freePort! : wanted.port };
  const [ports, metricsPorts] = [free.slice(0, shape.workers), free.slice(shape.workers)];
  const programs = [...workerPrograms(shape, ports, metricsPorts), ...routerPrograms(shape, ports)];
  try {
    await Promise.all(programs.map((program) => supervisor.start(program)));
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
  return {
    client: new RestClient({ isOwnProcess: true, keyFile: shape.keyFile }),
    url: routerUrl(shape),
    routers: shape.routers,
    // A router alone is asked what it can answer.
    areReady: () => shape.routers === 1 || ready.size === shape.routers,
    workerAddresses: ports.map((port) => `127.0.0.1:${port}`),
    workerMetricsUrls: metricsPorts.map((port) => `http://127.0.0.1:${port}/metrics`),
    get processIds() {
      return supervisor.processIds;
    },
    stop: () => supervisor.stop(names),
    drain: async () => {
      await Promise.all(names.map((name) => supervisor.drain(name, DRAIN_WAIT_MS)));
      await supervisor.stop();
    },
  };
}

/**
 * Where this machine asks the router.
 * @internal tests call it
 */
export function routerUrl({
  host,
  port,
  isSecure,
}: Pick<LocalClusterShape, "host" | "port" | "isSecure">): string {
  const isWildcard = host === "0.0.0.0" || host === "::";
  return `${isSecure ? "https" : "http"}://${hostPort(isWildcard ? "127.0.0.1" : host, port)}`;
}

function workerPrograms(
  shape: LocalClusterShape,
  ports: readonly number[],
  metricsPorts: readonly number[],
): Program[] {
  return ports.map((port, index) => ({
    name: `worker w${index}`,
    script: shape.script,
    args: [
      "worker",
      `--id=w${index}`,
      "--host=127.0.0.1",
      `--port=${port}`,
      `--metrics-port=${metricsPorts[index]}`,
      ...membershipArgs(shape, ports),
      ...shape.workerArgs,
    ],
    env: variablesOf(shape),
  }));
}

/**
 * A flag for the router's Node: MiB of each half of the young generation, 16 by default. A request makes
 * about 70 KB of objects; the later a minor collection runs, the fewer of them are still in use and copied.
 */
const YOUNG_GENERATION = "--max-semi-space-size=32";

/** A router that shares its ports has a number. */
function routerNames(routers: number): string[] {
  if (routers === 1) return ["router"];
  return Array.from({ length: routers }, (_, index) => `router ${sharingName(index)}`);
}

function routerPrograms(shape: LocalClusterShape, ports: readonly number[]): Program[] {
  const isShared = shape.routers > 1;
  return routerNames(shape.routers).map((name, index) => ({
    name,
    sharesPorts: isShared,
    argsAgain: isShared ? ["--listen-when-ready"] : [],
    nodeFlags: [YOUNG_GENERATION],
    script: shape.script,
    args: [
      "router",
      `--host=${shape.host}`,
      `--port=${shape.port}`,
      ...(isShared ? [`--sharing=${index}`] : []),
      ...membershipArgs(shape, ports),
      ...shape.routerArgs,
    ],
    env: { ...variablesOf(shape), ...seenVariables(shape) },
  }));
}

function membershipArgs(shape: LocalClusterShape, ports: readonly number[]): string[] {
  if (shape.redis !== undefined) return [];
  const members = ports.map((port, index) => `w${index}@127.0.0.1:${port}`);
  return ["--members", members.join(",")];
}

/** As with the other URL of Redis, in a variable. */
function seenVariables({ seenRedis }: LocalClusterShape): Readonly<Record<string, string>> {
  return seenRedis === undefined ? {} : { WINNOW_SEEN_REDIS: seenRedis };
}

/**
 * The URL of Redis is passed in a variable, because it may contain a password and every user of the machine
 * can see flags. Settings of a file are passed as flags: a role that read the file itself would take the
 * router's port for its own. So are certificates, which only the router uses: workers serve their metrics on
 * loopback.
 */
function variablesOf({ redis }: LocalClusterShape): Readonly<Record<string, string | undefined>> {
  const unset = {
    WINNOW_CONFIG: undefined,
    WINNOW_TLS_CERT: undefined,
    WINNOW_TLS_KEY: undefined,
    WINNOW_TLS_CLIENT_CA: undefined,
  };
  return { ...unset, ...(redis !== undefined && { WINNOW_REDIS: redis }) };
}

interface StatusDocument {
  readonly model_version_status?: readonly {
    readonly version: string;
    readonly state: string;
    readonly status: { readonly error_message: string };
  }[];
}

/** State of one model's newest version, in TensorFlow Serving's words. */
export interface ModelState {
  readonly model: string;
  readonly state: string;
  readonly error: string;
}

const LOADED_POLL_MS = 100;

type AskedRouters = Pick<LocalCluster, "url" | "client" | "routers" | "areReady">;

interface LoadedWait {
  readonly signal: AbortSignal;
  readonly onWait: (why: string) => void;
  readonly clock?: Clock;
}

/**
 * Waits until each of these versions answers at every router, has failed, or has waited for something else for a while in which no
 * other was loading. `onWait` is called with the reason why one does not answer yet, if that takes long. @throws the
 * signal's reason
 */
export async function waitUntilLoaded(
  router: AskedRouters,
  versions: readonly { readonly model: string; readonly version: number }[],
  { signal, onWait, clock = systemClock }: LoadedWait,
): Promise<ModelState[]> {
  const reasons = new WaitReasons();
  const standStill = new StandStill();
  for (;;) {
    const states = await Promise.all(
      versions.map(async ({ model, version }) => ({
        model,
        ...(await stateOf(router, model, version)),
      })),
    );
    const waiting = states
      .filter(({ state }) => state !== "AVAILABLE" && state !== "END")
      .map(({ model, error: why }) => ({ model, why }));
    if (waiting.length === 0 && router.areReady()) return states;
    const nowMs = clock.nowMs();
    for (const line of reasons.news(waiting, nowMs)) onWait(line);
    if (standStill.holds(waiting, nowMs)) return states;
    await pause(clock, signal);
  }
}

/** The state at the router that is behind the others, of those that took one of as many connections as there are routers. */
async function stateOf(
  { url, client, routers }: AskedRouters,
  model: string,
  version: number,
): Promise<Omit<ModelState, "model">> {
  const ask = async (): Promise<Omit<ModelState, "model">> => {
    const headers = { connection: "close" };
    const { text } = await client.ask(`${url}/v1/models/${encodeURIComponent(model)}`, { headers });
    const document = JSON.parse(text) as StatusDocument;
    const found = document.model_version_status?.find((entry) => Number(entry.version) === version);
    return { state: found?.state ?? "START", error: found?.status.error_message ?? "" };
  };
  try {
    const states = await Promise.all(Array.from({ length: routers }, ask));
    return states.find(({ state }) => state !== "AVAILABLE") ?? states[0]!;
  } catch {
    return { state: "START", error: "" };
  }
}

function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else clock.setTimer(LOADED_POLL_MS, resolve);
  });
}
