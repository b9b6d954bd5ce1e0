// What a router tells of a cluster of real processes that loses a worker, gets it back, and is given a version
// that cannot be read and one that can.

import { spawnSync } from "node:child_process";
import path from "node:path";
import type { ClusterReport } from "@winnow/router";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { eventually, predict, untilReplicated } from "./served-model.ts";
import { type VersionedCluster, WORKERS, startVersioned } from "./versioned-cluster.ts";
import { cut, publishVersion } from "./written-versions.ts";

/** ARCHITECTURE.md: a member of a fixed list that is frozen is left out after so long, at most. */
const LEFT_OUT_MS = 4300;
/** By how much a machine that has more to do may be late. */
const LOADED_MACHINE = 10;

let started: VersionedCluster | undefined;
let cluster: RunningCluster;

beforeAll(async () => {
  started = await startVersioned(["movies"]);
  ({ cluster } = started);
  await untilReplicated(cluster, WORKERS, { model: "movies", version: 1 });
});
afterAll(() => started?.end());

async function reportOf(url: string): Promise<ClusterReport> {
  const response = await fetch(`${url}/v1/cluster`);
  return (await response.json()) as ClusterReport;
}

const untilReport = (isRight: (report: ClusterReport) => boolean): Promise<ClusterReport> =>
  eventually(cluster, () => reportOf(cluster.url), isRight);
/** `winnow status`, as a script runs it. */
function winnowStatus(...args: readonly string[]): { code: number | null; stdout: string } {
  const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
  const env = { ...process.env, NO_COLOR: "1" };
  const command = [script, "status", cluster.url, ...args];
  const { status: code, stdout } = spawnSync(process.execPath, command, { encoding: "utf8", env });
  return { code, stdout };
}

const textsOf = ({ events }: ClusterReport): string[] => events.map(({ text }) => text);

describe("the report of a running cluster", () => {
  test("says that all is well, and tells requests with their stages", async () => {
    await untilReport(({ health }) => health.severity === "ok");
    for (let each = 0; each < 5; each += 1) await predict(cluster.url, { model: "movies" });
    await predict(cluster.url, { model: "films" });

    const { router, slowRequests, workers, models } = await untilReport(
      ({ router: { traffic } }) => traffic.requests >= 6,
    );

    // On a machine that has more to do, a worker may be suspected for a moment.
    const { stdout } = await eventually(
      cluster,
      async () => winnowStatus(),
      ({ code }) => code === 0,
    );
    expect(stdout).toMatch(/^ok +All 3 workers answer, and the model is fully replicated\n/);
    expect(stdout).toMatch(/^w2 +ready /m);
    expect(router.traffic.failures).toEqual({ NOT_FOUND: 1 });
    expect(router.settings).toMatchObject({ routerTableBytesMax: 0, kMax: 4096 });
    expect(router.changedSettings).toContain("routerTableBytesMax");
    const answered = slowRequests.filter(({ code }) => code === "OK");
    expect(answered).toHaveLength(5);
    expect(answered[0]!.stages).toMatchObject({
      lookup: expect.any(Number) as number,
      topK: expect.any(Number) as number,
    });
    expect(
      workers.map(({ condition, memoryUsedBytes }) => [condition, memoryUsedBytes > 0]),
    ).toEqual(WORKERS.map(() => ["ready", true]));
    const tables = models[0]!.versions[0]!.tables;
    const replicas = tables.flatMap((table) => table.replicas!);
    expect(replicas.length).toBeGreaterThan(2);
    expect(Math.min(...replicas.map(({ length }) => length))).toBe(2);
  });

  test("tells a worker that is killed, and its return", async () => {
    cluster.signal("w1", "SIGKILL");
    const lost = await untilReport(({ health }) => health.severity !== "ok");
    const told = await untilReport((report) =>
      textsOf(report).includes("Worker w1 cannot be reached"),
    );
    const text = winnowStatus();
    const json = winnowStatus("--json");
    cluster.restart("w1");
    const back = await untilReport(({ health }) => health.severity === "ok");

    expect([text.code, json.code]).toEqual([1, 1]);
    expect(text.stdout).toMatch(/^degraded +Worker w1 cannot be reached/);
    expect(text.stdout).toMatch(/^w1 +unreachable /m);
    expect(JSON.parse(json.stdout)).toMatchObject({ health: { severity: "degraded" } });
    expect(lost.health.severity).toBe("degraded");
    expect(told.health.sentence).toMatch(/^Worker w1 cannot be reached: last heard \d/);
    expect(told.health.remedy).toContain("log of w1");
    expect(told.workers[1]).toMatchObject({ id: "w1", condition: "unreachable", replicas: 0 });
    expect(told.models[0]!.answers).toBe(true);
    expect(textsOf(back)).toContainEqual(
      expect.stringMatching(/^Worker w1 was started again and (starts|is ready)$/),
    );
  });

  test("L1: a worker that stands still is left out, fails no request, and is asked again once it goes on", async () => {
    const of = ({ workers }: ClusterReport, id: string) => workers.find((each) => each.id === id);
    cluster.signal("w2", "SIGSTOP");
    const frozenAtMs = Date.now();
    const answers = [];
    try {
      await untilReport((report) => of(report, "w2")?.condition === "unreachable");
      const leftOutMs = Date.now() - frozenAtMs;
      for (let each = 0; each < 10; each += 1) {
        answers.push(await predict(cluster.url, { model: "movies" }));
      }
      const others = await reportOf(cluster.url);

      expect(leftOutMs).toBeLessThan(LOADED_MACHINE * LEFT_OUT_MS);
      expect(of(others, "w0")?.condition).toBe("ready");
      expect(of(others, "w1")?.condition).toBe("ready");
    } finally {
      cluster.signal("w2", "SIGCONT");
    }
    const back = await untilReport(({ health }) => health.severity === "ok");

    expect(answers.map(({ version }) => version)).toEqual(answers.map(() => "1"));
    expect(of(back, "w2")).toMatchObject({ condition: "ready" });
    expect(textsOf(back)).not.toContain("Worker w2 was started again and is ready");
  });

  test("tells a version that cannot be read, and the next one becoming the default", async () => {
    const { base } = started!;
    publishVersion(base, { model: "movies", version: 2, spoil: cut("saved_model.pb", 0.6) });
    const spoilt = await untilReport(({ health }) => health.sentence.includes("movies/2 failed"));
    publishVersion(base, { model: "movies", version: 3 });
    const moved = await untilReport(({ models }) => models[0]!.defaultVersion === 3);

    expect(spoilt.health).toMatchObject({ severity: "degraded" });
    expect(spoilt.health.sentence).toContain("version 1 goes on answering");
    expect(spoilt.health.sentence).toContain("saved_model.pb");
    expect(spoilt.health.remedy).toContain("winnow inspect");
    expect(textsOf(moved)).toContain("movies/3 answers by default, after version 1");
  });
});
