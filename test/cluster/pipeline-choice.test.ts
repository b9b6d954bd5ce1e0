// A pipeline that ranks what it has retrieved and chooses items that are unlike, with real processes: its answers have the
// same bits on one worker, on several that share the tables, and while one of them dies.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunningCluster } from "./running-cluster.ts";
import type { ClusterShape } from "./running-cluster.ts";
import { untilReplicated } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-pipeline-choice-"));
const models = path.join(directory, "models");
const MODELS = ["movies", "movies-ranking", "feed"];
const USERS = 40;
/** Pipelines at once. */
const CLIENTS = 8;
/** Of 10 turns of 8 clients, which ask for each user twice, the one before which a worker dies. */
const [TURNS, DEATH] = [10, 4];

/** Requests that leave few items or none, a different number for each user, or want vectors themselves. */
const OTHERS = [
  { filter: { year: { $lt: 1932 } } },
  { filter: { year: { $lt: 0 } } },
  { filter: [{ year: 1990 }, { year: { $gte: 0 } }, { year: { $lt: 0 } }] },
  { filter: { year: { $lt: 1960 } }, return_vectors: true },
  { return: ["$vector", "year"] },
];

const clusters: RunningCluster[] = [];

beforeAll(async () => {
  await writeDemo(models, { items: 900, dim: 8, users: USERS, k: 5, seed: 3 });
  const version = path.join(models, "feed", "1");
  mkdirSync(version, { recursive: true });
  const text = `inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 100, inputs: { input_1: user_id } }
  - rank: { model: movies-ranking, inputs: { user_id: request.user_id, movie_title: item } }
  - diversify: { mmr: 0.6, count: 15 }
`;
  writeFileSync(path.join(version, "pipeline.yaml"), text);
});

afterAll(async () => {
  await Promise.all(clusters.map((cluster) => cluster.stop()));
  rmSync(directory, { recursive: true, force: true });
});

async function started(shape: Pick<ClusterShape, "workers" | "replication">) {
  // No table is so small that the router has it.
  const routerArgs = ["--router-table-bytes", "0"];
  const cluster = await RunningCluster.start({ models, routerArgs, ...shape });
  clusters.push(cluster);
  await cluster.loaded(MODELS);
  return cluster;
}

/** The body of the answer for a user, or users. */
const ask = (cluster: RunningCluster, ...users: readonly string[]): Promise<string> =>
  askFor(cluster, { instances: users });

async function askFor({ url }: RunningCluster, asked: object): Promise<string> {
  const body = JSON.stringify(asked);
  const answer = await fetch(`${url}/v1/models/feed:predict`, { method: "POST", body });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(text);
  return text;
}

const userOf = (at: number): string => String((at % USERS) + 1);

/** Answers of as many requests as `TURNS` and `CLIENTS` say, so many at once. */
async function answersOf(cluster: RunningCluster, beforeTurn?: (turn: number) => void) {
  const answers: string[] = [];
  for (let turn = 0; turn < TURNS; turn += 1) {
    beforeTurn?.(turn);
    const users = Array.from({ length: CLIENTS }, (_, client) => userOf(turn * CLIENTS + client));
    answers.push(...(await Promise.all(users.map((user) => ask(cluster, user)))));
  }
  answers.push(await ask(cluster, "1", "nobody knows", "2", "1"));
  for (const more of OTHERS) {
    answers.push(await askFor(cluster, { instances: ["1", "2", "3"], ...more }));
  }
  return answers;
}

test("answers have the same bits on one worker, on several, and while one dies", async () => {
  const one = await answersOf(await started({ workers: 1 }));
  const two = await answersOf(await started({ workers: 2, replication: 1 }));
  const three = await started({ workers: 3, replication: 2 });
  for (const model of ["movies", "movies-ranking"]) {
    await untilReplicated(three, ["w0", "w1", "w2"], { model, version: 1 });
  }
  const whole = await answersOf(three);
  const meanwhile = await answersOf(three, (turn) => {
    // The requests of this turn are on their way when the worker ends.
    if (turn === DEATH) setImmediate(() => three.signal("w1", "SIGKILL"));
  });

  expect(one).toHaveLength(TURNS * CLIENTS + 1 + OTHERS.length);
  expect(two).toEqual(one);
  expect(whole).toEqual(one);
  expect(meanwhile).toEqual(one);
});
