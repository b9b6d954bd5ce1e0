// A worker's own HTTP port in a real cluster: what it counts while it serves, its probes through a
// drain, and what happens where the port is taken.

import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inspect } from "../../packages/winnow/src/commands/inspect.ts";
import { GraphWriter } from "../models/graph-writer.ts";
import { supplyPorts } from "../port-supply.ts";
import { RunningCluster, pause } from "./running-cluster.ts";

const ITEMS = 500;
const HALF_ITEMS = 8000;
const HALF_DIM = 16;
const PARTITION_BYTES = 2 ** 16;
const REQUESTS = 20;
const models = mkdtempSync(path.join(tmpdir(), "winnow-metrics-"));

/** The value of one series of a page; `undefined` where it has none. */
function valueOf(page: string, series: string): number | undefined {
  const line = page.split("\n").find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

/** A model of items in half, with ids of different lengths and a column by which a request masks them. */
function writeHalf(directory: string): void {
  const graph = new GraphWriter();
  const float = { type: "float32" } as const;
  const bits = Array.from({ length: HALF_ITEMS * HALF_DIM }, (_, at) => 0x2c00 + (at % 4096));
  const stored = graph.constant(bits, [HALF_ITEMS, HALF_DIM], "half");
  const items = graph.op("Cast", [stored], { SrcT: { type: "half" }, DstT: float });
  const query = graph.input("query", "float32", [-1, HALF_DIM]);
  const product = { transpose_a: false, transpose_b: true } as const;
  const scores = graph.op("MatMul", [query, items], product);
  const genres = Array.from({ length: HALF_ITEMS }, (_, row) => row % 300);
  const stock = graph.constant(genres, [HALF_ITEMS], "int32");
  const wanted = graph.input("genre", "int32", [-1, 1]);
  const isWanted = graph.op("Equal", [stock, wanted], { T: { type: "int32" } });
  const masked = graph.op("SelectV2", [isWanted, scores, graph.constant([-1e9], [])]);
  const ids = Array.from({ length: HALF_ITEMS }, (_, row) => `item ${"x".repeat(row % 40)} ${row}`);
  graph.best(masked, graph.strings(ids), 5);
  graph.write(directory);
}

describe("a worker with --metrics-port", () => {
  let cluster: RunningCluster;
  let url = "";

  beforeAll(async () => {
    await writeDemo(models, { items: ITEMS, users: 30, dim: 8, k: 5, seed: 1 });
    writeHalf(path.join(models, "half", "1"));
    const [port] = await supplyPorts(1);
    url = `http://127.0.0.1:${port}`;
    const argsOf = { w0: ["--metrics-port", String(port)] };
    const cut = { partitionBytes: PARTITION_BYTES };
    cluster = await RunningCluster.start({ models, workers: 1, argsOf, ...cut });
    await cluster.loaded(["movies", "movies-ranking", "half"]);
  });
  afterAll(async () => {
    await cluster.stop();
    rmSync(models, { recursive: true, force: true });
  });

  const page = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();

  test("counts each query, the rows it scans, and tells what is held", async () => {
    const before = await page();
    for (let user = 0; user < REQUESTS; user += 1) {
      const body = JSON.stringify({ instances: [String(user)] });
      const answer = await fetch(`${cluster.url}/v1/models/movies:predict`, {
        method: "POST",
        body,
      });
      expect(answer.status).toBe(200);
    }
    const after = await page();
    const gained = (series: string): number =>
      (valueOf(after, series) ?? 0) - (valueOf(before, series) ?? 0);

    expect(gained('winnow_worker_queries_total{kind="topK",outcome="OK"}')).toBe(REQUESTS);
    expect(gained("winnow_worker_rows_scanned_total")).toBe(REQUESTS * ITEMS);
    expect(gained("winnow_worker_topk_duration_seconds_count")).toBe(REQUESTS);
    expect(gained("winnow_worker_busy_seconds_total")).toBeGreaterThan(0);
    expect(valueOf(after, 'winnow_worker_load_ratio{model="movies",version="1"}')).toBe(1);
    expect(valueOf(after, 'winnow_model_version{model="movies"}')).toBe(1);
    expect(valueOf(after, 'winnow_model_load_duration_seconds_count{model="movies"}')).toBe(1);
    expect(valueOf(after, 'winnow_worker_replicas{state="ready"}')).toBeGreaterThan(0);
    expect(valueOf(after, 'winnow_worker_memory_bytes{kind="used"}')).toBeGreaterThan(ITEMS * 32);
    expect(after).toMatch(
      /^winnow_worker_accelerator_info\{kind="(cpu|reference)",device=".+",asked="cpu"\} 1$/m,
    );
    expect(after).toMatch(/^nodejs_eventloop_lag_seconds \d/m);
  });

  test("holds as much memory as inspect says before, to four percent", async () => {
    const held = valueOf(await page(), 'winnow_worker_memory_bytes{kind="used"}')!;
    const asked = { workers: 1, replication: 1, partitionBytes: PARTITION_BYTES };
    const reports = await inspect({ directory: models, ...asked });

    const told = reports.map((report) => {
      if ("error" in report) throw new Error(report.error.message);
      expect(report.tables.every(({ partitions }) => partitions > 1)).toBe(report.model === "half");
      return report.workers[0]!.bytesWithExtras;
    });
    expect(told).toHaveLength(3);
    expect(Math.max(...told)).toBeGreaterThan(HALF_ITEMS * HALF_DIM * 4);
    const ratio = held / told.reduce((sum, bytes) => sum + bytes, 0);
    expect([Math.min(ratio, 0.96), Math.max(ratio, 1.04)]).toEqual([0.96, 1.04]);
  });

  test("answers probes: ready while it serves, alive but not ready in drain", async () => {
    const statusOf = async (probe: string): Promise<number | undefined> =>
      (await fetch(url + probe).catch(() => undefined))?.status;
    expect([await statusOf("/healthz"), await statusOf("/readyz")]).toEqual([200, 200]);

    // The router goes first: with nobody to take over, the worker leaves as soon as it may.
    cluster.signal("w0", "SIGTERM");
    const seen = new Set<string>();
    for (let status = await statusOf("/readyz"); status !== undefined;) {
      if (status === 503) seen.add(`healthz ${await statusOf("/healthz")}`);
      await pause(1);
      status = await statusOf("/readyz");
    }

    expect(await cluster.ended("w0")).toBe(0);
    expect([...seen]).toContain("healthz 200");
  });
});

test("a metrics port that was asked for and is taken ends the worker with advice", async () => {
  const squatter = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => {
    squatter.once("listening", resolve);
  });
  const { port } = squatter.address() as { port: number };
  const argsOf = { w0: ["--metrics-port", String(port)] };
  const cluster = await RunningCluster.start({ models, workers: 1, argsOf });

  const code = await cluster.ended("w0");
  const log = cluster.log();
  await cluster.stop();
  squatter.close();

  expect(code).toBe(1);
  expect(log).toContain("choose another with --metrics-port");
});
