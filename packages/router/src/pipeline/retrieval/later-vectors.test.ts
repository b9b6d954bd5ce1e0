// Vectors that only a stage behind a ranking compares are read while the ranking is under way.

import type { PipelineStage, SignatureTensor, Tensor } from "@winnow/core";
import {
  VECTOR_ATTRIBUTE,
  valuesOfVector,
  WinnowError,
  cellOf,
  fingerprint,
  stringTensor,
  tensor,
  vectorCells,
  StringColumn,
} from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import { version } from "../../doubles/fake-cluster.ts";
import { ItemRows } from "../../item-rows.ts";
import type { LaterVectors } from "../../item-rows.ts";
import type { PinnedModel } from "../../predictor.ts";
import { RequestContext } from "../../request-context.ts";
import { runPipeline } from "../pipeline-execution.ts";
import { PIPELINE_BOUNDS } from "../fixtures/pipeline-bounds.ts";
import { search } from "../fixtures/search-step.ts";

const member = { signature: "serving_default", scores: "s" };
const retrieval: PipelineStage = {
  kind: "retrieve",
  model: "movies",
  ...member,
  ids: "i",
  k: 3,
  inputs: [{ name: "user", from: "user" }],
};
const ranking: PipelineStage = {
  kind: "rank",
  model: "ranking",
  ...member,
  inputs: [{ name: "movie", from: { kind: "item" } }],
};
const mmr: PipelineStage = { kind: "diversify", by: "mmr", balance: 0.5, count: 2 };

const shape = { name: "items", rows: 9, dim: 2, partitions: 1, sources: [] };
const items = { kind: "candidate", idDtype: "string", ...shape } as const;

function pinnedModel(model: string, input: string): PinnedModel {
  const inputs: SignatureTensor[] = [
    { name: input, dtype: "string", shape: [-1], value: 0, graphTensor: "" },
  ];
  const parts = { constants: [], steps: [search], outputs: [], inputs };
  const signature = { name: "serving_default", methodName: "", ...parts };
  const none = { tables: [items], vocabularies: [], denseModels: [] };
  const program = { fingerprint: fingerprint("f"), ...none, signatures: [signature] };
  return { model, version: 1, program, release: () => undefined };
}

const pinned = new Map([
  ["movies", pinnedModel("movies", "user")],
  ["ranking", pinnedModel("ranking", "movie")],
]);

/** The items a and b are alike. */
const cells = vectorCells(Float32Array.of(1, 0, 1, 0, 0, 1), 3);
const unequal = StringColumn.joined([cells.slice(0, 2), vectorCells(Float32Array.of(1, 2, 3), 1)]);

interface Case {
  readonly found: StringColumn;
  readonly stages: readonly PipelineStage[];
  readonly rankingFails?: boolean;
  readonly users?: readonly string[];
  /** Attributes that the request wants. */
  readonly attributes?: readonly string[];
  readonly describedValuesMax?: number;
  /** Called when the ranking is asked. */
  readonly onRanking?: () => void;
  readonly onStart?: (context: RequestContext) => void;
  readonly allowPartial?: boolean;
  /** What comes of vectors behind the items, where it may. */
  readonly following?: () => LaterVectors;
  /** What the second question about the same user finds. */
  readonly foundAgain?: readonly string[];
}

/** Items of a ranking; of a retrieval three. */
const countIn = (items: Tensor | undefined): number => items?.data.length ?? 3;

/** A ranking that takes a while. */
async function ranksSlowly({ onRanking, rankingFails = false }: Partial<Case>): Promise<void> {
  onRanking?.();
  await new Promise((resolve) => void setTimeout(resolve, 5));
  if (rankingFails) throw new WinnowError("UNAVAILABLE", "No ranking");
}

async function run({ found, stages, users = ["u"], ...words }: Case) {
  const { attributes, describedValuesMax = PIPELINE_BOUNDS.describedValuesMax } = words;
  const { onStart, allowPartial, following, foundAgain = ["a", "b", "c"] } = words;
  const itemRows = new ItemRows({ version, table: 0 }, 2, () => undefined);
  const asked: string[] = [];
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  const answer = runPipeline({
    pipeline: { stages, outputs: { scores: "s", ids: "i" } },
    request: {
      signature: pinned.get("movies")!.program.signatures[0]!,
      inputs: new Map([["user", stringTensor(users)]]),
      context,
      attributes,
      allowPartial,
    },
    pinned,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    describedValuesMax,
    ...(following && { itemRows: () => itemRows }),
    ask: async ({ model }, { inputs, itemRows: brought }) => {
      const isAgain = following !== undefined && brought === undefined && model === "movies";
      const isLater = brought?.vectorsMayFollow === true && model === "movies";
      asked.push(isAgain ? "movies again" : model);
      if (isLater) brought.keepVectors(following!());
      const isRanking = model === "ranking";
      if (isRanking) await ranksSlowly(words);
      const lists = countIn(inputs.get("movie")) / 3;
      const all = Float32Array.from({ length: 3 * lists }, (_, at) => 3 - (at % 3));
      const scores = tensor("float32", [1, 3 * lists], all);
      const outputs = new Map<string, Tensor>([["s", scores]]);
      outputs.set("i", stringTensor(isAgain ? foundAgain : ["a", "b", "c"], [1, 3]));
      const attributes: Tensor = { dtype: "string", shape: [1, 3], data: found };
      const of = { version: { ...version, model }, outputs, coverage: 1 };
      return isRanking || isLater ? of : { ...of, attributes };
    },
  }).finally(() => context.finish());
  onStart?.(context);
  const told = await answer.catch((error: unknown) => error as WinnowError);
  return { asked, told };
}

test.each<[string, readonly PipelineStage[]]>([
  ["behind a ranking", [retrieval, ranking, mmr]],
  ["without one", [retrieval, mmr]],
])("items are chosen by their vectors %s", async (_, stages) => {
  const { told } = await run({ found: cells, stages });

  const chosen = told instanceof Error ? told : (told.outputs.get("i")!.data as StringColumn);
  expect(chosen).toEqual(StringColumn.fromText(["a", "c"]));
});

test("the ranking does not wait for vectors", async () => {
  const { asked, told } = await run({ found: unequal, stages: [retrieval, ranking, mmr] });

  expect(asked).toEqual(["movies", "ranking"]);
  expect(told).toMatchObject({ code: "INVALID_ARGUMENT" });
});

test("if the ranking fails, its error is the answer, and nobody waits for vectors", async () => {
  const stages = [retrieval, ranking, mmr];
  const { told } = await run({ found: unequal, stages, rankingFails: true });

  expect(told).toMatchObject({ code: "UNAVAILABLE" });
});

test.each<[string, Omit<Case, "found">]>([
  [
    "of several users whose items are asked for one after the other",
    {
      stages: [retrieval, ranking, mmr],
      users: ["u", "v"],
      describedValuesMax: 3 * valuesOfVector(2),
    },
  ],
  [
    "of one of several retrievals",
    {
      stages: [
        { ...retrieval, as: "a" },
        { ...retrieval, as: "b" },
        {
          kind: "merge",
          by: "weights",
          parts: [
            { name: "a", value: 1 },
            { name: "b", value: 0 },
          ],
        },
        { ...mmr, of: "a" },
        ranking,
      ],
    },
  ],
])("vectors are there for a choice %s", async (_, words) => {
  const { told, asked } = await run({ ...words, found: cells });

  expect(asked).toEqual(["movies", "movies", "ranking"]);
  const chosen = told instanceof Error ? told : (told.outputs.get("i")!.data as StringColumn);
  expect(chosen).toEqual(StringColumn.fromText((words.users ?? ["u"]).flatMap(() => ["a", "c"])));
});

test("vectors that the request wants as well are answered", async () => {
  const stages = [retrieval, ranking, mmr];
  const { told } = await run({ found: cells, stages, attributes: [VECTOR_ATTRIBUTE] });

  const described = told instanceof Error ? told : told.attributes?.data.length;
  expect(described).toBe(2);
});

test("attributes that a stage compares beside vectors are there", async () => {
  const atMost: PipelineStage = { kind: "diversify", by: "at-most", attribute: "year", count: 1 };
  const vector = new Uint8Array(Float32Array.of(1, 0).buffer);
  const years = [1995, 1995, 1996].map((year) => cellOf(Buffer.from(`{"year":${year}}`), vector));
  const found = StringColumn.fromBytes(years);

  const { told } = await run({ found, stages: [retrieval, ranking, atMost, mmr] });

  const chosen = told instanceof Error ? told : (told.outputs.get("i")!.data as StringColumn);
  expect(chosen).toEqual(StringColumn.fromText(["a", "c"]));
});

test("vectors are read after the ranking was asked", async () => {
  let reads = 0;
  const readsBefore: number[] = [];
  const found = new StringColumn(cells.offsets, cells.bytes);
  const bytes = (): Uint8Array => {
    reads += 1;
    return cells.bytes;
  };
  Object.defineProperty(found, "bytes", { get: bytes });

  await run({
    found,
    stages: [retrieval, ranking, mmr],
    onRanking: () => void readsBefore.push(reads),
  });

  expect(readsBefore).toEqual([0]);
  expect(reads).toBeGreaterThan(0);
});

/** Of c and b being alike, unlike the cells. */
const following = (): LaterVectors => Promise.resolve(Float32Array.of(1, 0, 0, 1, 0, 1));
const missing = (): LaterVectors => Promise.resolve(undefined);
const wholeRun = [retrieval, ranking, mmr];

test.each<[string, Omit<Case, "found" | "stages">, Record<"models" | "chosen", readonly string[]>]>(
  [
    [
      "are those that come behind the items",
      { following },
      { models: ["movies", "ranking"], chosen: ["a", "b"] },
    ],
    [
      "are asked for again where they do not come, after the ranking",
      { following: missing },
      { models: ["movies", "ranking", "movies again"], chosen: ["a", "c"] },
    ],
    [
      "come with the items where an answer may lack items",
      { following, allowPartial: true },
      { models: ["movies", "ranking"], chosen: ["a", "c"] },
    ],
    [
      "come with the items where the request wants attributes",
      { following, attributes: [VECTOR_ATTRIBUTE] },
      { models: ["movies", "ranking"], chosen: ["a", "c"] },
    ],
    [
      "come with the items of users whose items are asked for one after the other",
      { following, users: ["u", "v"], describedValuesMax: 3 * valuesOfVector(2) },
      { models: ["movies", "movies", "ranking"], chosen: ["a", "c", "a", "c"] },
    ],
  ],
)("vectors %s", async (_, words, expected) => {
  const { asked, told } = await run({ found: cells, stages: wholeRun, ...words });

  const chosen = told instanceof Error ? told : (told.outputs.get("i")!.data as StringColumn);
  expect(chosen).toEqual(StringColumn.fromText(expected.chosen));
  expect(asked).toEqual(expected.models);
});

test("vectors of other items than those that were ranked are not compared", async () => {
  const words = { following: missing, foundAgain: ["a", "c", "b"] };
  const { told } = await run({ found: cells, stages: wholeRun, ...words });

  expect(told).toMatchObject({ code: "UNAVAILABLE" });
});

test("vectors that do not come are not asked for again where nothing is compared any more", async () => {
  const words = { following: missing, rankingFails: true };
  const { asked } = await run({ found: cells, stages: wholeRun, ...words });

  expect(asked).toEqual(["movies", "ranking"]);
});

test("(S8) a request that is aborted does not wait for vectors that may still come", async () => {
  const never = (): LaterVectors => new Promise(() => undefined);
  const onStart = (context: RequestContext): void => {
    const gone = new WinnowError("CANCELLED", "The client has gone");
    setTimeout(() => context.abort(() => gone), 30);
  };

  const { asked, told } = await run({ found: cells, stages: wholeRun, following: never, onStart });

  expect(asked).toEqual(["movies", "ranking"]);
  expect(told).toMatchObject({ code: "CANCELLED" });
});
