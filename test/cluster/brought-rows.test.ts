// A pipeline whose ranking's items come with the retrieval's answer, with real processes: it answers what the separate
// calls answer, and its ranking asks no worker.

import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { RunningCluster } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-brought-rows-"));
const models = path.join(directory, "models");
const pipelineOf = (retrieval: string): string => `inputs: { user_id: string }
stages:
  - retrieve: { model: ${retrieval}, k: 50, inputs: { input_1: user_id } }
  - rank: { model: movies-ranking, inputs: { user_id: request.user_id, movie_title: item } }
`;

interface Feed {
  readonly output_1: readonly number[];
  readonly output_2: readonly string[];
}

beforeAll(async () => {
  await writeDemo(models, { items: 300, dim: 8, users: 50, k: 5, seed: 1 });
  // A retrieval of items of which the ranking knows half.
  const more = path.join(directory, "more");
  await writeDemo(more, { items: 600, dim: 8, users: 50, k: 5, seed: 1 });
  renameSync(path.join(more, "movies"), path.join(models, "more-movies"));
  for (const retrieval of ["movies", "more-movies"]) {
    const version = path.join(models, `${retrieval}-feed`, "1");
    mkdirSync(version, { recursive: true });
    writeFileSync(path.join(version, "pipeline.yaml"), pipelineOf(retrieval));
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe.each([
  ["one worker", { workers: 1 }, true],
  ["two workers that hold everything", { workers: 2 }, true],
  ["two workers that share the tables", { workers: 2, replication: 1 }, false],
] as const)("%s", (_, shape, isBrought) => {
  let cluster: RunningCluster;
  beforeAll(async () => {
    // No table is so small that the router has it.
    const routerArgs = ["--router-table-bytes", "0"];
    cluster = await RunningCluster.start({
      models,
      routerArgs,
      partitionBytes: 8192,
      ...shape,
    });
    await vi.waitFor(ready, {
      timeout: WAIT_MS,
      interval: 200,
    });
  });
  afterAll(async () => {
    await cluster?.stop();
  });

  /** Passes once both feeds answer and, where rows are brought, every worker that is asked has loaded them. */
  async function ready(): Promise<void> {
    for (const feed of ["movies-feed", "more-movies-feed"]) {
      for (let turn = 0; turn < 8; turn += 1) {
        const before = turn === 0 ? 0 : await lookups();
        await ask(feed, ["42"]);
        if (turn > 0 && isBrought) expect((await lookups()) - before).toBe(2);
      }
    }
  }

  async function ask(model: string, instances: readonly unknown[], more: object = {}) {
    const answer = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
      method: "POST",
      body: JSON.stringify({ instances, ...more }),
    });
    const body = (await answer.json()) as { readonly predictions: readonly unknown[] };
    if (answer.status !== 200) throw new Error(JSON.stringify(body));
    return body.predictions;
  }

  /** Look-ups so far that asked workers. */
  async function lookups(): Promise<number> {
    const page = await fetch(`${cluster.url}/monitoring/prometheus/metrics`);
    const count = /^winnow_stage_duration_seconds_count\{stage="lookup"\} (\d+)$/m;
    return Number(count.exec(await page.text())![1]);
  }

  /** What a client gets that makes the separate calls, and orders the items itself. */
  async function askApart(retrieval: string, users: readonly string[]): Promise<Feed[]> {
    const retrieved = (await ask(retrieval, users, { k: 50 })) as Feed[];
    const pairs = retrieved.flatMap(({ output_2 }, at) =>
      output_2.map((movie_title) => ({ user_id: users[at]!, movie_title })),
    );
    const all = ((await ask("movies-ranking", pairs)) as number[][]).flat();
    return retrieved.map(({ output_2: ids }, list) => {
      const scores = all.slice(list * 50, (list + 1) * 50);
      const order = ids.map((__, at) => at).toSorted((a, b) => scores[b]! - scores[a]! || a - b);
      return { output_1: order.map((at) => scores[at]!), output_2: order.map((at) => ids[at]!) };
    });
  }

  test.each(["movies", "more-movies"])(
    "answer what the separate calls answer, of %s",
    async (retrieval) => {
      for (const users of [["42"], ["7"], ["nobody knows"], ["42", "7", "42"]]) {
        const before = await lookups();
        const expected = await askApart(retrieval, users);
        const apart = (await lookups()) - before;

        // The retrieval looks its user up, and the ranking its user and the items. A worker may leave rows out, on a
        // busy machine for instance; then the router asks, and the answer is the same.
        const wanted = isBrought ? 2 : 3;
        const together: number[] = [];
        while (together.at(-1) !== wanted && together.length < 5) {
          const since = await lookups();
          expect(await ask(`${retrieval}-feed`, users)).toEqual(expected);
          together.push((await lookups()) - since);
        }
        expect([apart, together.at(-1)]).toEqual([3, wanted]);
      }
    },
  );
});
