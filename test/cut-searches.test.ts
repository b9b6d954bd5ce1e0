// Searches that are more than a product and a top-k (masks, functions of scores, several query vectors), asked of
// one worker and of three over real gRPC streams: what a cluster answers is TensorFlow's answer, and the same bits
// however the items are cut and spread.

import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createDenseEngine } from "@winnow/accelerator";
import { GrpcConnector, StaticMembership } from "@winnow/cluster";
import {
  WinnowError,
  compareCandidates,
  parseFilter,
  stringTensor,
  systemClock,
  workerId,
} from "@winnow/core";
import type { Filter, JsonValue, SignatureProgram, Tensor } from "@winnow/core";
import { RequestContext, createRouter } from "@winnow/router";
import type { PredictRequest, Router } from "@winnow/router";
import { startWorker } from "@winnow/worker";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { differenceOf } from "./models/answer-difference.ts";
import { inputTensors, recordedModels } from "./models/recorded-answers.ts";
import type { RecordedCase } from "./models/recorded-answers.ts";
import {
  IDS,
  K,
  SHAPES,
  faultOf as faultOfScores,
  inputsOf,
  writeScores,
} from "./models/written-scores.ts";
import type { Shape } from "./models/written-scores.ts";
import { seededEnvironment as environment } from "./doubles/seeded-environment.ts";
import { supplyPorts } from "./port-supply.ts";

const NAMES = new Set([
  "distances",
  "computed_items",
  "hidden_items",
  "item_features",
  "item_towers",
  "masked_searches",
  "narrow_searches",
  "one_query",
  "score_expressions",
  "several_interests",
  "sliced_candidates",
  "tied_scores",
]);
/** Scores for which workers sum functions of scores over some of their rows. */
const SUMMED = SHAPES.filter(({ name }) =>
  [
    "opposite of a softmax",
    "softmax of capped logits",
    "softmax of masked scores that still count",
    "logarithm of a softmax of masked scores over a temperature of each query",
    "softmax of scores with a penalty beside which they are rounded",
    "a softmax of scores over which a scatter writes, without the padding row",
  ].includes(name),
);
const seed = Number(process.env["TEST_SEED"]);
/** A third of some: another TEST_SEED takes others. */
const thirdOf = <Item>(items: readonly Item[]): readonly Item[] =>
  items.filter((_, index) => (index + seed) % 3 === 0);
/** Beyond so many cases of a model, a third of them is asked: `oracle.test.ts` asks all. */
const CASES_MAX = 60;
/** Scores that dense parts compute of all items, which routers rank where a request has a k or lists of ids. */
const UNCUT: readonly Shape[] = [
  ...thirdOf(SHAPES.filter(({ isDense, rank }) => isDense === true && rank === undefined)),
  {
    name: "logarithms, some of numbers below 0",
    build: ({ graph, scores, bias }) => {
      const weighed = graph.op("Mul", [graph.op("Sigmoid", [scores]), bias]);
      return graph.op("Log", [weighed]);
    },
    scored: (scores) => scores,
  },
];
const models = recordedModels("test/data/savedmodels").filter(({ name }) => NAMES.has(name));
const closings: (() => Promise<void> | void)[] = [];
const routers = new Map<number, Router>();
/** Where the models of each cluster lie: those of one worker are asked to be compared with the same of three. */
const bases = new Map<number, string>();

async function until(isTrue: () => boolean): Promise<void> {
  const endMs = systemClock.nowMs() + 300_000;
  while (!isTrue()) {
    if (systemClock.nowMs() > endMs) throw new Error("waited in vain");
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  }
}

/** A router before so many workers, each partition as small as it may be or all items in one. */
async function startCluster(workers: number, partitionBytes: number): Promise<Router> {
  const members = await Promise.all(
    Array.from({ length: workers }, async (_, at) => {
      return { workerId: workerId(`w${at}`), address: `127.0.0.1:${(await supplyPorts(1))[0]}` };
    }),
  );
  const join = (): { connector: GrpcConnector; membership: StaticMembership } => {
    const connector = new GrpcConnector(systemClock);
    const describe = connector.describe.bind(connector);
    const membership = new StaticMembership({ environment, describe }, { members });
    closings.push(async () => {
      await membership.close();
      connector.close();
    });
    return { connector, membership };
  };
  const started = await Promise.all(
    members.map(async (member) => {
      const port = Number(member.address.split(":")[1]);
      const worker = await startWorker(
        {
          workerId: member.workerId,
          port,
          modelsPath: bases.get(workers)!,
          // All versions are there: their directories need not be looked at again.
          pollIntervalMs: 0,
          partitionBytes,
          accelerator: "reference",
        },
        { environment, membership: join().membership },
      );
      closings.push(() => worker.close());
      return worker;
    }),
  );
  const { connector, membership } = join();
  const denseEngine = createDenseEngine({});
  const router = createRouter({}, { environment, connector, membership, denseEngine });
  closings.push(async () => {
    router.close();
    await denseEngine.close();
  });
  const isWhole = (): boolean =>
    router.ready &&
    started.every((worker) => worker.isReady) &&
    router.workers().filter(({ askable }) => askable).length === workers;
  await until(isWhole);
  return router;
}

/** A recorded model, two of whose signatures leave their items in a dense part; others have them cut. */
const RECORDED = "computed_items";
const recordedIds = Array.from({ length: 40 }, (_, row) => `item ${String(row).padStart(2, "0")}`);

interface Item {
  readonly year?: number | null;
  readonly genres?: readonly string[];
}

/** Every ninth item is not described, every fifth has no year, and every fourth no genres. */
function itemAt(row: number): Item | undefined {
  if (row % 9 === 8) return undefined;
  const year = row % 5 === 4 ? null : 1990 + (row % 6);
  const genres = ["crime", "drama"].filter((_, at) => ((row >> at) & 1) === 1);
  return row % 4 === 3 ? { year } : { year, genres };
}

async function describeItems(version: string, ids: readonly string[]): Promise<void> {
  const lines = ids.flatMap((id, row) => {
    const item = itemAt(row);
    return item === undefined ? [] : `${JSON.stringify({ id, ...item })}\n`;
  });
  await mkdir(path.join(version, "assets.extra"), { recursive: true });
  await writeFile(path.join(version, "assets.extra", "items.jsonl"), lines.join(""));
}

/** Filters, and what they say of an item, in words of plain code. */
const FILTERS: readonly (readonly [unknown, (item: Item) => boolean])[] = [
  [{}, () => true],
  [{ year: { $gte: 1992 } }, ({ year }) => (year ?? 0) >= 1992],
  [{ year: null }, ({ year }) => (year ?? undefined) === undefined],
  [{ genres: "crime" }, ({ genres }) => genres?.includes("crime") === true],
  [{ genres: { $exists: true } }, ({ genres }) => genres !== undefined],
  [
    { $or: [{ year: 1990 }, { genres: { $all: ["crime", "drama"] } }] },
    ({ year, genres = [] }) =>
      year === 1990 || ["crime", "drama"].every((each) => genres.includes(each)),
  ],
  [{ year: { $gt: 3000 } }, () => false],
];

const writtenName = (at: number): string => `written_${at}`;
const uncutName = (at: number): string => `uncut_${at}`;

beforeAll(async () => {
  for (const workers of [1, 3]) {
    const base = await mkdtemp(path.join(tmpdir(), "winnow-cut-"));
    bases.set(workers, base);
    for (const { name, directory } of models) {
      await cp(directory, path.join(base, name, "1"), { recursive: true });
    }
    for (const [at, shape] of SUMMED.entries()) {
      writeScores(shape, path.join(base, writtenName(at), "1"));
    }
  }
  const base = bases.get(3)!;
  for (const [at, shape] of UNCUT.entries()) {
    const version = path.join(base, uncutName(at), "1");
    writeScores(shape, version);
    await describeItems(version, IDS);
  }
  await describeItems(path.join(base, RECORDED, "1"), recordedIds);
  routers.set(1, await startCluster(1, 2 ** 20));
  routers.set(3, await startCluster(3, 400));
}, 300_000);

afterAll(async () => {
  for (const close of closings.toReversed()) await close();
  for (const base of bases.values()) await rm(base, { recursive: true });
});

type Answer =
  | {
      readonly signature: SignatureProgram;
      readonly outputs: ReadonlyMap<string, Tensor>;
      readonly attributes?: Tensor | undefined;
    }
  | { readonly code: string; readonly message: string };

async function ask(
  router: Router,
  model: string,
  { wishes, ...recorded }: RecordedCase & { readonly wishes?: Partial<PredictRequest> },
): Promise<Answer> {
  const of = (signature: SignatureProgram): ReadonlyMap<string, Tensor> =>
    inputTensors(signature, recorded.inputs);
  return await answered(router, { model, name: recorded.signature_name, wishes }, of);
}

/** A signature of a model, and what is wished of it. */
interface Asked {
  readonly model: string;
  readonly name?: string | undefined;
  readonly wishes?: Partial<PredictRequest> | undefined;
}

async function answered(
  router: Router,
  { model, name = "serving_default", wishes }: Asked,
  inputsFor: (signature: SignatureProgram) => ReadonlyMap<string, Tensor>,
): Promise<Answer> {
  const pinned = await router.pin({ model, version: undefined });
  const context = new RequestContext(systemClock, { timeoutMs: 30_000 });
  try {
    const signature = pinned.program.signatures.find((each) => each.name === name)!;
    const inputs = inputsFor(signature);
    const request = { signature, inputs, context, ...wishes };
    const { outputs, attributes } = await router.predict(pinned, request);
    return { signature, outputs, attributes };
  } catch (error) {
    if (error instanceof WinnowError) return { code: error.code, message: error.message };
    throw error;
  } finally {
    context.finish();
    pinned.release();
  }
}

/** What is wrong with an answer, or `undefined`. */
function faultOf(answer: Answer, of: Parameters<typeof differenceOf>[2]): string | undefined {
  const wanted = of.recorded.error?.code;
  if ("code" in answer) return answer.code === wanted ? undefined : `refused: ${answer.code}`;
  if (wanted !== undefined) return `answered instead of ${wanted}`;
  return differenceOf(answer.signature, answer.outputs, of);
}

/** Values of an answer that are equal only where their bits are. */
function bitsOf(answer: Answer): unknown {
  if ("code" in answer) return answer.code;
  return Array.from(answer.outputs, ([name, { dtype, shape, data }]) => [
    name,
    shape,
    dtype === "string"
      ? data.toText()
      : Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex"),
  ]);
}

test.each(models)("$name: TensorFlow's answers, and one's bits are three's", async (model) => {
  const faults: string[] = [];
  const { cases } = model;
  const asked = cases.length > CASES_MAX ? thirdOf(cases) : cases;
  const answers = await Promise.all(
    asked.map((recorded) =>
      Promise.all([1, 3].map((workers) => ask(routers.get(workers)!, model.name, recorded))),
    ),
  );
  for (const [index, recorded] of asked.entries()) {
    const [one, three] = answers[index] as [Answer, Answer];
    const fault = faultOf(three, { model, recorded });
    if (fault !== undefined) faults.push(`case ${index} of ${recorded.signature_name}: ${fault}`);
    expect(bitsOf(three)).toEqual(bitsOf(one));
  }
  expect(faults).toEqual([]);
});

test.each(SUMMED.map((shape, at) => ({ name: shape.name, shape, at })))(
  "$name: what plain arithmetic gives, and one's bits are three's",
  async ({ at, shape }) => {
    const of = { model: writtenName(at) };
    const one = await answered(routers.get(1)!, of, () => inputsOf(shape));
    const three = await answered(routers.get(3)!, of, () => inputsOf(shape));

    expect("code" in three ? three.code : faultOfScores(shape, three.outputs)).toBeUndefined();
    expect(bitsOf(three)).toEqual(bitsOf(one));
  },
);

test("the items of three workers are cut", async () => {
  const pinned = await routers.get(3)!.pin({ model: "several_interests", version: undefined });
  const { tables } = pinned.program;
  pinned.release();

  expect(tables.length).toBeGreaterThan(0);
  expect(tables.every(({ partitions }) => partitions > 2)).toBe(true);
});

/** The ids of each query, best first. */
function idsOf(answer: Answer): readonly (readonly string[])[] {
  const ids = "code" in answer ? undefined : answer.outputs.get("ids");
  if (ids?.dtype !== "string") throw new Error("no ids were answered");
  const [queries = 0, width = 0] = ids.shape;
  const texts = ids.data.toText();
  return Array.from({ length: queries }, (_, at) => texts.slice(at * width, (at + 1) * width));
}

test.each(["serving_default", "sigmoid", "masked_sigmoid", "penalised"])(
  "several vectors, %s: what each query excludes is not found by any of its vectors",
  async (name) => {
    const { cases } = models.find((model) => model.name === "several_interests")!;
    const recorded = cases.find((each) => each.signature_name === name)!;
    const router = routers.get(3)!;
    const all = idsOf(await ask(router, "several_interests", { ...recorded, wishes: { k: 40 } }));
    const best = all.map((list) => list.slice(0, 3));

    const exclude = best.map((ids) => stringTensor(ids));
    const rest = idsOf(
      await ask(router, "several_interests", { ...recorded, wishes: { k: 9, exclude } }),
    );

    expect(rest).toEqual(all.map((list) => list.slice(3, 12)));
  },
);

test.each(["serving_default", "squeezed"])(
  "scores of one query alone, %s: a list as long as a request wants, without what it excludes",
  async (name) => {
    const { cases } = models.find((model) => model.name === "one_query")!;
    const recorded = cases.find((each) => each.signature_name === name)!;
    const found = async (wishes: Partial<PredictRequest>): Promise<readonly string[]> => {
      const answer = await ask(routers.get(3)!, "one_query", { ...recorded, wishes });
      const ids = "code" in answer ? undefined : answer.outputs.get("ids");
      if (ids?.dtype !== "string") throw new Error(JSON.stringify(answer));
      expect(ids.shape).toEqual([ids.data.length]);
      return ids.data.toText();
    };
    const all = await found({ k: 40 });
    const rest = await found({ k: 9, exclude: [stringTensor(all.slice(0, 3))] });

    expect(all).toHaveLength(40);
    expect(rest).toEqual(all.slice(3, 12));
  },
);

describe.each(UNCUT.map((shape, at) => ({ name: shape.name, shape, at })))(
  "items that are not cut, $name",
  ({ shape, at }) => {
    const asked = async (wishes: Partial<PredictRequest>): Promise<Answer> =>
      await answered(routers.get(3)!, { model: uncutName(at), wishes }, () => inputsOf(shape));
    const listsOf = (answer: Answer): readonly (readonly Found[])[] => foundIn(answer);
    let whole: readonly (readonly Found[])[] = [];
    beforeAll(async () => {
      whole = listsOf(await asked({ k: 4096 }));
    });

    test("a k brings as many items as there are, by score, equal ones by row, NaN behind all", async () => {
      for (const list of whole) {
        const ordered = list.toSorted((a, b) =>
          compareCandidates(
            { score: a.score, row: IDS.indexOf(a.id) },
            { score: b.score, row: IDS.indexOf(b.id) },
          ),
        );
        expect(list).toEqual(ordered);
        expect(list.map(({ id }) => id).toSorted()).toEqual(IDS.slice(0, list.length).toSorted());
        expect(list.length).toBeGreaterThan(35);
      }
      for (const k of [1, 2, K, 35]) {
        expect(listsOf(await asked({ k }))).toEqual(whole.map((list) => list.slice(0, k)));
      }
    });

    test("the model's own k brings the first of the same items", async () => {
      const own = listsOf(await asked({}));

      const isOrdered = whole.flat().every(({ score }) => !Number.isNaN(score));
      // ONNX Runtime has no order for NaN.
      const first = isOrdered ? whole.map((list) => list.slice(0, K)) : own;
      expect(own).toEqual(first);
      expect(own.map((list) => list.length)).toEqual([K, K, K]);
    });

    test("excluded and included ids hold, for all queries and for each, unknown ones are nothing", async () => {
      const every = (step: number): string[] => IDS.filter((_, row) => row % step === 0);
      const own = whole.map((list, query) => list.slice(0, query + 1).map(({ id }) => id));
      const none = ["nobody knows"];
      for (const k of [3, 40]) {
        for (const [exclude, include] of [
          [[every(2)], []],
          [[], [every(3)]],
          [[every(2), none, own[2]!], [every(3)]],
          [own, [IDS, every(5), none]],
          [[none], [[], own[0]!, every(9)]],
        ] as const) {
          const answer = await asked({
            k,
            exclude: exclude.map((ids) => stringTensor(ids)),
            include: include.map((ids) => stringTensor(ids)),
          });
          const expected = whole.map((list, query) => {
            const without = exclude[exclude.length > 1 ? query : 0] ?? [];
            const only = include[include.length > 1 ? query : 0] ?? IDS;
            const left = list.filter(({ id }) => only.includes(id) && !without.includes(id));
            return left.slice(0, k);
          });
          expect(listsOf(answer)).toEqual(expected);
        }
      }
    });

    test("filters hold, for all queries and for each, also beside lists", async () => {
      const include = [stringTensor(IDS.filter((_, row) => row % 3 > 0))];
      const exclude = whole.map((list) => stringTensor(list.slice(0, 2).map(({ id }) => id)));
      const some = FILTERS.slice(1, 4);
      for (const [language, admits] of FILTERS) {
        const filter = [filterOf(language)];
        const left = whole.map((list) => list.filter(({ id }) => admitsItem(admits, id)));
        for (const k of [2, 40]) {
          const expected = left.map((list) => list.slice(0, k));
          expect(listsOf(await asked({ k, filter }))).toEqual(expected);
        }
        const listed = left.map((list, query) =>
          list.filter(
            (each) => IDS.indexOf(each.id) % 3 > 0 && !whole[query]!.slice(0, 2).includes(each),
          ),
        );
        expect(listsOf(await asked({ filter, exclude, include }))).toEqual(
          listed.map((list) => list.slice(0, K)),
        );
      }
      const filter = some.map(([language]) => filterOf(language));
      expect(listsOf(await asked({ k: 40, filter }))).toEqual(
        whole.map((list, query) => list.filter(({ id }) => admitsItem(some[query]![1], id))),
      );
    });

    test("attributes come in the order of the answer, whoever ranks the items", async () => {
      const attributes = ["genres", "year"];
      const filter = [filterOf({ year: { $exists: true } })];
      for (const wishes of [{}, { k: 40 }, { filter, k: 40 }]) {
        const answer = await asked({ attributes, ...wishes });
        expect(attributesIn(answer)).toEqual(
          listsOf(answer).map((list) =>
            list.map(({ id }) => {
              const { genres = null, year = null } = itemAt(IDS.indexOf(id)) ?? {};
              return { genres, year };
            }),
          ),
        );
      }
    });

    test("unknown attributes, vectors and lists of other queries are refused", async () => {
      const lists = [stringTensor([]), stringTensor([])];
      const misnamed = [filterOf({ yaer: 1990 })];
      const refused = async (wishes: Partial<PredictRequest>, message: string): Promise<void> => {
        const answer = await asked(wishes);
        expect(answer).toMatchObject({ code: "INVALID_ARGUMENT" });
        expect("message" in answer && answer.message).toContain(message);
      };

      await refused({ filter: misnamed }, 'no attribute "yaer"; did you mean "year"?');
      await refused({ attributes: ["yaer"] }, 'no attribute "yaer"; did you mean "year"?');
      await refused({ filter: [filterOf({ year: "x" })] }, "its values are of type integer");
      await refused({ attributes: ["$vector"] }, 'Cannot apply "$vector"');
      await refused({ vectors: true }, 'Cannot apply "return_vectors"');
      await refused({ exclude: lists }, "2 lists for 3 instances");
    });
  },
);

describe("a recorded model some of whose signatures leave their items in a dense part", () => {
  const { cases } = models.find(({ name }) => name === RECORDED)!;
  const signatures = ["dense_product_of_two", "dense_two_replaced", "serving_default"];

  test.each(signatures)(
    "%s: TensorFlow's items, less those that a filter leaves out",
    async (of) => {
      const recorded = cases.find((each) => each.signature_name === of)!;
      const asked = async (wishes: Partial<PredictRequest>): Promise<Answer> =>
        await ask(routers.get(3)!, RECORDED, { ...recorded, wishes });
      const whole = foundIn(await asked({ k: 40 }));
      const own = foundIn(await asked({}));

      expect(whole.map(({ length }) => length)).toEqual(whole.map(() => 40));
      expect(own).toEqual(whole.map((list, at) => list.slice(0, own[at]!.length)));
      for (const [language, admits] of FILTERS) {
        const answer = await asked({
          k: 12,
          filter: [filterOf(language)],
          attributes: ["year"],
        });
        const expected = whole.map((list) => list.filter(({ id }) => admitsItem(admits, id)));
        expect(foundIn(answer)).toEqual(expected.map((list) => list.slice(0, 12)));
        expect(attributesIn(answer)).toEqual(
          expected.map((list) =>
            list.slice(0, 12).map(({ id }) => ({ year: itemAt(rowOf(id))?.year ?? null })),
          ),
        );
      }
    },
  );
});

/** A filter as a client writes it. */
function filterOf(language: unknown): Filter {
  const mapped = (value: unknown): JsonValue => {
    if (Array.isArray(value)) return value.map(mapped);
    if (typeof value !== "object" || value === null) return value as JsonValue;
    return new Map(Object.entries(value).map(([name, each]) => [name, mapped(each)]));
  };
  return parseFilter(mapped(language));
}

/** The row of an item that a written or recorded model names. */
const rowOf = (id: string): number => Number(id.split(" ")[1]);

const admitsItem = (admits: (item: Item) => boolean, id: string): boolean =>
  admits(itemAt(rowOf(id)) ?? {});

/** Outputs of scores and ids as lists. */
function foundIn(answer: Answer): readonly (readonly Found[])[] {
  if ("code" in answer) throw new Error(answer.message);
  const tensors = [...answer.outputs.values()];
  const scores = tensors.find(({ dtype }) => dtype === "float32");
  const ids = tensors.find(({ dtype }) => dtype === "string");
  if (scores?.dtype !== "float32" || ids?.dtype !== "string") throw new Error("other outputs");
  expect(ids.rowLengths).toEqual(scores.rowLengths);
  const texts = ids.data.toText();
  return placesIn(ids).map((list) =>
    list.map((at) => ({ id: texts[at]!, score: scores.data[at]! })),
  );
}

function attributesIn(answer: Answer): readonly (readonly unknown[])[] {
  const attributes = "code" in answer ? undefined : answer.attributes;
  if (attributes?.dtype !== "string") throw new Error("no attributes were answered");
  const texts = attributes.data.toText();
  return placesIn(attributes).map((list) => list.map((at): unknown => JSON.parse(texts[at]!)));
}

/** Positions of the values of each row. */
function placesIn({ shape, rowLengths }: Tensor): readonly (readonly number[])[] {
  const [queries = 0, width = 0] = shape;
  return Array.from({ length: queries }, (_, query) => {
    const length = rowLengths?.[query] ?? width;
    return Array.from({ length }, (_item, place) => query * width + place);
  });
}

interface Found {
  readonly id: string;
  readonly score: number;
}
