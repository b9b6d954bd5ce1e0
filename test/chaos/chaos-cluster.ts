// The cluster under test: two routers, workers, Redis or a fixed list, and a fault link on every way
// between them.
//
//   list    each process has its own list of members, whose addresses are links of its own: a fault may
//           lie between one router and one worker (`router0>w1`), or between two workers (`w0>w1`)
//   redis   a worker announces one address to all, so one link stands before each worker (`all>w1`);
//           each process reaches Redis through a link of its own (`router1>redis`)
//   namespaces  as list, but each worker lives in a network namespace behind a virtual cable that can be
//           cut below TCP; no links
//
// Only processes that it started are ever signalled.

import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { pause } from "../cluster/running-cluster.ts";
import { ChaosProcess, type ProcessLaunch } from "./processes/chaos-process.ts";
import { FaultLinks } from "./links/fault-links.ts";
import { NetworkNamespaces } from "./links/network-namespaces.ts";
import { supplyPorts } from "../port-supply.ts";

/** Kinds of clusters. */
export type TopologyName = "list" | "redis" | "namespaces";

/** What a cluster is made of. */
export interface ClusterPlan {
  readonly topology: TopologyName;
  readonly workers: number;
  readonly models: string;
  /** Where logs and state go. */
  readonly folder: string;
  /** Longest time of a request. */
  readonly requestMs: number;
  /** The built checkout whose processes are run. */
  readonly checkout: string;
}

/** Where a process listens. */
export interface ProcessPorts {
  /** A router's REST port. */
  readonly rest: number;
  /** A router's TensorFlow Serving gRPC port, or a worker's own. */
  readonly grpc: number;
  /** A worker's metrics port. */
  readonly metrics: number;
}

/** Routers of every cluster. */
export const ROUTERS: readonly string[] = ["router0", "router1"];
const LOOPBACK = "127.0.0.1";
const REPLICATION = 2;
/** The catalog's rows are cut into 16 partitions, its users into 4; other tables are not cut. */
const PARTITION_BYTES = 4800;
const clockShift = path.join(import.meta.dirname, "processes", "clock-shift.mjs");
const REDIS_STARTED_MS = 10_000;

/** A started cluster. */
export class ChaosCluster {
  readonly plan: ClusterPlan;
  readonly links: FaultLinks;
  readonly namespaces: NetworkNamespaces | undefined;
  readonly #processes = new Map<string, ChaosProcess>();
  readonly #ports = new Map<string, ProcessPorts>();
  #redisPort = 0;

  private constructor(
    plan: ClusterPlan,
    links: FaultLinks,
    namespaces: NetworkNamespaces | undefined,
  ) {
    this.plan = plan;
    this.links = links;
    this.namespaces = namespaces;
  }

  /** Starts the processes; does not wait for models. */
  static async start(plan: ClusterPlan): Promise<ChaosCluster> {
    mkdirSync(path.join(plan.folder, "logs"), { recursive: true });
    const workers = workerNames(plan.workers);
    const namespaces =
      plan.topology === "namespaces" ? NetworkNamespaces.create(workers) : undefined;
    const cluster = new ChaosCluster(plan, await FaultLinks.start(), namespaces);
    try {
      await cluster.#takePorts([...workers, ...ROUTERS]);
      if (plan.topology === "redis") await cluster.startRedis("redis");
      await Promise.all(workers.map((name) => cluster.#openWays(name)));
      await Promise.all(ROUTERS.map((name) => cluster.#openWays(name)));
      for (const name of workers) cluster.#launch(name, cluster.#workerLaunch(name));
      for (const name of ROUTERS) cluster.#launch(name, cluster.#routerLaunch(name));
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  /** Names of the workers that run. */
  get workers(): string[] {
    return [...this.#processes.keys()].filter(
      (name) => /^w\d+$/.test(name) && this.process(name).isRunning,
    );
  }

  /** Every process started, by name. */
  get processes(): ReadonlyMap<string, ChaosProcess> {
    return this.#processes;
  }

  process(name: string): ChaosProcess {
    const found = this.#processes.get(name);
    if (found === undefined) throw new Error(`no process ${name} in this cluster`);
    return found;
  }

  ports(name: string): ProcessPorts {
    return this.#ports.get(name)!;
  }

  /** Where a process listens, below any link. */
  host(name: string): string {
    return this.namespaces?.addressOf(name) ?? LOOPBACK;
  }

  get redisPort(): number {
    return this.#redisPort;
  }

  /** Starts one more worker, which others find through Redis. */
  async addWorker(name: string): Promise<void> {
    if (this.plan.topology !== "redis") throw new Error("only Redis tells of new workers");
    if (this.#processes.has(name)) return this.process(name).restart();
    await this.#takePorts([name]);
    await this.#openWays(name);
    this.#launch(name, this.#workerLaunch(name));
  }

  /** Starts a Redis of this cluster's own and waits until it answers; gives its port. */
  async startRedis(name: string): Promise<number> {
    const known = this.#processes.get(name);
    const [port] = known === undefined ? await supplyPorts(1) : [this.ports(name).grpc];
    if (known === undefined) {
      this.#ports.set(name, { rest: 0, grpc: port!, metrics: 0 });
      const place = ["--port", String(port), "--bind", LOOPBACK, "--dir", this.plan.folder];
      const args = [...place, "--save", "", "--appendonly", "no"];
      this.#launch(name, { command: "redis-server", args, env: {} });
      if (name === "redis") this.#redisPort = port!;
    } else {
      known.restart();
    }
    const endMs = Date.now() + REDIS_STARTED_MS;
    while (!this.process(name).logTail().slice(-1000).includes("Ready to accept connections")) {
      if (Date.now() > endMs)
        throw new Error(`${name} did not start: ${this.process(name).logTail()}`);
      await pause(25);
    }
    return port!;
  }

  /** The last lines of every log. */
  logTails(): string {
    return [...this.#processes.values()]
      .map((each) => `── ${each.name}\n${each.logTail()}`)
      .join("\n");
  }

  /** Ends of processes that nobody ordered. */
  unexpectedEnds(): string[] {
    return [...this.#processes.values()].flatMap(({ unexpectedEnds }) => unexpectedEnds);
  }

  /** Ends everything at once. */
  async stop(): Promise<void> {
    this.links.stop();
    await Promise.all([...this.#processes.values()].map((each) => each.kill()));
    this.namespaces?.remove();
  }

  async #takePorts(names: readonly string[]): Promise<void> {
    const free = await supplyPorts(3 * names.length);
    for (const name of names) {
      const [rest, grpc, metrics] = free.splice(0, 3) as [number, number, number];
      this.#ports.set(name, { rest, grpc, metrics });
    }
  }

  /** Opens the links that a process speaks or is spoken to through. */
  async #openWays(name: string): Promise<void> {
    const { topology } = this.plan;
    if (topology === "namespaces") return;
    const isWorker = !ROUTERS.includes(name);
    const target = (worker: string) => ({ host: LOOPBACK, port: this.ports(worker).grpc });
    if (topology === "redis") {
      await this.#openWay(`${name}>redis`, { host: LOOPBACK, port: this.#redisPort });
      if (isWorker) await this.#openWay(`all>${name}`, target(name));
      return;
    }
    for (const worker of workerNames(this.plan.workers)) {
      await this.#openWay(`${name}>${worker}`, target(worker));
    }
  }

  readonly #ways = new Map<string, number>();

  async #openWay(name: string, target: { host: string; port: number }): Promise<void> {
    this.#ways.set(name, await this.links.open(name, target));
  }

  /** How a process finds the others. */
  #membership(name: string): string[] {
    if (this.plan.topology === "redis") {
      return ["--redis", `redis://${LOOPBACK}:${this.#ways.get(`${name}>redis`)}`];
    }
    const members = workerNames(this.plan.workers).map((worker) => {
      const way = this.#ways.get(`${name}>${worker}`);
      const address = `${this.host(worker)}:${this.ports(worker).grpc}`;
      return `${worker}@${way === undefined ? address : `${LOOPBACK}:${way}`}`;
    });
    return ["--members", members.join(",")];
  }

  #workerLaunch(name: string): ProcessLaunch {
    const { grpc, metrics } = this.ports(name);
    const way = this.#ways.get(`all>${name}`);
    const where = ["--host", this.host(name), "--port", String(grpc)];
    const own = ["--id", name, "--metrics-port", String(metrics), "--models", this.plan.models];
    const device = ["--accelerator", "cpu", "--threads", "1"];
    const advertised = way === undefined ? [] : ["--advertise", `${LOOPBACK}:${way}`];
    const args = ["worker", ...own, ...where, ...device, ...advertised, ...this.#shared(name)];
    return this.#node(name, args);
  }

  #routerLaunch(name: string): ProcessLaunch {
    const { rest, grpc } = this.ports(name);
    const ports = ["--port", String(rest), "--grpc-port", String(grpc)];
    const time = ["--rest_api_timeout_in_ms", String(this.plan.requestMs)];
    // One topology keeps small tables in the router, the others ask workers for every lookup.
    const tables = this.plan.topology === "redis" ? [] : ["--router-table-bytes", "0"];
    const args = ["router", ...ports, ...time, ...tables, ...this.#shared(name)];
    return this.#node(name, args);
  }

  #shared(name: string): string[] {
    const replication = ["--replication", String(REPLICATION), "--log-level", "info"];
    const state = ["--state-dir", path.join(this.plan.folder, "state", name)];
    return [...this.#membership(name), ...replication, ...state];
  }

  #node(name: string, args: readonly string[]): ProcessLaunch {
    const script = path.join(this.plan.checkout, "packages/winnow/bin/winnow.js");
    const node = ["--import", clockShift, script, ...args];
    const inside = this.namespaces?.commandIn(name) ?? [];
    const [command, ...rest] = [...inside, process.execPath, ...node] as [string, ...string[]];
    return { command, args: rest, env: { WINNOW_PARTITION_BYTES: String(PARTITION_BYTES) } };
  }

  #launch(name: string, launch: ProcessLaunch): void {
    const logFile = path.join(this.plan.folder, "logs", `${name}.log`);
    if (!existsSync(launch.command) && launch.command.includes("/")) {
      throw new Error(`${launch.command} does not exist`);
    }
    this.#processes.set(name, new ChaosProcess(name, launch, logFile));
  }
}

function workerNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `w${index}`);
}
