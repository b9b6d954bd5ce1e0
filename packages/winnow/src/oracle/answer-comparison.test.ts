// What counts as equal, as explained, and as a difference.

import { describe, expect, test } from "vitest";
import { type Comparison, compareAnswers } from "./answer-comparison.ts";
import { type AnswerValue, parseAnswer } from "./answer-json.ts";
import { type AnswerRecord, type OutputSpec, recordsOfBody } from "./answer-records.ts";

const LIST: readonly OutputSpec[] = [
  { name: "scores", dtype: "float32" },
  { name: "ids", dtype: "string" },
];

const list = (...items: readonly (readonly [id: string, score: number])[]): AnswerRecord =>
  new Map<string, AnswerValue>([
    ["scores", items.map(([, score]) => Math.fround(score))],
    ["ids", items.map(([id]) => id)],
  ]);

function compare(expected: AnswerRecord, given: AnswerRecord, tolerance = 0): Comparison {
  const rules = { outputs: LIST, tolerance };
  return compareAnswers([expected], { kind: "records", records: [given] }, rules);
}

describe("lists of items", () => {
  const expected = list(["a", 0.9], ["b", 0.5], ["c", 0.3]);

  test("are equal to the bit, however the score was written", () => {
    const given = recordsOfBody(
      parseAnswer('{"predictions":[{"scores":[0.899999976,0.5,0.300000012],"ids":["a","b","c"]}]}'),
      LIST,
      "row",
    );

    expect(compareAnswers([expected], given, { outputs: LIST, tolerance: 0 }).verdict).toBe(
      "equal",
    );
  });

  test.each([
    ["a score one bit off", list(["a", 0.9 + 2 ** -24], ["b", 0.5], ["c", 0.3]), ["score", 0]],
    ["another id", list(["a", 0.9], ["x", 0.5], ["c", 0.3]), ["id", 1]],
    ["two equal items exchanged", list(["b", 0.9], ["a", 0.5], ["c", 0.3]), ["id", 0]],
    ["a NaN", list(["a", 0.9], ["b", NaN], ["c", 0.3]), ["score", 1]],
    ["a short list", list(["a", 0.9], ["b", 0.5]), ["count", undefined]],
  ] as const)("differ by %s", (_, given, [kind, place]) => {
    const { verdict, differences } = compare(expected, given);

    expect(verdict).toBe("different");
    expect(differences[0]).toMatchObject({ kind });
    expect(differences[0]!.place).toBe(place);
  });

  test("NaN equals NaN, and an infinite score itself alone", () => {
    const infinite = list(["a", Infinity], ["b", NaN]);

    expect(compare(infinite, list(["a", Infinity], ["b", NaN])).verdict).toBe("equal");
    expect(compare(infinite, list(["a", -Infinity], ["b", NaN]), 0.1).verdict).toBe("different");
    expect(compare(infinite, list(["a", 3e38], ["b", NaN]), 0.1).verdict).toBe("different");
  });

  describe("within a tolerance of 1e-5", () => {
    const close = list(["a", 0.900001], ["b", 0.9], ["c", 0.5], ["d", 0.300001]);

    test("are close where scores alone differ, by no more", () => {
      const given = list(["a", 0.900003], ["b", 0.9], ["c", 0.5], ["d", 0.3]);

      expect(compare(close, given, 1e-5).verdict).toBe("close");
      expect(
        compare(close, list(["a", 0.90003], ["b", 0.9], ["c", 0.5], ["d", 0.3]), 1e-5),
      ).toMatchObject({
        verdict: "different",
        differences: [{ kind: "score", place: 0 }],
      });
    });

    test("may have items of close scores in another order, and another one at the end", () => {
      const exchanged = list(["b", 0.900001], ["a", 0.9], ["c", 0.5], ["d", 0.3]);
      const another = list(["a", 0.900001], ["b", 0.9], ["c", 0.5], ["e", 0.3]);

      expect(compare(close, exchanged, 1e-5).verdict).toBe("reordered");
      expect(compare(close, another, 1e-5).verdict).toBe("reordered");
    });

    test("differ where an item stands by another's score, or is lost above the end", () => {
      const byOther = list(["a", 0.900001], ["c", 0.9], ["b", 0.5], ["d", 0.3]);
      const lost = list(["a", 0.900001], ["x", 0.9], ["c", 0.5], ["d", 0.3]);

      expect(compare(close, byOther, 1e-5).differences.map(({ place }) => place)).toEqual([1, 2]);
      expect(compare(close, lost, 1e-5)).toMatchObject({
        verdict: "different",
        differences: [{ kind: "id", place: 1, givenId: "x" }],
      });
    });

    test("differ where one item stands twice and another is gone", () => {
      const above = list(["a", 0.5], ["b", 0.5], ["c", 0.4]);
      const atEnd = list(["a", 0.5], ["b", 0.5]);

      expect(compare(above, list(["a", 0.5], ["a", 0.5], ["c", 0.4]), 1e-5).verdict).toBe(
        "different",
      );
      expect(compare(atEnd, list(["a", 0.5], ["a", 0.5]), 1e-5).verdict).toBe("different");
    });
  });
});

describe("answers", () => {
  test("differ in their number, and by outputs that are missing or unknown", () => {
    const rules = { outputs: LIST, tolerance: 0 };
    const record = list(["a", 1]);
    const faultOf = (text: string): string | undefined =>
      compareAnswers([record], recordsOfBody(parseAnswer(text), LIST, "row"), rules).differences[0]
        ?.given;

    expect(
      compareAnswers([record, record], { kind: "records", records: [record] }, rules).differences,
    ).toEqual([{ kind: "count", instance: 0, expected: "2 answers", given: "1" }]);
    expect(faultOf('{"predictions":[{"scores":[1]}]}')).toBe('no output "ids"');
    expect(faultOf('{"predictions":[{"scores":[1],"ids":["a"],"x":1}]}')).toContain(
      'an output "x"',
    );
    expect(faultOf('{"error":"x"}')).toBe('no "predictions" in the answer');
  });

  test("of 64-bit ids are compared to the last digit", () => {
    const outputs: readonly OutputSpec[] = [{ name: "ids", dtype: "int64" }];
    const expected = [new Map([["ids", [9007199254740993n, 2n]]])];
    const verdictOf = (text: string): string =>
      compareAnswers(expected, recordsOfBody(parseAnswer(text), outputs, "column"), {
        outputs,
        tolerance: 0,
      }).verdict;

    expect(verdictOf('{"outputs":[[9007199254740993, 2]]}')).toBe("equal");
    expect(verdictOf('{"outputs":[[9007199254740992, 2]]}')).toBe("different");
  });
});

describe("the JSON of answers", () => {
  test("may hold bare NaN and Infinity, as TensorFlow Serving writes them", () => {
    const text = '{"a": [NaN, -Infinity, 1.5e-7, "NaN \\" {", true, null], "b": {}, "c": []}';

    expect(JSON.stringify(parseAnswer(text))).toBe(
      '{"a":[null,null,1.5e-7,"NaN \\" {",true,null],"b":{},"c":[]}',
    );
    expect(parseAnswer("[-Infinity]")).toEqual([-Infinity]);
  });

  test("may hold a string of many MiB, with escapes", () => {
    const text = `${"x".repeat(2 ** 24)}${'"\\\n'.repeat(2 ** 18)}`;

    const [bare, long] = parseAnswer(`[NaN, ${JSON.stringify(text)}]`) as readonly AnswerValue[];

    expect(bare).toBeNaN();
    expect(long === text).toBe(true);
  });

  test.each([
    "",
    "{",
    "[NaN",
    "[NaN}",
    "[NaN,]",
    '{"NaN" 1}',
    "NaN NaN",
    "Infinity1",
    "[1 NaN]",
    '[NaN, "a',
    '[NaN, "\\"]',
  ])("%j is none", (text) => {
    expect(() => parseAnswer(text)).toThrow("no JSON");
  });

  test("nested beyond what a tensor may be is refused, not a stack that overflows", () => {
    expect(() => parseAnswer(`${"[".repeat(100_000)}NaN`)).toThrow("no JSON");
  });
});
