// How two answers compare: by their bits, or by the items of each instance.

import { stringTensor, tensor } from "@winnow/core";
import type { StringColumn, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { likenessOf } from "./answer-comparison.ts";

interface Item {
  readonly id: string;
  readonly score: number;
}

/** Lists of items as a retrieval model answers them; ragged where they differ in length. */
function answerOf(lists: readonly (readonly Item[])[], padding = ""): Map<string, Tensor> {
  const width = Math.max(0, ...lists.map(({ length }) => length));
  const padded = lists.flatMap((list) =>
    Array.from({ length: width }, (_, at) => list[at] ?? { id: padding, score: padding.length }),
  );
  const isRagged = lists.some(({ length }) => length < width);
  const rows = isRagged ? { rowLengths: Uint32Array.from(lists, ({ length }) => length) } : {};
  const shape = [lists.length, width];
  const scores = Float32Array.from(padded, ({ score }) => score);
  const ids = stringTensor(
    padded.map(({ id }) => id),
    shape,
  );
  return new Map<string, Tensor>([
    ["scores", { ...tensor("float32", shape, scores), ...rows }],
    ["ids", { ...ids, ...rows }],
  ]);
}

const items = fc.uniqueArray(
  fc.record({ id: fc.stringMatching(/^[a-c]{1,3}$/), score: fc.integer({ min: -3, max: 3 }) }),
  { maxLength: 5, selector: ({ id }) => id },
);
const answers = fc.array(items, { minLength: 1, maxLength: 4 });

test("values of longer lists are not read, however many a shadow answers", () => {
  const listsOf = (length: number): readonly (readonly Item[])[] =>
    [length, length + 1].map((each) =>
      Array.from({ length: each }, (_, at) => ({ id: `item ${at}`, score: at })),
    );
  const many = answerOf(listsOf(4096));
  const read = vi.spyOn(many.get("ids")!.data as StringColumn, "at");

  expect(likenessOf(answerOf(listsOf(5)), many)).toBe("different");
  expect(read).not.toHaveBeenCalled();
});

describe("an answer is", () => {
  test("the same as itself, whatever stands behind the ends of its lists", () => {
    fc.assert(
      fc.property(answers, (lists) => {
        expect(likenessOf(answerOf(lists), answerOf(lists, "behind"))).toBe("same");
      }),
    );
  });

  test("reordered where the items are the same, else different, as their sorted ids say", () => {
    fc.assert(
      fc.property(answers, answers, fc.boolean(), (lists, others, isTurned) => {
        const second = isTurned ? lists.map((list) => list.toReversed()) : others;
        const idsOf = (of: readonly (readonly Item[])[]): string =>
          JSON.stringify(
            of.map((list) => list.map(({ id }) => id).toSorted((a, b) => (a < b ? -1 : 1))),
          );
        const isEqual = JSON.stringify(lists) === JSON.stringify(second);
        const kind = idsOf(lists) === idsOf(second) ? "reordered" : "different";

        expect(likenessOf(answerOf(lists), answerOf(second))).toBe(isEqual ? "same" : kind);
      }),
    );
  });
});

describe("answers are different", () => {
  const scores = (...values: number[]) =>
    new Map<string, Tensor>([["s", tensor("float32", [values.length], Float32Array.from(values))]]);
  const ids = (dtype: "int64" | "int32", shape = [2]) =>
    new Map<string, Tensor>([
      dtype === "int64"
        ? ["i", tensor(dtype, shape, BigInt64Array.of(1n, 2n))]
        : ["i", tensor(dtype, shape, Int32Array.of(1, 2))],
    ]);

  test.each([
    ["of scores alone that differ by a bit", scores(1, 0), scores(1, -0)],
    ["of other outputs", scores(1), new Map([["t", scores(1).get("s")!]])],
    ["of one output more", scores(1), new Map([...scores(1), ...ids("int32")])],
    ["of other types", ids("int64"), ids("int32")],
    ["of other shapes", ids("int64", [1, 2]), ids("int64", [2, 1])],
    [
      "where one has an item twice",
      answerOf([itemsNamed("a", "a")]),
      answerOf([itemsNamed("a", "b")]),
    ],
  ])("%s", (_, one, other) => {
    expect(likenessOf(one, other)).toBe("different");
    expect(likenessOf(other, one)).toBe("different");
  });

  test("not where a NaN has the same bits, and integers stand in another order", () => {
    const turned = new Map<string, Tensor>([
      ["i", tensor("int64", [1, 2], BigInt64Array.of(2n, 1n))],
    ]);

    expect(likenessOf(scores(Number.NaN), scores(Number.NaN))).toBe("same");
    expect(likenessOf(ids("int64", [1, 2]), turned)).toBe("reordered");
  });
});

function itemsNamed(...names: readonly string[]): Item[] {
  return names.map((id) => ({ id, score: 1 }));
}
