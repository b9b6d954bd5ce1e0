// What clusters of real processes survive where membership itself goes wrong: clocks, forged records, a
// store that is away when a router starts.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { type LoggedEvent, RunningCluster, pause } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-membership-"));
const models = path.join(directory, "models");
const HOUR_MS = 3_600_000;
let cluster: RunningCluster | undefined;
let redis: RedisProcess | undefined;

beforeAll(async () => {
  await writeDemo(models, { items: 300, dim: 8, users: 40, k: 5, seed: 7 });
});
afterEach(async () => {
  await cluster?.stop();
  await redis?.kill();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function start(routerArgs: readonly string[] = []): Promise<RunningCluster> {
  redis = await RedisProcess.start();
  cluster = await RunningCluster.start({ models, workers: 2, redis: redis.url, routerArgs });
  await cluster.loaded(["movies"]);
  return cluster;
}

/** The codes of so many predictions, one after the other. */
async function codes(count: number): Promise<number[]> {
  const all: number[] = [];
  for (let user = 1; user <= count; user += 1) {
    const body = JSON.stringify({ instances: [String(1 + (user % 40))] });
    const response = await fetch(`${cluster!.url}/v1/models/movies:predict`, {
      method: "POST",
      body,
    }).catch(() => undefined);
    await response?.text();
    all.push(response?.status ?? 0);
  }
  return all;
}

/** Waits until a prediction succeeds. */
async function answers(): Promise<boolean> {
  for (const endMs = Date.now() + WAIT_MS; Date.now() < endMs; await pause(100)) {
    const [code] = await codes(1);
    if (code === 200) return true;
  }
  return false;
}

/** When a process logged this, by its own clock. */
const atMs = (event: LoggedEvent): number => new Date(event["time"] as number | string).getTime();

const all200 = (count: number): number[] => Array.from({ length: count }, () => 200);

describe.skipIf(!hasRedisServer)("with Redis membership", () => {
  test("L3: a worker that restarts with its clock an hour back is asked while it is the only one", async () => {
    const { signal, ended, restart } = bound(await start());

    signal("w0", "SIGKILL");
    signal("w1", "SIGKILL");
    await Promise.all([ended("w0"), ended("w1")]);
    const shifted = `const now = Date.now; Date.now = () => now() - ${HOUR_MS};`;
    const preload = `data:text/javascript,${encodeURIComponent(shifted)}`;
    restart("w1", { NODE_OPTIONS: `--import ${preload}` });

    expect(await answers()).toBe(true);
    expect(await codes(60)).toEqual(all200(60));
    const [first, second] = cluster!.events("w1", "worker listening");
    // Its clock was back indeed. Its number is lower too, unless the store still held its last record.
    expect(atMs(second!)).toBeLessThan(atMs(first!) - HOUR_MS / 2);
  });

  test("L6: a router that restarts while Redis is away answers", async () => {
    const { signal, ended, restart } = bound(
      await start(["--state-dir", path.join(directory, "state")]),
    );
    await pause(2500);

    await redis!.kill();
    signal("router0", "SIGKILL");
    await ended("router0");
    restart("router0");

    expect(await answers()).toBe(true);
    expect(await codes(20)).toEqual(all200(20));
  });
});

function bound(running: RunningCluster): Pick<RunningCluster, "signal" | "ended" | "restart"> {
  return {
    signal: running.signal.bind(running),
    ended: running.ended.bind(running),
    restart: running.restart.bind(running),
  };
}
