// A pipeline and the versions of its models, with real processes: it waits for what it names, is replaced,
// has labels, answers over gRPC, and says which versions answered while two models change at once.

import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { ProtobufWriter, crc32c, maskChecksum } from "@winnow/core";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientOf } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import type { PredictMessage } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { supplyPorts } from "../port-supply.ts";
import { RunningCluster } from "./running-cluster.ts";
import { eventually, versionOf, versionsOf } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-pipeline-versions-"));
const models = path.join(directory, "models");
const file = path.join(directory, "models.config");
const WARM_UP = "assets.extra/tf_serving_warmup_requests";

interface Feed {
  readonly output_1: readonly number[];
  readonly output_2: readonly string[];
}

const feedOf = (limit: number, ranking = "movies-ranking", retrieval = "movies"): string => `
inputs: { user_id: string }
stages:
  - retrieve: { model: ${retrieval}, k: 50, inputs: { input_1: user_id } }
  - rank: { model: ${ranking}, inputs: { user_id: request.user_id, movie_title: item } }
  - limit: ${limit}
`;

/** A version appears as a whole. */
function publish(model: string, version: number, write: (draft: string) => void): void {
  const draft = path.join(directory, `draft-${model}-${version}`);
  mkdirSync(draft);
  write(draft);
  mkdirSync(path.join(models, model), { recursive: true });
  renameSync(draft, path.join(models, model, String(version)));
}

const publishFeed = (version: number, text: string, model = "home-feed"): void =>
  publish(model, version, (draft) => writeFileSync(path.join(draft, "pipeline.yaml"), text));

/** Version 1 of a demo's model, named by seed and model, as a version of a model here. */
const publishDemo = (from: string, model: string, version: number): void =>
  publish(model, version, (draft) =>
    cpSync(path.join(directory, `demo-${from}`, "1"), draft, { recursive: true }),
  );

/** A TFRecord file with a request of one user for an input of this name. */
function warmUpFile(input: string): Buffer {
  const writer = new ProtobufWriter();
  writer.message(6, (predict) => {
    predict.message(1, (request) => {
      request.message(1, (spec) => spec.text(1, "home-feed"));
      request.entry(2, input, (tensor) => {
        tensor.int(1, 7);
        tensor.message(2, (shape) => shape.message(2, (dim) => dim.int(1, 1)));
        tensor.text(8, "42");
      });
    });
  });
  const record = writer.finish();
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(record.length));
  const [head, tail] = [length, record].map((bytes) => {
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32LE(maskChecksum(crc32c(bytes)));
    return checksum;
  });
  return Buffer.concat([length, head!, record, tail!]);
}

describe("a pipeline", () => {
  let cluster: RunningCluster;
  let grpcPort = 0;

  beforeAll(async () => {
    for (const seed of [1, 2]) {
      const demo = path.join(directory, `demo-${seed}`);
      await writeDemo(demo, { items: 300, dim: 8, users: 50, k: 5, seed });
    }
    publishDemo("1/movies", "movies", 1);
    publishDemo("1/movies-ranking", "movies-ranking", 1);
    publishFeed(1, feedOf(5));
    publishFeed(1, feedOf(5, "movies-ranking", "late"), "later");
    const all = "model_version_policy { all {} }";
    const config = (name: string, more: string): string =>
      `config { name: "${name}" base_path: "${models}/${name}" model_platform: "tensorflow" ${more} }`;
    const label = 'version_labels { key: "stable" value: 1 }';
    const configs = [
      config("movies", all),
      config("movies-ranking", all),
      config("home-feed", `${all} ${label}`),
      config("late", ""),
      config("later", ""),
    ];
    mkdirSync(path.join(models, "late"), { recursive: true });
    writeFileSync(file, `model_config_list { ${configs.join("\n")} }`);
    [grpcPort] = (await supplyPorts(1)) as [number];
    cluster = await RunningCluster.start({
      models,
      workers: 2,
      routerArgs: [`--model_config_file=${file}`, "--grpc-port", String(grpcPort)],
      workerArgs: [`--model_config_file=${file}`],
    });
    await cluster.loaded(["home-feed", "movies", "movies-ranking"]);
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  async function ask(target: string, user: string, instances: readonly unknown[] = [user]) {
    const answer = await fetch(`${cluster.url}/v1/models/${target}:predict`, {
      method: "POST",
      body: JSON.stringify({ instances, ...(target.startsWith("movies/") && { k: 50 }) }),
    });
    const body = (await answer.json()) as { predictions?: unknown; error?: string };
    const header = (name: string): string | null => answer.headers.get(`x-winnow-${name}`);
    return {
      status: answer.status,
      body,
      version: header("model-version"),
      members: header("pipeline-versions"),
    };
  }

  /** What a client makes of two calls, of one version each. */
  async function separately(movies: number, ranking: number, limit = 5): Promise<Feed> {
    const retrieved = await ask(`movies/versions/${movies}`, "42");
    const [{ output_2: ids }] = retrieved.body.predictions as [Feed];
    const pairs = ids.map((movie_title) => ({ user_id: "42", movie_title }));
    const ranked = await ask(`movies-ranking/versions/${ranking}`, "42", pairs);
    const scores = (ranked.body.predictions as number[][]).flat();
    const order = ids.map((_, at) => at).toSorted((a, b) => scores[b]! - scores[a]! || a - b);
    const best = order.slice(0, limit);
    return { output_1: best.map((at) => scores[at]!), output_2: best.map((at) => ids[at]!) };
  }

  test("is LOADING and says what it waits for, until that is there", async () => {
    const reason = "The pipeline waits: stages[0].retrieve: model late cannot answer: ";
    const before = await eventually(
      cluster,
      () => versionOf(cluster.url, "later", 1),
      (told) => told?.code !== "OK",
    );
    const refused = await ask("later", "42");
    const ready = await fetch(`${cluster.url}/readyz`);

    publishDemo("1/movies", "late", 1);
    const after = await eventually(
      cluster,
      () => versionOf(cluster.url, "later", 1),
      (told) => told?.state === "AVAILABLE",
    );

    expect(before).toMatchObject({ state: "LOADING", code: "UNAVAILABLE" });
    expect(before?.message).toContain(reason);
    expect(refused).toMatchObject({ status: 503 });
    expect(refused.body.error).toContain(reason);
    expect(ready.status).toBe(200);
    expect(after).toMatchObject({ code: "OK", message: "" });
    expect(await ask("later", "42")).toMatchObject({
      body: { predictions: [await separately(1, 1)] },
      members: "late=1, movies-ranking=1",
    });
  });

  test("answers over gRPC and by a label as by its name", async () => {
    const expected = await separately(1, 1);
    const client = clientOf("PredictionService", grpcPort);
    const user = { dtype: "DT_STRING", tensor_shape: { dim: [{ size: 1 }] } };

    const answer = (await client.call("Predict", {
      model_spec: { name: "home-feed" },
      inputs: { user_id: { ...user, string_val: [Buffer.from("42")] } },
    })) as PredictMessage;
    client.close();
    const labelled = await ask("home-feed/labels/stable", "42");

    const ids = answer.outputs["output_2"]?.string_val.map(String);
    expect(ids).toEqual(expected.output_2);
    expect(answer.model_spec).toMatchObject({ name: "home-feed", version: { value: "1" } });
    expect(labelled).toMatchObject({
      status: 200,
      body: { predictions: [expected] },
      version: "1",
    });
  });

  test("names the versions that answered while both of its models change under load", async () => {
    const load = { isOver: false };
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    const client = async (): Promise<void> => {
      while (!load.isOver) answers.push(await ask("home-feed", "42"));
    };
    const clients = [client(), client(), client()];

    publishDemo("2/movies", "movies", 2);
    publishDemo("2/movies-ranking", "movies-ranking", 2);
    await eventually(
      cluster,
      () => ask("home-feed", "42"),
      ({ members }) => members === "movies=2, movies-ranking=2",
    );
    load.isOver = true;
    await Promise.all(clients);

    const told = [...new Set(answers.map(({ members }) => members))];
    expect(told.length).toBeGreaterThan(1);
    for (const members of told) {
      const [, movies, ranking] = /^movies=(\d+), movies-ranking=(\d+)$/.exec(members ?? "")!;
      const expected = await separately(Number(movies), Number(ranking));
      const given = answers.filter((answer) => answer.members === members);
      const kinds = new Set(given.map(({ status, body }) => JSON.stringify({ status, body })));
      const only = JSON.stringify({ status: 200, body: { predictions: [expected] } });
      expect([...kinds]).toEqual([only]);
    }
  });

  test("is replaced by a version whose models are there, and by no other, while requests run", async () => {
    const load = { isOver: false };
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    const client = async (): Promise<void> => {
      while (!load.isOver) answers.push(await ask("home-feed", "42"));
    };
    const clients = [client(), client()];

    publishFeed(2, feedOf(3, "nobody"));
    const waiting = await eventually(
      cluster,
      () => versionOf(cluster.url, "home-feed", 2),
      (told) => told?.message.includes("model nobody cannot answer") === true,
    );
    const meanwhile = await ask("home-feed", "42");
    publishFeed(3, feedOf(3));
    await eventually(
      cluster,
      () => ask("home-feed", "42"),
      ({ version }) => version === "3",
    );
    load.isOver = true;
    await Promise.all(clients);

    expect(waiting).toMatchObject({ state: "LOADING" });
    expect(meanwhile.version).toBe("1");
    const [one, three] = [await separately(2, 2, 5), await separately(2, 2, 3)];
    const kinds = new Set(
      answers.map(({ status, version, body }) => JSON.stringify({ status, version, body })),
    );
    const expected = [
      { status: 200, version: "1", body: { predictions: [one] } },
      { status: 200, version: "3", body: { predictions: [three] } },
    ];
    expect([...kinds].toSorted()).toEqual(expected.map((each) => JSON.stringify(each)));
    expect((await versionsOf(cluster.url, "home-feed")).map(({ state }) => state)).toEqual([
      "AVAILABLE",
      "LOADING",
      "AVAILABLE",
    ]);
  });

  test("replays the warm-up requests of its directory, and refuses those that do not fit", async () => {
    const publishWarm = (version: number, input: string): void =>
      publish("home-feed", version, (draft) => {
        writeFileSync(path.join(draft, "pipeline.yaml"), feedOf(version));
        mkdirSync(path.dirname(path.join(draft, WARM_UP)));
        writeFileSync(path.join(draft, WARM_UP), warmUpFile(input));
      });

    publishWarm(4, "user_id");
    const warm = await eventually(
      cluster,
      () => ask("home-feed", "42"),
      ({ version }) => version === "4",
    );
    publishWarm(5, "user");
    const misfit = await eventually(
      cluster,
      () => versionOf(cluster.url, "home-feed", 5),
      (told) => told?.state === "END",
    );

    expect(warm.status).toBe(200);
    expect(misfit?.message).toMatch(/warm-up record 0.*user/);
    expect(cluster.events("router0", "version warmed up")).toMatchObject([
      { model: "home-feed", version: 4, replayed: 1, asked: 1 },
    ]);
  });
});
