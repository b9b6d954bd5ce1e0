// A router and three workers in this process: a written SavedModel, compute threads, real gRPC
// streams, membership by a list. Answers are compared with brute force by `===`, also while a worker
// is closed, drained, and while a newer version takes over.

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { canonicalScore, createDenseEngine, widenQueries } from "@winnow/accelerator";
import { GrpcConnector, StaticMembership } from "@winnow/cluster";
import { StringColumn, stringTensor, systemClock, workerId } from "@winnow/core";
import { writeRetrievalModel } from "@winnow/model-writer";
import { RequestContext, createHttpServer, createRouter } from "@winnow/router";
import type { Prediction, PredictRequest, Router } from "@winnow/router";
import { startWorker } from "@winnow/worker";
import type { Worker } from "@winnow/worker";
import { afterAll, beforeAll, expect, test } from "vitest";
import { seededEnvironment as environment } from "./doubles/seeded-environment.ts";
import { supplyPorts } from "./port-supply.ts";

const ROWS = 900;
const DIM = 8;
const USERS = 200;
const K = 10;

/** Numbers as uneven as float32 can be, the same in every run. */
function noise(count: number, seed: number): Float32Array {
  return Float32Array.from({ length: count }, (_, index) => Math.sin(index * 12.9898 + seed) * 3);
}

const userRows = noise((USERS + 1) * DIM, 5);
let base = "";
let router: Router;
const workers = new Map<string, Worker>();
const addresses: { readonly workerId: ReturnType<typeof workerId>; readonly address: string }[] =
  [];
const closings: (() => Promise<void> | void)[] = [];

async function writeVersion(version: number): Promise<void> {
  const directory = path.join(base, "movies", String(version));
  await mkdir(path.dirname(directory), { recursive: true });
  writeRetrievalModel(directory, {
    users: {
      vocabulary: StringColumn.fromText(Array.from({ length: USERS }, (_, user) => `user ${user}`)),
      embedding: { rows: USERS + 1, dim: DIM, pieces: () => [userRows] },
    },
    candidates: { rows: ROWS, dim: DIM, pieces: () => [noise(ROWS * DIM, version)] },
    identifiers: StringColumn.fromText(Array.from({ length: ROWS }, (_, row) => `movie ${row}`)),
    k: K,
  });
}

/** What one process with the whole table would answer; user row 0 is everybody unknown. */
function expected(
  version: number,
  user: number,
  wishes: { k?: number; excluded?: readonly string[] } = {},
): { scores: number[]; ids: string[] } {
  const { k = K, excluded = [] } = wishes;
  const vector = userRows.slice((user + 1) * DIM, (user + 2) * DIM);
  const rows = noise(ROWS * DIM, version);
  const [query] = widenQueries(vector, DIM);
  const all = Array.from({ length: ROWS }, (_, row) => ({
    id: `movie ${row}`,
    row,
    score: canonicalScore(query!, rows, row * DIM),
  }));
  const best = all
    .filter(({ id }) => !excluded.includes(id))
    .toSorted((a, b) => b.score - a.score || a.row - b.row)
    .slice(0, k);
  return { scores: best.map(({ score }) => score), ids: best.map(({ id }) => id) };
}

async function ask(
  user: string,
  more: Partial<PredictRequest> & { readonly version?: number } = {},
): Promise<{ version: number; scores: number[]; ids: string[] }> {
  const { version, ...request } = more;
  const pinned = await router.pin({ model: "movies", version });
  const context = new RequestContext(systemClock, { timeoutMs: 5000 });
  try {
    const signature = pinned.program.signatures.find(({ name }) => name === "serving_default")!;
    const prediction = await router.predict(pinned, {
      signature,
      inputs: new Map([[signature.inputs[0]!.name, stringTensor([user])]]),
      context,
      ...request,
    });
    return { version: pinned.version, ...plain(prediction) };
  } finally {
    context.finish();
    pinned.release();
  }
}

function plain({ outputs }: Prediction): { scores: number[]; ids: string[] } {
  const scores = outputs.get("output_1");
  const ids = outputs.get("output_2");
  return {
    scores: scores?.dtype === "float32" ? [...scores.data] : [],
    ids: ids?.dtype === "string" ? ids.data.toText() : [],
  };
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = systemClock.nowMs() + 60_000;
  while (!(await isTrue())) {
    if (systemClock.nowMs() > endMs) throw new Error("waited in vain");
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  }
}

type PostPredict = (body: object) => Promise<unknown>;

/** Runs `use` with a REST server before the router. */
async function withHttp<Result>(use: (predict: PostPredict) => Promise<Result>): Promise<Result> {
  const server = createHttpServer(router, {}, environment);
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  try {
    return await use(async (body) => {
      const url = `http://127.0.0.1:${port}/v1/models/movies:predict`;
      const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
      return await response.json();
    });
  } finally {
    await server.close();
  }
}

const areAllReady = (): boolean =>
  [...workers.values()].every((worker) => worker.isReady) &&
  router.workers().filter(({ askable }) => askable).length === workers.size;

function listedMembers(connector: GrpcConnector): StaticMembership {
  const describe = connector.describe.bind(connector);
  return new StaticMembership({ environment, describe }, { members: addresses });
}

async function startMember(name: string): Promise<void> {
  const { address } = addresses.find((member) => member.workerId === name)!;
  const connector = new GrpcConnector(systemClock);
  const membership = listedMembers(connector);
  const worker = await startWorker(
    {
      workerId: name,
      port: Number(address.split(":")[1]),
      modelsPath: base,
      pollIntervalMs: 50,
      accelerator: "reference",
    },
    { environment, membership },
  );
  workers.set(name, worker);
  closings.push(async () => {
    await worker.close();
    await membership.close();
    connector.close();
  });
}

beforeAll(async () => {
  base = await mkdtemp(path.join(tmpdir(), "winnow-router-"));
  await writeVersion(1);
  for (const name of ["w0", "w1", "w2"]) {
    addresses.push({ workerId: workerId(name), address: `127.0.0.1:${(await supplyPorts(1))[0]}` });
  }
  for (const { workerId: name } of addresses) await startMember(name);
  const connector = new GrpcConnector(systemClock);
  const membership = listedMembers(connector);
  const denseEngine = createDenseEngine({});
  // No small tables here: the lookup goes to workers too.
  router = createRouter(
    { routerTableBytesMax: 0 },
    { environment, connector, membership, denseEngine },
  );
  closings.push(async () => {
    router.close();
    await membership.close();
    connector.close();
    await denseEngine.close();
  });
  await until(() => router.ready && areAllReady());
}, 30_000);

afterAll(async () => {
  for (const close of closings.toReversed()) await close();
  await rm(base, { recursive: true });
});

test("I2: answers over gRPC are brute force's bits, known and unknown users alike", async () => {
  for (const user of [0, 7, 199]) {
    expect(await ask(`user ${user}`)).toEqual({ version: 1, ...expected(1, user) });
  }
  expect(await ask("nobody")).toEqual({ version: 1, ...expected(1, -1) });
});

test("k and exclusions of a request hold over gRPC", async () => {
  const excluded = expected(1, 3).ids.slice(0, 4);

  const answer = await ask("user 3", { k: 25, exclude: [stringTensor(excluded)] });

  expect(answer).toEqual({ version: 1, ...expected(1, 3, { k: 25, excluded }) });
});

test("S1: over REST each instance has its own list, however much another one excludes", async () => {
  const { lists, columns } = await withHttp(async (predict) => {
    const everything = Array.from({ length: ROWS }, (_, row) => `movie ${row}`);
    const exclude = [everything.slice(1), [], everything];
    const users = ["user 3", "user 4", "user 5"];
    return {
      lists: await predict({ instances: users, k: 20, exclude }),
      columns: await predict({ inputs: users, k: 20, exclude }),
    };
  });

  const whole = expected(1, 4, { k: 20 });
  expect(lists).toEqual({
    predictions: [
      { output_1: [expect.any(Number)], output_2: ["movie 0"] },
      { output_1: whole.scores.map((score) => expect.closeTo(score, 4)), output_2: whole.ids },
      { output_1: [], output_2: [] },
    ],
  });
  expect(columns).toEqual({
    error:
      "The request admits 0 items for instance 2 and 20 for instance 1; the column format needs as " +
      'many for each: use "instances"',
  });
});

test("L1: no request fails while a worker is closed and comes back", async () => {
  let asked = 0;
  const load = { running: true };
  const client = async (): Promise<void> => {
    for (let user = 0; load.running; user = (user + 1) % USERS, asked += 1) {
      expect(await ask(`user ${user}`)).toEqual({ version: 1, ...expected(1, user) });
    }
  };
  const clients = [client(), client(), client()];
  await until(() => asked > 20);

  await workers.get("w1")!.close();
  const before = asked;
  await until(() => asked > before + 50);
  await startMember("w1");
  await until(areAllReady);
  const after = asked;
  await until(() => asked > after + 50);
  await workers.get("w2")!.drain();
  const drained = asked;
  await until(() => asked > drained + 50);
  await startMember("w2");
  load.running = false;

  await Promise.all(clients);
  expect(router.counters).toEqual({ pins: 0, requests: 0, questions: 0, rows: 0, waiting: 0 });
}, 40_000);

test("S2: a newer version takes over without a failed or mixed answer; old pins say 404", async () => {
  const versions = new Set<number>();
  const load = { running: true };
  const client = async (): Promise<void> => {
    for (let user = 0; load.running; user = (user + 1) % USERS) {
      const answer = await ask(`user ${user}`);
      versions.add(answer.version);
      expect(answer).toEqual({ version: answer.version, ...expected(answer.version, user) });
    }
  };
  const clients = [client(), client()];

  await writeVersion(2);
  await until(() => versions.has(2));
  load.running = false;
  await Promise.all(clients);

  expect(await ask("user 1")).toMatchObject({ version: 2 });
  await expect(ask("user 1", { version: 9 })).rejects.toThrow(
    "Servable not found for request: Specific(movies, 9)",
  );
}, 40_000);
