// What a person writes into pipeline.yaml, and what is said of mistakes: line, field, what would work.

import { WinnowError, evaluateScore, parseFilterText } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { parsePipeline } from "./pipeline-description.ts";

const parse = (text: string): ReturnType<typeof parsePipeline> =>
  parsePipeline(new TextEncoder().encode(text), (name) => {
    const content = lists[name];
    if (content !== undefined) return content;
    throw new WinnowError("NOT_FOUND", `${name} does not exist`);
  });

/** Files beside the pipeline's. */
const lists: Readonly<Record<string, Uint8Array>> = {
  "popular.txt": Buffer.from("Heat (1995)\r\nJumanji (1995)\n"),
  "ids.txt": Buffer.from("7\n-8"),
  "gap.txt": Buffer.from("a\n\nb\n"),
  "twice.txt": Buffer.from("a\nb\na\n"),
  "empty.txt": Buffer.from(""),
  "long.txt": Buffer.from(Array.from({ length: 4097 }, (_, at) => `${at}\n`).join("")),
  "latin.txt": Buffer.from("caf\xe9\n", "latin1"),
  "padded.txt": Buffer.from("7\n08\n"),
  "large.txt": Buffer.from("7\n2147483648\n"),
};

const whole = `inputs: { user: string }
stages:
  - retrieve: { model: movies, k: 50, inputs: { user_id: user } }
  - rank: { model: ranking, inputs: { user: request.user, movie: item, prior: score } }
  - limit: 7
`;

describe("pipeline.yaml", () => {
  test("takes lists of a length, or of any, where one value is not needed", () => {
    const inputs = (text: string): string => whole.replace("user: string", `user: string, ${text}`);
    const read = (text: string) => parse(inputs(text)).inputs.get("watched");

    expect(read("watched: { list: string, length: 10 }")).toEqual({
      dtype: "string",
      shape: [-1, 10],
    });
    expect(read("watched: { list: float32 }")).toEqual({ dtype: "float32", shape: [-1, -1] });
    expect(() => read("watched: { list: string, length: 0 }")).toThrow(
      /inputs\.watched\.length: is not an integer from 1 to 4096/,
    );
    expect(() => read("watched: { length: 3 }")).toThrow(/list: is missing/);
    expect(() => read("watched: [string]")).toThrow(/inputs\.watched: is not a map/);
    const lists = inputs("watched: { list: string }");
    const withStage = (stage: string): string => lists.replace("- limit: 7", `- ${stage}`);
    expect(() => parse(withStage('seen: { key: "seen:{watched}" }'))).toThrow(
      /seen\.key: names "watched", a list; one value can be in a key/,
    );
    expect(() => parse(withStage("unknown: { user: watched, answer: oov }"))).toThrow(
      /unknown\.user: is "watched", a list; one value tells a user/,
    );
  });

  test("is a pipeline with TensorFlow Recommenders' names where it gives none", () => {
    const signature = "serving_default";
    expect(parse(whole)).toEqual({
      inputs: new Map([["user", { dtype: "string", shape: [-1] }]]),
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

  test("retrieves items like an item, without inputs of the model", () => {
    const like = whole.replace("inputs: { user_id: user }", "like: user");
    const unlike = whole.replace("inputs: { user_id: user }", "like: user, unlike: user");

    expect(parse(like).pipeline.stages[0]).toMatchObject({ inputs: [], like: "user", k: 50 });
    expect(parse(unlike).pipeline.stages[0]).toMatchObject({ like: "user", unlike: "user" });
  });

  test("names scores, and orders by an expression over them", () => {
    const text = whole
      .replace("k: 50", "k: 50, as: prior")
      .replace("prior: score }", "prior: score }, heads: { ctr: output_1, watch: output_2 }")
      .replace("- limit", "- score: 0.7 * ctr + log(watch) - prior / 2\n  - score: 1\n  - limit");

    const [retrieve, rank, score, constant] = parse(text).pipeline.stages;

    expect(retrieve).toMatchObject({ as: "prior" });
    expect(rank).toMatchObject({
      heads: [
        { name: "ctr", output: "output_1" },
        { name: "watch", output: "output_2" },
      ],
    });
    if (score?.kind !== "score") throw new Error("no score");
    const values: Readonly<Record<string, number>> = { ctr: 2, watch: 1, prior: 3 };
    expect(evaluateScore(score.expression, (name) => values[name]!)).toBe(0.7 * 2 - 1.5);
    expect(constant).toEqual({ kind: "score", expression: [{ kind: "number", value: 1 }] });
  });

  test("filters by an integer of more than 64 bits as by the nearest float, as requests do", () => {
    const text = whole.replace("- limit", `- filter: { year: { $lt: ${10n ** 22n} } }\n  - limit`);

    const filter = parse(text).pipeline.stages[2];

    const year = { kind: "test", attribute: "year", is: "lt", values: [1e22] };
    expect(filter?.kind === "filter" && parseFilterText(filter.filter)).toEqual(year);
  });

  test("filters as requests do, integers beyond 2⁵³ and lists included", () => {
    const text = whole.replace(
      "- limit",
      "- filter: { year: { $gte: 1990 }, tag: { $contains: a }, size: 9007199254740993 }\n  - limit",
    );
    const size = { kind: "test", attribute: "size", is: "in", values: [9007199254740993n] };
    const tag = { kind: "test", attribute: "tag", is: "in", values: ["a"], onList: true };
    const year = { kind: "test", attribute: "year", is: "gte", values: [1990] };

    const filter = parse(text).pipeline.stages[2];

    if (filter?.kind !== "filter") throw new Error("no filter");
    expect(parseFilterText(filter.filter)).toEqual({ kind: "and", of: [year, tag, size] });
  });

  const withUnknown = (unknown: string, items = "string"): string =>
    whole
      .replace("stages:", `items: ${items}\nstages:`)
      .replace("- rank", `- unknown: { user: user, ${unknown} }\n  - rank`);

  test.each<[string, string, object]>([
    ["answer: error", "string", { kind: "error" }],
    ["pipeline: popular", "string", { kind: "pipeline", model: "popular" }],
    ["list: popular.txt", "string", { kind: "list", ids: ["Heat (1995)", "Jumanji (1995)"] }],
    ["list: ids.txt", "int32", { kind: "list", ids: ["7", "-8"] }],
  ])("has unknown users answered: %s", (unknown, items, answer) => {
    const [, stage] = parse(withUnknown(unknown, items)).pipeline.stages;
    expect(stage).toEqual({ kind: "unknown", input: "user", answer });
  });

  test.each([
    ["none.txt", "string", "cannot be read: none.txt does not exist"],
    ["gap.txt", "string", "is gap.txt, whose line 2 is empty"],
    ["twice.txt", "string", 'is twice.txt, whose line 3 has "a" again'],
    ["empty.txt", "string", "is empty.txt, which has 0 lines; a list has 1 to 4096 ids"],
    ["long.txt", "string", "is long.txt, which has 4097 lines; a list has 1 to 4096 ids"],
    ["latin.txt", "string", "is latin.txt, which is not UTF-8"],
    ["padded.txt", "int64", 'is padded.txt, whose line 2 is "08", which is no int64'],
    ["large.txt", "int32", 'is large.txt, whose line 2 is "2147483648", which is no int32'],
    ["ids.txt", "float32", "is a list of float32; items with ids of string, int32 or int64"],
  ])("refuses the list %s of %s, with line and field", (name, items, fault) => {
    const where = "Cannot read pipeline.yaml, line 5, stages[1].unknown.list: ";
    expect(() => parse(withUnknown(`list: ${name}`, items))).toThrow(where + fault);
  });

  test("merges what several stages retrieve", () => {
    const again = "- retrieve: { model: trending, k: 20, inputs: { user_id: user }, as: popular }";
    const text = whole
      .replace("k: 50", "k: 50, as: personal")
      .replace(
        "- rank",
        `${again}\n  - merge: { weights: { personal: 1, popular: 0.3 } }\n  - rank`,
      );

    expect(parse(text).pipeline.stages.slice(1, 3)).toMatchObject([
      { kind: "retrieve", model: "trending", as: "popular" },
      {
        kind: "merge",
        by: "weights",
        parts: [
          { name: "personal", value: 1 },
          { name: "popular", value: 0.3 },
        ],
      },
    ]);
    expect(() => parse(text.replace("popular: 0.3", "populra: 0.3"))).toThrow(
      /line 5, stages\[2\]: does not name each retrieval once; they are personal, popular/,
    );
    expect(() => parse(text.replace("popular: 0.3", "popular: -1"))).toThrow(
      /line 5, stages\[2\]\.merge\.weights\.popular: is not a number from 0 to 1000000/,
    );
    expect(() =>
      parse(text.replace("weights: {", "quotas: { popular: 21, personal: 1 }, x: {")),
    ).toThrow(
      /line 5, stages\[2\]\.merge\.x: is unknown here; known: weights, quotas, reciprocal_ranks, rank_constant/,
    );
    const ranked = text.replace("weights: {", "reciprocal_ranks: {");
    expect(parse(ranked).pipeline.stages[2]).toMatchObject({
      by: "reciprocal-ranks",
      constant: 60,
    });
    expect(() => parse(text.replace("merge: {", "merge: { rank_constant: 9,"))).toThrow(
      /line 5, stages\[2\]\.merge\.rank_constant: belongs to reciprocal_ranks/,
    );
  });

  test.each([
    [
      "- limit: 7",
      "- score: ctr * 2",
      /line 5, stages\[2\]\.score: has "ctr" at character 1, where one of score, log/,
    ],
    ["- limit: 7", "- score: 2 *", /line 5, stages\[2\]\.score: has the end at character 4/],
    ["- limit: 7", "- score: []", /line 5, stages\[2\]\.score: is not a text/],
    ["k: 50", "k: 50, as: score", /line 3, .*as: names a score "score", which is the name of/],
    ["k: 50", "k: 50, as: log", /line 3, .*as: names a score "log"; a name is a word of letters/],
    ["prior: score }", "prior: score }, heads: { a-b: output_1 }", /line 4, .*names a score "a-b"/],
    [
      "prior: score }",
      `prior: score }, heads: {${Array.from({ length: 17 }, (_, at) => ` h${at}: o`).join()} }`,
      /line 4, .*heads: has 17 heads; 16 are allowed/,
    ],
    ["k: 50", "k: 0", /line 3, stages\[0\]\.retrieve\.k: is not an integer from 1 to 4096/],
    ["k: 50", "k: 4097", /line 3, stages\[0\]\.retrieve\.k/],
    ["k: 50, ", "", /line 3, k: is missing/],
    ["k: 50", "k: 50, like: user", /line 3, stages\[0\]\.retrieve: has `inputs` and `like`/],
    ["k: 50", "k: 50, unlike: user", /line 3, stages\[0\]\.retrieve: has `unlike` and no `like`/],
    ["inputs: { user_id: user }", "like: user, unlike: u", /line 3, .*unlike: is "u"/],
    [
      "inputs: { user_id: user }",
      "like: movie",
      /line 3, .*like: is "movie"; the pipeline's inputs/,
    ],
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
      /line 5, stages\[2\]\.limti: is unknown here; known: retrieve, merge, .*did you mean limit\?/,
    ],
    ["limit: 7", "limit: '7'", /line 5, stages\[2\]\.limit: is not an integer/],
    ["string }", "text }", /line 1, inputs\.user: is "text", which is no dtype/],
    [
      "inputs: { user: string }",
      "inputs: { user: string, user: int64 }",
      /line 1, inputs\.user: stands twice/,
    ],
    [
      "- limit: 7",
      "- retrieve: { model: m, k: 1, inputs: { a: user } }",
      /line 5, stages\[2\]: retrieves behind other stages; retrievals come first/,
    ],
    [
      "- limit: 7",
      "- filter: { year: { $gte: 1990, $lte: [1] } }",
      /line 5, stages\[2\]\.filter: "filter"\.year\.\$lte holds a list or an object/,
    ],
    [
      "- limit: 7",
      "- filter:\n      year: { $gtt: 1990 }",
      /line 6, stages\[2\]\.filter: "filter"\.year holds "\$gtt", .*did you mean \$gt\?/,
    ],
    [
      "- limit: 7",
      `- filter: { year: { $lt: 1${"0".repeat(400)} } }`,
      /line 5, stages\[2\]\.filter: "filter"\.year\.\$lt holds a number that is not finite/,
    ],
    [
      "- limit: 7",
      "- filter: 7",
      /line 5, stages\[2\]\.filter: "filter" is 7; it must be an object/,
    ],
    [
      "- limit: 7",
      `- filter: ${"{ $not: ".repeat(60)}{}${" }".repeat(60)}`,
      /line 5, stages\[2\]\.filter.*lies deeper than 40 levels/,
    ],
    [
      "- limit: 7",
      "- limit: 7\n  - filter: { year: 1990 }",
      /line 6, stages\[3\]: filters behind a limit; a filter goes to the retrieval/,
    ],
    ["- limit: 7", "- [", /line \d, the file: [^\n]*[^:\n]$/],
    [
      "- limit: 7",
      "- limit: 7\n    limit: 7",
      /line 6, stages\[2\]\.limit: stands twice; leave one of them out$/,
    ],
    ["- limit: 7", "- limit: 7\nstages: []", /line 6, stages: stands twice/],
    ["- limit: 7", "- !!js/function x", /line 5, the file/],
    ["- limit: 7", '- "": 7', /line 5, stages\[2\]: has a field without a name/],
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

  test.each(["[", "{ a: ", "- ", "? ", "- ? ", "a: [{ "])(
    "is refused when it nests %j deeply, without a stack that overflows",
    (opening) => {
      const text = `inputs:\n${opening.repeat(10_000)}`;
      expect(() => parse(text)).toThrow(
        /line 2, the file: nests lists and maps deeper than 128 levels$/,
      );
    },
  );

  test("is refused when a second document follows", () => {
    const refusal = new RegExp(`line ${whole.split("\n").length}, the file: has a second document`);
    expect(() => parse(`${whole}---\n${whole}`)).toThrow(refusal);
  });
});
