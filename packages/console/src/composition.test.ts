// What the console draws of a pipeline and of an experiment.

import { describe, expect, test } from "vitest";
import { compositionOf } from "./composition.ts";

describe("metadata", () => {
  test("of a pipeline gives its stages", () => {
    const stages = [{ stage: "retrieve", does: "movies, k=100" }];

    expect(compositionOf({ metadata: { pipeline: { stages } } })).toEqual({
      kind: "pipeline",
      stages,
    });
  });

  test("of an experiment gives each arm its part of the keys", () => {
    const arms = [
      { name: "control", model: "movies", version: 3, weight: 90 },
      { name: "new", model: "movies", label: "canary", weight: 10 },
    ];

    expect(compositionOf({ metadata: { experiment: { arms } } })).toEqual({
      kind: "experiment",
      arms: [
        { name: "control", fraction: 0.9, asks: "movies/3" },
        { name: "new", fraction: 0.1, asks: "movies/canary" },
      ],
    });
  });

  test.each([null, {}, { metadata: { signature_def: {} } }, "text"])(
    "%j tells of neither",
    (told) => {
      expect(compositionOf(told)).toBeUndefined();
    },
  );
});
