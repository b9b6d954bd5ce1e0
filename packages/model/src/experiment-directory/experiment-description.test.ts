// What `experiment.yaml` may say, by the reader and by the published schema. What a schema cannot say (names that must
// exist, distinct names, some weight) is the reader's alone.

import { readFileSync } from "node:fs";
import path from "node:path";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { parseExperiment } from "./experiment-description.ts";

const schemaFile = path.resolve(import.meta.dirname, "../../../../docs/experiment.schema.json");
const isValid = new Ajv().compile(JSON.parse(readFileSync(schemaFile, "utf8")) as object);

const two = `arms:
  - { name: control, model: movies, version: 3, weight: 90 }
  - { name: new, model: movies, version: 4, weight: 10 }
`;
const sticky = "sticky: { input: user_id }\n";
const one = (arm: string, more = ""): string => `arms:\n  - { ${arm} }\n${more}`;
const arm = "name: a, model: m, weight: 1";

test("is read whole", () => {
  const text = `${two}sticky: { header: X-User, missing: control }\nsalt: summer\nfallback: control\nshadow: { model: movies, label: next, share: 0.5 }\n`;

  expect(parseExperiment(Buffer.from(text))).toEqual({
    arms: [
      { name: "control", model: "movies", version: 3, weight: 90 },
      { name: "new", model: "movies", version: 4, weight: 10 },
    ],
    sticky: { by: "header", name: "X-User", missing: "control" },
    salt: "summer",
    fallback: "control",
    shadow: { model: "movies", label: "next", share: 0.5, budgetMs: 1000 },
  });
});

describe("the schema and the reader both take", () => {
  test.each([
    two + sticky,
    one(arm),
    one("name: a-1.b_c, model: m, label: stable, weight: 0.5"),
    one(arm, "sticky: { header: X-User }"),
    `${two}${sticky}fallback: new`,
    one(arm, "salt: spring"),
    one(arm, "shadow: { model: m, version: 2, share: 1, budget: 20ms }"),
    one(arm, "shadow: { model: m, share: 0, budget: 10s }"),
  ])("%s", (text) => {
    expect(isValid(parse(text))).toBe(true);
    expect(() => parseExperiment(Buffer.from(text))).not.toThrow();
  });
});

describe("the schema and the reader both refuse", () => {
  test.each([
    "arms: []\n",
    "arms: {}\n",
    "sticky: { input: user_id }\n",
    `arms:${`\n  - { ${arm} }`.repeat(17)}\n${sticky}`,
    one("name: a, weight: 1"),
    one("model: m, weight: 1"),
    one("name: a, model: m"),
    one("name: a, model: m, weight: -1"),
    one("name: a, model: m, weight: 1000001"),
    one("name: a, model: m, weight: '1'"),
    one("name: a b, model: m, weight: 1"),
    one("name: '', model: m, weight: 1"),
    one(`name: ${"a".repeat(65)}, model: m, weight: 1`),
    one("name: a, model: 7, weight: 1"),
    one("name: a, model: m, version: 1.5, weight: 1"),
    one("name: a, model: m, version: -1, weight: 1"),
    one("name: a, model: m, version: 1, label: stable, weight: 1"),
    one("name: a, model: m, weight: 1, share: 2"),
    one(arm, "wieght: 1"),
    one(arm, "salt: ''"),
    one(arm, "salt: 7"),
    one(arm, "sticky: user_id"),
    one(arm, "sticky: {}"),
    one(arm, "sticky: { input: a, header: B }"),
    one(arm, "sticky: { input: a, missing: a }"),
    one(arm, "sticky: { header: 'X User' }"),
    one(arm, "fallback: [a]"),
    one(arm, "shadow: m"),
    one(arm, "shadow: { model: m }"),
    one(arm, "shadow: { share: 1 }"),
    one(arm, "shadow: { model: m, share: 1.5 }"),
    one(arm, "shadow: { model: m, share: -0.1 }"),
    one(arm, "shadow: { model: m, share: 1, budget: 11s }"),
    one(arm, "shadow: { model: m, share: 1, budget: 5 }"),
    one(arm, "shadow: { model: m, share: 1, version: 2, label: x }"),
    one(arm, "shadow: { model: m, share: 1, weight: 2 }"),
  ])("%s", (text) => {
    expect(isValid(parse(text))).toBe(false);
    expect(() => parseExperiment(Buffer.from(text))).toThrow(
      /^Cannot read experiment\.yaml, line \d+/,
    );
  });
});

describe("the reader names line and field of", () => {
  test.each([
    [two, /line 1, the file: sticky is missing; several arms need the input or header/],
    [
      two.replace("name: new", "name: control") + sticky,
      /line 3, arms\[1\]\.name: is "control" again/,
    ],
    [
      two.replace("name: new", "name: __new") + sticky,
      /line 3, arms\[1\]\.name: is "__new"; arms have names of .* a letter or digit first/,
    ],
    [two.replace(/\d+ }/g, "0 }") + sticky, /line 2, arms: have no weight/],
    [
      `${two}${sticky}fallback: old\n`,
      /line 5, fallback: is "old", which is no arm; they are control, new/,
    ],
    [
      `${two}sticky: { header: X-User, missing: old }\n`,
      /line 4, sticky\.missing: is "old", which is no arm/,
    ],
    [
      two.replace("weight: 10", "wieght: 10") + sticky,
      /line 3, arms\[1\]\.wieght: .*did you mean weight\?/,
    ],
    [
      two.replace("weight: 10", "weight: many") + sticky,
      /line 3, arms\[1\]\.weight: is not a number/,
    ],
  ])("%s", (text, message) => {
    expect(() => parseExperiment(Buffer.from(text))).toThrow(message);
  });
});
