// Which questions of a pipeline are told of the rows that a retrieval brings for its ranking.

import { filterText, fingerprint, parseFilter, stringTensor, tensor } from "@winnow/core";
import type { PipelineStage, SignatureTensor, Tensor } from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { version } from "../doubles/fake-cluster.ts";
import { ItemRows } from "../item-rows.ts";
import type { PinnedModel } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import { runPipeline } from "./pipeline-execution.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";
import { search } from "./fixtures/search-step.ts";

const member = { signature: "serving_default", scores: "s" };
const user = { name: "user", from: { kind: "request", input: "user" } } as const;
const movie = { name: "movie", from: { kind: "item" } } as const;
const ofUser = [{ name: "user", from: "user" }];

const retrieval: PipelineStage = {
  kind: "retrieve",
  model: "movies",
  ...member,
  ids: "i",
  k: 2,
  inputs: ofUser,
};
const ranking: PipelineStage = {
  kind: "rank",
  model: "ranking",
  ...member,
  inputs: [user, movie],
};
const seen: PipelineStage = {
  kind: "seen",
  key: "seen:{user}",
  type: "set",
  countMax: 4,
  budgetMs: 20,
};
const unknown: PipelineStage = { kind: "unknown", input: "user", answer: { kind: "oov" } };
const limit: PipelineStage = { kind: "limit", count: 1 };

const shape = { name: "items", rows: 9, dim: 2, partitions: 1, sources: [] };
const items = { kind: "candidate", idDtype: "string", ...shape } as const;
const outputOf = (name: string, dtype: Tensor["dtype"], value: number): SignatureTensor => {
  return { name, dtype, shape: [-1, -1], value, graphTensor: "" };
};

function pinnedModel(model: string, names: readonly string[]): PinnedModel {
  const inputs = names.map((name): SignatureTensor => {
    const dtype = name === "score" ? "float32" : "string";
    return { name, dtype, shape: [-1], value: 0, graphTensor: "" };
  });
  const outputs = [outputOf("s", "float32", search.scores), outputOf("i", "string", search.ids)];
  const parts = { constants: [], steps: [search], outputs, inputs };
  const signature = { name: "serving_default", methodName: "", ...parts };
  const none = { tables: [items], vocabularies: [], denseModels: [] };
  const program = { fingerprint: fingerprint("f"), ...none, signatures: [signature] };
  return { model, version: 1, program, release: () => undefined };
}

const pinned = new Map([
  ["movies", pinnedModel("movies", ["user"])],
  ["ranking", pinnedModel("ranking", ["user", "movie"])],
  ["by-score", pinnedModel("by-score", ["user", "score"])],
]);

/** The models that are asked, with a mark where the question has the rows; and for which input rows were wanted. */
async function askedBy(stages: readonly PipelineStage[], listed?: Tensor) {
  const asked: string[] = [];
  const wanted: string[] = [];
  const itemRows = new ItemRows({ version, table: 0 }, 2, () => void asked.push("others"));
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  await runPipeline({
    pipeline: { stages, outputs: { scores: "s", ids: "i" } },
    request: {
      signature: pinned.get("movies")!.program.signatures[0]!,
      inputs: new Map([["user", stringTensor(["u"])]]),
      context,
    },
    pinned,
    listed,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    itemRows: (of, { input }) => {
      wanted.push(`${of.model} ${input}`);
      return itemRows;
    },
    ask: ({ model }, request) => {
      asked.push(request.itemRows === itemRows ? `${model} with rows` : model);
      const items = request.inputs.get("movie");
      if (items === undefined) itemRows.keep(stringTensor(["a", "b"]), Float32Array.of(1, 2, 3, 4));
      else if (request.itemRows !== undefined) void itemRows.rowsOf(itemRows.wanted, items);
      const count = items?.data.length ?? 2;
      const scores = tensor("float32", [1, count], new Float32Array(count));
      const outputs = new Map<string, Tensor>([["s", scores]]);
      outputs.set("i", stringTensor(["a", "b"], [1, 2]));
      return Promise.resolve({ version: { ...version, model }, outputs, coverage: 1 });
    },
  });
  context.finish();
  const isKept = itemRows.rowsOf(itemRows.wanted, stringTensor(["a", "b"])) !== undefined;
  return { asked, wanted, isKept };
}

const year = parseFilter(new Map([["year", 1995]]));
const filter: PipelineStage = { kind: "filter", filter: filterText(year) };

test.each<[string, readonly PipelineStage[]]>([
  ["directly after a single retrieval", [retrieval, ranking, limit]],
  ["after a retrieval under a filter", [retrieval, filter, ranking]],
  ["after a retrieval without what users have seen", [retrieval, seen, ranking]],
  ["after a retrieval of known users", [retrieval, unknown, ranking]],
  ["after a retrieval under all of these", [unknown, seen, filter, retrieval, ranking]],
])("rows are brought for a ranking %s, and kept no longer", async (_, stages) => {
  const { asked, wanted, isKept } = await askedBy(stages);

  expect(asked).toEqual(["movies with rows", "ranking with rows"]);
  expect([wanted, isKept]).toEqual([["ranking movie"], false]);
});

test("rows are for the first ranking alone", async () => {
  const { asked } = await askedBy([retrieval, ranking, { ...ranking }]);

  expect(asked).toEqual(["movies with rows", "ranking with rows", "ranking"]);
});

test("no rows are brought for a ranking of listed items, which are in the order of their list", async () => {
  const { asked, wanted } = await askedBy([retrieval, ranking], stringTensor(["b", "a"]));

  expect([new Set(asked), wanted]).toEqual([new Set(["movies", "ranking"]), []]);
});

const userAlone = { ...ranking, inputs: [user] } as PipelineStage;
const byScore = {
  ...ranking,
  model: "by-score",
  inputs: [user, { name: "score", from: { kind: "score" } }],
} as PipelineStage;
const diversify: PipelineStage = { kind: "diversify", by: "mmr", balance: 0.5, count: 1 };
const score: PipelineStage = { kind: "score", expression: [{ kind: "number", value: 7 }] };

test.each<[string, readonly PipelineStage[], string[]]>([
  ["of what is left after another stage", [retrieval, limit, ranking], ["movies", "ranking"]],
  ["of items that are unlike", [retrieval, diversify, ranking], ["movies", "ranking"]],
  ["of a list in another order", [retrieval, score, ranking], ["movies", "ranking"]],
  ["of several retrievals", [retrieval, retrieval, ranking], ["movies", "movies", "ranking"]],
  ["that takes no item", [retrieval, userAlone], ["movies", "ranking"]],
  ["that takes a score for no item", [retrieval, byScore], ["movies", "by-score"]],
  ["that is not there", [retrieval, limit], ["movies"]],
])("no rows are brought for a ranking %s", async (_, stages, models) => {
  const { asked, wanted } = await askedBy(stages);

  expect([asked, wanted]).toEqual([models, []]);
});
