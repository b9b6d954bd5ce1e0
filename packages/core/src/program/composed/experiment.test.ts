// Experiments on their way from a worker to a router: read as they were written, refused by whoever does not know
// them, and refused where they are damaged.

import { describe, expect, test } from "vitest";
import { fingerprint } from "../../identity.ts";
import { decodeProgram, encodeProgram } from "../codec/program-codec.ts";
import type { Experiment } from "./experiment.ts";
import { optionalExperiment, targetText } from "./experiment.ts";
import { BlobReader } from "../program-blobs.ts";
import type { ModelProgram } from "../program.ts";

const experiment: Experiment = {
  arms: [
    { name: "control", model: "movies", version: 3, weight: 90 },
    { name: "new", model: "movies", label: "canary", weight: 9.5 },
    { name: "off", model: "trending", weight: 0 },
  ],
  sticky: { by: "header", name: "X-User", missing: "control" },
  salt: "summer",
  fallback: "control",
  shadow: { model: "movies", version: 5, share: 0.25, budgetMs: 500 },
};

const none = { tables: [], vocabularies: [], denseModels: [], signatures: [] };
const program: ModelProgram = { fingerprint: fingerprint("f"), ...none, experiment };

test("an experiment is read as it was written", () => {
  expect(decodeProgram(encodeProgram(program))).toEqual(program);
});

test("its program lacks the list without which routers that know no experiments refuse it", () => {
  const { header } = new BlobReader(encodeProgram(program));

  expect(header).toMatchObject({ experiment });
  expect(header).not.toHaveProperty("signatures");
});

describe("a damaged experiment is refused:", () => {
  const [control, ...others] = experiment.arms;

  test.each([
    ["no arms", { arms: [] }],
    ["two arms of one name", { arms: [control, control] }],
    ["no weight", { arms: [{ ...control, weight: 0 }] }],
    ["a negative weight", { arms: [{ ...control, weight: -1 }, ...others] }],
    ["a weight that is no number", { arms: [{ ...control, weight: "90" }, ...others] }],
    ["a name with a line break", { arms: [{ ...control, name: "a\nb" }, ...others] }],
    ["a version and a label", { arms: [{ ...control, label: "x" }, ...others] }],
    ["a header that is none", { sticky: { by: "header", name: "X:" } }],
    ["an unknown kind of key", { sticky: { by: "moon", name: "x" } }],
    ["several arms without a key", { sticky: undefined }],
    ["an unknown fallback", { fallback: "nobody" }],
    [
      "an unknown arm for requests without a header",
      {
        sticky: { ...experiment.sticky, missing: "nobody" },
      },
    ],
    ["a share beyond 1", { shadow: { ...experiment.shadow, share: 1.1 } }],
    ["no time for the shadow", { shadow: { ...experiment.shadow, budgetMs: 0 } }],
    ["a shadow without a model", { shadow: { share: 1, budgetMs: 5 } }],
    ["a salt too long", { salt: "x".repeat(129) }],
  ])("%s", (_, damage) => {
    const value = { ...experiment, ...damage };

    expect(() => optionalExperiment({ value, path: "experiment" })).toThrow(/experiment/);
  });
});

test("what an arm asks is told as a URL would name it", () => {
  expect(experiment.arms.map(targetText)).toEqual(["movies/3", "movies@canary", "trending"]);
});
