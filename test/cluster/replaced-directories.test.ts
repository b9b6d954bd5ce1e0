// Version directories that are not published as they should be, on real processes: replaced in place
// under load, with a rolling restart at once; copied file by file, given up half-way, and copied again.
// Two contents differ in every item, so that an answer made of both could not be missed.

import { closeSync, cpSync, ftruncateSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { pause } from "./running-cluster.ts";
import type { RunningCluster } from "./running-cluster.ts";
import {
  eventually,
  expectExact,
  predict,
  untilDefault,
  untilReplicated,
  versionOf,
} from "./served-model.ts";
import { BRIEFLY_KEPT, WORKERS, startVersioned } from "./versioned-cluster.ts";
import type { VersionedCluster } from "./versioned-cluster.ts";
import {
  DATA_FILE,
  REPLACEMENTS,
  contentRequests,
  versionedRequests,
  writeContent,
} from "./written-versions.ts";

const MODEL = "movies";
/** The model whose versions are copied file by file. */
const COPIED = "films";
/** What version 1 holds at first, and after each other replacement. */
const CONTENTS = [1, 2] as const;

let started: VersionedCluster | undefined;
beforeAll(async () => {
  await start([MODEL, COPIED]);
});
afterAll(() => started?.end());

/** Ends the cluster that was there before. */
async function start(models: readonly string[], redis?: string): Promise<VersionedCluster> {
  await started?.end();
  const workerArgs = BRIEFLY_KEPT;
  started = await startVersioned(models, {
    workerArgs,
    ...(redis === undefined ? {} : { redis }),
  });
  return started;
}

/** The first item that is answered tells the content. */
async function untilContent(cluster: RunningCluster, content: number): Promise<void> {
  await eventually(
    cluster,
    () => predict(cluster.url, { model: MODEL, version: 1 }),
    ({ text }) => text.includes(`v0${content} item`),
  );
}

/** Replaces the content of version 1, and expects while `events` happen that each answer is of one of both. */
async function expectReplaced(
  { base, cluster }: VersionedCluster,
  { how, from, to }: { readonly how: string; readonly from: number; readonly to: number },
  events: () => Promise<void>,
): Promise<void> {
  await untilReplicated(cluster, WORKERS, { model: MODEL, version: 1 });
  const told: number[] = [];
  const answers = contentRequests(MODEL, [from, to], (content) => told.push(content));

  await expectExact(cluster, answers, async () => {
    await pause(500);
    const beside = path.join(base, ".anew");
    const directory = path.join(base, MODEL, "1");
    rmSync(`${directory}.before`, { recursive: true, force: true });
    writeContent(beside, to);
    REPLACEMENTS[how]!(beside, directory);
    await events();
  });

  expect(new Set(told)).toEqual(new Set([from, to]));
  expect(told.at(-1)).toBe(to);
}

// One cluster for all but the last test, which needs Redis. These tests leave further versions of a model of their own.
describe("a version directory that is copied file by file", () => {
  beforeAll(async () => {
    const { cluster } = started!;
    await untilReplicated(cluster, WORKERS, { model: COPIED, version: 1 });
  });

  test("given up half-way and copied again under its number, it is served, and right", async () => {
    const { base, cluster } = started!;
    const from = path.join(base, ".two");
    const to = path.join(base, COPIED, "2");
    writeContent(from, 2);

    await expectExact(cluster, versionedRequests(COPIED, [1, 2]), async () => {
      await copySlowly(cluster, { from, to }, true);
      rmSync(to, { recursive: true });
      await pause(1500);
      await copySlowly(cluster, { from, to }, false);
      await untilDefault(cluster, { model: COPIED, version: 2 });
      await pause(500);
    });
  });

  test("its status says so while its files change", async () => {
    const { base, cluster } = started!;
    const from = path.join(base, ".three");
    const to = path.join(base, COPIED, "3");
    writeContent(from, 3);
    cpSync(path.join(from, "saved_model.pb"), path.join(to, "saved_model.pb"), { recursive: true });
    const over = new AbortController();
    const changing = (async () => {
      const file = openSync(path.join(to, "growing"), "w");
      for (let size = 1; !over.signal.aborted; size += 1) {
        ftruncateSync(file, size);
        await pause(50);
      }
      closeSync(file);
    })();

    const status = await eventually(
      cluster,
      () => versionOf(cluster.url, COPIED, 3),
      (told) => told?.state === "START" && told.message !== "",
    );
    over.abort();
    await changing;
    expect(status?.message).toMatch(/files of version 3 .* still change/);

    cpSync(from, to, { recursive: true });
    await untilDefault(cluster, { model: COPIED, version: 3 });
  });
});

describe("a version directory that is replaced in place", () => {
  /** The index of what version 1 holds. */
  let now = 0;
  const nextOf = () => {
    const from = CONTENTS[now % 2]!;
    now += 1;
    return { from, to: CONTENTS[now % 2]! };
  };

  test.each(Object.keys(REPLACEMENTS))(
    "(S4, L4) %s, under load: no request fails, and each is answered by one content",
    async (how) => {
      const { cluster } = started!;
      const { from, to } = nextOf();

      await expectReplaced(started!, { how, from, to }, async () => {
        await untilContent(cluster, to);
        await pause(1000);
      });

      expect(await versionOf(cluster.url, MODEL, 1)).toMatchObject({ state: "AVAILABLE" });
    },
  );

  async function restartOneByOne(cluster: RunningCluster): Promise<void> {
    for (const name of WORKERS) {
      cluster.signal(name, "SIGTERM");
      expect(await cluster.ended(name)).toBe(0);
      cluster.restart(name);
      await pause(300);
    }
    await untilReplicated(cluster, WORKERS, { model: MODEL, version: 1 });
    await pause(500);
  }

  test.skipIf(!hasRedisServer)(
    "(L1, L4) with Redis, copied over, and the workers restarted one by one at once: no request fails",
    async () => {
      const redis = await RedisProcess.start();
      try {
        const { cluster } = await start([MODEL], redis.url);
        const [from, to] = CONTENTS;
        await expectReplaced(started!, { how: "copied over", from, to }, () =>
          restartOneByOne(cluster),
        );
      } finally {
        await redis.kill();
      }
    },
  );
});

/** Copies file by file; the data file in full length before any of it is written, or not whole at all. */
async function copySlowly(
  cluster: RunningCluster,
  { from, to }: { readonly from: string; readonly to: string },
  isPreallocated: boolean,
): Promise<void> {
  mkdirSync(path.join(to, "variables"), { recursive: true });
  for (const name of ["saved_model.pb", "assets", "variables/variables.index"]) {
    cpSync(path.join(from, name), path.join(to, name), { recursive: true });
    await pause(700);
  }
  if (isPreallocated) {
    const file = openSync(path.join(to, DATA_FILE), "w");
    ftruncateSync(file, statSync(path.join(from, DATA_FILE)).size);
    closeSync(file);
    // Long enough to be found still, opened, and found wanting.
    await eventually(
      cluster,
      () => versionOf(cluster.url, COPIED, 2),
      (status) => status?.state === "END" && /DATA_LOSS|UNAVAILABLE/.test(status.code),
    );
  } else cpSync(path.join(from, DATA_FILE), path.join(to, DATA_FILE));
}
