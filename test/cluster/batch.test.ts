// `winnow batch` beside what happens to clusters: a worker dies, the job is interrupted and goes on, a newer version takes over.
// Every line has the prediction that a single request has, by the version that the job began with.

import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunningCluster, pause, repositoryRoot } from "./running-cluster.ts";
import { untilDefault } from "./served-model.ts";

const USERS = 60;
const LINES = 2400;
const directory = mkdtempSync(path.join(tmpdir(), "winnow-batch-"));
const models = path.join(directory, "models");
const input = path.join(directory, "users.jsonl");
const output = path.join(directory, "predictions.jsonl");
const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const users = Array.from({ length: LINES }, (_, line) => String((line * 7) % USERS));
let cluster: RunningCluster;

beforeAll(async () => {
  for (const version of [1, 2]) {
    const demo = path.join(directory, `demo-${version}`);
    await writeDemo(demo, { items: 2000, dim: 16, users: USERS, k: 5, seed: version });
  }
  cpSync(path.join(directory, "demo-1/movies"), path.join(models, "movies"), { recursive: true });
  writeFileSync(input, users.map((user) => `${JSON.stringify(user)}\n`).join(""));
  // Two versions are kept, so that the job may end with the one that it began with.
  const config = path.join(directory, "models.config");
  const location = `name: "movies" base_path: "${models}/movies"`;
  writeFileSync(
    config,
    `model_config_list { config { ${location} model_version_policy { all {} } } }`,
  );
  const workerArgs = [`--model_config_file=${config}`];
  cluster = await RunningCluster.start({ models, workers: 2, replication: 2, workerArgs });
  await cluster.loaded(["movies"]);
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

function start(...more: readonly string[]): { child: ChildProcess; ended: Promise<number | null> } {
  const small = ["--batch-size", "4", "--concurrency", "2"];
  const args = ["batch", "movies", input, output, "--url", cluster.url, ...small, ...more];
  const child = spawn(process.execPath, [script, ...args], { stdio: "ignore" });
  const ended = new Promise<number | null>((resolve) => {
    child.once("exit", (code) => resolve(code));
  });
  return { child, ended };
}

const linesIn = (file: string): string[] =>
  existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];

/** Waits until a job has written more than so many lines. */
async function until(count: number): Promise<void> {
  await expect
    .poll(() => linesIn(`${output}.part`).length, { timeout: 60_000, interval: 20 })
    .toBeGreaterThan(count);
}

test("a death, an interruption and a newer version change no prediction of a whole file", async () => {
  const expected = new Map<string, unknown>();
  for (const user of new Set(users)) {
    const body = JSON.stringify({ instances: [user] });
    const asked = fetch(`${cluster.url}/v1/models/movies:predict`, { method: "POST", body });
    const { predictions } = (await (await asked).json()) as { readonly predictions: unknown[] };
    expected.set(user, predictions[0]);
  }

  const first = start();
  await until(200);
  cluster.signal("w1", "SIGKILL");
  await until(linesIn(`${output}.part`).length + 200);
  first.child.kill("SIGINT");
  expect(await first.ended).toBe(130);
  const kept = linesIn(`${output}.part`).length;
  await cluster.ended("w1");
  cluster.restart("w1");
  cpSync(path.join(directory, "demo-2/movies/1"), path.join(models, "movies/2"), {
    recursive: true,
  });
  await untilDefault(cluster, { model: "movies", version: 2 });
  await pause(500);
  const second = start("--resume");

  expect(await second.ended).toBe(0);
  const lines = linesIn(output).map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(kept).toBeLessThan(LINES);
  expect(lines).toHaveLength(LINES);
  expect(lines.map(({ instance }) => instance)).toEqual(users);
  const wrong = lines.filter(
    ({ instance, prediction }) =>
      JSON.stringify(prediction) !== JSON.stringify(expected.get(instance as string)),
  );
  expect(wrong).toEqual([]);
  expect(existsSync(`${output}.part`)).toBe(false);
});
