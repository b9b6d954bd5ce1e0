// What a person writes into pipeline.yaml, and what is said of mistakes: line, field, what would work.

import { describe, expect, test } from "vitest";
import { parsePipeline } from "./pipeline-description.ts";

const parse = (text: string): ReturnType<typeof parsePipeline> =>
  parsePipeline(new TextEncoder().encode(text));

const whole = `inputs: { user: string }
stages:
  - retrieve: { model: movies, k: 50, inputs: { user_id: user } }
  - rank: { model: ranking, inputs: { user: request.user, movie: item, prior: score } }
  - limit: 7
`;

describe("pipeline.yaml", () => {
  test("is a pipeline with TensorFlow Recommenders' names where it gives none", () => {
    const signature = "serving_default";
    expect(parse(whole)).toEqual({
      inputs: new Map([["user", "string"]]),
      items: "string",
      pipeline: {
        stages: [
          {
            kind: "retrieve",
            model: "movies",
            signature,
            k: 50,
            inputs: [{ name: "user_id", from: "user" }],
            scores: "output_1",
            ids: "output_2",
          },
          {
            kind: "rank",
            model: "ranking",
            signature,
            inputs: [
              { name: "user", from: { kind: "request", input: "user" } },
              { name: "movie", from: { kind: "item" } },
              { name: "prior", from: { kind: "score" } },
            ],
            scores: "output_1",
          },
          { kind: "limit", count: 7 },
        ],
        outputs: { scores: "output_1", ids: "output_2" },
      },
    });
  });

  test.each([
    ["k: 50", "k: 0", /line 3, stages\[0\]\.retrieve\.k: is not an integer from 1 to 4096/],
    ["k: 50", "k: 4097", /line 3, stages\[0\]\.retrieve\.k/],
    ["k: 50, ", "", /line 3, k: is missing/],
    [
      "user_id: user",
      "user_id: usr",
      /line 3, .*user_id: is "usr"; the pipeline's inputs are user/,
    ],
    [
      "movie: item",
      "movie: itme",
      /line 4, .*movie: is "itme"; it can be item, score, request\.user/,
    ],
    [
      "limit: 7",
      "limti: 7",
      /line 5, stages\[2\]\.limti: is unknown here; known: retrieve, rank, limit/,
    ],
    ["limit: 7", "limit: '7'", /line 5, stages\[2\]\.limit: is not an integer/],
    ["string }", "text }", /line 1, inputs\.user: is "text", which is no dtype/],
    ["inputs: { user: string }", "inputs: { user: string, user: int64 }", /line 1, .*unique/i],
    [
      "- limit: 7",
      "- retrieve: { model: m, k: 1, inputs: { a: user } }",
      /line 5, .*retrieves again/,
    ],
    ["- limit: 7", "- [", /line \d, the file/],
    ["- limit: 7", "- !!js/function x", /line 5, the file/],
    ["- limit: 7", "- __proto__: 7", /line 5, stages\[2\]\.__proto__: is unknown here/],
  ])("with %j as %j is refused with its place", (from, to, message) => {
    expect(() => parse(whole.replace(from, to))).toThrow(message);
  });

  test("is refused for an alias, before anything is expanded", () => {
    const bomb = Array.from(
      { length: 30 },
      (_, at) => `a${at}: &a${at} [${`*a${at - 1},`.repeat(9)}]`,
    );
    const text = `a: &a-1 [x]\n${bomb.join("\n")}\n`;
    expect(() => parse(text)).toThrow(/line 2, .*alias/);
  });

  test.each(["", "7", "[]", "inputs:", "null"])("%j is refused, not read", (text) => {
    expect(() => parse(text)).toThrow(/Cannot read pipeline\.yaml, line 1/);
  });

  test("is refused when it nests deeply, without a stack that overflows", () => {
    expect(() => parse(`inputs: ${"[".repeat(20_000)}`)).toThrow(/Cannot read pipeline\.yaml/);
  });
});
