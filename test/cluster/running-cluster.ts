// A cluster of real processes for tests: routers and workers started from `dist/`, each on a free
// port of the loopback, killed at the end whatever happened. A test may kill, stop and restart any
// of them; it touches no process it did not start.

import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import { type Announcement, GrpcConnector } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import { supplyPorts } from "../port-supply.ts";

/** The repository's root. */
export const repositoryRoot: string = path.resolve(import.meta.dirname, "../..");
const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");

/** The cluster a test wants. */
export interface ClusterShape {
  readonly models: string;
  readonly workers: number;
  /** Default 2, or 1 for a single worker. */
  readonly replication?: number;
  /** Redis that holds membership; default: a fixed address list. */
  readonly redis?: string;
  readonly routers?: number;
  /** Default `cpu`, as for a user: the reference where no native kernel was built. */
  readonly accelerator?: string;
  readonly routerArgs?: readonly string[];
  readonly workerArgs?: readonly string[];
  /** Further arguments of single processes, by name: `w1`, `router0`. */
  readonly argsOf?: Readonly<Record<string, readonly string[]>>;
  /** Bytes of a partition at most. Default 32 KiB: the small tables of tests are cut as large ones are. */
  readonly partitionBytes?: number;
  /** Environment variables beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** One line of a log. */
export interface LoggedEvent extends Readonly<Record<string, unknown>> {
  readonly msg: string;
}

interface Role {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  child: ChildProcess;
  readonly log: string[];
  readonly port: number;
}

type Launch = Pick<Role, "name" | "port" | "args" | "env">;

const SMALL_PARTITION_BYTES = 32_768;
const LOADED_WITHIN_MS = 100_000;
/** Further time for each model: all workers of a cluster share two processors. */
const LOADED_WITHIN_MS_EACH = 3000;
const LOADED_LOOK_MS = 100;
const DESCRIBED_WITHIN_MS = 15_000;

/** A started cluster. */
export class RunningCluster {
  readonly urls: readonly string[];
  /** Its workers at the start, as `--members` lists them. */
  readonly members: readonly string[];
  readonly #roles: Map<string, Role>;
  /** A look by a connection of its own would cost each side four times the processor time. */
  readonly #connector = new GrpcConnector(systemClock);
  /** How a worker of this cluster is started, by name and port. */
  readonly #workerOf: (name: string, port: number) => Launch;

  private constructor(
    found: { readonly urls: readonly string[]; readonly members: readonly string[] },
    roles: Map<string, Role>,
    workerOf: (name: string, port: number) => Launch,
  ) {
    this.urls = found.urls;
    this.members = found.members;
    this.#roles = roles;
    this.#workerOf = workerOf;
  }

  /** Starts the processes; does not wait for models. */
  static async start(shape: ClusterShape): Promise<RunningCluster> {
    const routers = shape.routers ?? 1;
    const ports = await supplyPorts(shape.workers + routers);
    const workerPorts = ports.slice(0, shape.workers);
    const members = workerPorts.map((port, index) => `w${index}@127.0.0.1:${port}`);
    const shared = [
      ...(shape.redis === undefined ? ["--members", members.join(",")] : ["--redis", shape.redis]),
      "--replication",
      String(shape.replication ?? Math.min(2, shape.workers)),
      "--log-level",
      "info",
    ];
    const roles = new Map<string, Role>();
    const env = {
      WINNOW_PARTITION_BYTES: String(shape.partitionBytes ?? SMALL_PARTITION_BYTES),
      ...shape.env,
    };
    const workerOf = (name: string, port: number): Launch => {
      const ports = ["--port", String(port), "--metrics-port", "0"];
      const own = ["--id", name, ...ports, "--models", shape.models];
      const device = ["--accelerator", shape.accelerator ?? "cpu", "--threads", "1"];
      const further = [...(shape.workerArgs ?? []), ...(shape.argsOf?.[name] ?? [])];
      return { name, port, env, args: ["worker", ...own, ...device, ...shared, ...further] };
    };
    for (const [index, port] of workerPorts.entries()) {
      roles.set(`w${index}`, launch(workerOf(`w${index}`, port)));
    }
    const routerPorts = ports.slice(shape.workers);
    for (const [index, port] of routerPorts.entries()) {
      const name = `router${index}`;
      const further = [...(shape.routerArgs ?? []), ...(shape.argsOf?.[name] ?? [])];
      const args = ["router", "--port", String(port), ...shared, ...further];
      roles.set(name, launch({ name, port, args, env }));
    }
    return new RunningCluster(
      { urls: routerPorts.map((port) => `http://127.0.0.1:${port}`), members },
      roles,
      workerOf,
    );
  }

  /** The first router. */
  get url(): string {
    return this.urls[0]!;
  }

  /** Resolves when every router says AVAILABLE for each model. @throws Error with the processes' logs */
  async loaded(models: readonly string[]): Promise<void> {
    const endMs = Date.now() + LOADED_WITHIN_MS + models.length * LOADED_WITHIN_MS_EACH;
    for (const url of this.urls) {
      for (const model of models) {
        while (!(await isAvailable(url, model))) {
          if (Date.now() > endMs) throw new Error(`${model} did not load:\n${this.log()}`);
          await pause(LOADED_LOOK_MS);
        }
      }
    }
  }

  /** What a worker says of itself, asked over gRPC; `undefined` while it does not answer. */
  async announcement(name: string): Promise<Announcement | undefined> {
    const address = `127.0.0.1:${this.#role(name).port}`;
    try {
      return await this.#connector.describe(address, DESCRIBED_WITHIN_MS);
    } catch {
      // The next look connects anew, without waiting as long as a broken connection does.
      this.#connector.forget(address);
      return undefined;
    }
  }

  /** Starts one more worker; only where membership is in Redis will the others find it. */
  async addWorker(name: string): Promise<void> {
    const [port] = (await supplyPorts(1)) as [number];
    this.#roles.set(name, launch(this.#workerOf(name, port)));
  }

  /** The process of a role, such as `w1`. */
  processId(name: string): number {
    return this.#role(name).child.pid!;
  }

  /** Sends a signal to one process: `w1`, `router0`. */
  signal(name: string, signal: NodeJS.Signals): void {
    this.#role(name).child.kill(signal);
  }

  /** Resolves with the exit code (or signal) of one process. */
  ended(name: string): Promise<number | string> {
    const { child } = this.#role(name);
    if (child.exitCode !== null) return Promise.resolve(child.exitCode);
    if (child.signalCode !== null) return Promise.resolve(child.signalCode);
    return new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve(code ?? signal ?? "?"));
    });
  }

  /** Starts a process again that has ended, with the same arguments; `env` holds for this life. */
  restart(name: string, env: Readonly<Record<string, string>> = {}): void {
    const role = this.#role(name);
    role.child = spawnRole({ ...role, env: { ...role.env, ...env } }, role.log);
  }

  /** What one process logged under these names in all its lives, as far as it is kept. */
  events(name: string, ...names: readonly string[]): LoggedEvent[] {
    const { log } = this.#role(name);
    const lines = log.flatMap((chunk) => chunk.split("\n"));
    return lines.flatMap((line) => {
      const event = loggedEvent(line);
      return event !== undefined && names.includes(event.msg) ? [event] : [];
    });
  }

  /** The last lines all processes logged. */
  log(): string {
    return [...this.#roles.values()]
      .map((role) => `── ${role.name}\n${role.log.slice(-15).join("")}`)
      .join("\n");
  }

  /** Ends every process at once. */
  async stop(): Promise<void> {
    this.#connector.close();
    const running = [...this.#roles.values()].filter(
      ({ child }) => child.exitCode === null && child.signalCode === null,
    );
    await Promise.all(
      running.map(async ({ name, child }) => {
        child.kill("SIGCONT");
        child.kill("SIGKILL");
        await this.ended(name);
      }),
    );
  }

  #role(name: string): Role {
    const role = this.#roles.get(name);
    if (role === undefined) throw new Error(`no process ${name} in this cluster`);
    return role;
  }
}

function launch(what: Launch): Role {
  const log: string[] = [];
  return { ...what, log, child: spawnRole(what, log) };
}

const LOG_LINES_MAX = 400;

function spawnRole({ name, args, env }: Launch, log: string[]): ChildProcess {
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  const keep = (data: Buffer): void => {
    log.push(`${name}: ${data.toString("utf8")}`);
    if (log.length > LOG_LINES_MAX) log.splice(0, log.length - LOG_LINES_MAX);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  return child;
}

/** A line as it was logged, after the name of its process; `undefined` for anything else. */
function loggedEvent(line: string): LoggedEvent | undefined {
  const start = line.indexOf("{");
  if (start < 0 || !line.endsWith("}")) return undefined;
  try {
    return JSON.parse(line.slice(start)) as LoggedEvent;
  } catch {
    return undefined;
  }
}

async function isAvailable(url: string, model: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v1/models/${encodeURIComponent(model)}`);
    const text = await response.text();
    return text.includes('"AVAILABLE"');
  } catch {
    return false;
  }
}

/** Real time passes; only tests of real processes may wait for it. */
export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
