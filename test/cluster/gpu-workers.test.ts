// A worker on a GPU (a software one, where nothing better is told) beside workers on the processor, as
// real processes: the same bytes, also while the GPU is lost, its worker ends, comes back, and leaves in order.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { recordAnswers, runLoad } from "./checked-load.ts";
import { gpuEnvironment, noGpuReason, onGpu } from "./gpu-driver.ts";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { RunningCluster, pause } from "./running-cluster.ts";

const DEVICE_LOST_EXIT_CODE = 75;
const MODELS = ["movies", "movies-ranking"];
const directory = mkdtempSync(path.join(tmpdir(), "winnow-gpu-"));
const hook = pathToFileURL(path.join(import.meta.dirname, "gpu-loss.mjs")).href;
const env = {
  ...gpuEnvironment,
  NODE_OPTIONS: `${gpuEnvironment.NODE_OPTIONS} --import=${hook}`,
};
/** A GPU made of software shares the processors with everything else, and each search on it takes much of them. */
const PER_SECOND = 6;

/** Three partitions of the items, for two on each worker. Of dozens, each would cost a GPU made of software as much. */
const PARTITION_BYTES = 2 ** 16;

let cluster: RunningCluster | undefined;
let redis: RedisProcess | undefined;

beforeAll(async () => {
  await writeDemo(directory, { items: 1500, dim: 32, users: 400, k: 10, seed: 11 });
});
afterEach(async () => {
  await cluster?.stop();
  await redis?.kill();
  redis = undefined;
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Each for one user; searches that come together share a scan for many. */
function requests(): { model: string; body: string }[] {
  const users = Array.from({ length: 30 }, (_, index) => String(1 + 13 * index));
  return users.map((user) => ({ model: "movies", body: JSON.stringify({ instances: [user] }) }));
}

/** The bytes a cluster without any GPU answers with. */
async function answersOfProcessors() {
  cluster = await RunningCluster.start({ models: directory, workers: 1 });
  await cluster.loaded(MODELS);
  const answers = await recordAnswers(cluster.url, requests());
  await cluster.stop();
  return answers;
}

/** A GPU in software loads for a minute, beside searches that it is asked meanwhile. */
const SERVES_AGAIN_MS = 300_000;
/** Two clusters, and a GPU made of software. */
const TEST_MS_MAX = 600_000;

test.skipIf(noGpuReason !== "")(
  `L1: a GPU that is lost ends its worker with a code of its own, fails no request, and serves again ${noGpuReason}`,
  async () => {
    const answers = await answersOfProcessors();
    redis = hasRedisServer ? await RedisProcess.start() : undefined;
    cluster = await RunningCluster.start({
      models: directory,
      workers: 3,
      replication: 2,
      partitionBytes: PARTITION_BYTES,
      ...(redis === undefined ? {} : { redis: redis.url }),
      routerArgs: ["--router-table-bytes", "0"],
      argsOf: { w0: onGpu },
      env,
    });
    await cluster.loaded(MODELS);
    await untilReady("w0", /^gpu$/);
    await untilReady("w1", /^(cpu|reference)$/);
    await untilReady("w2", /^(cpu|reference)$/);

    const fault = async (): Promise<void> => {
      await pause(1000);
      cluster!.signal("w0", "SIGUSR2");
      expect(await cluster!.ended("w0")).toBe(DEVICE_LOST_EXIT_CODE);
      expect(await cluster!.announcement("w0")).toBeUndefined();
      await pause(1500);
      cluster!.restart("w0");
      await untilReady("w0", /^gpu$/);
      await pause(1000);
    };
    const until = fault();
    const outcome = await runLoad(cluster.urls, answers, {
      perSecond: PER_SECOND,
      atLeast: 60,
      until,
    });
    await until;

    expect(outcome.wrong).toEqual([]);
    expect(outcome.failed).toEqual([]);
    expect(outcome.exact).toBeGreaterThan(50);
    const [failure] = cluster.events("w0", "worker failed");
    expect(failure).toMatchObject({ lost: "device", code: "UNAVAILABLE" });
    cluster.signal("w0", "SIGTERM");
    expect(await cluster.ended("w0")).toBe(0);
  },
  TEST_MS_MAX,
);

async function untilReady(name: string, accelerator: RegExp): Promise<void> {
  const endMs = Date.now() + SERVES_AGAIN_MS;
  for (;;) {
    const told = await cluster!.announcement(name);
    if (told?.state === "ready" && accelerator.test(told.accelerator)) return;
    if (Date.now() > endMs) throw new Error(`${name} does not serve again:\n${cluster!.log()}`);
    await pause(250);
  }
}
