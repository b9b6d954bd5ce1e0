// Filters and attributes of items that are not cut, with real processes: over REST, over gRPC and behind a pipeline, every
// answer is the unfiltered order of all items less those that the filter does not admit, bit for bit; and attributes that
// are replaced are answered from the one file or the other, never from both.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { clientOf } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { GraphWriter } from "../models/graph-writer.ts";
import { supplyPorts } from "../port-supply.ts";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { WAIT_MS, versionOf } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-uncut-filters-"));
const models = path.join(directory, "models");
const file = path.join(models, "movies", "1", "assets.extra", "items.jsonl");
const ITEMS = 300;
const K = 6;
const USERS = [3, 11, -40];

const idOf = (row: number): string => `item ${row}`;
const rowOf = (id: string): number => Number(id.split(" ")[1]);
/** Every seventh item has no year. */
const yearOf = (row: number, first = 1990): number | null =>
  row % 7 === 6 ? null : first + (row % 10);

/** Scores whose size is ranked, which no search of vectors does; many items share one. */
function writeModel(version: string): void {
  const graph = new GraphWriter();
  const user = graph.input("user", "int64", [-1, 1]);
  const casts = { SrcT: { type: "int64" }, DstT: { type: "float32" } } as const;
  const product = { transpose_a: false, transpose_b: false } as const;
  const tower = graph.constant([1, -0.5], [1, 2]);
  const query = graph.op("MatMul", [graph.op("Cast", [user], casts), tower], product);
  const values = Array.from({ length: 2 * ITEMS }, (_, at) => Math.sin(at * 12.9898));
  const items = graph.constant(values, [2, ITEMS]);
  const scores = graph.op("MatMul", [query, items], product);
  const ids = graph.strings(Array.from({ length: ITEMS }, (_, row) => idOf(row)));
  graph.best(graph.op("Abs", [graph.op("Floor", [scores])]), ids, K);
  graph.write(version);
}

function describedItems(first: number): string {
  return Array.from({ length: ITEMS }, (_, row) => {
    const genres = ["crime", "sea"].filter((_genre, at) => ((row >> at) & 1) === 1);
    return `${JSON.stringify({ id: idOf(row), year: yearOf(row, first), genres })}\n`;
  }).join("");
}

const pipeline = `inputs: { user: int64 }
items: string
stages:
  - retrieve: { model: movies, k: 40, inputs: { user: user }, scores: scores, ids: ids }
  - filter: { genres: sea }
`;

interface Answer {
  readonly scores: readonly number[];
  readonly ids: readonly string[];
  readonly attributes?: readonly object[];
}

let cluster: RunningCluster;
let grpcPort = 0;

beforeAll(async () => {
  writeModel(path.join(models, "movies", "1"));
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, describedItems(1990));
  mkdirSync(path.join(models, "feed", "1"), { recursive: true });
  writeFileSync(path.join(models, "feed", "1", "pipeline.yaml"), pipeline);
  writeModel(path.join(models, "plain", "1"));
  [grpcPort] = (await supplyPorts(1)) as [number];
  const routerArgs = ["--grpc-port", String(grpcPort)];
  cluster = await RunningCluster.start({ models, workers: 2, routerArgs });
  for (const model of ["movies", "feed", "plain"]) {
    await vi.waitFor(() => ask(model), { timeout: WAIT_MS, interval: 200 });
  }
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

async function ask(
  model: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<readonly Answer[]> {
  const response = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
    method: "POST",
    body: JSON.stringify({ instances: USERS.map((user) => [user]), ...more }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  return (JSON.parse(text) as { predictions: Answer[] }).predictions;
}

interface Verified {
  readonly model: string;
  readonly progress: {
    readonly files: { readonly exact: number; readonly different: number };
    readonly fields: Readonly<Record<"k" | "exclude" | "include" | "filter" | "return", number>>;
  };
}

/** What `winnow verify` reports of some models, read from a directory. */
async function verify(
  read: string,
  names: readonly string[],
  queries: number,
): Promise<{ readonly code: number; readonly models: readonly Verified[] }> {
  const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
  const named = names.flatMap((name) => ["--model", name]);
  const args = ["verify", cluster.url, "--models", read, ...named, "--queries", String(queries)];
  return await new Promise((resolve, reject) => {
    execFile(process.execPath, [script, ...args, "--json"], (error, stdout) => {
      const code = error === null ? 0 : error.code;
      if (typeof code !== "number" || stdout === "") reject(error!);
      else resolve({ code, models: (JSON.parse(stdout) as { models: Verified[] }).models });
    });
  });
}

/** The best of a whole order that are admitted. */
function left(whole: Answer, k: number, admits: (row: number) => boolean): Answer {
  const places = [...whole.ids.keys()].filter((at) => admits(rowOf(whole.ids[at]!))).slice(0, k);
  return {
    scores: places.map((at) => whole.scores[at]!),
    ids: places.map((at) => whole.ids[at]!),
  };
}

const isNineties = (row: number): boolean => (yearOf(row) ?? 0) >= 1995;

describe("items that are not cut", () => {
  let whole: readonly Answer[];
  beforeAll(async () => {
    whole = await ask("movies", { k: ITEMS });
    if (whole[0]!.ids.length !== ITEMS) throw new RangeError("not all items are answered");
  });

  test("are filtered exactly, and described, over REST", async () => {
    for (const k of [1, 9, ITEMS]) {
      const filter = [{ year: { $gte: 1995 } }, null, { year: null, genres: { $ne: "sea" } }];
      const admits = [isNineties, () => true, (row: number) => yearOf(row) === null && row % 4 < 2];
      const answers = await ask("movies", { k, filter });
      expect(answers).toEqual(whole.map((list, at) => left(list, k, admits[at]!)));
    }
    const asked = { filter: { genres: "crime" }, return: ["year"], k: 20 };
    const described = await ask("movies", asked);
    expect(described).toEqual(
      whole.map((list) => {
        const { scores, ids } = left(list, 20, (row) => row % 2 === 1);
        return { scores, ids, attributes: ids.map((id) => ({ year: yearOf(rowOf(id)) })) };
      }),
    );
  });

  test("are filtered and described over gRPC", async () => {
    const client = clientOf("PredictionService", grpcPort);
    const strings = (...texts: string[]): object => ({
      dtype: "DT_STRING",
      tensor_shape: { dim: [{ size: texts.length }] },
      string_val: texts.map((text) => Buffer.from(text)),
    });
    try {
      const { outputs } = (await client.call("Predict", {
        model_spec: { name: "movies" },
        inputs: {
          user: {
            dtype: "DT_INT64",
            tensor_shape: { dim: [{ size: USERS.length }, { size: 1 }] },
            int64_val: USERS,
          },
          "winnow.filter": {
            dtype: "DT_STRING",
            tensor_shape: { dim: [] },
            string_val: [Buffer.from('{"year":{"$gte":1995}}')],
          },
          "winnow.return": strings("year"),
        },
      })) as { outputs: Readonly<Record<string, { string_val: readonly Buffer[] }>> };
      const textsOf = (name: string) => outputs[name]!.string_val.map(String);
      const expected = whole.flatMap((list) => left(list, K, isNineties).ids);

      expect(textsOf("ids")).toEqual(expected);
      expect(textsOf("attributes")).toEqual(
        expected.map((id) => JSON.stringify({ year: yearOf(rowOf(id)) })),
      );
    } finally {
      client.close();
    }
  });

  test("are filtered by a pipeline that retrieves them, and by its request", async () => {
    const answers = (await ask("feed", {
      filter: { year: { $gte: 1995 } },
      return: ["year"],
    })) as unknown as readonly { readonly output_2: string[]; readonly attributes: object[] }[];

    for (const [at, { output_2: ids, attributes }] of answers.entries()) {
      const isWanted = (row: number): boolean => isNineties(row) && ((row >> 1) & 1) === 1;
      expect(ids).toEqual(left(whole[at]!, 40, isWanted).ids);
      expect(attributes).toEqual(ids.map((id) => ({ year: yearOf(rowOf(id)) })));
    }
  });

  test.each([
    ["movies", { filter: { yaer: 1 } }, 'did you mean \\"year\\"?'],
    ["movies", { filter: { year: "x" } }, "its values are of type integer"],
    ["movies", { return: ["yaer"] }, 'did you mean \\"year\\"?'],
    ["movies", { return_vectors: true }, 'Cannot apply \\"return_vectors\\"'],
    ["movies", { return: ["$vector"] }, 'Cannot apply \\"$vector\\"'],
    ["plain", { filter: { year: 1 } }, "the version brings no attributes of its items"],
  ])("%s refuses %j", async (model, more, message) => {
    await expect(ask(model, more)).rejects.toThrow("400: ");
    await expect(ask(model, more)).rejects.toThrow(message);
  });

  test("winnow verify asks for filters, lists and attributes of them, and finds all exact", async () => {
    const { code, models: told } = await verify(models, ["movies", "feed", "plain"], 150);

    expect(code).toBe(0);
    expect(told.map(({ model }) => model).toSorted()).toEqual(["feed", "movies", "plain"]);
    for (const { model, progress } of told) {
      expect(progress).toMatchObject({ missing: [], files: { exact: 150, different: 0 } });
      const { k, exclude, include, filter, return: returned } = progress.fields;
      expect(Math.min(k, exclude, include)).toBeGreaterThan(2);
      // The model named so brings no attributes.
      expect([filter > 5, returned > 5]).toEqual([model !== "plain", model !== "plain"]);
    }
  });

  test("winnow verify notices answers by other attributes than those of the files", async () => {
    const others = path.join(directory, "others");
    writeModel(path.join(others, "movies", "1"));
    mkdirSync(path.join(others, "movies", "1", "assets.extra"));
    const items = path.join(others, "movies", "1", "assets.extra", "items.jsonl");
    writeFileSync(items, describedItems(1991));

    const { code, models: told } = await verify(others, ["movies"], 100);

    expect(code).toBe(1);
    const { files } = told[0]!.progress;
    expect(files.different).toBeGreaterThan(3);
    expect(files.exact + files.different).toBe(100);
  });

  test("a file of ids of another type is told in the version's status", async () => {
    const version = path.join(models, "misdescribed", "1");
    const made = path.join(directory, "made");
    writeModel(made);
    mkdirSync(path.join(made, "assets.extra"));
    writeFileSync(path.join(made, "assets.extra", "items.jsonl"), '{"id":7,"year":1990}\n');
    mkdirSync(path.dirname(version), { recursive: true });
    renameSync(made, version);

    await vi.waitFor(
      async () => {
        const told = await versionOf(cluster.url, "misdescribed", 1);
        expect(told?.message).toContain(
          "Cannot use assets.extra/items.jsonl: its ids are integers",
        );
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });

  test("attributes that are replaced under load are answered from one file or the other", async () => {
    const asked = { filter: { year: { $in: [1991, 1992, 2003] } }, return: ["year"], k: 30 };
    const before = JSON.stringify(await ask("movies", asked));
    const seen = new Set<string>();
    const over = new AbortController();
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!over.signal.aborted) seen.add(JSON.stringify(await ask("movies", asked)));
      }),
    );
    writeFileSync(`${file}.new`, describedItems(2000));
    renameSync(`${file}.new`, file);
    try {
      await vi.waitFor(() => expect(seen.size).toBe(2), { timeout: WAIT_MS, interval: 50 });
    } finally {
      over.abort();
      await load;
    }

    const after = JSON.stringify(await ask("movies", asked));
    expect(seen).toEqual(new Set([before, after]));
    expect(JSON.parse(after)).toEqual(
      whole.map((list) => {
        const { scores, ids } = left(list, 30, (row) => yearOf(row, 2000) === 2003);
        return { scores, ids, attributes: ids.map(() => ({ year: 2003 })) };
      }),
    );
  });
});
