// `winnow bench` as a person runs it: against a cluster, and against one whose answers are spoilt.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { supplyPorts } from "../port-supply.ts";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { SpoilingProxy } from "./spoiling-proxy.ts";

const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-bench-"));
const models = path.join(directory, "models");

interface Report {
  readonly isInterrupted: boolean;
  readonly servers: readonly {
    readonly url: string;
    readonly load: {
      readonly requests: number;
      readonly instances: number;
      readonly statuses: Readonly<Record<string, number>>;
      readonly models: Readonly<Record<string, { readonly count: number }>>;
      readonly generatorBusy: number;
    };
    readonly ramp?: { readonly steps: readonly { readonly offered: number }[] };
    readonly check?: {
      readonly checked: number;
      readonly exact: number;
      readonly different: number;
    };
  }[];
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(args: readonly string[]): {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
} {
  const child = spawn(process.execPath, [script, "bench", ...args]);
  const texts = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (texts.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (texts.stderr += chunk.toString()));
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => resolve({ code, ...texts }));
  });
  return { child, ended };
}

const bench = (...args: readonly string[]): Promise<Ended> => start(args).ended;
const reportOf = ({ stdout }: Ended): Report => JSON.parse(stdout) as Report;

describe("winnow bench", () => {
  let cluster: RunningCluster;
  let grpc: string;
  const short = ["--models", models, "--duration", "1", "--warmup", "0.2"];

  beforeAll(async () => {
    await writeDemo(models, { items: 500, dim: 8, users: 40, k: 5, seed: 4 });
    const [port] = (await supplyPorts(1)) as [number];
    grpc = `grpc://127.0.0.1:${port}`;
    const routerArgs = ["--grpc-port", String(port)];
    cluster = await RunningCluster.start({ models, workers: 2, routerArgs });
    await cluster.loaded(["movies", "movies-ranking"]);
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  test("S1: answers under load, of several models by their weights, are exact", async () => {
    const load = ["--model", "movies=3,movies-ranking=1", "--batch", "2", "-k", "3"];
    const ended = await bench(cluster.url, ...short, ...load, "--check", "0.5", "--json");
    const [server] = reportOf(ended).servers;

    const { requests, instances, statuses, models: asked } = server!.load;
    expect(statuses).toEqual({ 200: requests });
    expect(instances).toBe(2 * requests);
    expect(asked["movies"]!.count).toBeGreaterThan(asked["movies-ranking"]!.count);
    // How many there are in a second depends on what else the machine does.
    expect(server!.check!.checked).toBeGreaterThan(0);
    expect(server!.check).toMatchObject({ exact: server!.check!.checked, different: 0 });
    expect(ended.code).toBe(0);
  });

  test("S1: answers over gRPC are exact under load, beside those over REST", async () => {
    const load = ["--batch", "2", "-k", "3", "--check", "0.2", "--json"];
    const ended = await bench(grpc, ...short, ...load, "--compare-url", cluster.url);
    const { servers } = reportOf(ended);
    const listed = path.join(directory, "listed.jsonl");
    writeFileSync(listed, '"1"\n');
    const keys = await bench(grpc, "--keys", listed, "--model", "movies");
    const silent = await bench("grpc://127.0.0.1:1", ...short);
    const other = await bench(cluster.url.replace("http", "grpc"), ...short);

    expect(servers.map(({ load: { statuses, requests } }) => [statuses, requests])).toEqual([
      [{ OK: servers[0]!.load.requests }, servers[0]!.load.requests],
      [{ 200: servers[1]!.load.requests }, servers[1]!.load.requests],
    ]);
    for (const { check } of servers) {
      expect(check!.checked).toBeGreaterThan(5);
      expect(check).toMatchObject({ exact: check!.checked, different: 0 });
    }
    expect([ended, keys, silent, other].map(({ code }) => code)).toEqual([0, 2, 2, 2]);
    expect(silent.stderr).toContain("Nothing answers at grpc://127.0.0.1:1");
    expect(keys.stderr).toContain("with --models DIR, not --keys FILE");
  });

  test("an answer that is not what the files say is found, and ends with 1", async () => {
    const proxy = await SpoilingProxy.start(cluster.url);
    proxy.spoil = ({ predictions }) => (predictions[0]!.output_1[0]! += 1e-6);
    const args = [...short, "--model", "movies", "--check", "1", "--connections", "4"];
    const ended = await bench(proxy.url, ...args);
    await proxy.close();

    expect(ended.stdout).toMatch(/checked by the files: \d+ answers, 0 exact, [1-9]\d* different/);
    expect(ended.stdout).toContain("movies: expected ");
    expect(ended.code).toBe(1);
  });

  test("an open loop, another server and an earlier report stand in one report, and a ramp in its own", async () => {
    const kept = path.join(directory, "report.json");
    const first = await bench(cluster.url, ...short, "--model", "movies", "--rate", "40", "--json");
    writeFileSync(kept, first.stdout);
    const more = ["--compare", kept, "--compare-url", cluster.url];
    const second = await bench(cluster.url, ...short, "--model", "movies", ...more);
    const brief = ["--models", models, "--duration", "0.4", "--warmup", "0.1", "--ramp"];
    // Steps of a second each, up to more than this server can answer: one that is slow costs little.
    const slow = await SpoilingProxy.start(cluster.url);
    slow.delayMs = 20;
    const third = await bench(slow.url, ...brief, "--model", "movies", "--connections", "2");
    await slow.close();

    const { requests } = reportOf(first).servers[0]!.load;
    expect(requests).toBeGreaterThan(15);
    expect(requests).toBeLessThan(80);
    expect(second.stdout).toMatch(/beside the report of .*\n {2}not alike: rate\n/);
    expect(second.stdout.match(/requests\/s +[\d.,]+ +[\d.,]+ {2}× [\d.]+/g)).toHaveLength(2);
    expect(third.stdout).toMatch(/ramp from [\d,]+ requests\/s of the closed loop; /);
    expect(second.stdout).toMatch(/the generator was busy \d+ % of its time/);
  });

  test("Ctrl-C prints what was measured so far", async () => {
    const long = ["--models", models, "--duration", "600", "--warmup", "0", "--json"];
    const running = start([cluster.url, ...long]);
    await new Promise<void>((resolve) => {
      running.child.stderr?.on("data", (chunk: Buffer) => {
        if (chunk.toString().includes("measuring")) setTimeout(resolve, 1000);
      });
    });
    running.child.kill("SIGINT");
    const ended = await running.ended;

    const { isInterrupted, servers } = reportOf(ended);
    expect(isInterrupted).toBe(true);
    expect(servers[0]!.load.requests).toBeGreaterThan(0);
    expect(ended.code).toBe(0);
  });

  test("keys of a file need no model; what cannot be asked is told, with 2", async () => {
    const keys = path.join(directory, "keys.jsonl");
    writeFileSync(keys, '"1"\n"2"\n\n"nobody"\n');
    const spoilt = path.join(directory, "spoilt.jsonl");
    writeFileSync(spoilt, "1\n{");
    const time = ["--duration", "0.5", "--warmup", "0"];
    const good = await bench(cluster.url, "--keys", keys, "--model", "movies", ...time, "--json");
    const failed = await bench(cluster.url, "--keys", keys, "--model", "songs", ...time);
    const broken = await bench(cluster.url, "--keys", spoilt, "--model", "movies");
    const pipe = path.join(directory, "pipe");
    spawnSync("mkfifo", [pipe]);
    const unwritten = await bench(cluster.url, "--keys", pipe, "--model", "movies");
    const silent = await bench("http://127.0.0.1:1", ...short);
    const nothing = await bench(cluster.url);

    expect(reportOf(good).servers[0]!.load.requests).toBeGreaterThan(0);
    expect([good, failed, broken, unwritten, silent, nothing].map(({ code }) => code)).toEqual([
      0, 1, 2, 2, 2, 2,
    ]);
    expect(unwritten.stderr).toContain("pipe: it is a pipe to which nobody writes");
    expect(failed.stdout).toContain("status 404");
    expect(broken.stderr).toContain("one instance a line");
    expect(silent.stderr).toContain("Nothing answers");
    expect(nothing.stderr).toContain("--models DIR");
  });
});
