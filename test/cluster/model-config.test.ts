// TensorFlow Serving's model configuration file over a cluster of real processes: policies, labels,
// and what a reload does to requests that run meanwhile: nothing.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32c, maskChecksum } from "@winnow/core";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunningCluster, pause } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-config-"));
const file = path.join(directory, "models.config");
const BODY = JSON.stringify({ instances: ["42", "7"] });
const RATING = JSON.stringify({ instances: [{ user_id: "42", movie_title: "none" }] });
let cluster: RunningCluster;

/** Writes a configuration; entries are `name`, folder, the rest of `config { … }`. */
function configure(...entries: readonly (readonly [string, string, string])[]): void {
  const configs = entries.map(
    ([name, folder, rest]) =>
      `config { name: "${name}" base_path: "${path.join(directory, folder)}" ${rest} }`,
  );
  writeFileSync(file, `model_config_list {\n${configs.join("\n")}\n}\n`);
}

const specific = (...versions: readonly number[]): string =>
  `model_version_policy { specific { ${versions.map((v) => `versions: ${v}`).join(" ")} } }`;
const label = (key: string, value: number): string =>
  `version_labels { key: "${key}" value: ${value} }`;

interface Answer {
  readonly status: number;
  readonly version: string | null;
  readonly text: string;
}

async function ask(target: string, body = BODY): Promise<Answer> {
  const url = `${cluster.url}/v1/models/${target}:predict`;
  const response = await fetch(url, { method: "POST", body });
  const version = response.headers.get("x-winnow-model-version");
  return { status: response.status, version, text: await response.text() };
}

/** The arm of a user of the experiment over both labels, and its answer. */
async function askFeed(user: string): Promise<{ arm: string | null; text: string }> {
  const url = `${cluster.url}/v1/models/feed:predict`;
  const response = await fetch(url, { method: "POST", body: BODY, headers: { "x-user": user } });
  return { arm: response.headers.get("x-winnow-arm"), text: await response.text() };
}

async function states(model: string): Promise<Record<string, string>> {
  const response = await fetch(`${cluster.url}/v1/models/${model}`);
  const document = (await response.json()) as {
    model_version_status?: { version: string; state: string }[];
  };
  const statuses = document.model_version_status ?? [];
  return Object.fromEntries(statuses.map(({ version, state }) => [version, state]));
}

async function until(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  const endMs = Date.now() + WAIT_MS;
  while (!(await isTrue())) {
    if (Date.now() > endMs) throw new Error(`${what}: waited in vain\n${cluster.log()}`);
    await pause(50);
  }
}

/** Asks all targets round and round while `change` goes on; every answer is checked. */
async function underLoad(targets: readonly string[], change: () => Promise<void>): Promise<number> {
  const state = { isOver: false, answered: 0 };
  const faults: string[] = [];
  const client = async (offset: number): Promise<void> => {
    for (let turn = offset; !state.isOver; turn += 1) {
      const target = targets[turn % targets.length]!;
      const { status, version, text } = await ask(target);
      if (status !== 200) faults.push(`${target}: ${status} ${text}`);
      else if (text !== known.get(version ?? "")) faults.push(`${target}: not version ${version}`);
      else state.answered += 1;
      await pause(5);
    }
  };
  const clients = [client(0), client(1), client(2)];
  try {
    await change();
  } finally {
    state.isOver = true;
    await Promise.all(clients);
  }
  expect(faults.slice(0, 5)).toEqual([]);
  return state.answered;
}

/** The body of each version of movies. */
const known = new Map<string, string>();

beforeAll(async () => {
  for (const version of [1, 2, 3, 4, 5]) {
    const demo = path.join(directory, `demo-${version}`);
    await writeDemo(demo, { items: 600, dim: 8, users: 100, k: 5, seed: version });
    cpSync(path.join(demo, "movies", "1"), path.join(directory, `movies/${version}`), {
      recursive: true,
    });
  }
  cpSync(path.join(directory, "demo-1/movies-ranking"), path.join(directory, "ranking"), {
    recursive: true,
  });
  mkdirSync(path.join(directory, "feed", "1"), { recursive: true });
  const arms = ["stable", "canary"].map(
    (name) => `  - { name: ${name}, model: movies, label: ${name}, weight: 1 }\n`,
  );
  writeFileSync(
    path.join(directory, "feed", "1", "experiment.yaml"),
    `arms:\n${arms.join("")}sticky: { header: X-User }\n`,
  );
  configure(
    ["movies", "movies", `${specific(1, 2)} ${label("stable", 1)} ${label("canary", 2)}`],
    ["ranking", "ranking", ""],
    ["feed", "feed", ""],
  );
  const config = [`--model_config_file=${file}`, "--model_config_file_poll_wait_seconds=1"];
  cluster = await RunningCluster.start({
    models: path.join(directory, "not-looked-at"),
    workers: 2,
    routerArgs: [...config, "--router-table-bytes", "0"],
    workerArgs: config,
  });
  await cluster.loaded(["movies", "ranking"]);
  await until(async () => {
    const { 1: first, 2: second } = await states("movies");
    return first === "AVAILABLE" && second === "AVAILABLE";
  }, "versions 1 and 2");
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** One field of a protobuf message, length-delimited; short ones only. */
const field = (number: number, ...parts: readonly Uint8Array[]): Uint8Array => {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes]);
};
const varint = (number: number, value: number): Uint8Array => Buffer.from([number * 8, value]);

/** A TFRecord file of one PredictionLog that asks a signature for user "42". */
function writeWarmUp(version: string, signature: string, input: string): void {
  const shape = field(2, field(2, varint(1, 1)));
  const tensor = field(2, varint(1, 7), shape, field(8, Buffer.from("42")));
  const spec = field(1, field(3, Buffer.from(signature)));
  const entry = field(2, field(1, Buffer.from(input)), tensor);
  const record = field(6, field(1, spec, entry));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(record.length));
  const checksumOf = (bytes: Uint8Array): Buffer => {
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32LE(maskChecksum(crc32c(bytes)));
    return checksum;
  };
  const folder = path.join(directory, version, "assets.extra");
  mkdirSync(folder, { recursive: true });
  const content = [length, checksumOf(length), record, checksumOf(record)];
  writeFileSync(path.join(folder, "tf_serving_warmup_requests"), Buffer.concat(content));
}

/** The one input of movies, found in its graph. */
function inputName(): string {
  const graph = readFileSync(path.join(directory, "movies/3/saved_model.pb"), "latin1");
  const name = /serving_default_(\w+)/.exec(graph)?.[1];
  if (name === undefined) throw new Error("movies has no input");
  return name;
}

describe("a model configuration file", () => {
  test("(S4) loads the versions of the policy side by side, by number, by label, and by default", async () => {
    await until(async () => (await ask("movies")).version === "2", "the default");
    for (const version of ["1", "2"]) {
      const answer = await ask(`movies/versions/${version}`);
      expect(answer).toMatchObject({ status: 200, version });
      known.set(version, answer.text);
    }

    expect(known.get("1")).not.toBe(known.get("2"));
    expect(await ask("movies/labels/stable")).toMatchObject({ version: "1", text: known.get("1") });
    expect(await ask("movies/labels/canary")).toMatchObject({ version: "2", text: known.get("2") });
    expect(await ask("movies/versions/3")).toMatchObject({ status: 404 });
    expect(await ask("movies/labels/none")).toMatchObject({ status: 400 });
    expect(await ask("ranking", RATING)).toMatchObject({ status: 200, version: "1" });
    expect(await states("movies")).toEqual({ 1: "AVAILABLE", 2: "AVAILABLE" });
  });

  test("names the versions of an experiment's arms by label", async () => {
    await until(async () => (await states("feed"))["1"] === "AVAILABLE", "the experiment");
    const users = Array.from({ length: 12 }, (_, at) => `user ${at}`);

    const answers = await Promise.all(users.map((user) => askFeed(user)));

    expect(new Set(answers.map(({ arm }) => arm))).toEqual(new Set(["stable", "canary"]));
    const versionOf = (arm: string | null): string => (arm === "stable" ? "1" : "2");
    expect(answers.map(({ text }) => text)).toEqual(
      answers.map(({ arm }) => known.get(versionOf(arm))),
    );
  });

  test("(L1) a reload adds a model, removes one and moves a label; no request fails", async () => {
    const targets = ["movies", "movies/versions/2", "movies/labels/stable", "movies/labels/canary"];

    const answered = await underLoad(targets, async () => {
      await pause(300);
      configure(
        ["movies", "movies", `${specific(2)} ${label("stable", 2)} ${label("canary", 2)}`],
        ["films", "movies", `${specific(3)} ${label("new", 3)}`],
        ["feed", "feed", ""],
      );
      await until(async () => (await states("films"))["3"] === "AVAILABLE", "films");
      await until(async () => (await ask("movies/labels/stable")).version === "2", "stable");
      await until(async () => (await states("ranking"))["1"] !== "AVAILABLE", "ranking goes");
      await until(async () => (await states("movies"))["1"] !== "AVAILABLE", "version 1 goes");
    });

    expect(answered).toBeGreaterThan(5);
    await until(async () => (await ask("films/labels/new")).version === "3", "label new");
    expect((await ask("films")).version).toBe("3");
    const feed = await Promise.all(["user 0", "user 1", "user 2", "user 3"].map(askFeed));
    expect(feed.map(({ text }) => text)).toEqual(feed.map(() => known.get("2")));
  });

  test("a broken file changes nothing and is told of", async () => {
    const answered = await underLoad(["movies", "movies/labels/stable"], async () => {
      writeFileSync(file, 'model_config_list { config { name: "movies" base_pth: "/m" } }');
      await until(
        async () => (cluster.log().match(/did you mean \\"base_path\\"/g) ?? []).length >= 3,
        "three refusals",
      );
    });

    expect(answered).toBeGreaterThan(3);
    expect(await states("movies")).toMatchObject({ 2: "AVAILABLE" });
    expect(await states("films")).toMatchObject({ 3: "AVAILABLE" });
  });

  test("(L1) a policy that names an older version alone goes back to it; no request fails", async () => {
    await underLoad(["movies", "movies/labels/stable"], async () => {
      configure(["movies", "movies", `${specific(1)} ${label("stable", 1)}`]);
      await until(async () => (await ask("movies")).version === "1", "the way back");
      await until(async () => (await ask("movies/labels/stable")).version === "1", "stable");
      await pause(300);
    });

    expect((await states("movies"))["2"]).toBe("UNLOADING");
  });

  test("(L1) warm-up requests are replayed before a version answers; one that does not fit fails it", async () => {
    for (const version of [4, 5]) {
      cpSync(
        path.join(directory, `demo-${version}/movies/1`),
        path.join(directory, `warm/${version}`),
        {
          recursive: true,
        },
      );
    }
    writeWarmUp("warm/4", "serving_default", inputName());
    writeWarmUp("warm/5", "serving_default", "no_such_input");
    const movies: [string, string, string] = ["movies", "movies", specific(1)];

    configure(movies, ["warm", "warm", specific(4)]);
    await until(async () => (await states("warm"))["4"] === "AVAILABLE", "version 4");
    expect(cluster.log()).toMatch(/"replayed":1.*"asked":1.*version warmed up/);
    expect((await ask("warm")).version).toBe("4");

    configure(movies, ["warm", "warm", specific(4, 5)]);
    await until(async () => (await states("warm"))["5"] === "END", "version 5 is refused");
    const document = await (await fetch(`${cluster.url}/v1/models/warm/versions/5`)).text();
    expect(document).toContain("Cannot run warm-up record 0: Missing input");
    expect(await ask("warm")).toMatchObject({ status: 200, version: "4" });
  });
});
