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
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { version } from "../doubles/fake-cluster.ts";
import type { PinnedModel } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import { runPipeline } from "./pipeline-run.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";
import { search } from "./fixtures/search-step.ts";

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
}

async function run({ found, stages, rankingFails = false, users = ["u"], ...words }: Case) {
  const { attributes, describedValuesMax = PIPELINE_BOUNDS.describedValuesMax, onRanking } = words;
  const asked: string[] = [];
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  const answer = runPipeline({
    pipeline: { stages, outputs: { scores: "s", ids: "i" } },
    request: {
      signature: pinned.get("movies")!.program.signatures[0]!,
      inputs: new Map([["user", stringTensor(users)]]),
      context,
      attributes,
    },
    pinned,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    describedValuesMax,
    ask: async ({ model }, { inputs }) => {
      asked.push(model);
      const isRanking = model === "ranking";
      if (isRanking) {
        onRanking?.();
        await new Promise((resolve) => void setTimeout(resolve, 5));
        if (rankingFails) throw new WinnowError("UNAVAILABLE", "No ranking");
      }
      const lists = (inputs.get("movie")?.data.length ?? 3) / 3;
      const all = Float32Array.from({ length: 3 * lists }, (_, at) => 3 - (at % 3));
      const scores = tensor("float32", [1, 3 * lists], all);
      const outputs = new Map<string, Tensor>([["s", scores]]);
      outputs.set("i", stringTensor(["a", "b", "c"], [1, 3]));
      const attributes: Tensor = { dtype: "string", shape: [1, 3], data: found };
      const of = { version: { ...version, model }, outputs, coverage: 1 };
      return isRanking ? of : { ...of, attributes };
    },
  }).finally(() => context.finish());
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
