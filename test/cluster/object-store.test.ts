// Models in an object store, on real processes: workers read them from a server that speaks S3's REST API, take a
// version that is uploaded file by file only once it is whole, and go on through a store that is away.

import { execFile, execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DIALECTS, ObjectServerProcess, hasSdk } from "../doubles/object-server-process.ts";
import { supplyPorts } from "../port-supply.ts";
import { RunningCluster, pause, repositoryRoot } from "./running-cluster.ts";
import { eventually, expectExact, predict, versionsOf } from "./served-model.ts";
import { publishVersion, versionedRequests, writeContent } from "./written-versions.ts";

const MODEL = "movies";
const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const root = mkdtempSync(path.join(tmpdir(), "winnow-store-"));
const store = path.join(root, "store");
/** What the URL s3://models/prod means. */
const base = path.join(store, "models", "prod");
/** What `inspect --json` tells of a version. */
interface ModelTold {
  readonly directory: string;
  readonly fingerprint: string;
}

const execute = promisify(execFile);

async function inspected(
  location: string,
  environment: Readonly<Record<string, string>>,
): Promise<readonly ModelTold[]> {
  const env = { ...process.env, ...environment, TMPDIR: root };
  const args = [script, "inspect", location, "--json"];
  const { stdout } = await execute(process.execPath, args, { env });
  return JSON.parse(stdout) as ModelTold[];
}

let server: ObjectServerProcess;
let cluster: RunningCluster;
let metricsPort = 0;

beforeAll(async () => {
  mkdirSync(base, { recursive: true });
  publishVersion(base, { model: MODEL, version: 1 });
  server = await ObjectServerProcess.start("s3", store, 4);
  [metricsPort] = (await supplyPorts(1)) as [number];
  cluster = await RunningCluster.start({
    models: "s3://models/prod",
    workers: 2,
    replication: 1,
    routerArgs: ["--router-table-bytes", "0"],
    workerArgs: ["--file_system_poll_wait_seconds", "1"],
    argsOf: {
      w0: ["--model-cache-dir", path.join(root, "cache"), "--metrics-port", String(metricsPort)],
    },
    env: { ...server.environment, TMPDIR: root },
  });
  await cluster.loaded([MODEL]);
});

afterAll(async () => {
  await cluster.stop();
  server.stop();
  rmSync(root, { recursive: true, force: true });
});

test("(S1) answers are those of the files, and each worker reads by range", async () => {
  await expectExact(cluster, versionedRequests(MODEL, [1]), () => pause(1000));
  const { reads, faults } = await server.account();
  expect(reads).toBeGreaterThan(4);
  expect(faults).toBe(0);
});

const withSdk = (["gs", "az"] as const).filter(hasSdk);

test.each(withSdk)("inspect reads the same version from %s://", async (dialect) => {
  const other = await ObjectServerProcess.start(dialect, store);
  const url = `${DIALECTS[dialect].urlOf("models")}/prod`;
  try {
    const told = await inspected(url, other.environment);
    const [own] = await inspected(base, {});

    expect(told).toMatchObject([{ directory: `${url}/${MODEL}/1`, fingerprint: own!.fingerprint }]);
  } finally {
    other.stop();
  }
});

test("inspect tells a version's tables, and verify finds the answers right, from the URL alone", () => {
  const env = { ...process.env, ...server.environment, TMPDIR: root };
  const winnow = (...args: readonly string[]): string =>
    execFileSync(process.execPath, [script, ...args], { encoding: "utf8", stdio: "pipe", env });

  const [told] = JSON.parse(winnow("inspect", "s3://models/prod", "--json")) as ModelTold[];
  expect(told).toMatchObject({
    model: MODEL,
    version: 1,
    directory: `s3://models/prod/${MODEL}/1`,
  });
  const [own] = JSON.parse(winnow("inspect", base, "--json")) as ModelTold[];
  expect(told?.fingerprint).toBe(own?.fingerprint);

  const verified = winnow(
    "verify",
    cluster.url,
    "--models",
    `s3://models/prod/${MODEL}`,
    "--queries",
    "50",
    "--json",
  );
  expect(JSON.parse(verified)).toMatchObject({ verdict: "equal" });
});

test("(S7, L1) a version that is uploaded file by file is served once it is whole, through refusals and cuts", async () => {
  const whole = path.join(root, "whole");
  writeContent(whole, 2);
  const files = readdirSync(whole, { recursive: true, encoding: "utf8", withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(whole, path.join(entry.parentPath, entry.name)))
    // The graph first: without the rest it is no model.
    .toSorted((a, b) => Number(b === "saved_model.pb") - Number(a === "saved_model.pb"));
  await server.setFaults({ prefix: "prod/", cycle: ["none", "slow down", "none", "cut"] });

  await expectExact(cluster, versionedRequests(MODEL, [1, 2]), async () => {
    for (const file of files) {
      cpSync(path.join(whole, file), path.join(base, MODEL, "2", file), { recursive: true });
      await pause(1500);
    }
    await eventually(
      cluster,
      () => predict(cluster.url, { model: MODEL }),
      ({ text }) => text.includes("v02 item"),
    );
    await pause(500);
  });

  expect((await server.account()).faults).toBeGreaterThan(2);
  await server.setFaults({ prefix: "", cycle: [] });
});

test("(L1) a store that denies everything costs nothing of what is served", async () => {
  await server.setFaults({ prefix: "", cycle: ["denied"] });
  await expectExact(cluster, versionedRequests(MODEL, [2]), () => pause(3000));
  const told = await versionsOf(cluster.url, MODEL);
  expect(told.find(({ version }) => Number(version) === 2)?.state).toBe("AVAILABLE");
});

/** A number on the page of w0's metrics. */
async function cacheMetric(series: string): Promise<number> {
  const page = await fetch(`http://127.0.0.1:${metricsPort}/metrics`).then(
    (answer) => answer.text(),
    () => "",
  );
  const line = page
    .split("\n")
    .find((each) => each.startsWith(`winnow_worker_model_cache_${series} `));
  return Number(line?.split(" ").at(-1));
}

test("a worker with a cache that starts again reads no byte of an object from the store, and says so", async () => {
  await server.setFaults({ prefix: "", cycle: [] });
  const fetched = await cacheMetric('reads_total{from="store"}');
  const { reads } = await server.account();
  cluster.signal("w0", "SIGKILL");
  await cluster.ended("w0");
  cluster.restart("w0");

  await eventually(
    cluster,
    () => predict(cluster.url, { model: MODEL }),
    ({ status, text }) => status === 200 && text.includes("v02 item"),
  );

  expect(fetched).toBeGreaterThan(0);
  expect((await server.account()).reads).toBe(reads);
  expect(await cacheMetric('reads_total{from="store"}')).toBe(0);
  expect(await cacheMetric('reads_total{from="cache"}')).toBeGreaterThan(0);
  expect(await cacheMetric('bytes{kind="used"}')).toBeGreaterThan(0);
});
