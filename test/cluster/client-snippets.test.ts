// What people already run against TensorFlow Serving: curl, a few lines of Python, a fetch. Each sends
// what it sends by default, and all must read the same predictions.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunningCluster } from "./running-cluster.ts";
import { eventually } from "./served-model.ts";

const K = 5;
const USERS = ["42", "7", "nobody"];

interface Recommended {
  readonly output_1: readonly number[];
  readonly output_2: readonly string[];
}

const directory = mkdtempSync(path.join(tmpdir(), "winnow-clients-"));
let cluster: RunningCluster;
let movies: string;
let ranking: string;
/** What fetch is told for USERS, and for the first user's first two movies. */
let recommended: readonly Recommended[];
let pairs: readonly { readonly user_id: string; readonly movie_title: string }[];
let ratings: readonly (readonly number[])[];

async function predictions<Prediction>(url: string, instances: unknown): Promise<Prediction[]> {
  const body = JSON.stringify({ signature_name: "serving_default", instances });
  const response = await fetch(`${url}:predict`, { method: "POST", body });
  const answer = (await response.json()) as { predictions?: Prediction[] };
  if (answer.predictions === undefined) throw new Error(JSON.stringify(answer));
  return answer.predictions;
}

beforeAll(async () => {
  await writeDemo(directory, { items: 2000, dim: 16, users: 300, k: K });
  cluster = await RunningCluster.start({
    models: directory,
    workers: 3,
    replication: 2,
    routers: 2,
    routerArgs: ["--router-table-bytes", "0"],
  });
  await cluster.loaded(["movies", "movies-ranking"]);
  movies = `${cluster.urls[0]}/v1/models/movies`;
  ranking = `${cluster.urls[1]}/v1/models/movies-ranking`;
  const anyPair = [{ user_id: "1", movie_title: "none" }];
  await eventually(
    cluster,
    () => Promise.allSettled([predictions(movies, ["1"]), predictions(ranking, anyPair)]),
    (asked) => asked.every(({ status }) => status === "fulfilled"),
  );
  recommended = await predictions(movies, USERS);
  pairs = recommended[0]!.output_2
    .slice(0, 2)
    .map((movie_title) => ({ user_id: USERS[0]!, movie_title }));
  ratings = await predictions(ranking, pairs);
});

afterAll(async () => {
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

test("fetch reads k titles per user, best first, and a rating per pair", () => {
  expect(recommended).toHaveLength(USERS.length);
  for (const { output_1: scores, output_2: titles } of recommended) {
    expect(new Set(titles).size).toBe(K);
    expect(scores).toHaveLength(K);
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
  }
  expect(recommended[0]).not.toEqual(recommended[1]);
  expect(ratings).toEqual([[expect.any(Number)], [expect.any(Number)]]);
});

const has = (command: string): boolean => spawnSync(command, ["--version"]).status === 0;

/** Nobody's proxy, no progress on the screen, an exit code that tells of a status. */
const FIXED = ["-sS", "--noproxy", "*", "--fail-with-body", "--max-time", "15"];

describe.skipIf(!has("curl"))("curl, where it is installed,", () => {
  /** Runs curl as a shell would; the JSON that came. */
  function curl(args: readonly string[], input: string | Uint8Array = ""): unknown {
    return JSON.parse(execFileSync("curl", [...FIXED, ...args], { encoding: "utf8", input }));
  }

  test("-d posts instances as a form, and reads predictions", () => {
    const body = JSON.stringify({ instances: USERS });

    expect(curl(["-d", body, `${movies}:predict`])).toEqual({ predictions: recommended });
    expect(curl(["-d", body, "-X", "POST", `${movies}/versions/1:predict`])).toEqual({
      predictions: recommended,
    });
  });

  test("reads the same for base64 keys, named instances and a signature", () => {
    const packed = USERS.map((user) => ({ b64: Buffer.from(user).toString("base64") }));
    const bodies = [
      { instances: packed },
      { instances: USERS.map((user) => ({ [inputOf(curl([`${movies}/metadata`]))]: user })) },
      { signature_name: "serving_default", instances: USERS },
    ];

    for (const body of bodies) {
      const answer = curl(["-d", JSON.stringify(body), `${movies}:predict`]);
      expect(answer).toEqual({ predictions: recommended });
    }
  });

  test("reads columns for columns, of one input and of two", () => {
    const columns = {
      user_id: pairs.map((pair) => pair.user_id),
      movie_title: pairs.map((pair) => pair.movie_title),
    };

    expect(curl(["-d", JSON.stringify({ inputs: USERS }), `${movies}:predict`])).toEqual({
      outputs: {
        output_1: recommended.map(({ output_1: scores }) => scores),
        output_2: recommended.map(({ output_2: titles }) => titles),
      },
    });
    expect(curl(["-d", JSON.stringify({ inputs: columns }), `${ranking}:predict`])).toEqual({
      outputs: ratings,
    });
  });

  test("reads status and metadata", () => {
    const version = {
      version: "1",
      state: "AVAILABLE",
      status: { error_code: "OK", error_message: "" },
    };

    expect(curl([movies])).toEqual({ model_version_status: [version] });
    expect(curl([`${movies}/versions/1`])).toEqual({ model_version_status: [version] });
    expect(curl([`${movies}/metadata`])).toMatchObject({
      model_spec: { name: "movies", version: "1" },
      metadata: { signature_def: { signature_def: { serving_default: expect.anything() } } },
    });
  });

  test("may wait for 100 Continue before a large body, and may pack it", () => {
    const large = JSON.stringify({ instances: ["x".repeat(1_500_000), ...USERS] });
    const args = ["--data-binary", "@-", `${movies}:predict`, "-H", "Expect: 100-continue"];

    const plain = curl(args, large);
    const packed = curl([...args, "-H", "Content-Encoding: gzip"], gzipSync(large));

    const unknown = recommended.at(-1);
    expect(plain).toEqual({ predictions: [unknown, ...recommended] });
    expect(packed).toEqual(plain);
  });

  test("is told what is wrong, with a status that -f sees", () => {
    const run = (url: string, body: string): ReturnType<typeof spawnSync> =>
      spawnSync("curl", [...FIXED, "-d", body, url], { encoding: "utf8" });

    const missing = run(`${cluster.url}/v1/models/none:predict`, '{"instances":["42"]}');
    const wrong = run(`${movies}:predict`, '{"instances":[42]}');

    expect([missing.status, wrong.status]).toEqual([22, 22]);
    expect(missing.stdout).toContain('"error": "Servable not found for request: Latest(none)"');
    expect(wrong.stdout).toContain("is not of expected type: string");
  });
});

/** The name of the only input that a metadata document tells. */
function inputOf(metadata: unknown): string {
  const { signature_def: signatures } = (
    metadata as {
      metadata: { signature_def: { signature_def: Record<string, { inputs: object }> } };
    }
  ).metadata.signature_def;
  const [name] = Object.keys(signatures["serving_default"]!.inputs);
  return name!;
}

const SIMPLE_PYTHON = `
import json, sys, urllib.request
url, users = sys.argv[1], json.loads(sys.argv[2])
data = json.dumps({"signature_name": "serving_default", "instances": users}).encode()
with urllib.request.urlopen(urllib.request.Request(url + ":predict", data=data), timeout=15) as reply:
    print(json.dumps(json.load(reply)["predictions"]))
`;

/** One connection for several requests, with the headers that requests.Session sends. */
const SESSION_PYTHON = `
import http.client, json, sys
from urllib.parse import urlsplit
url, pairs = urlsplit(sys.argv[1]), json.loads(sys.argv[2])
session = http.client.HTTPConnection(url.hostname, url.port, timeout=15)
headers = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive"}
def ask(method, path, body=None, **more):
    session.request(method, path, body, {**headers, **more})
    if len(sockets) == 0: sockets.append(session.sock)
    reply = session.getresponse()
    text = reply.read().decode("utf-8")
    assert reply.status == 200, text
    assert session.sock is sockets[0], "the connection was closed"
    return json.loads(text)
sockets = []
state = ask("GET", url.path)["model_version_status"][0]["state"]
data = json.dumps({"instances": pairs})
first = ask("POST", url.path + ":predict", data)["predictions"]
again = ask("POST", url.path + ":predict", data, **{"Content-Type": "application/json"})["predictions"]
chunks = (part.encode() for part in (data[:9], data[9:]))
chunked = ask("POST", url.path + ":predict", chunks)["predictions"]
print(json.dumps([state, first, again, chunked]))
`;

describe.skipIf(!has("python3"))("Python's standard library, where python3 is installed,", () => {
  const python = (script: string, url: string, instances: unknown): unknown => {
    const args = ["-c", script, url, JSON.stringify(instances)];
    const environment = { ...process.env, no_proxy: "*", PYTHONIOENCODING: "utf-8" };
    return JSON.parse(execFileSync("python3", args, { encoding: "utf8", env: environment }));
  };

  test("posts json.dumps of a dict and reads predictions", () => {
    expect(python(SIMPLE_PYTHON, movies, USERS)).toEqual(recommended);
  });

  test("keeps one connection for status, predictions and a chunked body", () => {
    const told = python(SESSION_PYTHON, ranking, pairs);

    expect(told).toEqual(["AVAILABLE", ratings, ratings, ratings]);
  });
});

test("the Open Inference Protocol gives v1's answers, as JSON and as binary data", async () => {
  const url = `${movies.replace("/v1/", "/v2/")}/infer`;
  const input = { name: "input_1", shape: [USERS.length], datatype: "BYTES", data: USERS };
  const ask = (parameters: object): Promise<Response> => {
    const body = JSON.stringify({ inputs: [input], parameters });
    return fetch(url, { method: "POST", body });
  };

  const asJson = await ask({});
  const asBinary = await ask({ binary_data_output: true });

  const { outputs } = (await asJson.json()) as { outputs: readonly { readonly data: unknown }[] };
  expect(outputs.map(({ data }) => data)).toEqual([
    recommended.flatMap(({ output_1 }) => output_1),
    recommended.flatMap(({ output_2 }) => output_2),
  ]);
  const from = Number(asBinary.headers.get("inference-header-content-length"));
  const bytes = (await asBinary.arrayBuffer()).slice(from, from + USERS.length * K * 4);
  expect([...new Float32Array(bytes)]).toEqual(
    recommended.flatMap(({ output_1 }) => output_1.map((score) => Math.fround(score))),
  );
});
