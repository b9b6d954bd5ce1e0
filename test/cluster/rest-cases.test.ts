// Every recorded request to TensorFlow Serving, sent to routers and workers in processes of their
// own, which opened the model files that the recorded server had. The unit test of the same cases
// asks the HTTP front alone; here the answers come from the rows on the workers.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type RecordedCase,
  differencesFrom,
  fixtures,
  isRecorded,
  needsCors,
  recordedCases,
} from "../../packages/router/src/http/server/tensorflow-serving.cases.ts";
import { RunningCluster } from "./running-cluster.ts";
import { eventually } from "./served-model.ts";

/** Cases with another answer here, on purpose: docs/rest-api.md says why. Nothing else is left out. */
const DIFFERENT: Readonly<Record<string, { readonly status: number; readonly text: string }>> = {
  // A probe, where TensorFlow Serving has no page.
  "url-healthz": { status: 200, text: "ok\n" },
  // The Open Inference Protocol, which has an answer to an empty body.
  "url-v2": { status: 400, text: '{\n    "error": "JSON Parse error: The document is empty"\n}' },
  // Refused by the signature, not by the operation that fails first in TensorFlow's runtime.
  "err-model-rank-row": {
    status: 400,
    text: '{\n    "error": "Input \\"input_1\\" must have shape [?], not [1,1]: each value stands in no list of its own, [1,2] instead of [[1],[2]]"\n}',
  },
};
const isDifferent = ({ id }: RecordedCase): boolean => DIFFERENT[id] !== undefined;
const casesHere = recordedCases.filter((recordedCase) => !isDifferent(recordedCase));

const directory = mkdtempSync(path.join(tmpdir(), "winnow-rest-cases-"));
let cluster: RunningCluster;

/** The plain router's port, or that of the one that answers CORS requests. */
const portOf = (isCors: boolean): number => Number(new URL(cluster.urls[isCors ? 1 : 0]!).port);

async function status(url: string, body: string): Promise<number> {
  const response = await fetch(url, { method: "POST", body });
  await response.arrayBuffer();
  return response.status;
}

describe.skipIf(!isRecorded)("TensorFlow Serving's recorded answers, on a real cluster", () => {
  beforeAll(async () => {
    const file = path.join(directory, "models.config");
    const labels = 'version_labels { key: "stable" value: 1 }';
    writeFileSync(
      file,
      `model_config_list {
        config { name: "retrieval" base_path: "${path.join(fixtures, "retrieval")}" ${labels} }
        config { name: "ranking" base_path: "${path.join(fixtures, "ranking")}" }
      }`,
    );
    const config = [`--model_config_file=${file}`];
    cluster = await RunningCluster.start({
      models: directory,
      workers: 3,
      replication: 2,
      routers: 2,
      workerArgs: config,
      routerArgs: [...config, "--router-table-bytes", "0"],
      argsOf: { router1: ["--rest_api_enable_cors_support"] },
    });
    await cluster.loaded(["retrieval", "ranking"]);
    const readiness = cluster.urls.flatMap((url): [string, string][] => [
      [`${url}/v1/models/retrieval:predict`, '{"instances":["1"]}'],
      [`${url}/v1/models/retrieval/labels/stable:predict`, '{"instances":["1"]}'],
      [
        `${url}/v1/models/ranking:predict`,
        '{"instances":[{"user_id":"1","movie_title":"Heat (1995)"}]}',
      ],
    ]);
    await eventually(
      cluster,
      () => Promise.all(readiness.map(([url, body]) => status(url, body))),
      (seen) => seen.every((each) => each === 200),
    );
  });

  afterAll(async () => {
    await cluster?.stop();
  });

  test("are all here, and two of them differ on purpose", () => {
    expect(casesHere.length).toBeGreaterThan(98);
    expect(recordedCases.length - casesHere.length).toBe(Object.keys(DIFFERENT).length);
  });

  test.each(casesHere)("$id [$level]: $about", async (recordedCase) => {
    const differences = await differencesFrom(portOf(needsCors(recordedCase)), recordedCase);

    expect(differences).toEqual([]);
  });

  test.each(recordedCases.filter(isDifferent))("$id differs: $about", async (recordedCase) => {
    const own = DIFFERENT[recordedCase.id]!;
    const expected = { status: own.status, body_exact: own.text };

    const differences = await differencesFrom(portOf(false), { ...recordedCase, expect: expected });

    expect(differences).toEqual([]);
  });

  test("columns of unequal lengths are refused by their names and lengths", async () => {
    const inputs = { user_id: ["1", "2"], movie_title: ["Heat (1995)", "Alien", "Babe"] };

    const response = await fetch(`${cluster.urls[0]}/v1/models/ranking:predict`, {
      method: "POST",
      body: JSON.stringify({ inputs }),
    });

    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: string }).error).toMatch(
      /^Input tensors must have equal 0th-dimension size: (user_id has 2, movie_title has 3|movie_title has 3, user_id has 2)$/,
    );
  });
});

afterAll(() => rmSync(directory, { recursive: true, force: true }));
