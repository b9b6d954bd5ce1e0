// What is told of versions that come and go.

import { expect, test } from "vitest";
import { versionNews } from "./version-news.ts";
import type { ModelList } from "./version-news.ts";

const list = (versions: Readonly<Record<string, string>>): ModelList => ({
  models: [
    {
      name: "movies",
      versions: Object.entries(versions).map(([version, state]) => ({ version, state })),
    },
  ],
});

test("a version is told when it begins to answer and when it has ceased to, and only then", () => {
  const lists = [
    list({ 1: "AVAILABLE" }),
    list({ 1: "AVAILABLE", 2: "LOADING" }),
    list({ 1: "AVAILABLE", 2: "AVAILABLE" }),
    list({ 1: "UNLOADING", 2: "AVAILABLE" }),
    list({ 2: "AVAILABLE" }),
  ];

  const news = lists.slice(1).map((now, at) => versionNews(lists[at]!, now));

  expect(news).toEqual([
    [],
    ["movies, version 2, answers now"],
    ["movies, version 1, is gone"],
    [],
  ]);
  expect(versionNews({ models: [] }, lists[0]!)).toEqual(["movies, version 1, answers now"]);
});
