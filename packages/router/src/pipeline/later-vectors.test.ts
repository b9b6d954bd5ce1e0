// Vectors that only a stage behind a ranking compares are read while the ranking is under way.

import type { PipelineStage, SignatureTensor, Tensor } from "@winnow/core";
import {
  WinnowError,
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

function pinnedModel(model: string, input: string): PinnedModel {
  const inputs: SignatureTensor[] = [
    { name: input, dtype: "string", shape: [-1], value: 0, graphTensor: "" },
  ];
  const parts = { constants: [], steps: [], outputs: [], inputs };
  const signature = { name: "serving_default", methodName: "", ...parts };
  const none = { tables: [], vocabularies: [], denseModels: [] };
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
}

async function run({ found, stages, rankingFails = false }: Case) {
  const asked: string[] = [];
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  const answer = runPipeline({
    pipeline: { stages, outputs: { scores: "s", ids: "i" } },
    request: {
      signature: pinned.get("movies")!.program.signatures[0]!,
      inputs: new Map([["user", stringTensor(["u"])]]),
      context,
    },
    pinned,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    ask: async ({ model }) => {
      asked.push(model);
      const isRanking = model === "ranking";
      if (isRanking) {
        await new Promise((resolve) => void setTimeout(resolve, 5));
        if (rankingFails) throw new WinnowError("UNAVAILABLE", "No ranking");
      }
      const scores = tensor("float32", [1, 3], Float32Array.of(3, 2, 1));
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
