// What an experiment can be asked, and what it lacks before it may be asked.

import type { Dtype, Experiment, ModelProgram, SignatureProgram } from "@winnow/core";
import { fingerprint } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { commonSignatures, experimentLack } from "./arm-signatures.ts";

const self = { model: "feed", version: 4, fingerprint: fingerprint("e") };

function signature(name: string, inputs: Readonly<Record<string, Dtype>>): SignatureProgram {
  const tensorOf = ([of, dtype]: readonly [string, Dtype]) => {
    return { name: of, dtype, shape: [-1], value: 0, graphTensor: "" };
  };
  const outputs = [tensorOf(["output_1", "string"])];
  return {
    name,
    methodName: "",
    constants: [],
    steps: [],
    outputs,
    inputs: Object.entries(inputs).map(tensorOf),
  };
}

function program(...signatures: readonly SignatureProgram[]): ModelProgram {
  const none = { tables: [], vocabularies: [], denseModels: [] };
  return { fingerprint: fingerprint("f"), ...none, signatures };
}

const byUser = signature("serving_default", { user_id: "string" });

const experiment: Experiment = {
  arms: [
    { name: "control", model: "movies", version: 3, weight: 1 },
    { name: "new", model: "movies", version: 4, weight: 1 },
  ],
  sticky: { by: "input", name: "user_id" },
};

/** Models by version. */
function lackWith(
  models: Readonly<Record<number, ModelProgram>>,
  changes: Partial<Experiment> = {},
): string | undefined {
  return experimentLack({ ...experiment, ...changes }, self, ({ version = 0 }) => {
    return models[version] ?? { missing: "it is being loaded" };
  });
}

/** Models for both arms. */
const all = { 3: program(byUser), 4: program(byUser) };

test("an experiment can be asked by the signatures that all arms have, whatever the order of inputs", () => {
  const both = signature("serving_default", { user_id: "string", age: "int64" });
  const turned = signature("serving_default", { age: "int64", user_id: "string" });
  const other = signature("other", { x: "string" });

  expect(commonSignatures([program(both, other), program(turned)])).toEqual([both]);
  expect(commonSignatures([program(both), program(byUser)])).toEqual([]);
});

test("an experiment lacks nothing where its models have a signature in common, with the key", () => {
  expect(lackWith({ 3: program(byUser), 4: program(byUser) })).toBeUndefined();
});

describe("an experiment waits where", () => {
  test.each([
    [
      "a model is not there",
      lackWith({ 3: program(byUser) }),
      "arms[1] (new): model movies/4 cannot answer: it is being loaded",
    ],
    [
      "two models take different inputs",
      lackWith({
        3: program(byUser),
        4: program(signature("serving_default", { user_id: "int64" })),
      }),
      "arms[1] (new): model movies/4 has no signature with the same inputs and outputs as the arms before it",
    ],
    [
      "no input is the key",
      lackWith(
        { 3: program(byUser), 4: program(byUser) },
        { sticky: { by: "input", name: "user" } },
      ),
      'sticky.input: the models of the arms have no input "user", but user_id',
    ],
    [
      "the key is no string or integer",
      lackWith(
        Object.fromEntries(
          [3, 4].map((at) => [at, program(signature("serving_default", { user_id: "float32" }))]),
        ),
      ),
      'sticky.input: "user_id" is float32; a key is a string or an integer',
    ],
    [
      "an arm is an experiment",
      lackWith({ 3: program(byUser), 4: { ...program(), experiment } }),
      "arms[1] (new): model movies/4 is an experiment; name the models that it asks",
    ],
    [
      "an arm is the experiment itself by version",
      lackWith(
        { 4: program(byUser) },
        { arms: [{ name: "a", model: "feed", version: 4, weight: 1 }] },
      ),
      "arms[0] (a): feed/4 is the experiment itself; name another version of it",
    ],
    [
      "an arm is the experiment itself by name",
      lackWith({ 0: program(byUser) }, { arms: [{ name: "a", model: "feed", weight: 1 }] }),
      "arms[0] (a): feed is the experiment itself; name another version of it",
    ],
    [
      "the shadow is the experiment itself by version",
      lackWith(all, { shadow: { model: "feed", version: 4, share: 1, budgetMs: 1 } }),
      "shadow: feed/4 is the experiment itself; name another version of it",
    ],
    [
      "the shadow is the experiment itself by name",
      lackWith(all, { shadow: { model: "feed", share: 1, budgetMs: 1 } }),
      "shadow: feed is the experiment itself; name another version of it",
    ],
  ])("%s", (_, lack, text) => {
    expect(lack).toBe(text);
  });
});

test("another version of the experiment's own model may be an arm, or the shadow", () => {
  const arms = [{ name: "a", model: "feed", version: 3, weight: 1 }];
  const shadow = { model: "feed", version: 2, share: 1, budgetMs: 1 };

  expect(lackWith({ 3: program(byUser) }, { arms, shadow })).toBeUndefined();
});
