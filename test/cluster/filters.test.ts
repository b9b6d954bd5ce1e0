// Filters with real processes: on one worker and on three, over REST and over gRPC, every answer is the unfiltered
// order of all items less those that the filter does not admit, bit for bit; and attributes that are replaced
// are answered from the one file or the other, never from both.

import { mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { RunningCluster } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-filters-"));
const models = path.join(directory, "models");
const file = path.join(models, "movies", "1", "assets.extra", "items.jsonl");
const ITEMS = 600;

interface Item {
  readonly id: string;
  readonly year: number;
  readonly genres: readonly string[];
  readonly rating: number;
  readonly kids: boolean;
}

interface Answer {
  readonly output_1: readonly number[];
  readonly output_2: readonly string[];
  readonly attributes?: readonly object[];
  readonly vectors?: readonly (readonly number[])[];
}

type Asked = Readonly<Record<string, unknown>>;

let items: ReadonlyMap<string, Item>;

beforeAll(async () => {
  await writeDemo(models, { items: ITEMS, dim: 8, users: 40, k: 5, seed: 3 });
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  items = new Map(lines.map((line) => JSON.parse(line) as Item).map((item) => [item.id, item]));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function ask(url: string, instances: readonly string[], more: Asked = {}): Promise<Answer[]> {
  const response = await fetch(`${url}/v1/models/movies:predict`, {
    method: "POST",
    body: JSON.stringify({ instances, ...more }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  return (JSON.parse(text) as { predictions: Answer[] }).predictions;
}

/** What is left of a whole order. */
function admitted(whole: Answer, k: number, admits: (item: Item) => boolean): Answer {
  const at = whole.output_2.flatMap((id, place) => (admits(items.get(id)!) ? [place] : []));
  const best = at.slice(0, k);
  return {
    output_1: best.map((place) => whole.output_1[place]!),
    output_2: best.map((place) => whole.output_2[place]!),
  };
}

const FILTERS: readonly (readonly [string, Asked, (item: Item) => boolean])[] = [
  ["most", { kids: { $ne: true } }, ({ kids }) => !kids],
  ["a range", { year: { $gte: 1970, $lt: 1990 } }, ({ year }) => year >= 1970 && year < 1990],
  [
    "a list and a number",
    { genres: { $in: ["sea", "crime"] }, rating: { $gt: 3.5 } },
    ({ genres, rating }) => genres.some((each) => ["sea", "crime"].includes(each)) && rating > 3.5,
  ],
  [
    "one or the other",
    { $or: [{ genres: { $all: ["sea", "crime"] } }, { year: 1954 }] },
    ({ genres, year }) => ["sea", "crime"].every((each) => genres.includes(each)) || year === 1954,
  ],
  ["few", { rating: 4.9, kids: false }, ({ rating, kids }) => rating === 4.9 && !kids],
  ["none", { year: { $lt: 1900 } }, () => false],
];

describe.each([1, 3])("a cluster of %i workers", (workers) => {
  let cluster: RunningCluster;
  let whole: ReadonlyMap<string, Answer>;
  const users = ["1", "17", "40", "nobody knows"];

  beforeAll(async () => {
    cluster = await RunningCluster.start({ models, workers });
    await vi.waitFor(() => ask(cluster.url, ["1"]), { timeout: WAIT_MS, interval: 200 });
    const answers = await ask(cluster.url, users, { k: ITEMS });
    whole = new Map(users.map((user, at) => [user, answers[at]!]));
    if (answers[0]!.output_2.length !== ITEMS) throw new RangeError("not all items are answered");
  });
  afterAll(() => cluster?.stop());

  test.each(FILTERS)("answers by a filter that admits %s", async (_, filter, admits) => {
    for (const k of [1, 7, ITEMS]) {
      const expected = users.map((user) => admitted(whole.get(user)!, k, admits));
      expect(await ask(cluster.url, users, { filter, k })).toEqual(expected);
    }
  });

  test("answers a filter of its own for each instance, beside ids that are excluded and included", async () => {
    const [first, , third, fourth] = FILTERS;
    const filter = [first![1], null, third![1], fourth![1]];
    const exclude = whole.get("1")!.output_2.slice(0, 20);
    const include = [...items.keys()].filter((_, at) => at % 3 !== 0);
    const answers = await ask(cluster.url, users, { filter, exclude, include, k: 9 });
    const admits = [first![2], () => true, third![2], fourth![2]];
    const expected = users.map((user, at) =>
      admitted(
        whole.get(user)!,
        9,
        (item) => admits[at]!(item) && !exclude.includes(item.id) && include.includes(item.id),
      ),
    );
    expect(answers).toEqual(expected);
  });

  test("gives the vectors of the items that it answers, bit for bit, beside their attributes", async () => {
    const asked = { k: 9, filter: [{ kids: false }, null, { year: { $lt: 1956 } }, null] };
    const texts = await ask(cluster.url, users, { ...asked, return: ["$vector", "year"] });
    const given = await ask(cluster.url, users, {
      ...asked,
      return: ["year"],
      return_vectors: true,
    });
    const alone = await ask(cluster.url, ["17"], { k: 2, return_vectors: true });

    for (const [at, { vectors, attributes, ...plain }] of given.entries()) {
      const { attributes: described = [], ...other } = texts[at]!;
      expect(plain).toEqual(other);
      const of = described as readonly { readonly year: number; readonly $vector: string }[];
      expect(attributes).toEqual(of.map(({ year }) => ({ year })));
      const bits = of.map(({ $vector }) => Buffer.from($vector, "base64"));
      expect(vectors!.map((values) => Buffer.from(Float32Array.from(values).buffer))).toEqual(bits);
    }
    expect(Object.keys(alone[0]!)).toEqual(["output_1", "output_2", "vectors"]);
    const body = JSON.stringify({
      instances: [{ user_id: "1", movie_title: "x" }],
      return_vectors: true,
    });
    await vi.waitFor(
      async () => {
        const url = `${cluster.url}/v1/models/movies-ranking:predict`;
        const refused = await fetch(url, { method: "POST", body });
        expect([refused.status, await refused.text()]).toEqual([
          400,
          expect.stringContaining("return_vectors") as string,
        ]);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });

  test("gives the attributes of the items that it answers, in the order asked for", async () => {
    const wanted = ["kids", "genres", "year"] as const;
    const [answer] = await ask(cluster.url, ["17"], { k: 40, return: wanted });
    const expected = answer!.output_2.map((id) => {
      const item = items.get(id)!;
      return Object.fromEntries(wanted.map((name) => [name, item[name]]));
    });
    expect(answer!.attributes).toEqual(expected);
    expect(Object.keys(answer!.attributes![0]!)).toEqual(wanted);
    const ragged = await ask(cluster.url, ["17", "1"], {
      k: 40,
      return: ["year"],
      filter: [{ year: 1954 }, null],
    });
    expect(
      ragged.map(({ output_2: ids, attributes }) => ids.length === attributes?.length),
    ).toEqual([true, true]);
    expect(ragged[0]!.attributes!.every((each) => "year" in each && each.year === 1954)).toBe(true);
  });

  test.each<readonly [Asked, string]>([
    [{ filter: { yeer: 1 } }, 'did you mean \\"year\\"?'],
    [{ filter: { year: "x" } }, "its values are of type integer"],
    [{ filter: [{}, {}] }, "2 filters for 1 instances"],
    [{ filter: 7 }, "must be an object"],
    [{ return: ["titel"] }, 'no attribute \\"titel\\"'],
    [{ return: "year" }, "must be a list of names"],
    [{ include: "x" }, "must be a list of item ids"],
  ])("refuses %j", async (more, message) => {
    await expect(ask(cluster.url, ["1"], more)).rejects.toThrow(`400: `);
    await expect(ask(cluster.url, ["1"], more)).rejects.toThrow(message);
  });

  test("refuses to describe more than an answer may hold, before any work", async () => {
    const many = Array.from({ length: 30 }, (_, at) => String(at + 1));
    const asked = ask(cluster.url, many, { k: ITEMS, return: ["year", "kids"] });
    await expect(asked).rejects.toThrow("400: ");
    await expect(asked).rejects.toThrow("would give 36000 attributes; at most 8192 are allowed");
  });

  test("refuses a filter of a model without attributes, and of one that searches nothing", async () => {
    const body = { instances: [{ user_id: "1", movie_title: "x" }], filter: { year: 1 } };
    // It may still be loading.
    await vi.waitFor(
      async () => {
        const response = await fetch(`${cluster.url}/v1/models/movies-ranking:predict`, {
          method: "POST",
          body: JSON.stringify(body),
        });
        expect(await response.text()).toContain("searches no candidate table");
        expect(response.status).toBe(400);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });
});

test("attributes that are replaced under load are answered from one file or the other", async () => {
  const cluster = await RunningCluster.start({ models, workers: 2 });
  try {
    await vi.waitFor(() => ask(cluster.url, ["1"]), { timeout: WAIT_MS, interval: 200 });
    const asked = { k: 30, filter: { kids: true }, return: ["year", "kids"] };
    const before = JSON.stringify(await ask(cluster.url, ["5", "6"], asked));
    const content = readFileSync(file, "utf8");
    const seen = new Set<string>();
    const over = new AbortController();
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!over.signal.aborted)
          seen.add(JSON.stringify(await ask(cluster.url, ["5", "6"], asked)));
      }),
    );
    const turned = content.replaceAll('"kids":', '"sdik":').replaceAll('"sdik":true', '"kids":0');
    const replaced = turned
      .replaceAll('"sdik":false', '"kids":true')
      .replaceAll('"kids":0', '"kids":false');
    writeFileSync(`${file}.new`, replaced);
    renameSync(`${file}.new`, file);
    await vi.waitFor(() => expect(seen.size).toBe(2), { timeout: WAIT_MS, interval: 50 });
    over.abort();
    await load;
    const after = JSON.stringify(await ask(cluster.url, ["5", "6"], asked));
    expect(seen).toEqual(new Set([before, after]));
    expect(after).not.toBe(before);
    if (process.platform !== "linux") return;
    // The threads that have read them give way to searches, and no others do.
    for (const name of ["w0", "w1"]) {
      const nice = niceThreads(cluster.processId(name));
      const [usual, ...others] = nice.toSorted((a, b) => a - b);
      const expected = [...others.map(() => usual), Math.min(19, nice[0] + 5)];
      expect([usual, ...others]).toEqual(expected);
    }
  } finally {
    await cluster.stop();
  }
});

/** How nice each thread of a process is, its first thread first. */
function niceThreads(pid: number): readonly [number, ...number[]] {
  const tasks = readdirSync(`/proc/${pid}/task`).toSorted((a, b) => Number(a) - Number(b));
  return tasks.map((task) => {
    const stat = readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
  }) as [number, ...number[]];
}
