// Inputs that are lists: each model is given the list of the instance that a row belongs to, and what is repeated for
// candidates is bounded.

import { fingerprint, stringTensor, tensor } from "@winnow/core";
import type { PipelineStage, SignatureTensor, Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { PinnedModel, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";
import { runPipeline } from "./pipeline-execution.ts";
import type { PipelineRun } from "./pipeline-run.ts";

const signature = "serving_default";
const STAGES: readonly PipelineStage[] = [
  {
    kind: "retrieve",
    model: "movies",
    signature,
    k: 2,
    inputs: [{ name: "query", from: "vector" }],
    scores: "s",
    ids: "i",
  },
  {
    kind: "rank",
    model: "ranking",
    signature,
    inputs: [
      { name: "history", from: { kind: "request", input: "watched" } },
      { name: "movie", from: { kind: "item" } },
    ],
    scores: "s",
  },
];

const input = (name: string, dtype: Tensor["dtype"], ...inner: number[]): SignatureTensor => {
  return { name, dtype, shape: [-1, ...inner], value: 0, graphTensor: "" };
};

function modelOf(model: string, inputs: readonly SignatureTensor[]): PinnedModel {
  const own = { name: signature, methodName: "", constants: [], steps: [], outputs: [], inputs };
  const none = { tables: [], vocabularies: [], denseModels: [] };
  const program = { fingerprint: fingerprint("f"), ...none, signatures: [own] };
  return { model, version: 1, program, release: () => undefined };
}

const PINNED = new Map([
  ["movies", modelOf("movies", [input("query", "float32", 3)])],
  ["ranking", modelOf("ranking", [input("history", "string", -1), input("movie", "string")])],
]);

/** What the models are asked, where each instance has two items. */
async function askedOf(
  inputs: Readonly<Record<string, Tensor>>,
  bounds: Partial<PipelineRun> = {},
): Promise<readonly ReadonlyMap<string, Tensor>[]> {
  const asked: ReadonlyMap<string, Tensor>[] = [];
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  await runPipeline({
    pipeline: { stages: STAGES, outputs: { scores: "s", ids: "i" } },
    request: {
      signature: modelOf("p", [input("vector", "float32", 3), input("watched", "string", -1)])
        .program.signatures[0]!,
      inputs: new Map(Object.entries(inputs)),
      context,
    },
    pinned: PINNED,
    clock: new ManualClock(),
    ...PIPELINE_BOUNDS,
    ...bounds,
    ask: (pinned: PinnedModel, request: PredictRequest) => {
      asked.push(request.inputs);
      const [rows = 0] = [...request.inputs.values()][0]!.shape;
      const shape = pinned.model === "movies" ? [rows, 2] : [rows];
      const count = shape.reduce((product, size) => product * size, 1);
      const texts = Array.from({ length: count }, (_, at) => `item ${at}`);
      const outputs = new Map<string, Tensor>([
        ["s", tensor("float32", shape, new Float32Array(count))],
        ["i", stringTensor(texts, shape)],
      ]);
      const version = { model: pinned.model, version: 1, fingerprint: fingerprint("f") };
      return Promise.resolve({ version, outputs, coverage: 1 });
    },
  }).finally(() => context.finish());
  return asked;
}

const vectors = tensor("float32", [2, 3], Float32Array.of(1, 2, 3, 4, 5, 6));
const watched = stringTensor(["a", "b", "c", "d"], [2, 2]);

describe("lists", () => {
  test("go to a retrieval as they are, and to a ranking with each candidate of their instance", async () => {
    const [retrieval, ranking] = await askedOf({ vector: vectors, watched });

    expect(retrieval!.get("query")).toEqual(vectors);
    expect(ranking!.get("history")).toEqual(
      stringTensor(["a", "b", "a", "b", "c", "d", "c", "d"], [4, 2]),
    );
    expect(ranking!.get("movie")!.shape).toEqual([4]);
  });

  test("go with their own rows where there are several questions", async () => {
    const asked = await askedOf({ vector: vectors, watched }, { instancesMax: 3 });

    expect(asked.slice(1).map((inputs) => inputs.get("history"))).toEqual([
      stringTensor(["a", "b", "a", "b", "c", "d"], [3, 2]),
      stringTensor(["c", "d"], [1, 2]),
    ]);
  });

  test("may have no values", async () => {
    const [, ranking] = await askedOf({ vector: vectors, watched: stringTensor([], [2, 0]) });

    expect(ranking!.get("history")!.shape).toEqual([4, 0]);
  });

  test("are refused where the ranked candidates would repeat too many bytes of them", async () => {
    const many = stringTensor(
      Array.from({ length: 1_200_000 }, () => ""),
      [2, 600_000],
    );

    await expect(askedOf({ vector: vectors, watched: many })).rejects.toThrow(
      "Cannot rank 4 candidates with 9600000 bytes",
    );
  });
});
