// A redis-server of the test's own, on a free port, with nothing persisted.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { connect } from "node:net";
import { pause } from "./running-cluster.ts";
import { supplyPorts } from "../port-supply.ts";

/** Whether this machine has a redis-server; tests that need one say so when not. */
export const hasRedisServer: boolean = isInstalled();

function isInstalled(): boolean {
  try {
    execFileSync("redis-server", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    process.stderr.write("redis-server is not installed: tests that need it are skipped\n");
    return false;
  }
}

/** A running Redis that can be killed and started again on the same port. */
export class RedisProcess {
  readonly port: number;
  #child: ChildProcess | undefined;

  private constructor(port: number) {
    this.port = port;
  }

  /** Starts one and waits until it answers. */
  static async start(): Promise<RedisProcess> {
    const [port] = await supplyPorts(1);
    const redis = new RedisProcess(port!);
    await redis.restart();
    return redis;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Of the process that runs. */
  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("redis-server does not run");
    return pid;
  }

  /** Starts it, empty, on its port. */
  async restart(): Promise<void> {
    const args = ["--port", String(this.port), "--bind", "127.0.0.1", "--save", ""];
    this.#child = spawn("redis-server", [...args, "--appendonly", "no"], { stdio: "ignore" });
    for (let attempt = 0; attempt < 200; attempt += 1) {
      if (await accepts(this.port)) return;
      await pause(25);
    }
    throw new Error(`redis-server does not answer on port ${this.port}`);
  }

  /** Kills it at once and waits for its end. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    await new Promise<void>((resolve) => {
      child.once("exit", () => resolve());
      child.kill("SIGKILL");
    });
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
