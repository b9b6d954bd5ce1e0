// `winnow verify` as a person runs it, against a cluster that answers rightly and through a proxy that spoils its
// answers in each way that must be noticed.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { type ProxiedList, SpoilingProxy } from "./spoiling-proxy.ts";

const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-verify-"));
const models = path.join(directory, "models");

interface Report {
  readonly verdict: string;
  readonly models: readonly {
    readonly model: string;
    readonly unchecked?: string;
    readonly progress?: {
      readonly next: number;
      readonly missing: readonly number[];
      readonly files?: Readonly<Record<string, number>>;
      readonly servers?: Readonly<Record<string, number>>;
      readonly differences: readonly { readonly kind: string; readonly note?: string }[];
    };
  }[];
}

interface Ended {
  readonly code: number | null;
  readonly report: Report;
  readonly stderr: string;
}

function start(args: readonly string[]): {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
} {
  const child = spawn(process.execPath, [script, "verify", ...args, "--json"]);
  const texts = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (texts.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (texts.stderr += chunk.toString()));
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => {
      const report = JSON.parse(texts.stdout === "" ? "{}" : texts.stdout) as Report;
      resolve({ code, report, stderr: texts.stderr });
    });
  });
  return { child, ended };
}

const verify = (...args: readonly string[]): Promise<Ended> => start(args).ended;
const ONE_MODEL = ["--models", models, "--model", "movies"] as const;

describe("winnow verify", () => {
  let cluster: RunningCluster;
  let proxy: SpoilingProxy;

  beforeAll(async () => {
    await writeDemo(models, { items: 700, dim: 12, users: 60, k: 5, seed: 3 });
    cluster = await RunningCluster.start({ models, workers: 2 });
    await cluster.loaded(["movies", "movies-ranking"]);
    proxy = await SpoilingProxy.start(cluster.url);
  });
  beforeEach(() => {
    proxy.spoil = () => undefined;
    proxy.asked = () => undefined;
    proxy.predictions = 0;
  });
  afterAll(async () => {
    await proxy?.close();
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  test("S1: finds every answer of a cluster exact, of retrieval and of ranking, and exits 0", async () => {
    const { code, report } = await verify(cluster.url, "--models", models, "--queries", "150");

    expect(report.models.map(({ model }) => model)).toEqual(["movies", "movies-ranking"]);
    for (const { progress } of report.models) {
      expect(progress).toMatchObject({ next: 150, missing: [], differences: [] });
      expect(progress?.files).toMatchObject({ exact: 150, different: 0 });
    }
    expect([report.verdict, code]).toEqual(["equal", 0]);
  });

  test("S1: asks for filters, for the only items wanted and for exclusions, and finds all exact", async () => {
    const asked = { filter: 0, include: 0, exclude: 0, k: 0, inputs: 0 };
    proxy.asked = (body) => {
      for (const name of Object.keys(asked) as (keyof typeof asked)[]) {
        if (body.includes(`"${name}":`)) asked[name] += 1;
      }
    };
    const { code, report } = await verify(proxy.url, ...ONE_MODEL, "--queries", "200");

    expect(report.models[0]!.progress!.files).toMatchObject({ exact: 200 });
    expect(Math.min(...Object.values(asked))).toBeGreaterThan(3);
    expect(code).toBe(0);
  });

  test("notices a score, an id, the order of two items and an item that is left out, and exits 1", async () => {
    const changes: readonly ((list: ProxiedList) => unknown)[] = [
      (list) => (list.output_1[0]! += 2 ** -20),
      (list) => (list.output_2[0] = "No such film"),
      (list) => list.output_2.push(list.output_2.shift()!),
      (list) => [list.output_1.pop(), list.output_2.pop()],
    ];
    let lists = 0;
    // Each in one answer of many.
    proxy.spoil = ({ predictions }) => {
      const list = predictions.find(({ output_2: ids }) => Array.isArray(ids) && ids.length > 1);
      if (list === undefined) return;
      lists += 1;
      if (lists % 5 === 0) changes[lists / 5 - 1]?.(list);
    };

    const { code, report } = await verify(proxy.url, ...ONE_MODEL, "--queries", "60");

    const [movies] = report.models;
    expect(movies?.progress?.files).toMatchObject({ exact: 56, different: 4 });
    const kinds = movies?.progress?.differences.map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(["score", "id", "count"]));
    expect([report.verdict, code]).toEqual(["different", 1]);
  });

  test("notices an instance without an answer, and another version than the one asked", async () => {
    let answers = 0;
    proxy.spoil = (answer) => {
      answers += 1;
      if (answers === 3) answer.predictions.pop();
      if (answers === 7) answer.version = "2";
    };

    const { report } = await verify(proxy.url, ...ONE_MODEL, "--queries", "40");

    const kinds = report.models[0]?.progress?.differences.map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(["count", "version"]));
  });

  test("counts answers that stay away as missing, and asks for these alone in the next run", async () => {
    const state = path.join(directory, "missing.json");
    const args = [proxy.url, "--models", models, "--model", "movies", "--queries", "30"];
    proxy.spoil = (answer) => {
      if (answer.predictions.length === 1) answer.status = 418;
    };
    const first = await verify(...args, "--state", state);
    const missing = first.report.models[0]!.progress!.missing.length;
    proxy.spoil = () => undefined;
    proxy.predictions = 0;

    const second = await verify(...args, "--state", state);

    expect([first.code, second.code]).toEqual([3, 0]);
    expect(first.report.verdict).toBe("unanswered");
    expect(missing).toBeGreaterThan(0);
    expect(proxy.predictions).toBe(missing);
    expect(second.report.models[0]!.progress!.files).toMatchObject({ exact: 30 });
  });

  test("that was interrupted goes on behind what it had checked", async () => {
    const state = path.join(directory, "interrupted.json");
    const args = [proxy.url, "--models", models, "--model", "movies", "--queries", "120"];
    const running = start([...args, "--state", state]);
    proxy.asked = () => {
      if (proxy.predictions === 41) running.child.kill("SIGINT");
    };
    const first = await running.ended;
    const kept = JSON.parse(readFileSync(state, "utf8")) as { models: { next: number }[] };
    proxy.predictions = 0;

    const second = await verify(...args, "--state", state);

    expect([first.code, first.report.verdict]).toEqual([130, "interrupted"]);
    expect(kept.models[0]!.next).toBeGreaterThanOrEqual(32);
    expect(proxy.predictions).toBe(120 - kept.models[0]!.next);
    expect(second.report.models[0]!.progress!.files).toMatchObject({ exact: 120 });
  });

  test("takes no state of another run, nor a file that is none", async () => {
    const state = path.join(directory, "other.json");
    await verify(cluster.url, "--models", models, "--queries", "2", "--state", state);
    const seed = await verify(cluster.url, ...ONE_MODEL, "--state", state, "--seed", "9");
    writeFileSync(state, "{}");
    const broken = await verify(cluster.url, "--models", models, "--state", state);

    expect([seed.code, broken.code]).toEqual([2, 2]);
    expect(seed.stderr).toContain("the state of another run");
    expect(broken.stderr).toContain("no state of winnow verify");
  });

  test("of two servers explains scores that are close, and tells what is not", async () => {
    const args = [
      "--against",
      proxy.url,
      "--models",
      models,
      "--model",
      "movies",
      "--queries",
      "40",
    ];
    proxy.spoil = ({ predictions }) => {
      for (const { output_1: scores } of predictions) {
        for (const at of scores.keys()) scores[at]! *= 1 + 2e-6;
      }
    };
    const near = await verify(cluster.url, ...args);
    proxy.spoil = ({ predictions }) => {
      for (const { output_1: scores } of predictions) scores[0]! += 0.01;
    };
    const far = await verify(cluster.url, ...args);

    const [first, second] = [near, far].map(({ report }) => report.models[0]!.progress!);
    expect([near.code, far.code]).toEqual([0, 1]);
    expect(first!.files).toMatchObject({ exact: 40 });
    expect(first!.servers!["close"]! + first!.servers!["reordered"]!).toBeGreaterThan(20);
    expect(second!.servers!["different"]).toBeGreaterThan(20);
    expect(second!.files).toMatchObject({ exact: 40, different: 0 });
  });

  test("compares servers by requests of a file, without any model's files", async () => {
    const requests = path.join(directory, "requests.jsonl");
    writeFileSync(requests, '"7"\n{"instances":["42","nobody"],"k":3}\n{"inputs":["9"]}\n');
    const args = ["--against", proxy.url, "--requests", requests, "--model", "movies"];
    const same = await verify(cluster.url, ...args);
    proxy.spoil = ({ predictions }) => predictions.at(-1)!.output_2.push("x");
    const other = await verify(cluster.url, ...args);

    expect([same.code, other.code]).toEqual([0, 1]);
    expect(same.report.models[0]!.progress!.servers).toMatchObject({ exact: 3 });
    expect(other.report.models[0]!.progress!.servers).toMatchObject({ exact: 1, different: 2 });
  });

  test("says what it cannot check, and exits 2", async () => {
    const silent = await verify("http://127.0.0.1:1", "--models", models);
    const nothing = await verify(cluster.url);
    const absent = await verify(cluster.url, "--models", models, "--model", "songs");
    const address = await verify("localhost:8501", "--models", models);

    expect([silent, nothing, absent, address].map(({ code }) => code)).toEqual([2, 2, 2, 2]);
    expect(silent.stderr).toContain("Nothing answers at http://127.0.0.1:1");
    expect(nothing.stderr).toContain("--models DIR");
    expect(absent.stderr).toContain("but movies, movies-ranking");
    expect(address.stderr).toContain("http://127.0.0.1:8501");
  });
});
