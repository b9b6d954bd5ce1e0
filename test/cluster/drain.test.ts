// `winnow drain` on real processes: a worker that is told hands over and ends without a lost request; orders that
// nobody of the cluster wrote, or that mean another process, change nothing.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { ClusterSecret, GrpcConnector, noSecret, signDrain } from "@winnow/cluster";
import type { Incarnation, WorkerId } from "@winnow/core";
import { systemClock } from "@winnow/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunningCluster, pause, repositoryRoot } from "./running-cluster.ts";
import { expectExact, untilReplicated } from "./served-model.ts";
import { publishVersion, versionedRequests } from "./written-versions.ts";

const MODEL = "movies";
const KEY = "the secret of this test, for drains";
const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const root = mkdtempSync(path.join(tmpdir(), "winnow-drain-"));
const secretFile = path.join(root, "secrets");
const models = path.join(root, "models");
let cluster: RunningCluster;

interface Ran {
  readonly code: number;
  readonly output: string;
}

function drain(worker: string, ...args: readonly string[]): Promise<Ran> {
  const members = ["--members", cluster.members.join(",")];
  const child = spawn(process.execPath, [script, "drain", worker, ...members, ...args]);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (data: Buffer) => (output += data.toString("utf8")));
  }
  return new Promise((resolve) => {
    child.on("close", (code) => resolve({ code: code ?? -1, output }));
  });
}

/** Sends a worker any text as an order to drain. */
async function send(worker: number, signed: string): Promise<void> {
  const connector = new GrpcConnector(systemClock);
  try {
    await connector.drainWorker(cluster.members[worker]!.split("@")[1]!, signed, 5000);
  } finally {
    connector.close();
  }
}

const trusted = (key: string) => ({
  cluster: "default",
  secret: new ClusterSecret({ cluster: "default", keys: [key], acceptsUnsigned: false }),
});

beforeAll(async () => {
  writeFileSync(secretFile, `${KEY}\n`);
  publishVersion(models, { model: MODEL, version: 1 });
  cluster = await RunningCluster.start({
    models,
    workers: 3,
    replication: 2,
    workerArgs: ["--cluster-secret-file", secretFile],
    routerArgs: ["--router-table-bytes", "0", "--cluster-secret-file", secretFile],
  });
  await cluster.loaded([MODEL]);
  await untilReplicated(cluster, ["w0", "w1", "w2"], { model: MODEL, version: 1 });
});

afterAll(async () => {
  await cluster.stop();
  rmSync(root, { recursive: true, force: true });
});

describe("an order to drain", () => {
  test("that is not signed with the cluster's secret is refused, and nothing drains", async () => {
    const { incarnation } = (await cluster.announcement("w1"))!;
    const target = { workerId: "w1" as WorkerId, incarnation };

    await expect(
      send(1, signDrain(target, { cluster: "default", secret: noSecret() })),
    ).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    await expect(
      send(1, signDrain(target, trusted("quite another secret than that"))),
    ).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    expect((await cluster.announcement("w1"))?.state).toBe("ready");
  });

  test("for another process is refused: one that was recorded ends no later one", async () => {
    const { incarnation } = (await cluster.announcement("w1"))!;
    const former = { workerId: "w1" as WorkerId, incarnation: (incarnation - 1) as Incarnation };

    await expect(send(1, signDrain(former, trusted(KEY)))).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
    });
    await expect(
      send(1, signDrain({ workerId: "w2" as WorkerId, incarnation }, trusted(KEY))),
    ).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    expect((await cluster.announcement("w1"))?.state).toBe("ready");
  });
});

describe("winnow drain", () => {
  test("names the workers that there are where it knows none of that name", async () => {
    const { code, output } = await drain("w9", "--cluster-secret-file", secretFile);

    expect(code).not.toBe(0);
    expect(output).toContain('no worker "w9"; there are w0, w1, w2');
  });

  test("(I5, L1) has a worker hand over and end without a lost request", async () => {
    let ran: Ran | undefined;
    await expectExact(cluster, versionedRequests(MODEL, [1]), async () => {
      ran = await drain("w0", "--cluster-secret-file", secretFile);
      await pause(500);
    });

    expect(ran?.output).toMatch(/w0 drains: .*\n(?:.*\n)*w0 has left after [\d.]+ s/);
    expect(ran?.code).toBe(0);
    expect(await cluster.ended("w0")).toBe(0);
    expect(cluster.events("w0", "drain ordered", "drained uncovered partitions")).toMatchObject([
      { msg: "drain ordered", workerId: "w0" },
    ]);
  });

  test("refuses to drain the last worker that is ready", async () => {
    cluster.signal("w1", "SIGKILL");
    await cluster.ended("w1");
    await expect
      .poll(async () => (await drain("w2", "--cluster-secret-file", secretFile)).output, {
        timeout: 30_000,
      })
      .toContain("No other worker is ready to take over from w2");
    expect((await cluster.announcement("w2"))?.state).toBe("ready");
  });
});
