// Pipelines of encoded programs: read back as they were written, and refused where a stage asks for a
// score that nobody has named.

import { describe, expect, test } from "vitest";
import { fallbackPipelineOf, modelsOf, optionalPipeline } from "./pipeline.ts";
import type {
  MergeStage,
  Pipeline,
  PipelineStage,
  RetrieveStage,
  SeenStage,
  UnknownStage,
} from "./pipeline.ts";

const signature = "serving_default";
const retrieve: RetrieveStage = {
  kind: "retrieve",
  model: "movies",
  signature,
  k: 9,
  inputs: [{ name: "user_id", from: "user" }],
  scores: "output_1",
  ids: "output_2",
  as: "prior",
};
const other = { ...retrieve, as: "other" };
const merge = (by: "weights" | "quotas", ...parts: readonly [string, number][]): PipelineStage => {
  return { kind: "merge", by, parts: parts.map(([name, value]) => ({ name, value })) };
};
const mmr = (balance: number, of?: string): PipelineStage => {
  return { kind: "diversify", by: "mmr", balance, count: 20, ...(of !== undefined && { of }) };
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
const seen: SeenStage = {
  kind: "seen",
  key: "seen:{user}",
  type: "set",
  countMax: 9,
  budgetMs: 20,
};
const unknown: UnknownStage = { kind: "unknown", input: "user", answer: { kind: "oov" } };
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
    const merged = pipelineOf(retrieve, other, merge("quotas", ["other", 2], ["prior", 9]));
    const { parts } = merge("weights", ["other", 2], ["prior", 9]) as MergeStage;
    const rankwise = { kind: "merge", by: "reciprocal-ranks", parts, constant: 60 } as const;
    const fused = pipelineOf(retrieve, other, rankwise);
    expect(readBack(fused)).toEqual(fused);
    expect(() => readBack(pipelineOf(retrieve, other, { ...rankwise, constant: 0 }))).toThrow(
      "constant should be from 1 to 1000000",
    );
    const diverse = pipelineOf(
      retrieve,
      { kind: "diversify", by: "at-most", attribute: "director", count: 2 },
      { kind: "diversify", by: "round-robin", attribute: "genre" },
      mmr(0.7),
      mmr(0, "prior"),
    );
    const { as: _, ...plain } = retrieve;
    const alike = pipelineOf({ ...plain, inputs: [], like: "movie" });
    expect(readBack(alike)).toEqual(alike);
    const apart = pipelineOf({ ...plain, inputs: [], like: "movie", unlike: "other" });
    expect(readBack(apart)).toEqual(apart);
    const short = pipelineOf(plain, scoreOf("score")).stages.slice(0, 1);

    expect(readBack(whole)).toEqual(whole);
    const hasty = pipelineOf(retrieve, { ...rank, budgetMs: 30 });
    expect(readBack(hasty)).toEqual(hasty);
    expect(readBack(pipelineOf(retrieve, seen, rank))).toEqual(pipelineOf(retrieve, seen, rank));
    for (const answer of [
      { kind: "error" },
      { kind: "list", ids: ["a", "b"] },
      { kind: "pipeline", model: "popular" },
    ] as const) {
      const told = pipelineOf(retrieve, filter, { ...unknown, of: "prior", answer }, rank);
      expect(readBack(told)).toEqual(told);
      expect([modelsOf(told), fallbackPipelineOf(told)]).toEqual([
        ["movies", "ranking"],
        answer.kind === "pipeline" ? "popular" : undefined,
      ]);
    }
    expect(readBack(merged)).toEqual(merged);
    expect(readBack(diverse)).toEqual(diverse);
    expect(readBack(pipelineOf(...short))).toEqual(pipelineOf(...short));
    expect(modelsOf(whole)).toEqual(["movies", "ranking"]);
  });

  test.each<[string, readonly PipelineStage[]]>([
    ["inputs or an item, not both", [{ ...retrieve, like: "movie" }]],
    ["an item beside `unlike`", [{ ...retrieve, unlike: "movie" }]],
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
    ["stages[2] does not name each", [retrieve, other, merge("weights", ["prior", 1])]],
    ["stages[2] retrieves behind other stages; retrievals come first", [retrieve, rank, other]],
    ["stages[1] retrieves a further list; a merge must follow it", [retrieve, other]],
    ["stages[2] stands where a merge of retrievals must", [retrieve, other, rank]],
    ["stages[1] needs `as`, and so do all retrievals", [retrieve, { ...other, as: undefined }]],
    ["stages[1] merges; it must follow two retrievals", [retrieve, merge("weights", ["prior", 1])]],
    [
      "stages[2] does not name each retrieval once; they are prior, other",
      [retrieve, other, merge("quotas", ["prior", 1], ["prior", 2])],
    ],
    [
      "stages[2] wants more of other than its 9 items",
      [retrieve, other, merge("quotas", ["prior", 9], ["other", 10])],
    ],
    [
      "parts[0].value should be from 0 to 1000000",
      [retrieve, other, merge("weights", ["prior", -1], ["other", 1])],
    ],
    [
      "parts[1].value should be from 1 to 4096",
      [retrieve, other, merge("quotas", ["prior", 1], ["other", 0])],
    ],
    [
      "stages in order, but stages[2] filters behind a limit",
      [retrieve, { kind: "limit", count: 3 }, filter],
    ],
    ["stages[2] filters behind a diversify", [retrieve, mmr(1), filter]],
    ["stages[2] excludes behind a diversify", [retrieve, mmr(1), seen]],
    ['stages[0] is "seen"', [seen, retrieve]],
    ["stages[2] stands behind a rank; unknown users are told once", [retrieve, rank, unknown]],
    ["stages[2] is the second one; unknown users are told once", [retrieve, unknown, unknown]],
    [
      "stages[3] needs `of`, the retrieval whose model knows users: prior or other",
      [retrieve, other, merge("weights", ["prior", 1], ["other", 1]), unknown],
    ],
    [
      'stages[1] goes by "year", which the retrieval does not take',
      [retrieve, { ...unknown, input: "year" }],
    ],
    [
      "answer should be a list of 1 to 4096 ids",
      [retrieve, { ...unknown, answer: { kind: "list", ids: [] } }],
    ],
    ["a pattern of keys, but", [retrieve, { ...seen, key: "{user}" }]],
    ["countMax should be from 1 to 16384", [retrieve, { ...seen, countMax: 16_385 }]],
    ["budgetMs should be from 1 to 10000", [retrieve, { ...seen, budgetMs: 0 }]],
    ["balance should be from 0 to 1", [retrieve, mmr(1.01)]],
    [
      "stages[3] needs `of`, the retrieval whose items' vectors are compared: prior or other",
      [retrieve, other, merge("weights", ["prior", 1], ["other", 1]), mmr(0.5)],
    ],
    ["stages[1] compares items of ctr, which is no retrieval", [retrieve, mmr(0.5, "ctr")]],
    ["a filter: Cannot read a filter", [retrieve, { kind: "filter", filter: '["xor",[]]' }]],
  ])("is refused: it should have %s", (text, stages) => {
    expect(() => readBack(pipelineOf(...stages))).toThrow(text);
  });
});
