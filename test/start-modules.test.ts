// What a process loads before it listens. A worker's start is mostly the loading of modules, and every
// worker of a machine pays it: what a process may never use is loaded when it is used.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeRetrievalModel } from "@winnow/model";
import { StringColumn } from "@winnow/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const script = path.resolve(import.meta.dirname, "../packages/winnow/dist/main.js");

/** Loaded before anything else in a process: tells its parent, when asked, which packages are there. */
const SPY = `
process.on("message", (message) => {
  if (message !== "test:modules") return;
  const names = Object.keys(require.cache).map((file) => /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(file)?.[1]);
  process.send({ names: [...new Set(names)].filter((name) => name !== undefined) });
});`;

interface Started {
  readonly process: ChildProcess;
  readonly packages: readonly string[];
}

describe.skipIf(!existsSync(script))("before it listens (needs a build)", () => {
  const running: ChildProcess[] = [];
  let folder = "";

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "winnow-start-"));
    await writeFile(path.join(folder, "spy.cjs"), SPY);
    const rows = (count: number) => ({
      rows: count,
      dim: 4,
      pieces: () => [Float32Array.from({ length: count * 4 }, (_, at) => at % 7)],
    });
    const names = ["a", "b", "c"];
    writeRetrievalModel(path.join(folder, "models", "plain", "1"), {
      users: { vocabulary: StringColumn.fromText(names), embedding: rows(4) },
      candidates: rows(3),
      identifiers: StringColumn.fromText(names),
      k: 2,
    });
  });

  afterAll(async () => {
    for (const child of running) child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  });

  async function start(...args: readonly string[]): Promise<Started> {
    const flags = ["--require", path.join(folder, "spy.cjs")];
    const child = spawn(process.execPath, [...flags, script, ...args, "--log-level", "warn"], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    running.push(child);
    const next = <Message>(isIt: (message: unknown) => boolean): Promise<Message> =>
      new Promise((resolve, reject) => {
        child.on("message", (message) => {
          if (isIt(message)) resolve(message as Message);
        });
        child.on("exit", (code) => reject(new Error(`ended with ${code}`)));
      });
    await next((message) => message === "winnow:listening");
    const told = next<{ names: string[] }>((message) => typeof message === "object");
    child.send("test:modules");
    return { process: child, packages: (await told).names };
  }

  const members = ["--members", "w0@127.0.0.1:1"];
  const worker = ["worker", "--id", "w0", "--port", "0", "--advertise", "127.0.0.1:1"];

  test("a worker with a fixed list has loaded no Redis client, HTTP framework or dense engine", async () => {
    const models = ["--models", path.join(folder, "models")];

    const started = await start(...worker, ...members, ...models, "--metrics-port", "0");

    expect(started.packages).toContain("@grpc/grpc-js");
    expect(amongThem(started.packages, "ioredis", "fastify", "onnxruntime-node")).toEqual([]);
    expect(amongThem(started.packages, "protobufjs", "@grpc/proto-loader")).toEqual([]);
    // Its threads as well: a library that any of them has loaded is mapped into the process.
    const maps = `/proc/${started.process.pid}/maps`;
    expect(existsSync(maps) ? await readFile(maps, "utf8") : "").not.toContain("onnxruntime");
  });

  test("a router with a fixed list and REST alone has loaded no Redis client or gRPC messages", async () => {
    const { packages } = await start("router", "--port", "0", ...members);

    expect(packages).toContain("fastify");
    expect(amongThem(packages, "ioredis", "onnxruntime-node")).toEqual([]);
    expect(amongThem(packages, "protobufjs", "@grpc/proto-loader")).toEqual([]);
  });
});

function amongThem(packages: readonly string[], ...names: readonly string[]): string[] {
  return names.filter((name) => packages.includes(name));
}
