// A worker as in production: its own compute thread, a SavedModel on disk, real gRPC streams.

import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { StringColumn, silentLogger, systemClock } from "@winnow/core";
import { writeRetrievalModel } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { MembershipHub } from "./doubles/membership-hub.ts";
import { TestRouter } from "./doubles/test-router.ts";
import {
  DIM,
  ROWS,
  USERS,
  bruteForce,
  candidateRows,
  isWhole,
  itemIds,
  keyOf,
  noise,
  tableOf,
  topKAsk,
  until,
  userIds,
  userRows,
} from "./fixtures/whole-worker.ts";
import { startWorker } from "./worker-start.ts";
import type { Worker } from "./worker.ts";

const entry = path.resolve(import.meta.dirname, "../dist/compute/compute-thread.js");

describe.skipIf(!existsSync(entry))("a worker in its own threads (needs a build)", () => {
  let base = "";
  let worker: Worker;
  let client: TestRouter;

  beforeAll(async () => {
    base = await mkdtemp(path.join(tmpdir(), "winnow-worker-"));
    await mkdir(path.join(base, "movies"));
    writeRetrievalModel(path.join(base, "movies", "1"), {
      users: {
        vocabulary: StringColumn.fromText(userIds),
        embedding: { rows: USERS + 1, dim: DIM, pieces: () => [userRows] },
      },
      candidates: { rows: ROWS, dim: DIM, pieces: () => [candidateRows(1)] },
      identifiers: StringColumn.fromText(itemIds),
      k: 10,
    });
    const broken = path.join(base, "movies", "2");
    await mkdir(broken);
    await writeFile(path.join(broken, "saved_model.pb"), "this is no protobuf");
    worker = await startWorker(
      {
        workerId: "w0",
        port: 0,
        modelsPath: base,
        accelerator: "reference",
        memoryBytesMax: 2 ** 28,
        placementQuietMs: 0,
      },
      {
        environment: { clock: systemClock, random: () => 0.5, log: silentLogger },
        membership: new MembershipHub().store(),
      },
    );
    client = new TestRouter([worker.address]);
    await until(() => isWhole(client.announcements[0]));
  });

  afterAll(async () => {
    client.close();
    await worker.close();
    await rm(base, { recursive: true });
  });

  test("(S1) answers as brute force does, bit by bit", async () => {
    const table = await tableOf(client, worker.address, "candidate");
    const query = noise(DIM, 9);

    const found = await client.topK(keyOf(client), table, topKAsk(query, 50));

    expect(found).toEqual(bruteForce(query, 50));
  });

  test("(S7) announces a broken version as failed, with the reason, beside the good one", () => {
    const failed = client.announcements[0]?.versions.find(({ version }) => version === 2);

    expect(failed?.state).toBe("failed");
    expect(failed?.error?.message).toMatch(/saved_model\.pb/);
    expect(worker.isReady).toBe(true);
  });
});
