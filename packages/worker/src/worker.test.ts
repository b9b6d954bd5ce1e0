// Whole workers in this process: models in memory, the reference accelerator, real gRPC streams,
// answers compared with brute force by `===`.

import { createReferenceAccelerator } from "@winnow/accelerator";
import type { Accelerator } from "@winnow/accelerator";
import type { Pong, WorkerLink } from "@winnow/cluster";
import { StringColumn, WinnowError, silentLogger, systemClock } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";

import { computeInProcess } from "./compute/doubles/compute-in-process.ts";
import type { ComputeClient } from "./compute/compute-client.ts";
import { MembershipHub } from "./doubles/membership-hub.ts";
import { MemoryModel } from "./compute/doubles/memory-model.ts";
import { TestRouter } from "./doubles/test-router.ts";
import type { ModelStorage } from "./models/version-watch.ts";
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

/** A disk with version 1 of one model. */
const storage: ModelStorage = {
  directories: async (directory) => (directory === "/models" ? ["movies"] : ["1"]),
  stamp: async () => "a",
  join: (directory, name) => `${directory}/${name}`,
  realPath: async (name) => name,
};

function openModel(): MemoryModel {
  const data = StringColumn.fromText(itemIds);
  const ids: Tensor = { dtype: "string", shape: [ROWS], data };
  const keys = StringColumn.fromText(userIds);
  return new MemoryModel([
    { kind: "strings", rows: USERS + 1, dim: DIM, values: userRows, keys },
    { kind: "candidate", rows: ROWS, dim: DIM, values: candidateRows(1), ids },
  ]);
}

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

interface Started {
  readonly worker: Worker;
  readonly compute: ComputeClient;
}

async function start(
  hub: MembershipHub,
  name: string,
  accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 30 }),
): Promise<Started> {
  const compute = computeInProcess({ openModel, accelerator });
  const worker = await startWorker(
    {
      workerId: name,
      port: 0,
      modelsPath: "/models",
      pollIntervalMs: 30,
      placementQuietMs: 50,
      announceIntervalMs: 10,
      requestDeadlineMsMax: 100,
      drainSettleMs: 100,
      drainAbsentMs: 100,
    },
    {
      environment: { clock: systemClock, random: () => 0.5, log: silentLogger },
      membership: hub.store(),
      startCompute: async () => compute,
      storage,
    },
  );
  cleanups.push(() => worker.close());
  return { worker, compute };
}

function connect(started: readonly Started[]): TestRouter {
  const client = new TestRouter(started.map(({ worker }) => worker.address));
  cleanups.push(() => client.close());
  return client;
}

test("a ping in doubt is reported to membership, and answered like any other", async () => {
  const hub = new MembershipHub();
  const { worker } = await start(hub, "w0");
  const answered: number[] = [];
  const link = {
    routerId: "worker w1",
    announce: () => undefined,
    tellMembers: () => undefined,
    close: () => undefined,
    pong: ({ sequence }: Pong) => answered.push(sequence),
  } as unknown as WorkerLink;
  const handlers = worker.accept(link);

  handlers.onPing(1, true, false);
  const before = hub.doubts;
  handlers.onPing(2, true, true);

  expect([before, hub.doubts]).toEqual([0, 1]);
  expect(answered).toEqual([1, 2]);
});

describe.each([1, 3])("%d worker(s)", (count) => {
  test("(I2, S1) answers over gRPC equal brute force, bit by bit, with and without exclusions", async () => {
    const hub = new MembershipHub();
    const names = ["w0", "w1", "w2"].slice(0, count);
    const started = await Promise.all(names.map((name) => start(hub, name)));
    const client = connect(started);
    await until(() => client.announcements.every((announcement) => isWhole(announcement)));
    const table = await tableOf(client, started[0]!.worker.address, "candidate");
    const key = keyOf(client);

    for (let seed = 0; seed < 8; seed += 1) {
      const query = noise(DIM, seed);
      const excluded = seed % 2 === 0 ? [] : bruteForce(query, 5).map(({ id }) => id);
      const found = await client.topK(key, table, topKAsk(query, 20, excluded));
      expect(found).toEqual(bruteForce(query, 20, { excluded }));
    }
  });

  test("lookups of known and unknown users give their rows in order", async () => {
    const hub = new MembershipHub();
    const names = ["w0", "w1", "w2"].slice(0, count);
    const started = await Promise.all(names.map((name) => start(hub, name)));
    const client = connect(started);
    await until(() => client.announcements.every((announcement) => isWhole(announcement)));
    const table = await tableOf(client, started[0]!.worker.address, "keyed");
    const version = keyOf(client);
    const wanted = new Map(userIds.map((user, index) => [user, index + 1]));

    let answered = 0;
    for (const [at, partitions] of client.plan(1, table).entries()) {
      if (partitions.length === 0) continue;
      for (const user of [...userIds.slice(0, 20), "nobody", ""]) {
        const data = StringColumn.fromText([user]);
        const keys: Tensor = { dtype: "string", shape: [1], data };
        const ask = { kind: "lookup" as const, keys };
        const { answer } = await client.ask(at, { version, table, partitions, ask });
        const row = wanted.get(user) ?? 0;
        const vectors = userRows.slice(row * DIM, (row + 1) * DIM);
        const isHeldHere = answer.kind === "lookup";
        expect(answer).toMatchObject(isHeldHere ? { vectors } : { reason: "INVALID_KEY" });
        answered += Number(isHeldHere);
      }
    }
    expect(answered).toBe(22);
  });
});

test("an order to drain that nobody vouches for is refused, one for another process too; a repeated one is one", async () => {
  const hub = new MembershipHub();
  const { worker } = await start(hub, "w0");
  const { workerId, incarnation } = worker.announcement();
  const order = (meant: object): string =>
    JSON.stringify({ format: 1, cluster: "default", worker: workerId, incarnation, ...meant });

  for (const [signed, isFromMember, code] of [
    [order({}), false, "PERMISSION_DENIED"],
    [order({ worker: "w1" }), true, "FAILED_PRECONDITION"],
    [order({ incarnation: incarnation + 1 }), true, "FAILED_PRECONDITION"],
    [order({ cluster: "other" }), true, "PERMISSION_DENIED"],
    ["{", true, "INVALID_ARGUMENT"],
  ] as const) {
    expect(() => worker.drainOnOrder({ signed, isFromMember })).toThrow(
      expect.objectContaining({ code }),
    );
  }
  expect(worker.announcement().state).not.toBe("draining");

  worker.drainOnOrder({ signed: order({}), isFromMember: true });
  expect(worker.announcement().state).toBe("draining");
  worker.drainOnOrder({ signed: order({}), isFromMember: true });
  await worker.drain();
  expect(await worker.ended).toBeUndefined();
});

test("(I5) a draining worker answers until the others hold its partitions, then sends its routers away", async () => {
  const hub = new MembershipHub();
  const started = await Promise.all(["w0", "w1", "w2"].map((name) => start(hub, name)));
  const client = connect(started);
  await until(() => client.announcements.every((announcement) => isWhole(announcement)));
  const table = await tableOf(client, started[0]!.worker.address, "candidate");
  const key = keyOf(client);
  const query = noise(DIM, 5);
  let asked = 0;

  const drained = started[0]!.worker.drain();
  const load = (async () => {
    while (!client.drained[0]) {
      expect(await client.topK(key, table, topKAsk(query, 10))).toEqual(bruteForce(query, 10));
      asked += 1;
    }
  })();
  await Promise.all([drained, load]);

  expect(await started[0]!.worker.ended).toBeUndefined();
  expect(hub.announcements.size).toBe(2);
  expect(asked).toBeGreaterThan(0);
  const rest = connect(started.slice(1));
  await until(() => rest.announcements.every((announcement) => isWhole(announcement)));
  expect(await rest.topK(key, table, topKAsk(query, 10))).toEqual(bruteForce(query, 10));
});

/** A device that loads, and then answers no search until it is lost, as a GPU may be. */
function frailDevice(): { readonly accelerator: Accelerator; readonly lose: () => void } {
  const sound = createReferenceAccelerator({ capacityBytes: 2 ** 30 });
  const error = new WinnowError("UNAVAILABLE", "The GPU is lost");
  let lose: (error: WinnowError) => void = () => undefined;
  const lost = new Promise<WinnowError>((resolve) => (lose = resolve));
  const accelerator: Accelerator = {
    kind: "gpu",
    device: "frail",
    lost,
    memory: () => sound.memory(),
    load: (shape, chunks, signal) => sound.load(shape, chunks, signal),
    topK: async () => {
      throw await lost;
    },
    filter: (resident, rows) => sound.filter(resident, rows),
    releaseFilter: (filter) => sound.releaseFilter(filter),
    gather: (resident, rows) => sound.gather(resident, rows),
    release: (resident) => sound.release(resident),
    close: () => sound.close(),
  };
  return { accelerator, lose: () => lose(error) };
}

test("a lost device fails what is under way and what waits, then ends the worker and says why", async () => {
  const hub = new MembershipHub();
  const { accelerator, lose } = frailDevice();
  const { worker } = await start(hub, "w0", accelerator);
  const client = new TestRouter([worker.address]);
  cleanups.push(() => client.close());
  await until(() => isWhole(client.announcements[0]));
  const table = await tableOf(client, worker.address, "candidate");
  const version = keyOf(client);
  const partitions = client.plan(version.version, table)[0]!;
  const question = { version, table, partitions, ask: topKAsk(noise(DIM, 3), 7) };
  const asked = [client.ask(0, question), client.ask(0, { ...question, ask: { ...question.ask } })];
  await until(() => hub.announcements.size === 1);

  lose();

  for (const { answer } of await Promise.all(asked)) {
    expect(answer).toMatchObject({ kind: "failure", error: { code: "UNAVAILABLE" } });
  }
  expect(await worker.ended).toMatchObject({ lost: "device", error: { code: "UNAVAILABLE" } });
  await until(() => client.announcements[0] === undefined);
  expect(hub.announcements.size).toBe(0);
  expect(worker.isReady).toBe(false);
});

test("a dead compute side ends the worker: streams break, membership is left, the error is told", async () => {
  const hub = new MembershipHub();
  const { worker, compute } = await start(hub, "w0");
  const client = connect([{ worker, compute }]);
  await until(() => isWhole(client.announcements[0]));

  compute.fail(new Error("exit code 134"));

  expect(await worker.ended).toMatchObject({ lost: "thread", error: { code: "UNAVAILABLE" } });
  await until(() => client.announcements[0] === undefined);
  expect(hub.announcements.size).toBe(0);
});
