// Model versions while workers die, return, join, leave, or are too small: no request fails, and no
// answer is of another version than it says.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import {
  type ClusterShape,
  type LoggedEvent,
  type RunningCluster,
  pause,
} from "./running-cluster.ts";
import {
  eventually,
  predict,
  expectExact,
  untilDefault,
  untilReplicated,
  versionOf,
} from "./served-model.ts";
import { type VersionedCluster, WORKERS, startVersioned } from "./versioned-cluster.ts";
import {
  VOCABULARY_FILE,
  cutVocabulary,
  publishVersion,
  swapUsers,
  versionedRequests,
} from "./written-versions.ts";

const answers = versionedRequests("movies", [1, 2]);

let started: VersionedCluster | undefined;
let base = "";
let cluster: RunningCluster;
let redis: RedisProcess | undefined;

async function start(models: readonly string[], shape: Partial<ClusterShape> = {}): Promise<void> {
  started = await startVersioned(models, shape);
  ({ base, cluster } = started);
}

/** All three workers hold what they are to hold of version 1. */
const wholeOnAll = (model: string): Promise<void> =>
  untilReplicated(cluster, WORKERS, { model, version: 1 });

async function end(): Promise<void> {
  await started?.end();
  await redis?.kill();
  started = undefined;
  redis = undefined;
}

describe("versions while workers die and return", () => {
  // One cluster: each test rolls out a model of its own, and leaves every worker running and the cluster whole.
  beforeAll(() => start(["movies", "films"]));
  afterAll(end);

  test("L1: a worker killed in the middle of a roll-out fails no request, and the roll-out ends", async () => {
    await wholeOnAll("movies");
    await expectExact(cluster, answers, async () => {
      await pause(500);
      publishVersion(base, { model: "movies", version: 2 });
      while (!cluster.events("w1", "version opened").some(isSecondOfMovies)) {
        await pause(2);
      }
      cluster.signal("w1", "SIGKILL");
      await cluster.ended("w1");
      await pause(500);
      cluster.restart("w1");
      await untilDefault(cluster, { model: "movies", version: 2 });
      await untilReplicated(cluster, WORKERS, { model: "movies", version: 2 });
      await pause(500);
    });
  });

  test("a worker that was away for the roll-out loads what serves first; only then the newer one takes over", async () => {
    await wholeOnAll("films");
    await expectExact(cluster, versionedRequests("films", [1, 2]), async () => {
      await pause(1000);
      cluster.signal("w1", "SIGKILL");
      await cluster.ended("w1");
      publishVersion(base, { model: "films", version: 2 });
      await eventually(
        cluster,
        () => versionOf(cluster.url, "films", 2),
        (told) => told?.state === "AVAILABLE",
      );
      await pause(4000);
      expect((await predict(cluster.url, { model: "films" })).version).toBe("1");
      expect((await predict(cluster.url, { model: "films", version: 2 })).version).toBe("2");

      cluster.restart("w1");
      await untilDefault(cluster, { model: "films", version: 2 });
      await untilReplicated(cluster, WORKERS, { model: "films", version: 2 });
    });

    const events = cluster.events("w1", "worker listening", "assignment loaded");
    const life = events.slice(events.findLastIndex(({ msg }) => msg === "worker listening"));
    const loaded = life.filter(({ model }) => model === "films");
    expect(loaded.map(({ version }) => version)).toEqual([1, 2]);
  });
});

function isSecondOfMovies({ model, version }: LoggedEvent): boolean {
  return model === "movies" && version === 2;
}

describe("a worker whose own copy of a version is another one", () => {
  let apart = "";

  // One cluster, whose second worker has models of its own, alike at first. Its copies of a version of each are spoilt,
  // and mended.
  beforeAll(async () => {
    apart = mkdtempSync(path.join(tmpdir(), "winnow-apart-"));
    for (const model of ["movies", "films"]) publishVersion(apart, { model, version: 1 });
    await start(["movies", "films"], { argsOf: { w1: ["--models", apart] } });
  });
  afterAll(async () => {
    await end();
    rmSync(apart, { recursive: true, force: true });
  });

  const SPOILT = [
    // Cut at a line, and with two lines swapped, which no load can find.
    { model: "movies", spoil: cutVocabulary(60), told: /w1: .*60 entries where 120 belong/ },
    { model: "films", spoil: swapUsers, told: /(?:)/ },
  ];

  test("S7: spoilt vocabularies: their replicas are never asked, and the versions do not take over", async () => {
    for (const { model } of SPOILT) await wholeOnAll(model);
    const known = SPOILT.flatMap(({ model }) => versionedRequests(model, [1, 2]));
    const { versions } = await expectExact(cluster, known, async () => {
      for (const { model, spoil } of SPOILT) {
        publishVersion(base, { model, version: 2 });
        publishVersion(apart, { model, version: 2, spoil });
      }
      for (const { model, told } of SPOILT) {
        await eventually(
          cluster,
          () => versionOf(cluster.url, model, 2),
          (seen) => seen?.state === "AVAILABLE" && told.test(seen.message),
        );
      }
      await pause(3000);
    });
    expect(new Set(versions.map(({ version }) => version))).toEqual(new Set(["1"]));

    for (const { model } of SPOILT) {
      // "user 0", who is one of those that the spoilt copy takes for another.
      const { expected } = versionedRequests(model, [2])[0]!;
      for (let count = 0; count < 20; count += 1) {
        const { status, version, text } = await predict(cluster.url, { model, version: 2 });
        expect(status).toBe(200);
        expect(typeof expected === "function" && expected({ version: version!, text })).toBe(true);
      }

      // Its copy is mended, and that is seen although nothing but an asset changes.
      cpSync(
        path.join(base, model, "2", VOCABULARY_FILE),
        path.join(apart, model, "2", VOCABULARY_FILE),
      );
    }
    await expectExact(cluster, known, async () => {
      for (const { model } of SPOILT) await untilDefault(cluster, { model, version: 2 });
    });
  });
});

describe.skipIf(!hasRedisServer)("versions while workers join and leave", () => {
  beforeEach(async () => {
    redis = await RedisProcess.start();
    await start(["movies"], { redis: redis.url });
    await wholeOnAll("movies");
  });
  afterEach(end);

  test("L1: a fourth worker takes its share, another leaves, a version takes over, and no request fails", async () => {
    await expectExact(cluster, answers, async () => {
      await cluster.addWorker("w3");
      await eventually(
        cluster,
        () => cluster.announcement("w3"),
        (told) =>
          told?.versions.some(
            ({ state, tables }) => state === "ready" && tables.some(({ held }) => held.length > 0),
          ) === true,
      );
      await untilReplicated(cluster, [...WORKERS, "w3"], { model: "movies", version: 1 });
      cluster.signal("w0", "SIGTERM");
      expect(await cluster.ended("w0")).toBe(0);
      await untilReplicated(cluster, ["w1", "w2", "w3"], { model: "movies", version: 1 });
      publishVersion(base, { model: "movies", version: 2 });
      await untilDefault(cluster, { model: "movies", version: 2 });
      await untilReplicated(cluster, ["w1", "w2", "w3"], { model: "movies", version: 2 });
      await pause(500);
    });
  });
});

describe("a worker whose memory is too small for its share", () => {
  afterEach(end);

  test("(R1) refuses it with a reason that names bytes, and the others keep every partition", async () => {
    await start(["movies"], { argsOf: { w0: ["--memory-bytes", "20000"] } });

    const told = await eventually(
      cluster,
      () => cluster.announcement("w0"),
      (each) => each?.versions[0]?.error !== undefined,
    );

    expect(told?.versions[0]?.error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(told?.versions[0]?.error?.message).toMatch(/\d+ bytes are still to load, \d+ are free/);
    expect(cluster.events("w0", "version refused")).toMatchObject([
      { message: expect.stringMatching(/bytes are still to load/) as string },
    ]);
    expect(await versionOf(cluster.url, "movies", 1)).toMatchObject({
      state: "AVAILABLE",
      message: expect.stringMatching(/w0.*bytes are still to load/) as string,
    });
    await expectExact(cluster, answers, () => pause(1500));
  });

  test("keeps the version that serves when a newer one does not fit beside it, and the status says so", async () => {
    const small = { argsOf: { w0: ["--memory-bytes", "450000"] }, partitionBytes: 8192 };
    await start(["movies"], small);
    await wholeOnAll("movies");

    await expectExact(cluster, answers, async () => {
      publishVersion(base, { model: "movies", version: 2 });
      await eventually(
        cluster,
        () => versionOf(cluster.url, "movies", 2),
        (told) => /w0.*bytes are still to load/.test(told?.message ?? ""),
      );
      await pause(1500);
    });

    expect((await predict(cluster.url, { model: "movies" })).version).toBe("1");
  });
});
