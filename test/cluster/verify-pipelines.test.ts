// `winnow verify` of pipelines and experiments, over REST and gRPC: each kind of stage against the rules of its
// document, and what must be noticed in answers that are put together from several models.

import { execFile } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { supplyPorts } from "../port-supply.ts";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";
import { type Spoil, SpoilingProxy } from "./spoiling-proxy.ts";

const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-verify-pipelines-"));
const models = path.join(directory, "models");
const recordings = path.join(repositoryRoot, "test/data/savedmodels");

const RETRIEVE =
  "  - retrieve: { model: movies, k: 40, inputs: { input_1: user_id }, as: prior }\n";
const RANK =
  "  - rank: { model: movies-ranking, inputs: { user_id: request.user_id, movie_title: item }, heads: { rating: output_1 } }\n";
const SOURCES = `${RETRIEVE}  - retrieve: { model: trending, k: 25, inputs: { input_1: user_id }, as: popular }\n`;

/** Of each pipeline and experiment. `npm run verify:pipelines` asks more. */
const QUERIES = Number(process.env["VERIFY_QUERIES"] ?? 14);
const VERIFIED_MS_MAX = 300_000 + QUERIES * 2000;

const PIPELINES: Readonly<Record<string, string>> = {
  blend: `${RETRIEVE}${RANK}  - score: rating - 2 * max(prior, 0) / 3 + clip(exp(-prior), 0.1, log(2 + min(rating, 3)))\n  - limit: 7\n`,
  "grown-up": `${RETRIEVE}  - filter: { kids: false, year: { $gte: 1970, $lt: 2015 }, $or: [{ genres: { $nin: [crime] } }, { year: { $not: { $lte: 1990 } } }] }\n${RANK}  - diversify: { at_most: 2, per: genres }\n`,
  fused: `${SOURCES}  - merge: { reciprocal_ranks: { prior: 1, popular: 0.5 }, rank_constant: 12 }\n  - score: score + popular / 64\n`,
  weighed: `${SOURCES}  - merge: { weights: { prior: 1, popular: 0.5 } }\n  - diversify: { mmr: 0.6, count: 12, of: popular }\n`,
  shared: `${SOURCES}  - merge: { quotas: { prior: 20, popular: 10 } }\n  - score: prior - popular / 2 + score\n`,
  "by-turns": `${RETRIEVE}  - diversify: { round_robin: year }\n  - limit: 9\n`,
  guessed: `${RETRIEVE}  - unknown: { user: user_id, answer: oov }\n${RANK}  - limit: 9\n`,
  relevant: `${RETRIEVE}  - diversify: { mmr: 0.7, count: 15 }\n`,
  listed: `${RETRIEVE}  - filter: { year: { $gte: 1960 } }\n  - unknown: { user: user_id, list: popular.txt }\n${RANK}  - limit: 9\n`,
  fallen: `${RETRIEVE}  - unknown: { user: user_id, pipeline: listed }\n${RANK}  - limit: 6\n`,
  alike: `  - retrieve: { model: movies, k: 30, like: user_id, as: prior }\n  - filter: { year: { $gte: 1960 } }\n${RANK}  - diversify: { mmr: 0.7, count: 9 }\n`,
  "alike-too": `${RETRIEVE}  - retrieve: { model: movies, k: 25, like: movie, as: similar }\n  - merge: { weights: { prior: 1, similar: 0.5 } }\n`,
  "alike-all": `${RETRIEVE}  - retrieve: { model: movies, k: 25, like: movies, as: similar }\n  - merge: { reciprocal_ranks: { prior: 1, similar: 2 } }\n`,
  "only-alike": `  - retrieve: { model: movies, k: 20, like: movies }\n`,
  apart: `  - retrieve: { model: movies, k: 20, like: movies, unlike: skipped }\n`,
  "fallen-alike": `${RETRIEVE}  - unknown: { user: user_id, pipeline: only-alike }\n${RANK}  - limit: 9\n`,
  sequence: `  - retrieve: { model: list_features, k: 5, inputs: { input_1: watched } }\n  - rank: { model: keras_rs_ranking, inputs: { user: request.user, history: request.history, numbers: request.numbers, weights: request.weights }, scores: rating }\n`,
  "known-alone": `${RETRIEVE}  - unknown: { user: user_id, answer: error }\n`,
};

/** Inputs of pipelines that take another one than `user_id`, or more, and a request to such a pipeline. */
const INPUTS: Readonly<Record<string, string>> = {
  "alike-too": "{ user_id: string, movie: string }",
  "alike-all": "{ user_id: string, movies: { list: string } }",
  "only-alike": "{ movies: { list: string } }",
  "fallen-alike": "{ user_id: string, movies: { list: string } }",
  apart: "{ movies: { list: string }, skipped: { list: string } }",
  sequence:
    "{ watched: { list: string, length: 4 }, user: int32, history: { list: int32, length: 4 }, numbers: { list: float32, length: 3 }, weights: { list: float32, length: 4 } }",
};
/** Models of recordings that pipelines name. */
const RECORDED = ["list_features", "keras_rs_ranking"];
const BODIES: Readonly<Record<string, string>> = {
  "alike-too": '{"instances":[{"user_id":"1","movie":"none"}]}',
  "alike-all": '{"instances":[{"user_id":"1","movies":["none"]}]}',
  "only-alike": '{"instances":[["none"]]}',
  "fallen-alike": '{"instances":[{"user_id":"1","movies":["none"]}]}',
  apart: '{"instances":[{"movies":["none"],"skipped":["none"]}]}',
  sequence:
    '{"instances":[{"watched":["a","b","c","d"],"user":1,"history":[1,2,3,0],"numbers":[1,2,3],"weights":[1,1,1,1]}]}',
};

/** Items of the list for unknown users: some of the model's, and one that it lacks. */
function popularItems(): string {
  const file = path.join(models, "movies", "1", "assets.extra", "items.jsonl");
  const ids = readFileSync(file, "utf8")
    .split("\n", 60)
    .map((line) => (JSON.parse(line) as { readonly id: string }).id);
  return `${[...ids.filter((_, at) => at % 3 === 0).toReversed(), "no such movie"].join("\n")}\n`;
}

const EXPERIMENTS: Readonly<Record<string, string>> = {
  split: `arms:
  - { name: a, model: blend, weight: 1 }
  - { name: b, model: grown-up, weight: 2 }
  - { name: c, model: shared, weight: 1 }
sticky: { input: user_id }
`,
  "by-header": `arms:
  - { name: a, model: movies, weight: 3 }
  - { name: b, model: trending, version: 1, weight: 1 }
sticky: { header: X-User }
`,
};

function write(name: string, file: string, text: string): void {
  mkdirSync(path.join(models, name, "1"), { recursive: true });
  writeFileSync(path.join(models, name, "1", file), text);
}

interface Report {
  readonly verdict: string;
  readonly models: readonly {
    readonly model: string;
    readonly unchecked?: string;
    readonly progress?: {
      readonly missing: readonly number[];
      readonly files: Readonly<Record<string, number>>;
      readonly grpc?: Readonly<Record<string, number>>;
      readonly differences: readonly { readonly kind: string }[];
    };
  }[];
}

function verify(...args: readonly string[]): Promise<{ code: number; report: Report }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [script, "verify", ...args, "--models", models, "--json"],
      { maxBuffer: 2 ** 26 },
      (_, stdout) => {
        resolve({ code: child.exitCode ?? -1, report: JSON.parse(stdout) as Report });
      },
    );
  });
}

const named = (...names: readonly string[]): readonly string[] =>
  names.flatMap((name) => ["--model", name]);

describe("winnow verify", () => {
  let cluster: RunningCluster;
  let proxy: SpoilingProxy;
  let grpc: string;

  beforeAll(async () => {
    await writeDemo(models, { items: 300, dim: 8, users: 50, k: 5, seed: 1 });
    const second = path.join(directory, "second");
    await writeDemo(second, { items: 200, dim: 4, users: 50, k: 5, seed: 9 });
    renameSync(path.join(second, "movies"), path.join(models, "trending"));
    for (const [name, stages] of Object.entries(PIPELINES)) {
      const inputs = INPUTS[name] ?? "{ user_id: string }";
      write(name, "pipeline.yaml", `inputs: ${inputs}\nstages:\n${stages}`);
    }
    for (const name of RECORDED) {
      cpSync(path.join(recordings, name, "1"), path.join(models, name, "1"), { recursive: true });
    }
    write("listed", "popular.txt", popularItems());
    for (const [name, text] of Object.entries(EXPERIMENTS)) write(name, "experiment.yaml", text);
    const seen = `${RETRIEVE}  - seen: { key: "seen:{user_id}" }\n`;
    write("unseen", "pipeline.yaml", `inputs: { user_id: string }\nstages:\n${seen}`);
    write(
      "numbered",
      "pipeline.yaml",
      `inputs: { user_id: string }\nitems: int64\nstages:\n${RETRIEVE}`,
    );
    const [port] = (await supplyPorts(1)) as [number];
    grpc = `127.0.0.1:${port}`;
    // Keys are looked up by workers alone.
    const routerArgs = ["--grpc-port", String(port), "--router-table-bytes", "0"];
    cluster = await RunningCluster.start({ models, workers: 2, routerArgs });
    for (const [name, body] of [
      ["split", '{"instances":["1","2","3","4","5","6","7","8"]}'],
      ["by-header", '{"instances":["1"]}'],
      ...Object.keys(PIPELINES).map(
        (each) => [each, BODIES[each] ?? '{"instances":["1"]}'] as const,
      ),
    ]) {
      await vi.waitFor(
        async () => {
          const url = `${cluster.url}/v1/models/${name}:predict`;
          const answer = await fetch(url, { method: "POST", body, headers: { "x-user": "1" } });
          if (answer.status !== 200) throw new Error(await answer.text());
        },
        { timeout: WAIT_MS, interval: 200 },
      );
    }
    proxy = await SpoilingProxy.start(cluster.url);
  });
  beforeEach(() => {
    proxy.spoil = () => undefined;
    proxy.asked = () => undefined;
  });
  afterAll(async () => {
    await proxy?.close();
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  test(
    "S1: finds every answer exact, of pipelines with each kind of stage, over REST and gRPC",
    async () => {
      const asked = { exclude: 0, filter: 0, return: 0, k: 0 };
      proxy.asked = (body) => {
        for (const name of Object.keys(asked) as (keyof typeof asked)[]) {
          if (body.includes(`"${name}":`)) asked[name] += 1;
        }
      };
      const names = Object.keys(PIPELINES);
      const { code, report } = await verify(
        proxy.url,
        ...named(...names, "movies"),
        "--grpc",
        grpc,
        "--queries",
        String(QUERIES),
      );

      const differences = report.models.flatMap(({ progress }) => progress?.differences ?? []);
      expect(differences).toEqual([]);
      expect(report.models.map(({ model }) => model)).toEqual(names.concat("movies").toSorted());
      for (const { progress } of report.models) {
        expect(progress).toMatchObject({ missing: [], files: { different: 0 } });
        expect(progress!.files["exact"]).toBeGreaterThan(0.6 * QUERIES);
        expect(progress!.grpc!["exact"]).toBeGreaterThan(0.4 * QUERIES);
        expect(progress!.grpc!["exact"]! + progress!.grpc!["refused"]!).toBe(QUERIES);
      }
      expect(Math.min(...Object.values(asked))).toBeGreaterThan(10);
      const metrics = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
      for (const [model, answer] of [
        ["guessed", "oov"],
        ["listed", "list"],
        ["fallen", "pipeline"],
      ] as const) {
        const line = `winnow_unknown_users_total{model="${model}",answer="${answer}"}`;
        const told = metrics.split("\n").find((each) => each.startsWith(line)) ?? "";
        expect(Number(told.slice(line.length))).toBeGreaterThan(0);
      }
      expect([report.verdict, code]).toEqual(["equal", 0]);
    },
    VERIFIED_MS_MAX,
  );

  test(
    "S1: finds each instance of an experiment answered by its arm, and the arms named",
    async () => {
      const names = Object.keys(EXPERIMENTS);
      const { report } = await verify(
        cluster.url,
        ...named(...names),
        "--grpc",
        grpc,
        "--queries",
        String(QUERIES),
      );

      expect(report.models.map(({ progress }) => progress?.differences)).toEqual([[], []]);
      for (const { progress } of report.models) {
        expect(progress!.files["exact"]).toBeGreaterThan(0.66 * QUERIES);
        expect(progress!.grpc!["exact"]).toBeGreaterThan(0.4 * QUERIES);
      }
      expect(report.verdict).toBe("equal");
    },
    VERIFIED_MS_MAX,
  );

  test.each<[string, { readonly model: string; readonly kind: string; readonly spoil: Spoil }]>([
    [
      "two items of a pipeline in another order",
      {
        model: "blend",
        kind: "id",
        spoil: ({ predictions }) => {
          const { output_1: scores, output_2: ids } = predictions[0]!;
          [scores[0], scores[1]] = [scores[1]!, scores[0]!];
          [ids[0], ids[1]] = [ids[1]!, ids[0]!];
        },
      },
    ],
    [
      "an attribute of another item",
      {
        model: "movies",
        kind: "attributes",
        spoil: ({ predictions }) => {
          const [first] = predictions.flatMap(({ attributes }) => attributes ?? []);
          for (const name of Object.keys(first ?? {})) first![name] = "of another";
        },
      },
    ],
    [
      "another version of a pipeline's model",
      {
        model: "blend",
        kind: "version",
        spoil: ({ headers }) => {
          const told = headers["x-winnow-pipeline-versions"]!;
          headers["x-winnow-pipeline-versions"] = told.replace("movies=1", "movies=2");
        },
      },
    ],
    [
      "an arm that did not answer",
      {
        model: "by-header",
        kind: "arm",
        spoil: ({ headers }) =>
          (headers["x-winnow-arm"] = headers["x-winnow-arm"] === "a" ? "b" : "a"),
      },
    ],
  ])("notices %s", async (_, { model, kind, spoil }) => {
    proxy.spoil = (answer) => {
      if (answer.status === 200 && (answer.predictions[0]?.output_2.length ?? 0) > 1) spoil(answer);
    };

    const { code, report } = await verify(proxy.url, ...named(model), "--queries", "30");

    const kinds = report.models[0]!.progress!.differences.map((each) => each.kind);
    expect(new Set(kinds)).toEqual(new Set([kind]));
    expect(code).toBe(1);
  });

  test("says what no file tells, and which pipeline waits, and exits 2", async () => {
    const { code, report } = await verify(cluster.url, ...named("numbered", "unseen"));

    const [waiting, unseen] = report.models.map(({ unchecked }) => unchecked);
    expect(waiting).toContain(
      "the pipeline waits: stages[0].retrieve: model movies answers ids of string, the pipeline says int64",
    );
    expect(unseen).toContain("what users have seen");
    expect(code).toBe(2);
  });
});
