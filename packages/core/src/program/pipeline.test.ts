// Pipelines of encoded programs: read back as they were written, and refused where a stage asks for a
// score that nobody has named.

import { describe, expect, test } from "vitest";
import { modelsOf, optionalPipeline } from "./pipeline.ts";
import type { Pipeline, PipelineStage } from "./pipeline.ts";

const signature = "serving_default";
const retrieve: PipelineStage = {
  kind: "retrieve",
  model: "movies",
  signature,
  k: 9,
  inputs: [{ name: "user_id", from: "user" }],
  scores: "output_1",
  ids: "output_2",
  as: "prior",
};
const rank: PipelineStage = {
  kind: "rank",
  model: "ranking",
  signature,
  inputs: [{ name: "movie", from: { kind: "item" } }],
  scores: "output_1",
  heads: [{ name: "ctr", output: "output_2" }],
};
const filter: PipelineStage = { kind: "filter", filter: '["in","genres",["crime"],"list"]' };
const scoreOf = (name: string): PipelineStage => ({
  kind: "score",
  expression: [
    { kind: "name", name },
    { kind: "name", name: "prior" },
    { kind: "apply", operation: "add" },
  ],
});
const pipelineOf = (...stages: readonly PipelineStage[]): Pipeline => ({
  stages,
  outputs: { scores: "output_1", ids: "output_2" },
});
const readBack = (pipeline: Pipeline): Pipeline | undefined =>
  optionalPipeline({ value: JSON.parse(JSON.stringify(pipeline)), path: "pipeline" });

describe("a pipeline of an encoded program", () => {
  test("is read back as it was, and tells its models", () => {
    const whole = pipelineOf(retrieve, filter, rank, scoreOf("ctr"), { kind: "limit", count: 3 });
    const { as: _, ...plain } = retrieve;
    const short = pipelineOf(plain, scoreOf("score")).stages.slice(0, 1);

    expect(readBack(whole)).toEqual(whole);
    expect(readBack(pipelineOf(...short))).toEqual(pipelineOf(...short));
    expect(modelsOf(whole)).toEqual(["movies", "ranking"]);
  });

  test.each<[string, readonly PipelineStage[]]>([
    ['scores that are known, not "ctr"', [retrieve, scoreOf("ctr"), rank]],
    ['scores with a name each, not "ctr" again', [retrieve, rank, rank]],
    [
      "at most 16 heads",
      [
        retrieve,
        {
          ...rank,
          heads: Array.from({ length: 17 }, (_, at) => ({ name: `h${at}`, output: "o" })),
        },
      ],
    ],
    ['stages in order, but stages[0] is "score"', [scoreOf("score"), retrieve]],
    ["stages in order, but stages[1] retrieves again", [retrieve, retrieve]],
    [
      "stages in order, but stages[2] filters behind a limit",
      [retrieve, { kind: "limit", count: 3 }, filter],
    ],
    ["a filter: Cannot read a filter", [retrieve, { kind: "filter", filter: '["xor",[]]' }]],
  ])("is refused: it should have %s", (text, stages) => {
    expect(() => readBack(pipelineOf(...stages))).toThrow(text);
  });
});
