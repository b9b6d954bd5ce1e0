// What an order of models may say: both ends keep the bounds.

import { describe, expect, test } from "vitest";
import { decodeModelsOrder, encodeModelsOrder } from "./models-order.ts";
import type { OrderedModel } from "./models-order.ts";

const model = (change: Partial<OrderedModel> = {}): OrderedModel => ({
  model: "movies",
  basePath: "/models/movies",
  policy: { kind: "latest", count: 1 },
  ...change,
});

describe("an order of models", () => {
  test.each<[string, readonly OrderedModel[]]>([
    ["needs another name", [model({ model: "" })]],
    ["needs another name", [model({ model: "m".repeat(257) })]],
    ["is listed twice", [model(), model()]],
    ["needs an absolute base path", [model({ basePath: "models/movies" })]],
    ["needs an absolute base path", [model({ basePath: "/models/\0" })]],
    ["more than 4096 characters", [model({ basePath: `/${"m".repeat(4096)}` })]],
    ["at least 1", [model({ policy: { kind: "latest", count: 0 } })]],
    ["names 0 versions", [model({ policy: { kind: "specific", versions: [] } })]],
    ["no whole number", [model({ policy: { kind: "specific", versions: [1, 2 ** 53] } })]],
    ["no whole number", [model({ policy: { kind: "specific", versions: [-1] } })]],
    ["At most 512 models", Array.from({ length: 513 }, (_, at) => model({ model: `m${at}` }))],
  ])("is refused: %s", (text, models) => {
    expect(() => encodeModelsOrder({ models, checkOnly: false })).toThrow(text);
  });

  test("without a policy is refused by the reader", () => {
    const models = [{ name: "movies", base_path: "/models/movies" }];

    expect(() => decodeModelsOrder({ models, check_only: false })).toThrow("no version policy");
  });
});
