// How `winnow inspect` draws the stages of a pipeline, and an experiment.

import { filterText, parseFilter, parseScore } from "@winnow/core";
import type { Experiment, JsonValue, Pipeline, PipelineStage } from "@winnow/core";
import { expect, test } from "vitest";
import { experimentText, pipelineText } from "./composed-drawing.ts";

const outputs: Pipeline["outputs"] = { scores: "output_1", ids: "output_2" };
const member = { signature: "serving_default", inputs: [], scores: "output_1", ids: "output_2" };
const filterOf = (filter: JsonValue): PipelineStage => {
  return { kind: "filter", filter: filterText(parseFilter(filter)) };
};

test("each kind of stage is drawn with what it is told", () => {
  const found = parseScore("0.5 * (score + prior)", new Set(["score", "prior"]));
  if ("fault" in found) throw new Error(found.fault);
  const filter = filterOf(
    new Map<string, JsonValue>([
      ["year", new Map([["$gte", 1990]])],
      ["$nor", [new Map([["genre", "noir"]]), new Map([["tags", new Map([["$exists", true]])]])]],
      ["size", new Map([["$in", [1, 2]]])],
    ]),
  );
  const stages: readonly PipelineStage[] = [
    { kind: "retrieve", model: "movies", k: 500, ...member },
    filter,
    { kind: "seen", key: "seen:{user_id}", type: "set", countMax: 1000, budgetMs: 20 },
    { kind: "unknown", input: "user_id", answer: { kind: "list", ids: ["a", "b"] } },
    { kind: "unknown", input: "user_id", answer: { kind: "pipeline", model: "popular" } },
    { kind: "unknown", input: "user_id", answer: { kind: "error" } },
    {
      kind: "merge",
      by: "weights",
      parts: [1, 0.5].map((value) => ({ name: `n${value}`, value })),
    },
    { kind: "merge", by: "quotas", parts: [9, 5].map((value) => ({ name: `n${value}`, value })) },
    {
      kind: "merge",
      by: "reciprocal-ranks",
      constant: 60,
      parts: [1, 0.5].map((value) => ({ name: `n${value}`, value })),
    },
    { kind: "rank", model: "movies-ranking", ...member },
    { kind: "rank", model: "movies-ranking", ...member, budgetMs: 30 },
    { kind: "score", expression: found.expression },
    { kind: "diversify", by: "at-most", attribute: "director", count: 2 },
    { kind: "diversify", by: "round-robin", attribute: "genre" },
    { kind: "diversify", by: "mmr", balance: 0.7, count: 20, of: "prior" },
    { kind: "limit", count: 20 },
  ];

  expect(pipelineText({ stages, outputs }).split(" → ")).toEqual([
    "Retrieve(movies, k=500)",
    "Filter(year ≥ 1990 and not (genre = noir or tags exists) and size in 1, 2)",
    "Seen(seen:{user_id}, 1000 within 20 ms)",
    "Unknown(user_id: list of 2)",
    "Unknown(user_id: pipeline popular)",
    "Unknown(user_id: error)",
    "Merge(1 * n1 + 0.5 * n0.5)",
    "Merge(9 of n9, 5 of n5)",
    "Merge(1 / (60 + rank in n1) + 0.5 / (60 + rank in n0.5))",
    "Rank(movies-ranking)",
    "Rank(movies-ranking within 30 ms)",
    "Score(0.5 * (score + prior))",
    "Diversify(at most 2 per director)",
    "Diversify(genre in turn)",
    "Diversify(MMR 0.7, 20 of prior)",
    "Limit(20)",
  ]);
});

const arms: Experiment["arms"] = [
  { name: "control", model: "movies", version: 3, weight: 2 },
  { name: "new-tower", model: "movies", label: "canary", weight: 1 },
];

test("arms are drawn with their parts, what they ask and what else they are for", () => {
  const sticky = { by: "header", name: "X-User", missing: "new-tower" } as const;

  const text = experimentText({ arms, sticky, fallback: "control" }, "feed");

  expect(text.trimEnd().split("\n")).toEqual([
    "experiment  by header X-User, salt feed",
    "  control    66.7 %  movies/3       answers for others that are not there",
    "  new-tower  33.3 %  movies@canary  without the header",
  ]);
});

test("one arm without a key is drawn with the salt of the file", () => {
  const text = experimentText({ arms: arms.slice(0, 1), salt: "summer" }, "feed");

  expect(text.trimEnd().split("\n")).toEqual([
    "experiment  without a key, salt summer",
    "  control  100 %  movies/3",
  ]);
});

test("a shadow is drawn behind the arms", () => {
  const shadow = { model: "movies", version: 5, share: 0.1, budgetMs: 500 };

  const text = experimentText({ arms: arms.slice(0, 1), shadow }, "feed");

  expect(text.trimEnd().split("\n").slice(1)).toEqual([
    "  control   100 %      movies/3",
    "  (shadow)  10 % more  movies/5  within 500 ms, never answered",
  ]);
});
