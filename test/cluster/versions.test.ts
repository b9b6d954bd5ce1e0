// The life of model versions on a cluster of real processes: they appear, take over, are spoiled,
// deleted, do not fit; workers die, return, join and leave meanwhile. Two versions differ in every
// item, so that an answer made of both could not be missed.

import { cpSync, mkdirSync, renameSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RunningCluster, pause } from "./running-cluster.ts";
import {
  type Predicted,
  eventually,
  memoryOf,
  predict,
  expectExact,
  untilDefault,
  untilReplicated,
  versionOf,
  versionsOf,
} from "./served-model.ts";
import { type VersionedCluster, WORKERS, startVersioned } from "./versioned-cluster.ts";
import {
  DATA_FILE,
  type Spoil,
  VOCABULARY_FILE,
  cut,
  cutVocabulary,
  flip,
  listed,
  notANumber,
  publishVersion,
  remove,
  rename,
  swapUsers,
  unreadable,
  versionedRequests,
} from "./written-versions.ts";

const answers = versionedRequests("movies", [1, 2]);

/** Ways to spoil versions of `movies`, by number, and what the status must name. */
const SPOILT: ReadonlyMap<number, { readonly spoil: Spoil; readonly names: RegExp }> = new Map([
  [3, { spoil: cut(DATA_FILE, 0.5), names: /variables\.data-00000-of-00001/ }],
  [4, { spoil: flip(DATA_FILE, 0.3), names: /candidates.*variables\.data-00000-of-00001/ }],
  [5, { spoil: flip("variables/variables.index", 0.4), names: /variables\.index/ }],
  [6, { spoil: notANumber(6, 700), names: /candidates.*row 700|row 700.*candidates/ }],
  [7, { spoil: cut("saved_model.pb", 0.6), names: /saved_model\.pb/ }],
  [8, { spoil: remove("assets"), names: /assets|vocab/ }],
  [9, { spoil: rename("TopKV2", "TopKV9"), names: /TopKV9/ }],
  [10, { spoil: unreadable("saved_model.pb"), names: /saved_model\.pb/ }],
  [13, { spoil: cutVocabulary(60), names: /lookup_table\.txt has 60 entries where 120 belong/ }],
  [14, { spoil: cut(VOCABULARY_FILE, 0.5), names: /lookup_table\.txt has \d+ entries where 120/ }],
  [15, { spoil: cutVocabulary(0), names: /lookup_table\.txt.* holds no line/ }],
  [
    16,
    { spoil: cutVocabulary(120, "user 11".length), names: /"user 11" leads to rows 12 and 120/ },
  ],
  [
    17,
    { spoil: listed(swapUsers), names: /lookup_table\.txt is not the file that SHA256SUMS lists/ },
  ],
]);

/** How long the memory of all workers stays as it is once partitions have stopped moving. */
const STEADY_MS = 2000;

let started: VersionedCluster | undefined;
let base = "";
let cluster: RunningCluster;

describe("versions of a cluster that nothing else happens to", () => {
  let memoryBefore: (number | undefined)[] = [];
  /** What version 1 answered, pinned, just after version 2 had taken over. */
  let pinned: Predicted | undefined;

  beforeAll(async () => {
    started = await startVersioned(["movies"]);
    ({ base, cluster } = started);
    mkdirSync(path.join(base, "empty"));
    // No number that a version of the movies has: models with the same rows may share their memory.
    publishVersion(base, { model: "films", version: 7 });
    await cluster.loaded(["films"]);
    await untilReplicated(cluster, WORKERS, { model: "movies", version: 1 });
    await untilReplicated(cluster, WORKERS, { model: "films", version: 7 });
    // A worker that was found last takes its share from the others after that.
    const isSteady = async (): Promise<boolean> => {
      memoryBefore = await memoryOf(cluster, WORKERS);
      await pause(STEADY_MS);
      return JSON.stringify(await memoryOf(cluster, WORKERS)) === JSON.stringify(memoryBefore);
    };
    await eventually(cluster, isSteady, (is) => is);
  });
  afterAll(() => started?.end());

  test("S2: version 2 takes over under load; every answer is one version's, and no old one follows a new one", async () => {
    const { versions } = await expectExact(cluster, answers, async () => {
      await pause(1000);
      publishVersion(base, { model: "movies", version: 2 });
      await untilDefault(cluster, { model: "movies", version: 2 });
      // Now: when a busy machine has answered all the load, the old version may have been unloaded.
      pinned = await predict(cluster.url, { model: "movies", version: 1 });
      await pause(1500);
    });

    const told = new Set(versions.map(({ version }) => version));
    expect([...told].toSorted()).toEqual(["1", "2"]);
    const flipMs = Math.min(
      ...versions.filter(({ version }) => version === "2").map(({ answeredMs }) => answeredMs),
    );
    const late = versions.filter(({ version, sentMs }) => version === "1" && sentMs > flipMs);
    expect(late).toEqual([]);
  });

  test("S4: the old version answers where it is pinned until it is unloaded; others are not touched", async () => {
    expect(pinned).toMatchObject({ status: 200, version: "1" });
    expect(pinned!.text).toContain("v01 item");
    expect((await predict(cluster.url, { model: "movies", version: 11 })).status).toBe(404);
    expect(await versionsOf(cluster.url, "films")).toMatchObject([
      { version: "7", state: "AVAILABLE", code: "OK" },
    ]);
  });

  test("S7: spoilt versions are never asked, and the status says what is wrong with each", async () => {
    const { versions } = await expectExact(cluster, answers, async () => {
      for (const [version, { spoil }] of SPOILT) {
        publishVersion(base, { model: "movies", version, spoil });
      }
      for (const [version, { names }] of SPOILT) {
        await eventually(
          cluster,
          () => versionOf(cluster.url, "movies", version),
          (told) => told?.state === "END" && names.test(told.message),
        );
        // While a worker just tries it again, it is a 503.
        await eventually(
          cluster,
          () => predict(cluster.url, { model: "movies", version }),
          ({ status }) => {
            expect([404, 503]).toContain(status);
            return status === 404;
          },
        );
      }
      await pause(2000);
    });
    expect(new Set(versions.map(({ version }) => version))).toEqual(new Set(["2"]));

    for (const [version] of SPOILT) {
      // A worker may just be trying one of them again.
      await eventually(
        cluster,
        () => versionOf(cluster.url, "movies", version),
        (told) => told?.state === "END" && told.code !== "OK",
      );
    }
    expect(await versionOf(cluster.url, "movies", 2)).toMatchObject({ state: "AVAILABLE" });
    expect((await predict(cluster.url, { model: "films" })).version).toBe("7");
  });

  test("S7: a good version after spoilt ones takes over", async () => {
    publishVersion(base, { model: "movies", version: 20 });

    await untilDefault(cluster, { model: "movies", version: 20 });

    expect((await predict(cluster.url, { model: "movies" })).text).toContain("v20 item");
  });

  test("L4: what is not served is unloaded in the end, spoilt versions too, and all memory returns", async () => {
    await eventually(
      cluster,
      () => predict(cluster.url, { model: "movies", version: 1 }),
      ({ status }) => status === 404,
    );
    // It is not found as soon as all workers give it up, and has ended once they have.
    const told = await eventually(
      cluster,
      () => versionOf(cluster.url, "movies", 1),
      (version) => version?.state !== "UNLOADING",
    );
    expect(told?.state ?? "END").toBe("END");
    await eventually(
      cluster,
      async () => [await memoryOf(cluster, WORKERS), memoryBefore],
      ([bytes, before]) => JSON.stringify(bytes) === JSON.stringify(before),
    );
  });

  test("a model without any version is a 404 with a reason in the log", async () => {
    const status = await fetch(`${cluster.url}/v1/models/empty`);

    expect(status.status).toBe(404);
    expect(await status.text()).toContain("empty");
    expect((await predict(cluster.url, { model: "empty" })).status).toBe(404);
    expect(cluster.events("w0", "model directory incomplete")).toContainEqual(
      expect.objectContaining({
        model: "empty",
        problem: expect.stringContaining("No versions of servable empty found") as string,
      }),
    );
  });

  test("a version that is copied file by file is taken up once it is complete", async () => {
    const files = ["saved_model.pb", "variables/variables.index", DATA_FILE, "assets"];
    publishVersion(base, { model: ".aside", version: 1 });
    const from = path.join(base, ".aside", "1");
    const to = path.join(base, "late", "1");
    mkdirSync(path.join(to, "variables"), { recursive: true });
    await pause(1500);
    for (const file of files) {
      cpSync(path.join(from, file), path.join(to, file), { recursive: true });
      await pause(1500);
    }

    await untilDefault(cluster, { model: "late", version: 1 });
    expect((await predict(cluster.url, { model: "late" })).status).toBe(200);
  });

  test("a version deleted while it serves gives way to the one before it, without a failed request", async () => {
    publishVersion(base, { model: "films", version: 8 });
    await untilDefault(cluster, { model: "films", version: 8 });

    await expectExact(cluster, versionedRequests("films", [7, 8]), async () => {
      await pause(500);
      renameSync(path.join(base, "films", "8"), path.join(base, ".gone"));
      await untilDefault(cluster, { model: "films", version: 7 });
      await pause(1000);
    });
  });
});
