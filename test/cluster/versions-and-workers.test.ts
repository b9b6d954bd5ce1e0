// Model versions while workers die, return, join, leave, or are too small: no request fails, and no
// answer is of another version than it says.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { type ClusterShape, type RunningCluster, pause } from "./running-cluster.ts";
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

async function start(shape: Partial<ClusterShape> = {}): Promise<void> {
  started = await startVersioned(["movies"], shape);
  ({ base, cluster } = started);
}

/** All three workers hold what they are to hold of version 1. */
const wholeOnAll = (): Promise<void> =>
  untilReplicated(cluster, WORKERS, { model: "movies", version: 1 });

afterEach(async () => {
  await started?.end();
  await redis?.kill();
  started = undefined;
  redis = undefined;
});

describe("versions while workers die and return", () => {
  beforeEach(async () => {
    await start();
    await wholeOnAll();
  });

  test("L1: a worker killed in the middle of a roll-out fails no request, and the roll-out ends", async () => {
    await expectExact(cluster, answers, async () => {
      await pause(500);
      publishVersion(base, { model: "movies", version: 2 });
      while (!cluster.events("w1", "version opened").some(({ version }) => version === 2)) {
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
    await expectExact(cluster, answers, async () => {
      await pause(1000);
      cluster.signal("w1", "SIGKILL");
      await cluster.ended("w1");
      publishVersion(base, { model: "movies", version: 2 });
      await eventually(
        cluster,
        () => versionOf(cluster.url, "movies", 2),
        (told) => told?.state === "AVAILABLE",
      );
      await pause(4000);
      expect((await predict(cluster.url, { model: "movies" })).version).toBe("1");
      expect((await predict(cluster.url, { model: "movies", version: 2 })).version).toBe("2");

      cluster.restart("w1");
      await untilDefault(cluster, { model: "movies", version: 2 });
      await untilReplicated(cluster, WORKERS, { model: "movies", version: 2 });
    });

    const events = cluster.events("w1", "worker listening", "assignment loaded");
    const life = events.slice(events.findLastIndex(({ msg }) => msg === "worker listening"));
    expect(life.slice(1).map(({ version }) => version)).toEqual([1, 2]);
  });
});

describe("a worker whose own copy of a version is another one", () => {
  /** Starts a cluster whose second worker has models of its own, alike at first. */
  async function startApart(): Promise<string> {
    const apart = mkdtempSync(path.join(tmpdir(), "winnow-apart-"));
    publishVersion(apart, { model: "movies", version: 1 });
    await start({ argsOf: { w1: ["--models", apart] } });
    await wholeOnAll();
    return apart;
  }

  test.each([
    ["a vocabulary cut at a line", cutVocabulary(60), /w1: .*60 entries where 120 belong/],
    ["a vocabulary with two lines swapped", swapUsers, undefined],
  ] as const)(
    "S7: %s: its replicas are never asked, and the version does not take over",
    async (_, spoil, failure) => {
      const apart = await startApart();
      const { versions } = await expectExact(cluster, answers, async () => {
        publishVersion(base, { model: "movies", version: 2 });
        publishVersion(apart, { model: "movies", version: 2, spoil });
        await eventually(
          cluster,
          () => versionOf(cluster.url, "movies", 2),
          (told) =>
            told?.state === "AVAILABLE" && (failure === undefined || failure.test(told.message)),
        );
        await pause(3000);
      });
      expect(new Set(versions.map(({ version }) => version))).toEqual(new Set(["1"]));

      // "user 0", who is one of those that the spoilt copy takes for another.
      const { expected } = versionedRequests("movies", [2])[0]!;
      for (let count = 0; count < 20; count += 1) {
        const { status, version, text } = await predict(cluster.url, {
          model: "movies",
          version: 2,
        });
        expect(status).toBe(200);
        expect(typeof expected === "function" && expected({ version: version!, text })).toBe(true);
      }

      // Its copy is mended, and that is seen although nothing but an asset changes.
      cpSync(
        path.join(base, "movies/2", VOCABULARY_FILE),
        path.join(apart, "movies/2", VOCABULARY_FILE),
      );
      await expectExact(cluster, answers, () =>
        untilDefault(cluster, { model: "movies", version: 2 }),
      );
      rmSync(apart, { recursive: true, force: true });
    },
  );
});

describe.skipIf(!hasRedisServer)("versions while workers join and leave", () => {
  beforeEach(async () => {
    redis = await RedisProcess.start();
    await start({ redis: redis.url });
    await wholeOnAll();
  });

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
  test("(R1) refuses it with a reason that names bytes, and the others keep every partition", async () => {
    await start({ argsOf: { w0: ["--memory-bytes", "20000"] } });

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
    await start({ argsOf: { w0: ["--memory-bytes", "450000"] } });
    await wholeOnAll();

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
