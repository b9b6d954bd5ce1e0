// A pipeline that excludes what users have seen, with real processes: the router reads a real Redis, which is
// frozen, killed and started again.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { RunningCluster } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";
import { redisClient } from "../../packages/cluster/src/membership/fixtures/redis-server.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-seen-"));
const models = path.join(directory, "models");

const feed = `inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 30, inputs: { input_1: user_id } }
  - seen: { key: "seen:{user_id}", most: 100, budget: 200ms }
  - rank: { model: movies-ranking, inputs: { user_id: request.user_id, movie_title: item } }
  - limit: 7
`;

interface Answer {
  readonly degraded: string | null;
  readonly predictions: readonly { readonly output_2: readonly string[] }[];
  readonly ms: number;
}

describe.skipIf(!hasRedisServer)("a pipeline that excludes what users have seen", () => {
  let cluster: RunningCluster;
  let redis: RedisProcess;

  beforeAll(async () => {
    await writeDemo(models, { items: 200, dim: 8, users: 50, k: 5, seed: 1 });
    for (const [name, text] of [
      ["unseen", feed],
      ["all", feed.replace(/ {2}- seen.*\n/, "")],
    ] as const) {
      mkdirSync(path.join(models, name, "1"), { recursive: true });
      writeFileSync(path.join(models, name, "1", "pipeline.yaml"), text);
    }
    redis = await RedisProcess.start();
    cluster = await RunningCluster.start({
      models,
      workers: 2,
      routers: 2,
      argsOf: { router0: ["--seen-redis", redis.url] },
    });
    await vi.waitFor(async () => ask("unseen", ["42"]), { timeout: WAIT_MS, interval: 200 });
  });
  afterAll(async () => {
    await cluster?.stop();
    await redis?.kill();
    rmSync(directory, { recursive: true, force: true });
  });

  async function ask(
    model: string,
    instances: readonly string[],
    more: object = {},
  ): Promise<Answer> {
    const startMs = performance.now();
    const answer = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
      method: "POST",
      body: JSON.stringify({ instances, ...more }),
    });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(text);
    const { predictions } = JSON.parse(text) as Pick<Answer, "predictions">;
    const ms = performance.now() - startMs;
    return { degraded: answer.headers.get("x-winnow-degraded"), predictions, ms };
  }

  /** Answered whole, or the assertion says what is missing. */
  async function askWhole(instances: readonly string[]): Promise<Answer> {
    return await vi.waitFor(
      async () => {
        const answer = await ask("unseen", instances);
        if (answer.degraded !== null) throw new Error(answer.degraded);
        return answer;
      },
      { timeout: WAIT_MS, interval: 100 },
    );
  }

  async function remember(seen: Readonly<Record<string, readonly string[]>>): Promise<void> {
    const client = redisClient(redis.url);
    for (const [key, members] of Object.entries(seen)) await client.sadd(key, ...members);
    client.disconnect();
  }

  test("answers what a request that excludes the same answers, and says so while Redis is away", async () => {
    const users = ["42", "7"];
    const plain = await ask("all", users);
    const [seen, others] = plain.predictions.map(({ output_2: ids }) => ids.slice(0, 3));
    await remember({ "seen:42": seen!, "seen:7": [...others!, "no such film"] });
    const expected = await ask("all", users, { exclude: [seen, others] });

    const { predictions } = await askWhole(users);

    expect(predictions).toEqual(expected.predictions);
    expect(predictions).not.toEqual(plain.predictions);

    process.kill(redis.pid, "SIGSTOP");
    const frozen = await ask("unseen", users);
    expect(frozen).toMatchObject({ degraded: "seen=late", predictions: plain.predictions });
    await vi.waitFor(
      async () =>
        expect(await ask("unseen", users)).toMatchObject({ degraded: "seen=unavailable" }),
      { timeout: WAIT_MS, interval: 100 },
    );
    process.kill(redis.pid, "SIGCONT");
    expect((await askWhole(users)).predictions).toEqual(expected.predictions);

    await redis.kill();
    expect(await ask("unseen", users)).toMatchObject({
      degraded: "seen=unavailable",
      predictions: plain.predictions,
    });
    await redis.restart();
    await remember({ "seen:42": seen!, "seen:7": others! });
    expect((await askWhole(users)).predictions).toEqual(expected.predictions);

    const page = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
    for (const reason of ["late", "unavailable"]) {
      const labels = `model="unseen",stage="seen",reason="${reason}"`;
      expect(page).toContain(`winnow_degraded_responses_total{${labels}}`);
    }
  });

  test("waits on a router that knows no Redis, with the flag that would mend it", async () => {
    const status = async (): Promise<string> => {
      return (await fetch(`${cluster.urls[1]}/v1/models/unseen`)).text();
    };
    await vi.waitFor(async () => expect(await status()).toContain("--seen-redis"), {
      timeout: WAIT_MS,
      interval: 200,
    });
    expect(await status()).not.toContain('"AVAILABLE"');
  });
});
