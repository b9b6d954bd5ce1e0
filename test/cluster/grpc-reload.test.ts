// HandleReloadConfigRequest over a cluster of real processes, by a client that knows the .proto files
// alone: models come and go and labels move as told, or nothing changes and the answer says why.

import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ServingClient, clientOf } from "../../packages/router/src/grpc/grpc-client.cases.ts";
import { RunningCluster, freePorts } from "./running-cluster.ts";
import { eventually, predict, versionOf, versionsOf } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-reload-"));
const root = path.join(directory, "models");
const file = path.join(directory, "models.config");
let cluster: RunningCluster;
let client: ServingClient;

interface Wanted {
  readonly name: string;
  readonly base_path: string;
  readonly model_platform: "tensorflow";
  readonly version_labels?: Readonly<Record<string, number>>;
  readonly model_version_policy?: object;
}

function reload(...models: readonly Wanted[]): Promise<object> {
  const request = { config: { model_config_list: { config: models } } };
  return client.call("HandleReloadConfigRequest", request, { deadline: Date.now() + 30_000 });
}

const OK = { status: { error_code: "OK", error_message: "" } };
const movies = (stable: number): Wanted => ({
  name: "movies",
  base_path: path.join(root, "movies"),
  model_platform: "tensorflow",
  model_version_policy: { specific: { versions: [1, 2] } },
  version_labels: { stable },
});
const latest = (name: string, folder: string): Wanted => ({
  name,
  base_path: `${directory}/${folder}`,
  model_platform: "tensorflow",
});
const films = latest("films", "models/movies");

/** The version that answers for a label. */
async function labelled(label: string): Promise<string | null> {
  const url = `${cluster.url}/v1/models/movies/labels/${label}:predict`;
  const response = await fetch(url, { method: "POST", body: '{"instances":["42"]}' });
  return response.headers.get("x-winnow-model-version");
}

beforeAll(async () => {
  for (const version of [1, 2]) {
    const demo = path.join(directory, `demo-${version}`);
    await writeDemo(demo, { items: 300, dim: 8, users: 50, k: 5, seed: version });
    cpSync(path.join(demo, "movies/1"), path.join(root, `movies/${version}`), { recursive: true });
  }
  cpSync(path.join(root, "movies"), path.join(directory, "outside"), { recursive: true });
  symlinkSync(path.join(directory, "outside"), path.join(root, "escape"));
  writeFileSync(
    file,
    `model_config_list { config { name: "movies" base_path: "${root}/movies" } }`,
  );
  const [grpcPort] = (await freePorts(1)) as [number];
  cluster = await RunningCluster.start({
    models: root,
    workers: 2,
    routerArgs: ["--grpc-port", String(grpcPort)],
    workerArgs: [`--model_config_file=${file}`, "--model_reload_root", root],
  });
  client = clientOf("ModelService", grpcPort);
  await cluster.loaded(["movies"]);
}, 90_000);
afterAll(async () => {
  client?.close();
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

describe("HandleReloadConfigRequest", () => {
  test("adds a model and loads versions; all answer when the call does", async () => {
    expect(await reload(movies(1), films)).toMatchObject(OK);

    expect(await predict(cluster.url, { model: "films" })).toMatchObject({
      status: 200,
      version: "2",
    });
    expect(await labelled("stable")).toBe("1");
    for (const worker of ["w0", "w1"]) {
      const names = (await cluster.announcement(worker))?.versions.map(({ model }) => model);
      expect(new Set(names)).toEqual(new Set(["movies", "films"]));
    }
  }, 60_000);

  test("moves a label", async () => {
    expect(await reload(movies(2), films)).toMatchObject(OK);

    expect(await labelled("stable")).toBe("2");
  }, 60_000);

  test.each(["outside", "models/escape", "models/../outside"])(
    "changes nothing where a base path leads out of the workers' root: %s",
    async (folder) => {
      await expect(reload(latest("stray", folder))).rejects.toMatchObject({
        code: 7,
        details: expect.stringMatching(
          /nothing was changed: worker w0: .*outside of --model_reload_root/,
        ) as string,
      });
      expect(await versionsOf(cluster.url, "stray")).toEqual([]);
      expect(await labelled("stable")).toBe("2");
      expect((await versionOf(cluster.url, "films", 2))?.state).toBe("AVAILABLE");
    },
  );

  test("removes a model", async () => {
    expect(await reload(movies(2))).toMatchObject(OK);

    await eventually(
      cluster,
      () => versionsOf(cluster.url, "films"),
      (told) => told.length > 0 && told.every(({ state }) => state !== "AVAILABLE"),
    );
    expect(await labelled("stable")).toBe("2");
  }, 60_000);

  test("is forgotten by a worker that restarts: it comes back with its file", async () => {
    expect(await reload(movies(2), films)).toMatchObject(OK);

    cluster.signal("w1", "SIGKILL");
    await cluster.ended("w1");
    cluster.restart("w1");

    await eventually(
      cluster,
      async () => (await cluster.announcement("w1"))?.versions.map(({ model }) => model) ?? [],
      (names) => names.length > 0 && names.every((name) => name === "movies"),
    );
  }, 60_000);
});
