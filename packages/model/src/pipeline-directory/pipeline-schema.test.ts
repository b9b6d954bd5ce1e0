// The published schema of pipeline.yaml against its reader: what the one takes or refuses, so does the other.
// What a schema cannot say (names that must exist, the order of stages) is the reader's alone.

import { readFileSync } from "node:fs";
import path from "node:path";
import { WinnowError } from "@winnow/core";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { parsePipeline as parseWith } from "./pipeline-description.ts";

const schemaFile = path.resolve(import.meta.dirname, "../../../../docs/pipeline.schema.json");
const isValid = new Ajv({ allowUnionTypes: true }).compile(
  JSON.parse(readFileSync(schemaFile, "utf8")) as object,
);

const parsePipeline = (content: Buffer): unknown =>
  parseWith(content, (name) => {
    // As `DirectoryFiles` does.
    if (!name.includes("/")) return Buffer.from("7\n8\n");
    throw new WinnowError("INVALID_ARGUMENT", `"${name}" is not the name of a file`);
  });

const retrieve = "retrieve: { model: m, k: 9, inputs: { a: user } }";
const whole = (stage: string, more = ""): string =>
  `inputs: { user: string }\n${more}\nstages:\n  - ${retrieve}\n  - ${stage}\n`;
const named = (as: string): string => retrieve.replace("k: 9", `k: 9, as: ${as}`);
const several = (merge: string): string =>
  `inputs: { user: string }\nstages:\n  - ${named("a")}\n  - ${named("b")}\n  - merge: ${merge}\n`;
const alone = (first: string): string => `inputs: { user: string }\nstages:\n  - ${first}\n`;

describe("the schema and the reader both take", () => {
  test.each([
    alone(
      "retrieve: { model: m, k: 4096, inputs: {}, scores: s, ids: i, as: prior, signature: x }",
    ),
    whole("limit: 1"),
    whole("filter: { year: { $gte: 1990 }, $or: [{ kids: false }, { genre: null }] }"),
    whole("filter: {}"),
    whole('seen: { key: "seen:{user}" }'),
    whole('seen: { key: "a/b:{user}/c", type: sorted_set, most: 16384, budget: 10s }'),
    whole('seen: { key: "seen:{user}", type: set, most: 1, budget: 1ms }'),
    whole('seen: { key: "seen:{user}:{user}", budget: 10000ms }'),
    whole('seen: { key: "seen:{user}", budget: 000010ms }'),
    whole("unknown: { user: user, answer: oov }"),
    whole("unknown: { user: user, answer: error }"),
    whole("unknown: { user: user, list: popular.txt }"),
    whole("unknown: { user: user, list: popular.txt }", "items: int64"),
    whole("unknown: { user: user, pipeline: popular }"),
    several("{ weights: { a: 1, b: 1 } }\n  - unknown: { user: user, of: b, answer: oov }"),
    whole("rank: { model: r, inputs: { u: request.user, i: item, s: score }, heads: { ctr: o } }"),
    whole("rank: { model: r, signature: s, inputs: {}, scores: o }"),
    whole("rank: { model: r, inputs: {}, budget: 30ms }"),
    whole("score: log(score) / 2"),
    whole("score: 1.5"),
    several("{ weights: { a: 1, b: 0 } }"),
    several("{ weights: { b: 0.5, a: 1000000 } }"),
    several("{ quotas: { a: 1, b: 9 } }"),
    several("{ reciprocal_ranks: { a: 1, b: 0 } }"),
    several("{ reciprocal_ranks: { a: 1, b: 0.5 }, rank_constant: 2.5 }"),
    whole("diversify: { at_most: 2, per: director }"),
    whole("diversify: { round_robin: genre }"),
    whole("diversify: { mmr: 0.7, count: 20 }"),
    whole("limit: 4096", "items: int64\noutputs: { ids: what }"),
    whole("limit: 1").replace("user: string", "user: string, a: { list: int64 }"),
    whole("limit: 1").replace("user: string", "user: string, a: { list: string, length: 10 }"),
  ])("%s", (text) => {
    expect(isValid(parse(text))).toBe(true);
    expect(() => parsePipeline(Buffer.from(text))).not.toThrow();
  });
});

describe("the schema and the reader both refuse", () => {
  test.each([
    "inputs: {}\nstages: []\n",
    "inputs: { user: text }\nstages: [{ limit: 1 }]\n",
    whole("limit: 1").replace("user: string", "user: string, a: { list: text }"),
    whole("limit: 1").replace("user: string", "user: string, a: { list: string, length: 0 }"),
    whole("limit: 1").replace("user: string", "user: string, a: { length: 3 }"),
    whole("limit: 1").replace("user: string", "user: string, a: { list: string, most: 3 }"),
    "stages: [{ limit: 1 }]\n",
    "inputs: { user: string }\n",
    `inputs: { user: string }\nstages:${`\n  - ${retrieve}`.repeat(17)}\n`,
    whole("limit: 1", "model: m"),
    whole("limit: 1", "outputs: { scores: '' }"),
    whole("limit: 0"),
    whole("limit: 4097"),
    whole("limit: 1.5"),
    whole("limit: '1'"),
    whole("{}"),
    whole("{ limit: 1, score: 1 }"),
    whole("limti: 1"),
    whole("filter: 7"),
    whole("seen: {}"),
    whole("seen: seen"),
    whole("seen: { key: seen }"),
    whole('seen: { key: "{user}" }'),
    whole('seen: { key: "seen{user}" }'),
    whole('seen: { key: "seen:{user}{user}" }'),
    whole('seen: { key: "winnow:{user}" }'),
    whole('seen: { key: "seen:{user}", type: list }'),
    whole('seen: { key: "seen:{user}", most: 0 }'),
    whole('seen: { key: "seen:{user}", most: 16385 }'),
    whole('seen: { key: "seen:{user}", budget: 20 }'),
    whole('seen: { key: "seen:{user}", budget: 0ms }'),
    whole('seen: { key: "seen:{user}", budget: 10001ms }'),
    whole('seen: { key: "seen:{user}", budget: 11s }'),
    whole('seen: { key: "seen:{user}", budget: 0000010ms }'),
    whole('seen: { key: "seen:{user}", ttl: 1s }'),
    whole("filter: [{ year: 1990 }]"),
    whole("unknown: { answer: oov }"),
    whole("unknown: { user: user }"),
    whole("unknown: { user: user, answer: ignore }"),
    whole("unknown: { user: user, answer: oov, list: popular.txt }"),
    whole("unknown: { user: user, list: popular.txt, pipeline: popular }"),
    whole("unknown: { user: user, list: [a, b] }"),
    whole("unknown: { user: user, list: ../popular.txt }"),
    whole("unknown: { user: user, pipeline: popular, version: 3 }"),
    whole("score: []"),
    whole("rank: { inputs: {} }"),
    whole("rank: { model: r }"),
    whole("rank: { model: r, inputs: { i: itme } }"),
    whole("rank: { model: r, inputs: {}, k: 3 }"),
    whole("rank: { model: r, inputs: {}, budget: 30 }"),
    whole("rank: { model: r, inputs: {}, budget: 11s }"),
    whole("rank: { model: r, inputs: {}, heads: { log: o } }"),
    whole("rank: { model: r, inputs: {}, heads: { a-b: o } }"),
    several("{}"),
    several("{ weights: { a: 1, b: 1 }, quotas: { a: 1, b: 1 } }"),
    several("{ weights: { a: 1, b: 1 }, rank_constant: 2 }"),
    several("{ rank_constant: 2 }"),
    several("{ reciprocal_ranks: { a: 1, b: -1 } }"),
    several("{ reciprocal_ranks: { a: 1, b: 1 }, rank_constant: 0.5 }"),
    several("{ weights: { a: 1, b: -1 } }"),
    several("{ weights: { a: 1, b: 1000001 } }"),
    several("{ weights: [a, b] }"),
    several("{ quotas: { a: 1, b: 0 } }"),
    several("{ quotas: { a: 1, b: 1.5 } }"),
    whole("diversify: {}"),
    whole("diversify: { at_most: 2 }"),
    whole("diversify: { at_most: 0, per: director }"),
    whole("diversify: { round_robin: genre, per: genre }"),
    whole("diversify: { mmr: 1.1, count: 20 }"),
    whole("diversify: { mmr: 0.5 }"),
    whole("diversify: { mmr: 0.5, count: 9, k: 9 }"),
    alone("retrieve: { k: 9, inputs: {} }"),
    alone("retrieve: { model: m, inputs: {} }"),
    alone("retrieve: { model: m, k: 9 }"),
    alone("retrieve: { model: m, k: 9, inputs: [] }"),
    alone("retrieve: { model: 7, k: 9, inputs: {} }"),
    alone("retrieve: { model: m, k: 9, inputs: {}, as: max }"),
  ])("%s", (text) => {
    expect(isValid(parse(text))).toBe(false);
    expect(() => parsePipeline(Buffer.from(text))).toThrow(/^Cannot read pipeline\.yaml, line \d+/);
  });
});
