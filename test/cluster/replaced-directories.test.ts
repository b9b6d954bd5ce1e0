// Version directories that are not published as they should be, on real processes: replaced in place
// under load, with a rolling restart at once; copied file by file, given up half-way, and copied again.
// Two contents differ in every item, so that an answer made of both could not be missed.

import { closeSync, cpSync, ftruncateSync, mkdirSync, openSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, test } from "vitest";
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
import { WORKERS, startVersioned } from "./versioned-cluster.ts";
import type { VersionedCluster } from "./versioned-cluster.ts";
import {
  DATA_FILE,
  REPLACEMENTS,
  contentRequests,
  versionedRequests,
  writeContent,
} from "./written-versions.ts";

const MODEL = "movies";
/** What version 1 holds at first, and in the end. */
const [OLD, NEW] = [1, 2];

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function started(redis?: string): Promise<VersionedCluster> {
  const cluster = await startVersioned([MODEL], redis === undefined ? {} : { redis });
  cleanups.push(() => cluster.end());
  await untilReplicated(cluster.cluster, WORKERS, { model: MODEL, version: 1 });
  return cluster;
}

/** The first item that is answered tells the content. */
async function untilContent(cluster: RunningCluster, content: number): Promise<void> {
  await eventually(
    cluster,
    () => predict(cluster.url, { model: MODEL, version: 1 }),
    ({ text }) => text.includes(`v0${content} item`),
  );
}

function replaceBy(base: string, how: string): void {
  const beside = path.join(base, ".anew");
  writeContent(beside, NEW);
  REPLACEMENTS[how]!(beside, path.join(base, MODEL, "1"));
}

describe("a version directory that is replaced in place", () => {
  test.each(Object.keys(REPLACEMENTS))(
    "(S4, L4) %s, under load: no request fails, and each is answered by one content",
    async (how) => {
      const { base, cluster } = await started();
      const told: number[] = [];
      const answers = contentRequests(MODEL, [OLD, NEW], (content) => told.push(content));

      await expectExact(cluster, answers, async () => {
        await pause(500);
        replaceBy(base, how);
        await untilContent(cluster, NEW);
        await pause(1000);
      });

      expect(told.at(-1)).toBe(NEW);
      expect(await versionOf(cluster.url, MODEL, 1)).toMatchObject({ state: "AVAILABLE" });
    },
  );

  test.each([
    ["a fixed list of members", "copied over"],
    ...(hasRedisServer ? [["Redis", "swapped by renaming"] as const] : []),
  ] as const)(
    "(L1, L4) with %s, %s and the workers restarted one by one at once: no request fails",
    async (membership, how) => {
      const redis = membership === "Redis" ? await RedisProcess.start() : undefined;
      if (redis !== undefined) cleanups.push(() => redis.kill());
      const { base, cluster } = await started(redis?.url);
      const told: number[] = [];
      const answers = contentRequests(MODEL, [OLD, NEW], (content) => told.push(content));

      await expectExact(cluster, answers, async () => {
        await pause(300);
        replaceBy(base, how);
        for (const name of WORKERS) {
          cluster.signal(name, "SIGTERM");
          expect(await cluster.ended(name)).toBe(0);
          cluster.restart(name);
          await pause(300);
        }
        await untilReplicated(cluster, WORKERS, { model: MODEL, version: 1 });
        await pause(500);
      });

      expect(told.at(-1)).toBe(NEW);
      expect(new Set(told)).toEqual(new Set([OLD, NEW]));
    },
  );
});

describe("a version directory that is copied file by file", () => {
  test("given up half-way and copied again under its number, it is served, and right", async () => {
    const { base, cluster } = await started();
    const from = path.join(base, ".two");
    const to = path.join(base, MODEL, "2");
    writeContent(from, NEW);

    await expectExact(cluster, versionedRequests(MODEL, [1, 2]), async () => {
      await copySlowly(cluster, { from, to }, true);
      rmSync(to, { recursive: true });
      await pause(1500);
      await copySlowly(cluster, { from, to }, false);
      await untilDefault(cluster, { model: MODEL, version: 2 });
      await pause(500);
    });
  });

  test("its status says so while its files change", async () => {
    const { base, cluster } = await started();
    const from = path.join(base, ".two");
    const to = path.join(base, MODEL, "2");
    writeContent(from, NEW);
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
      () => versionOf(cluster.url, MODEL, 2),
      (told) => told?.state === "START" && told.message !== "",
    );
    over.abort();
    await changing;
    expect(status?.message).toMatch(/files of version 2 .* still change/);

    cpSync(from, to, { recursive: true });
    await untilDefault(cluster, { model: MODEL, version: 2 });
  });
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
      () => versionOf(cluster.url, MODEL, 2),
      (status) => status?.state === "END" && /DATA_LOSS|UNAVAILABLE/.test(status.code),
    );
  } else cpSync(path.join(from, DATA_FILE), path.join(to, DATA_FILE));
}
