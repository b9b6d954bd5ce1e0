// A pipeline with real processes: what separate calls give, also while one of its models gets another version
// and a worker is killed. Experiments over these pipelines and models: what each of their arms answers alone.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-pipelines-"));
const models = path.join(directory, "models");

function writePipeline(name: string, text: string, file = "pipeline.yaml"): void {
  mkdirSync(path.join(models, name, "1"), { recursive: true });
  writeFileSync(path.join(models, name, "1", file), text);
}

function writeExperiment(name: string, arms: readonly string[], more: string): void {
  const lines = arms.map((arm) => `  - { ${arm} }\n`).join("");
  writePipeline(name, `arms:\n${lines}${more}\n`, "experiment.yaml");
}

const homeFeed = `inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 50, inputs: { input_1: user_id } }
  - rank: { model: movies-ranking, inputs: { user_id: request.user_id, movie_title: item } }
  - limit: 7
`;

const twoSources = `inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 50, inputs: { input_1: user_id }, as: personal }
  - retrieve: { model: trending, k: 30, inputs: { input_1: user_id }, as: popular }
  - merge: { MERGE }
`;

const oneSource = `inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: 50, inputs: { input_1: user_id } }
  - diversify: { DIVERSIFY }
`;

interface Feed {
  readonly output_1: readonly number[];
  readonly output_2: readonly string[];
}

describe("a cluster with pipelines", () => {
  let cluster: RunningCluster;
  /** Titles of a list for users that nobody knows. */
  let popular: readonly string[];

  beforeAll(async () => {
    await writeDemo(models, { items: 300, dim: 8, users: 50, k: 5, seed: 1 });
    await writeDemo(path.join(directory, "second"), {
      items: 200,
      dim: 4,
      users: 50,
      k: 5,
      seed: 9,
    });
    renameSync(path.join(directory, "second", "movies"), path.join(models, "trending"));
    writePipeline("home-feed", homeFeed);
    for (const [name, merge] of [
      ["weighed", "weights: { personal: 1, popular: 0.5 }"],
      ["shared", "quotas: { personal: 20, popular: 10 }"],
    ] as const) {
      writePipeline(name, twoSources.replace("MERGE", merge));
    }
    const alike = "- retrieve: { model: movies, k: 9, like: movie }";
    writePipeline("alike", `inputs: { movie: string }\nstages:\n  ${alike}\n`);
    writePipeline(
      "blend",
      homeFeed
        .replace("k: 50", "k: 50, as: prior")
        .replace(
          "item } }",
          "item }, heads: { rating: output_1 } }\n  - score: rating - 2 * max(prior, 0)",
        ),
    );
    for (const [name, budget] of [
      ["patient", "10s"],
      ["hasty", "1ms"],
    ] as const) {
      writePipeline(name, homeFeed.replace("item } }", `item }, budget: ${budget} }`));
    }
    writePipeline(
      "grown-up",
      homeFeed.replace("  - limit", "  - filter: { kids: false, year: { $gte: 1970 } }\n  - limit"),
    );
    writePipeline(
      "misnamed",
      homeFeed.replace("  - limit", "  - filter: { yaer: { $gte: 1970 } }\n  - limit"),
    );
    for (const [name, diversify] of [
      ["few-alike", "at_most: 2, per: genres"],
      ["by-turns", "round_robin: year"],
      ["relevant", "mmr: 0.6, count: 12"],
    ] as const) {
      writePipeline(name, oneSource.replace("DIVERSIFY", diversify));
    }
    writePipeline(
      "unlike",
      twoSources
        .replace("MERGE", "weights: { personal: 1, popular: 1 }")
        .concat("  - diversify: { mmr: 0.3, count: 20, of: popular }\n"),
    );
    writePipeline("listed", oneSource.replace("DIVERSIFY", "round_robin: genres"));
    for (const [name, answer] of [
      ["strangers-listed", "list: popular.txt"],
      ["strangers-elsewhere", "pipeline: crime"],
      ["strangers-refused", "answer: error"],
      ["strangers-guessed", "answer: oov"],
      ["strangers-nowhere", "pipeline: orphan"],
    ] as const) {
      const stage = `  - unknown: { user: user_id, ${answer} }\n  - rank`;
      writePipeline(name, homeFeed.replace("  - rank", stage));
    }
    const items = path.join(models, "movies", "1", "assets.extra", "items.jsonl");
    const lines = readFileSync(items, "utf8").trimEnd().split("\n");
    popular = [290, 7, 150, 3, 99, 41, 260, 12, 77, 5].map(
      (at) => (JSON.parse(lines[at]!) as { readonly id: string }).id,
    );
    const list = path.join(models, "strangers-listed", "1", "popular.txt");
    writeFileSync(list, ["no such film", ...popular].join("\n"));
    const crime = "  - retrieve: { model: trending, k: 9, inputs: { input_1: user_id } }\n";
    writePipeline("crime", `inputs: { user_id: string }\nstages:\n${crime}`);
    writePipeline("orphan", homeFeed.replace("movies-ranking", "nobody"));
    writePipeline("circle", homeFeed.replace("movies-ranking", "circle"));
    writePipeline("wrong", homeFeed.replace("movie_title:", "movie:"));
    writePipeline("broken", homeFeed.replace("limit: 7", "limit: 0"));
    const halves = ["name: a, model: home-feed, weight: 1", "name: b, model: grown-up, weight: 1"];
    writeExperiment("split", halves, "sticky: { input: user_id }");
    const versions = ["name: a, model: movies, weight: 1", "name: b, model: trending, weight: 1"];
    writeExperiment("by-header", versions, "sticky: { header: X-User }");
    const gone = [
      "name: a, model: movies, weight: 1",
      "name: b, model: movies, version: 9, weight: 1",
    ];
    writeExperiment("armless", gone, "sticky: { input: input_1 }");
    const only = ["name: a, model: movies, weight: 1"];
    writeExperiment("shadowed", only, "shadow: { model: movies, version: 1, share: 1 }");
    writeExperiment("outdone", only, "shadow: { model: trending, share: 1, budget: 10s }");
    writeExperiment("nested", ["name: a, model: by-header, weight: 1"], "");
    writeExperiment("mixed", [halves[0]!, versions[1]!], "sticky: { input: user_id }");
    writeExperiment("weightless", ["name: a, model: movies, weight: 0"], "");
    cluster = await RunningCluster.start({ models, workers: 2 });
    await vi.waitFor(
      async () => {
        const { status, body } = await ask("home-feed", ["42"]);
        if (status !== 200) throw new Error(JSON.stringify(body));
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  async function ask(model: string, instances: readonly unknown[], more: object = {}) {
    const answer = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
      method: "POST",
      body: JSON.stringify({ instances, ...more }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  /** The two calls and the merge of a client. */
  async function separately(user: string, exclude: readonly string[] = []): Promise<Feed> {
    const retrieved = await ask("movies", [user], { k: 50, exclude });
    const [{ output_2: ids }] = retrieved.body["predictions"] as [Feed];
    const pairs = ids.map((movie_title) => ({ user_id: user, movie_title }));
    const ranked = await ask("movies-ranking", pairs);
    const scores = (ranked.body["predictions"] as number[][]).flat();
    const order = ids.map((_, at) => at).toSorted((a, b) => scores[b]! - scores[a]! || a - b);
    const best = order.slice(0, 7);
    return { output_1: best.map((at) => scores[at]!), output_2: best.map((at) => ids[at]!) };
  }

  test("takes filters to its retrieval, and gives attributes in the order of its stages", async () => {
    const filter = { kids: false, year: { $gte: 1970 } };
    const wanted = { filter, return: ["year", "kids"] };
    const retrieved = await ask("movies", ["42"], { k: 50, ...wanted });
    const [all] = retrieved.body["predictions"] as [Feed & { attributes: object[] }];
    const attributesOf = new Map(all.output_2.map((id, at) => [id, all.attributes[at]]));
    const { body } = await ask("home-feed", ["42"], wanted);
    const [feed] = body["predictions"] as [Feed & { attributes: object[] }];
    expect(feed.output_2).toHaveLength(7);
    expect(feed.attributes).toEqual(feed.output_2.map((id) => attributesOf.get(id)));
    const { status, body: refused } = await ask("home-feed", ["42"], { return: ["titel"] });
    expect({ status, error: refused["error"] }).toMatchObject({
      status: 400,
      error: expect.stringContaining('no attribute "titel"') as string,
    });
  });

  test("finds the items whose vectors have the largest products with an item's, none for an unknown one", async () => {
    const every = await ask("movies", ["42"], { k: 300, return_vectors: true });
    const [{ output_2: ids, vectors }] = every.body["predictions"] as [
      Feed & { vectors: readonly (readonly number[])[] },
    ];
    expect(ids).toHaveLength(300);
    const [liked, left] = [ids[7]!, ids[20]!];
    const products = new Map(
      ids.map((id, at) => {
        const terms = vectors[at]!.map((value, axis) => value * vectors[7]![axis]!);
        return [id, terms.reduce((sum, term) => sum + term, 0)];
      }),
    );
    const best = ids
      .filter((id) => id !== liked && id !== left)
      .toSorted((a, b) => products.get(b)! - products.get(a)!)
      .slice(0, 9);

    const { body } = await ask("alike", [liked, "no such movie"], { exclude: [left] });

    const [found, none] = body["predictions"] as [Feed, Feed];
    expect(found.output_2).toEqual(best);
    for (const [at, id] of best.entries()) {
      expect(found.output_1[at]).toBeCloseTo(products.get(id)!, 5);
    }
    expect(none).toEqual({ output_1: [], output_2: [] });
  });

  test("compares vectors of the retrieval that it names alone, whichever the request wants to see", async () => {
    const plain = await ask("unlike", ["42", "7"]);
    const shown = await ask("unlike", ["42", "7"], { return: ["$vector"] });

    const idsOf = ({ body }: typeof plain): readonly unknown[] =>
      (body["predictions"] as Feed[]).map(({ output_2: ids }) => ids);
    expect(idsOf(plain)[0]).toHaveLength(20);
    expect(idsOf(shown)).toEqual(idsOf(plain));
  });

  test("filters by its own file what a request's filter would, joined with the request's", async () => {
    const own = { kids: false, year: { $gte: 1970 } };
    const more = { genres: "crime" };

    const plain = await ask("grown-up", ["42", "7"]);
    const joined = await ask("grown-up", ["42", "7"], { filter: [more, null], return: ["genres"] });

    const expected = await ask("home-feed", ["42", "7"], { filter: own });
    expect(plain).toEqual(expected);
    const both = { $and: [own, more] };
    const expectedJoined = await ask("home-feed", ["42", "7"], {
      filter: [both, own],
      return: ["genres"],
    });
    expect(joined).toEqual(expectedJoined);
    expect(joined.body).not.toEqual((await ask("home-feed", ["42", "7"])).body);
  });

  test("answers what the separate calls answer, exclusions and k included", async () => {
    const users = ["42", "7", "nobody knows"];
    const expected = await Promise.all(users.map((user) => separately(user)));

    const { body } = await ask("home-feed", users);

    expect(body).toEqual({ predictions: expected });
    const exclude = expected[0]!.output_2.slice(0, 3);
    const without = await separately("42", exclude);
    const { output_1, output_2 } = without;
    const short = { output_1: output_1.slice(0, 4), output_2: output_2.slice(0, 4) };
    const answer = await ask("home-feed", ["42"], { exclude, k: 4 });
    expect(answer.body).toEqual({ predictions: [short] });
  });

  test("answers the order of the retrieval where the ranking misses its budget, and says so", async () => {
    const users = Array.from({ length: 100 }, (_, at) => `${at % 50}`);
    const answerOf = async (model: string) => {
      const answer = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
        method: "POST",
        body: JSON.stringify({ instances: users }),
      });
      const { predictions } = (await answer.json()) as { predictions: readonly Feed[] };
      return { predictions, degraded: answer.headers.get("x-winnow-degraded") };
    };

    const [whole, patient, hasty] = [
      await answerOf("home-feed"),
      await answerOf("patient"),
      await answerOf("hasty"),
    ];

    const retrieved = await ask("movies", users, { k: 7 });
    expect(patient).toEqual({ ...whole, degraded: null });
    expect(hasty).toEqual({ ...retrieved.body, degraded: "rank=late" });
    const metrics = await fetch(`${cluster.url}/monitoring/prometheus/metrics`);
    expect(await metrics.text()).toMatch(
      /^winnow_degraded_responses_total\{model="hasty",stage="rank",reason="late"\} 1$/m,
    );
  });

  test("has users that the model does not know answered by a list, a pipeline, an error, or its OOV vector", async () => {
    const users = ["42", "nobody knows", "7", "nor her"];
    const strangers = ["nobody knows", "nor her"];
    const answerOf = async (name: string, more: object = {}) => {
      const answer = await fetch(`${cluster.url}/v1/models/strangers-${name}:predict`, {
        method: "POST",
        body: JSON.stringify({ instances: users, ...more }),
      });
      const [unknown, members] = ["unknown-users", "pipeline-versions"].map((header) =>
        answer.headers.get(`x-winnow-${header}`),
      );
      const body = (await answer.json()) as Readonly<Record<string, unknown>>;
      return { body, feeds: body["predictions"] as readonly Described[], unknown, members };
    };
    const { body: plain } = await ask("home-feed", users);
    const [first, second, third, fourth] = plain["predictions"] as readonly Feed[];

    const [listed, elsewhere, guessed, refused] = await Promise.all(
      ["listed", "elsewhere", "guessed", "refused"].map((name) => answerOf(name)),
    );
    const filter = { year: { $gte: 1990 } };
    const filtered = await answerOf("listed", { filter, return: ["year"], k: 3 });

    const list = { output_1: Array.from({ length: 7 }, () => 0), output_2: popular.slice(0, 7) };
    expect(listed!.feeds).toEqual([first, list, third, list]);
    expect([listed!.unknown, listed!.members]).toEqual(["list=2", "movies=1, movies-ranking=1"]);
    const crime = (await ask("crime", strangers)).body["predictions"] as readonly Feed[];
    expect(elsewhere!.feeds).toEqual([first, crime[0], third, crime[1]]);
    expect(elsewhere!.unknown).toBe("pipeline=2");
    expect(elsewhere!.members).toBe("crime=1, movies=1, movies-ranking=1, trending=1");
    expect(guessed).toMatchObject({ body: plain, unknown: "oov=2" });
    expect(fourth).toEqual(second);
    expect(refused!.body["error"]).toMatch(/^No vocabulary of model movies has "nobody knows"/);
    const described = await ask("movies", ["42"], {
      k: 300,
      filter,
      include: [popular],
      return: ["year"],
    });
    const [young] = described.body["predictions"] as [Described];
    const admitted = popular.filter((title) => young.output_2.includes(title)).slice(0, 3);
    expect(filtered.feeds[1]!.output_2).toEqual(admitted);
    expect(filtered.feeds[1]!.attributes).toEqual(
      admitted.map((title) => young.attributes[young.output_2.indexOf(title)]),
    );
    expect(filtered.feeds[3]).toEqual(filtered.feeds[1]);
    const metrics = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
    expect(metrics).toContain(
      'winnow_unknown_users_total{model="strangers-listed",answer="list"} 4',
    );
    const waiting = await fetch(`${cluster.url}/v1/models/strangers-nowhere`);
    expect(await waiting.text()).toMatch(/stages\[1\]\.unknown: model orphan cannot answer: /);
  });

  async function askByHeader(model: string, user: string, instances: readonly unknown[]) {
    const answer = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
      method: "POST",
      headers: { "x-user": user },
      body: JSON.stringify({ instances, k: 5 }),
    });
    const told = ["x-winnow-arm", "x-winnow-pipeline-versions", "x-winnow-model-version"];
    const headers = told.map((name) => answer.headers.get(name));
    return { body: (await answer.json()) as Record<string, unknown>, headers };
  }

  test("splits a batch between two pipelines, each user in its own arm", async () => {
    const users = Array.from({ length: 12 }, (_, at) => `${at}`);
    const arms = { a: await ask("home-feed", users), b: await ask("grown-up", users) };
    const feedsOf = (arm: "a" | "b") => arms[arm].body["predictions"] as readonly Feed[];

    const answers = await Promise.all(users.map((user) => askByHeader("split", "", [user])));
    const { body } = await ask("split", users);

    const chosen = answers.map(({ headers }) => headers[0] as "a" | "b");
    expect(new Set(chosen)).toEqual(new Set(["a", "b"]));
    expect(body).toEqual({ predictions: chosen.map((arm, at) => feedsOf(arm)[at]) });
    const [first] = answers;
    expect(first!.headers[1]).toMatch(/^(home-feed|grown-up)=1, movies=1, movies-ranking=\d$/);
    expect(first!.headers[2]).toBe("1");
  });

  test("chooses one model for a request by a header, in REST and in the Open Inference Protocol", async () => {
    const users = ["42", "7"];
    const keys = Array.from({ length: 12 }, (_, at) => `user-${at}`);

    const answers = await Promise.all(keys.map((key) => askByHeader("by-header", key, users)));
    const refused = await ask("by-header", users);

    const alone = {
      a: (await ask("movies", users, { k: 5 })).body,
      b: (await ask("trending", users, { k: 5 })).body,
    };
    const chosen = answers.map(({ headers }) => headers[0] as "a" | "b");
    expect(new Set(chosen)).toEqual(new Set(["a", "b"]));
    expect(answers.map(({ body }) => body)).toEqual(chosen.map((arm) => alone[arm]));
    expect(refused).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining("lacks the header X-User") as string },
    });
    const inferred = await fetch(`${cluster.url}/v2/models/by-header/infer`, {
      method: "POST",
      headers: { "X-User": keys[0]! },
      body: JSON.stringify({
        inputs: [{ name: "input_1", datatype: "BYTES", shape: [2], data: users }],
      }),
    });
    expect([inferred.status, inferred.headers.get("x-winnow-arm")]).toEqual([200, chosen[0]]);
    const metadata = await fetch(`${cluster.url}/v1/models/by-header/metadata`);
    expect(await metadata.text()).toMatch(/"input_1"[^]*"experiment": \{\n "arms"/);
    const metrics = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
    const countOf = (arm: string): number => 2 * chosen.filter((each) => each === arm).length;
    const total = 'winnow_arm_instances_total{model="by-header",arm=';
    const lines = metrics.split("\n").filter((line) => line.startsWith(total));
    const [first] = chosen;
    expect(new Set(lines)).toEqual(
      new Set(
        ["a", "b"].map((arm) => `${total}"${arm}"} ${countOf(arm) + (arm === first ? 2 : 0)}`),
      ),
    );
  });

  test("takes up the experiment of docs/experiments.md, by the lines that stand there", async () => {
    const document = readFileSync(path.join(repositoryRoot, "docs/experiments.md"), "utf8");
    const [, block] = /```sh\n(mkdir -p demo-models\/feed[^]*?)```/.exec(document) ?? [];
    const [file, call] = (block ?? "").split(/\n(?=curl )/);
    const run = (line: string): string => {
      const url = line.replaceAll("http://127.0.0.1:8501", cluster.url);
      const text = url.replaceAll("demo-models", models).replace("curl -i", "curl -sSi");
      return execFileSync("sh", ["-euc", text], { encoding: "utf8" });
    };

    run(file!);
    const answer = await vi.waitFor(
      () => {
        const given = run(call!);
        if (!given.startsWith("HTTP/1.1 200")) throw new Error(given);
        return given;
      },
      { timeout: WAIT_MS, interval: 200 },
    );

    expect(answer).toMatch(/^x-winnow-arm: (control|again)\r$/im);
    const [body] = answer.split("\r\n\r\n").slice(1);
    expect(JSON.parse(body!)).toEqual((await ask("movies", ["42"])).body);
    const status = await fetch(`${cluster.url}/v1/cluster`);
    const { models: told } = (await status.json()) as {
      models: { name: string; versions: { arms?: object[] }[] }[];
    };
    expect(told.find(({ name }) => name === "feed")!.versions[0]!.arms).toEqual([
      { name: "control", isShadow: false, model: "movies", share: 0.5 },
      { name: "again", isShadow: false, model: "movies", version: 1, share: 0.5 },
    ]);
  });

  test("asks a shadow behind its answers, and counts how the shadow's compare", async () => {
    const plain = await ask("movies", ["42", "7"]);

    const answers = [await ask("shadowed", ["42", "7"]), await ask("outdone", ["42", "7"])];

    expect(answers).toEqual([plain, plain]);
    const total = "winnow_shadow_requests_total{model=";
    await vi.waitFor(async () => {
      const page = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
      expect(page).toContain(`${total}"shadowed",outcome="same",reason=""} 1`);
      expect(page).toContain(`${total}"outdone",outcome="different",reason=""} 1`);
    });
  });

  /** What both models retrieve by themselves. */
  async function bothFor(user: string): Promise<readonly [Feed, Feed]> {
    const answers = await Promise.all([
      ask("movies", [user], { k: 50 }),
      ask("trending", [user], { k: 30 }),
    ]);
    const [personal, popular] = answers.map(({ body }) => (body["predictions"] as [Feed])[0]);
    return [personal!, popular!];
  }

  test("merges what two models retrieve, by weights", async () => {
    const users = ["42", "7", "13", "2"];
    const found = await Promise.all(users.map((user) => bothFor(user)));
    const scoreIn = ({ output_1, output_2 }: Feed, id: string): number =>
      output_1[output_2.indexOf(id)] ?? 0;
    const expected = found.map(([personal, popular]) => {
      const sumOf = (id: string): number => scoreIn(personal, id) + 0.5 * scoreIn(popular, id);
      const order = [...new Set([...personal.output_2, ...popular.output_2])];
      return order.toSorted((a, b) => sumOf(b) - sumOf(a));
    });

    const { body } = await ask("weighed", users);

    const feeds = body["predictions"] as Feed[];
    expect(feeds.map(({ output_2 }) => output_2)).toEqual(expected);
    expect(expected.flat().length).toBeLessThan(80 * users.length);
  });

  test("merges what two models retrieve, by quotas: two of the one, one of the other", async () => {
    const [personal, popular] = await bothFor("42");

    const answer = await ask("shared", ["42", "7"], { k: 3 });
    const whole = await ask("shared", ["42"]);

    const [feed] = whole.body["predictions"] as [Feed];
    expect(feed.output_2).toHaveLength(30);
    expect(new Set(feed.output_2).size).toBe(30);
    const [first, second] = feed.output_2;
    expect(first).toBe(personal.output_2[0]);
    expect(second).toBe(popular.output_2.find((id) => id !== first));
    const [short, other] = answer.body["predictions"] as [Feed, Feed];
    expect(short.output_2).toEqual(feed.output_2.slice(0, 3));
    expect(other.output_2).toHaveLength(3);
  });

  interface Described extends Feed {
    readonly attributes: readonly Readonly<Record<string, unknown>>[];
  }

  /** What the model alone answers, with these attributes. */
  async function retrievedFor(user: string, names: readonly string[]): Promise<Described> {
    const { body } = await ask("movies", [user], { k: 50, return: names });
    return (body["predictions"] as [Described])[0];
  }

  test("keeps at most so many items of a value, and gives what the request wants of them", async () => {
    const { output_2: ids, attributes } = await retrievedFor("42", ["genres", "year"]);
    const genresOf = (at: number) => attributes[at]!["genres"] as readonly string[];
    const kept: number[] = [];
    for (const at of ids.keys()) {
      const isFull = (genre: string): boolean =>
        kept.filter((before) => genresOf(before).includes(genre)).length >= 2;
      if (!genresOf(at).some((genre) => isFull(genre))) kept.push(at);
    }

    const { body } = await ask("few-alike", ["42"], { return: ["year"] });

    const [feed] = body["predictions"] as [Described];
    expect(feed.output_2).toEqual(kept.map((at) => ids[at]));
    expect(feed.attributes).toEqual(kept.map((at) => ({ year: attributes[at]!["year"] })));
    expect(kept.length).toBeLessThan(ids.length);
  });

  test("takes items of each value in turn, of more instances than one question may describe", async () => {
    const { output_2: ids, attributes } = await retrievedFor("42", ["year"]);
    const years = attributes.map(({ year }) => year);
    const turnOf = (at: number): number =>
      years.slice(0, at).filter((year) => year === years[at]).length;
    const expected = [...ids.keys()]
      .toSorted(
        (a, b) => turnOf(a) - turnOf(b) || years.indexOf(years[a]) - years.indexOf(years[b]),
      )
      .map((at) => ids[at]);
    const users = Array.from({ length: 400 }, (_, at) => (at % 2 === 0 ? "42" : "7"));

    const { body } = await ask("by-turns", users);
    const [other] = (await ask("by-turns", ["7"])).body["predictions"] as [Feed];

    const feeds = body["predictions"] as Feed[];
    expect(expected).not.toEqual(ids);
    expect(feeds).toHaveLength(400);
    expect(new Set(feeds.map(({ output_2 }) => String(output_2)))).toEqual(
      new Set([String(expected), String(other.output_2)]),
    );
    expect(feeds[399]).toEqual(other);
  });

  test("chooses by marginal relevance over the vectors of the version, which a request may have too", async () => {
    const { output_1: scores, output_2: ids, attributes } = await retrievedFor("42", ["$vector"]);
    const vectors = attributes.map(({ $vector }) => {
      const bytes = Uint8Array.from(Buffer.from($vector as string, "base64"));
      return new Float32Array(bytes.buffer);
    });
    const dot = (a: Float32Array, b: Float32Array): number =>
      a.reduce((sum, value, at) => sum + value * b[at]!, 0);
    const cosine = (a: number, b: number): number =>
      dot(vectors[a]!, vectors[b]!) /
      Math.sqrt(dot(vectors[a]!, vectors[a]!) * dot(vectors[b]!, vectors[b]!));
    const [least, most] = [Math.min(...scores), Math.max(...scores)];
    const taken: number[] = [];
    while (taken.length < 12) {
      const open = [...ids.keys()].filter((at) => !taken.includes(at));
      const valueOf = (at: number): number => {
        const alike = taken.length === 0 ? 0 : Math.max(...taken.map((other) => cosine(at, other)));
        return (0.6 * (scores[at]! - least)) / (most - least) - 0.4 * alike;
      };
      taken.push(open.reduce((best, at) => (valueOf(at) > valueOf(best) ? at : best)));
    }

    const { body } = await ask("relevant", ["42"]);

    const [feed] = body["predictions"] as [Feed];
    expect(vectors[0]).toHaveLength(8);
    expect(feed.output_2).toEqual(taken.map((at) => ids[at]));
    expect(feed.output_1).toEqual(taken.map((at) => scores[at]));
    expect(taken).not.toEqual([...taken.keys()]);
  });

  test("explains its answer: candidates, scores, time and versions of each stage", async () => {
    interface Explained extends Feed {
      readonly explain: {
        readonly stages: readonly {
          readonly stage: string;
          readonly model?: string;
          readonly version?: number;
          readonly ms: number;
          readonly candidates: number;
          readonly ids: readonly string[];
          readonly scores: readonly number[];
        }[];
      };
    }
    const users = ["42", "7"];
    const plain = await ask("home-feed", users);
    const retrieved = (await ask("movies", users, { k: 50 })).body["predictions"] as Feed[];

    const { body } = await ask("home-feed", users, { explain: true });
    const refused = await ask("movies", ["42"], { explain: true });
    const malformed = await ask("home-feed", ["42"], { explain: 1 });

    const feeds = body["predictions"] as Explained[];
    expect(feeds.map(({ output_1, output_2 }) => ({ output_1, output_2 }))).toEqual(
      plain.body["predictions"],
    );
    for (const [instance, feed] of feeds.entries()) {
      const { stages } = feed.explain;
      const [first, second, third] = stages;
      expect(
        stages.map(({ stage, model, version, candidates }) => ({
          stage,
          model,
          version,
          candidates,
        })),
      ).toEqual([
        { stage: "retrieve", model: "movies", version: 1, candidates: 50 },
        { stage: "rank", model: "movies-ranking", version: 1, candidates: 50 },
        { stage: "limit", candidates: 7 },
      ]);
      expect(first!.ids).toEqual(retrieved[instance]!.output_2);
      expect(first!.scores.map(Math.fround)).toEqual(
        retrieved[instance]!.output_1.map(Math.fround),
      );
      expect(second!.ids.slice(0, 7)).toEqual(feed.output_2);
      expect(third!.ids).toEqual(feed.output_2);
      expect(third!.scores.map(Math.fround)).toEqual(feed.output_1.map(Math.fround));
      expect(Math.min(first!.ms, second!.ms)).toBeGreaterThan(0);
    }
    expect([refused.status, malformed.status]).toEqual([400, 400]);
    expect(refused.body["error"]).toBe('Cannot apply "explain": model movies is no pipeline');
    expect(malformed.body["error"]).toBe('"explain" is 1; it must be true or false');
  });

  test("orders by an expression over the scores of both models", async () => {
    const retrieved = await ask("movies", ["42"], { k: 50 });
    const [{ output_1: priors, output_2: ids }] = retrieved.body["predictions"] as [Feed];
    const pairs = ids.map((movie_title) => ({ user_id: "42", movie_title }));
    const ratings = ((await ask("movies-ranking", pairs)).body["predictions"] as number[][]).flat();
    const best = ids
      .map((id, at) => ({ id, score: Math.fround(ratings[at]! - 2 * Math.max(priors[at]!, 0)) }))
      .toSorted((a, b) => b.score - a.score)
      .slice(0, 7);

    const { body } = await ask("blend", ["42"]);

    const [feed] = body["predictions"] as [Feed];
    expect(feed.output_2).toEqual(best.map(({ id }) => id));
    for (const [at, { score }] of best.entries()) expect(feed.output_1[at]).toBeCloseTo(score, 5);
  });

  test.each([
    [
      "misnamed",
      /stages\[2\]\.filter: model movies: .* no attribute "yaer"; did you mean "year"\?/,
    ],
    ["listed", /stages\[1\]\.diversify: model movies: Attribute "genres" is a list; items in turn/],
    ["orphan", /stages\[1\]\.rank: model nobody cannot answer: no worker has a model of that name/],
    ["circle", /stages\[1\]\.rank: model circle is a pipeline; name the models that it asks/],
    ["wrong", /stages\[1\]\.rank: model movies-ranking has no input "movie", but/],
    ["armless", /arms\[1\] \(b\): model movies\/9 cannot answer: Servable not found/],
    ["nested", /arms\[0\] \(a\): model by-header is an experiment; name the models that it asks/],
    ["mixed", /arms\[1\] \(b\): model trending has no signature with the same inputs and outputs/],
  ])("of %s says what is missing, to who asks and in its status", async (model, message) => {
    const answer = await ask(model, ["42"]);
    const status = await fetch(`${cluster.url}/v1/models/${model}`);

    expect(answer.status).toBe(503);
    expect(answer.body["error"]).toMatch(message);
    expect(await status.json()).toMatchObject({
      model_version_status: [
        {
          state: "LOADING",
          status: { error_message: expect.stringMatching(message) as string },
        },
      ],
    });
  });

  test("with a mistake in its file names line and field in its status", async () => {
    const answer = await fetch(`${cluster.url}/v1/models/broken`);

    expect(await answer.text()).toMatch(/line 5, stages\[2\]\.limit: is not an integer from 1/);
    const weightless = await fetch(`${cluster.url}/v1/models/weightless`);
    expect(await weightless.text()).toMatch(/experiment\.yaml, line 2, arms: have no weight/);
  });

  test("answers by one version of each model while one is replaced and a worker is killed", async () => {
    const old = await separately("42");
    const other = path.join(directory, "other");
    await writeDemo(other, { items: 300, dim: 8, users: 50, k: 5, seed: 2 });
    const answers: unknown[] = [];
    const load = { isOver: false };
    const client = async (): Promise<void> => {
      while (!load.isOver) answers.push((await ask("home-feed", ["42"])).body);
    };
    const clients = [client(), client(), client()];

    renameSync(path.join(other, "movies-ranking", "1"), path.join(models, "movies-ranking", "2"));
    await vi.waitFor(
      async () => {
        const { output_1 } = await separately("42");
        if (String(output_1) === String(old.output_1)) throw new Error("still version 1");
      },
      { timeout: WAIT_MS, interval: 100 },
    );
    cluster.signal("w1", "SIGKILL");
    await cluster.ended("w1");
    const before = answers.length;
    await vi.waitFor(() => expect(answers.length).toBeGreaterThan(before + 20), {
      timeout: WAIT_MS,
    });
    load.isOver = true;
    await Promise.all(clients);

    const fresh = await separately("42");
    const kinds = new Set(answers.map((answer) => JSON.stringify(answer)));
    const expected = [old, fresh].map((feed) => JSON.stringify({ predictions: [feed] }));
    expect([...kinds].toSorted()).toEqual(expected.toSorted());
  });

  test("refuses filters that workers would not read, by themselves or with its own", async () => {
    const long = Array.from({ length: 700 }, (_, at) => `${"x".repeat(100)}${at}`);
    const many = Array.from({ length: 4096 }, (_, at) => at);

    const alone = await ask("movies", ["42"], { filter: { genres: { $in: long } } });
    const joined = await ask("grown-up", ["42"], { filter: { year: { $in: many } } });

    expect([alone.status, joined.status]).toEqual([400, 400]);
    expect(alone.body["error"]).toMatch(/A filter takes \d+ bytes; at most 65536 are allowed/);
    expect(joined.body["error"]).toMatch(/those of the pipeline are too large together: .*values/);
  });

  test("refuses more candidates than a request may have", async () => {
    const answer = await ask(
      "home-feed",
      Array.from({ length: 2000 }, () => "42"),
    );

    expect(answer.status).toBe(400);
    expect(answer.body["error"]).toMatch(/2000 instances of 50 candidates each; at most 65536/);
  });
});
