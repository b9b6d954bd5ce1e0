// How `winnow inspect` draws an experiment.

import type { Experiment } from "@winnow/core";
import { expect, test } from "vitest";
import { experimentText } from "./experiment-drawing.ts";

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
