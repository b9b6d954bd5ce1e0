// Keys with real processes: made by the command, read again when their file changes, asked for on every
// door, and told nowhere.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-keys-"));
const keysFile = path.join(directory, "keys");
const winnow = (...args: string[]): string =>
  execFileSync(process.execPath, [script, ...args], { encoding: "utf8", stdio: "pipe" });
const create = (...args: string[]) =>
  JSON.parse(winnow("keys", "create", "--json", ...args)) as { key: string; line: string };

describe("a cluster with keys", () => {
  let cluster: RunningCluster;
  const shop = create("--id", "shop");
  const monitor = create("--id", "monitor", "--roles", "status,administer", "--rate", "1000");
  const late = create("--id", "late");

  beforeAll(async () => {
    await writeDemo(path.join(directory, "models"), {
      items: 300,
      dim: 8,
      users: 50,
      k: 5,
      seed: 1,
    });
    const feed = path.join(directory, "models", "feed", "1");
    mkdirSync(feed, { recursive: true });
    const arm = (name: string): string => `  - { name: ${name}, model: movies, weight: 1 }\n`;
    writeFileSync(
      path.join(feed, "experiment.yaml"),
      `arms:\n${arm("a")}${arm("b")}sticky: { input: input_1 }\n`,
    );
    writeFileSync(keysFile, `# test\n${shop.line}\n${monitor.line}\n`);
    cluster = await RunningCluster.start({
      models: path.join(directory, "models"),
      workers: 1,
      routerArgs: ["--api-keys", keysFile, "--access-log", "all"],
      workerArgs: ["--api-keys", keysFile],
    });
    await vi.waitFor(
      async () => {
        const answer = await ask("/v1/models/movies", monitor.key);
        if (!answer.text.includes('"AVAILABLE"')) throw new Error(answer.text);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  async function ask(target: string, key?: string, body?: string) {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const method = body === undefined ? "GET" : "POST";
    const answer = await fetch(`${cluster.url}${target}`, { method, headers, body: body ?? null });
    return { status: answer.status, text: await answer.text() };
  }
  const predict = (key?: string) =>
    ask("/v1/models/movies:predict", key, '{"instances":["42"]}').then(({ status }) => status);
  const command = (env: Readonly<Record<string, string>>, ...args: string[]) =>
    spawnSync(
      process.execPath,
      [script, "predict", "movies", '["42"]', "--url", cluster.url, ...args],
      {
        encoding: "utf8",
        env: { ...process.env, ...env },
      },
    );

  test("answers those who have one, for what it is for", async () => {
    const page = "/monitoring/prometheus/metrics";
    const statuses = [await predict(), await predict(shop.key), await predict(monitor.key)];
    const metrics = [await ask(page), await ask(page, shop.key), await ask(page, monitor.key)];

    expect(statuses).toEqual([401, 200, 403]);
    expect(metrics.map(({ status }) => status)).toEqual([401, 403, 200]);
    expect(metrics[2]!.text).toMatch(
      /winnow_key_requests_total\{key="shop",outcome="admitted"\} \d/,
    );
    expect(metrics[2]!.text).toContain('winnow_key_requests_total{key="",outcome="missing"}');
  });

  test("asks for a key where an experiment answers, and once, however many arms a batch has", async () => {
    const instances = Array.from({ length: 12 }, (_, at) => `${at}`);
    const askFeed = (key?: string) =>
      ask("/v1/models/feed:predict", key, JSON.stringify({ instances }));
    await vi.waitFor(
      async () => {
        const { text } = await ask("/v1/models/feed", monitor.key);
        if (!text.includes('"AVAILABLE"')) throw new Error(text);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
    const admitted = async (): Promise<number> => {
      const { text } = await ask("/monitoring/prometheus/metrics", monitor.key);
      const [, count] = /key="shop",outcome="admitted"\} (\d+)/.exec(text) ?? [];
      return Number(count ?? 0);
    };
    const before = await admitted();

    const answers = [await askFeed(), await askFeed(shop.key), await askFeed(monitor.key)];

    expect(answers.map(({ status }) => status)).toEqual([401, 200, 403]);
    expect(JSON.parse(answers[1]!.text)).toMatchObject({ predictions: { length: 12 } });
    expect(await admitted()).toBe(before + 1);
  });

  test("is asked by winnow predict with a key from a file or a variable", () => {
    const keyFile = path.join(directory, "key");
    writeFileSync(keyFile, `${shop.key}\n`);

    const [byFile, byVariable, without] = [
      command({}, "--key-file", keyFile),
      command({ WINNOW_API_KEY: shop.key }),
      command({}),
    ];

    expect([byFile.status, byVariable.status, without.status]).toEqual([0, 0, 1]);
    expect(byFile.stdout).toBe(byVariable.stdout);
    expect(without.stderr).toContain("UNAUTHENTICATED: A key is needed here");
  });

  test("knows new keys and forgets others as soon as the file says so, but not for a bad file", async () => {
    expect(await predict(late.key)).toBe(401);
    writeFileSync(keysFile, `${monitor.line}\n${late.line}\n`);
    await vi.waitFor(async () => expect(await predict(late.key)).toBe(200), {
      timeout: WAIT_MS,
      interval: 200,
    });
    const forgotten = await predict(shop.key);
    writeFileSync(keysFile, `${late.key}\n`);
    await vi.waitFor(
      () => {
        const refused = cluster.events("router0", "configuration refused, the old one stays");
        expect(refused[0]?.["message"]).toMatch(/holds a key itself/);
      },
      { timeout: WAIT_MS, interval: 200 },
    );

    expect([forgotten, await predict(late.key)]).toEqual([401, 200]);
  });

  test("writes no key into any log, whatever was sent", async () => {
    for (const key of [shop.key, late.key, `${late.key}x`]) {
      await ask(`/v1/models/movies?key=${key}`, key);
      await ask(`/${key}`, key);
      await ask(`/v1/models/${key}`, key);
    }

    const secrets = [shop, monitor, late].map(({ key }) => key.slice(-43));
    const log = cluster.log();
    expect(log).toContain('"key":"late"');
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
  });
});

test("--require-security names what is missing and does not start; without it a warning does", async () => {
  const args = [
    script,
    "router",
    "--members",
    "w0@10.9.9.9:7600",
    "--host",
    "0.0.0.0",
    "--port",
    "0",
  ];
  const refused = spawnSync(process.execPath, [...args, "--require-security"], {
    encoding: "utf8",
    timeout: WAIT_MS,
  });
  const warned = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  let told = "";
  warned.stderr.setEncoding("utf8").on("data", (part: string) => (told += part));
  await expect.poll(() => told, { timeout: WAIT_MS }).toContain("router listening");
  warned.kill("SIGKILL");
  await once(warned, "exit");

  expect(refused.status).toBe(1);
  expect(refused.stderr).toContain(
    "FAILED_PRECONDITION: --require-security: on --host 0.0.0.0 there is missing: TLS for clients",
  );
  expect(told.match(/others on the network can reach this process/g)).toHaveLength(1);
});
