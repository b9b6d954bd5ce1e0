// A redis-server of the test's own, on a free port, in memory only.

import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";

/** Whether the tests with a real Redis can run. */
export const isRedisInstalled: boolean = spawnSync("redis-server", ["--version"]).status === 0;

/** A client as anybody may have one, for a test to look into the store and write what it likes. */
export const redisClient = (url: string): Redis => new Redis(url);

/** One redis-server that can be stopped, frozen and started again empty. */
export class RedisProcess {
  readonly port: number;
  readonly #directory: string;
  #child: ChildProcess | undefined;

  private constructor(port: number) {
    this.port = port;
    this.#directory = mkdtempSync(path.join(tmpdir(), "winnow-redis-"));
  }

  static async start(): Promise<RedisProcess> {
    const server = new RedisProcess(await freePort());
    await server.start();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it, with nothing in it. */
  async start(): Promise<void> {
    const options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    const child = spawn(
      "redis-server",
      ["--port", String(this.port), "--dir", this.#directory, ...options],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    this.#child = child;
    for await (const chunk of child.stdout) {
      if (String(chunk).includes("Ready to accept connections")) break;
    }
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  freeze(): void {
    this.#child?.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child?.kill("SIGCONT");
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}
