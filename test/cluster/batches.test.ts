// Clients that send thousands of instances at once, and one that asks for one beside them: nobody is
// refused, nobody's answer differs by a bit from the one it gets alone, and the small one is not held
// up until the large ones are done.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunningCluster } from "./running-cluster.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-batches-"));
const USERS = Array.from({ length: 40 }, (_, index) => String(1 + 9 * index));
const INSTANCES = 4096;
const BATCHES = 3;
let cluster: RunningCluster | undefined;

beforeAll(async () => {
  await writeDemo(directory, { items: 20_000, dim: 32, users: 400, k: 10, seed: 3 });
  cluster = await RunningCluster.start({
    models: directory,
    workers: 3,
    partitionBytes: 2 ** 18,
  });
  await cluster.loaded(["movies"]);
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Status, how long it took, and each prediction as text. */
async function ask(users: readonly string[]) {
  const startMs = performance.now();
  const response = await fetch(`${cluster!.url}/v1/models/movies:predict`, {
    method: "POST",
    body: JSON.stringify({ instances: users }),
  });
  const { predictions = [] } = (await response.json()) as { predictions?: unknown[] };
  const elapsedMs = performance.now() - startMs;
  return {
    status: response.status,
    elapsedMs,
    texts: predictions.map((one) => JSON.stringify(one)),
  };
}

test("several requests of 4,096 instances and single ones beside them are all answered, bit for bit (R1)", async () => {
  const alone = new Map<string, string>();
  for (const user of USERS) alone.set(user, (await ask([user])).texts[0]!);
  const batchOf = (batch: number): string[] =>
    Array.from({ length: INSTANCES }, (_, at) => USERS[(at + batch) % USERS.length]!);
  const open = new Set(Array.from({ length: BATCHES }, (_, batch) => batch));

  const batches = Array.from({ length: BATCHES }, async (_, batch) => {
    const users = batchOf(batch);
    const { status, elapsedMs, texts } = await ask(users);
    open.delete(batch);
    const wrong = users.filter((user, at) => texts[at] !== alone.get(user)).length;
    return { status, elapsedMs, answers: texts.length, wrong };
  });
  const singles: { status: number; right: boolean; elapsedMs: number }[] = [];
  while (open.size > 0) {
    const user = USERS[singles.length % USERS.length]!;
    const { status, elapsedMs, texts } = await ask([user]);
    singles.push({ status, right: texts[0] === alone.get(user), elapsedMs });
  }
  const answered = await Promise.all(batches);

  for (const { status, answers, wrong } of answered) {
    expect({ status, answers, wrong }).toEqual({ status: 200, answers: INSTANCES, wrong: 0 });
  }
  expect(singles.filter(({ status, right }) => status !== 200 || !right)).toEqual([]);
  const median = singles.map(({ elapsedMs }) => elapsedMs).toSorted((a, b) => a - b)[
    singles.length >> 1
  ]!;
  const longest = Math.max(...answered.map(({ elapsedMs }) => elapsedMs));
  expect(median).toBeLessThan(longest / 2);
  expect(cluster!.log()).not.toContain("worker ejected");
});
