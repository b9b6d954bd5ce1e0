// What a models order may contain, and which of two orders is in force.

import { describe, expect, test } from "vitest";
import {
  ORDER_CHARACTERS_MAX,
  ORDER_NUMBER_MAX,
  isAbove,
  isSameOrder,
  readMark,
  readOrder,
  writeOrder,
} from "./models-order.ts";
import type { OrderWords, OrderedModel } from "./models-order.ts";

const model = (change: Partial<OrderedModel> = {}): OrderedModel => ({
  model: "movies",
  basePath: "/models/movies",
  policy: { kind: "latest", count: 1 },
  labels: new Map(),
  ...change,
});
const words = (change: Partial<OrderWords> = {}): OrderWords => ({
  cluster: "shop",
  number: 7,
  by: "router on r0",
  at: "2026-01-31T12:00:00.000Z",
  models: [model()],
  ...change,
});

describe("a models order", () => {
  test("says the same to every reader, and has the same id", () => {
    const models = [
      model({ labels: new Map([["stable", 3]]) }),
      model({ model: "b", policy: { kind: "all" } }),
      model({
        model: "c",
        basePath: "/models/ü",
        policy: { kind: "specific", versions: [0, 2 ** 40] },
      }),
    ];

    const order = writeOrder(words({ models }));

    expect(order).toMatchObject({ number: 7, by: "router on r0", models });
    expect(order.id).toMatch(/^[0-9a-f]{16}$/);
    expect(readOrder(order.text, "shop")).toEqual(order);
  });

  test("that is withdrawn has no models; an empty list is a list", () => {
    expect(writeOrder(words({ models: undefined })).models).toBeUndefined();
    expect(writeOrder(words({ models: [] })).models).toEqual([]);
  });

  test.each<[string, readonly OrderedModel[]]>([
    ["needs another name", [model({ model: "" })]],
    ["needs another name", [model({ model: "m".repeat(257) })]],
    ["needs another name", [model({ model: "my movies" })]],
    ["needs another name", [model({ model: ".." })]],
    ["needs another name", [model({ model: "../movies" })]],
    ["is listed twice", [model(), model()]],
    ["needs an absolute base path", [model({ basePath: "models/movies" })]],
    ["needs an absolute base path", [model({ basePath: "/models/\0" })]],
    ["more than 4096 characters", [model({ basePath: `/${"m".repeat(4096)}` })]],
    ["at least 1", [model({ policy: { kind: "latest", count: 0 } })]],
    ["names 0 versions", [model({ policy: { kind: "specific", versions: [] } })]],
    ["no whole number", [model({ policy: { kind: "specific", versions: [1, 2 ** 53] } })]],
    ["no whole number", [model({ policy: { kind: "specific", versions: [-1] } })]],
    ["no whole number", [model({ labels: new Map([["stable", 0.5]]) })]],
    ["at most 1024 labels", [model({ labels: new Map([["", 1]]) })]],
    ["At most 512 models", Array.from({ length: 513 }, (_, at) => model({ model: `m${at}` }))],
    [
      `at most ${ORDER_CHARACTERS_MAX} characters`,
      Array.from({ length: 500 }, (_, at) =>
        model({ model: `m${at}`, basePath: `/${"m".repeat(3000)}` }),
      ),
    ],
  ])("is refused: %s", (text, models) => {
    expect(() => writeOrder(words({ models }))).toThrow(text);
  });

  test.each<[string, string]>([
    ["not JSON", "order"],
    ["Malformed", "null"],
    ["Malformed", "[]"],
    ["Malformed order: format", '{"format":2}'],
    [
      "Malformed order: number",
      JSON.stringify({ ...JSON.parse(writeOrder(words()).text), number: -1 }),
    ],
    [
      "Malformed order: number",
      JSON.stringify({ ...JSON.parse(writeOrder(words()).text), number: ORDER_NUMBER_MAX + 1 }),
    ],
    ["has no version policy", writeOrder(words()).text.replace('{"latest":1}', "{}")],
    ["another cluster", writeOrder(words({ cluster: "other" })).text],
  ])("by whoever wrote it is refused: %s", (message, text) => {
    expect(() => readOrder(text, "shop")).toThrow(message);
  });
});

describe("of two orders", () => {
  const mark = (number: number, id = "0123456789abcdef") => ({ number, id });

  test("the higher number is in force; of equal numbers the greater id; any before none", () => {
    expect(isAbove(mark(2), mark(1))).toBe(true);
    expect(isAbove(mark(1), mark(2))).toBe(false);
    expect(isAbove(mark(1), mark(1))).toBe(false);
    expect(isAbove(mark(1, "ffffffffffffffff"), mark(1))).toBe(true);
    expect(isAbove(mark(1), mark(1, "ffffffffffffffff"))).toBe(false);
    expect(isAbove(mark(1), undefined)).toBe(true);
    expect(isSameOrder(undefined, undefined)).toBe(true);
    expect(isSameOrder(mark(1), undefined)).toBe(false);
  });

  test("a mark is a number with an id, or neither", () => {
    expect(readMark(3, "0123456789abcdef")).toEqual(mark(3));
    expect(readMark(0, "")).toBeUndefined();
    for (const [number, id] of [
      [3, ""],
      [0, "0123456789abcdef"],
      [3, "xyz"],
    ] as const) {
      expect(() => readMark(number, id)).toThrow(RangeError);
    }
  });
});
