// Expressions over scores: what a text means, against the tree it was written from; mistakes by place.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  evaluateScore,
  isScoreName,
  namesInScore,
  parseScore,
  scoreReader,
  scoreText,
} from "./score-expression.ts";
import type { ScoreExpression } from "./score-expression.ts";

const NAMES = new Set(["ctr", "watch_time", "score"]);
const values: Readonly<Record<string, number>> = { ctr: 0.25, watch_time: -3.5, score: 1e-3 };
const valueOf = (name: string): number => values[name]!;

function parsed(text: string): ScoreExpression {
  const found = parseScore(text, NAMES);
  if ("fault" in found) throw new Error(found.fault);
  return found.expression;
}
const valueOfText = (text: string): number => evaluateScore(parsed(text), valueOf);
const faultOf = (text: string): string => {
  const found = parseScore(text, NAMES);
  return "fault" in found ? found.fault : "none";
};

/** An expression with every bracket written, and its value by JavaScript's own operators. */
interface Tree {
  readonly text: string;
  readonly value: number;
}

const { tree } = fc.letrec<{ tree: Tree }>((tie) => {
  const two = fc.tuple(tie("tree"), tie("tree"));
  return {
    tree: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      fc.double({ min: 0, max: 1e6, noNaN: true }).map((value) => ({ text: `${value}`, value })),
      fc.constantFrom(...NAMES).map((name) => ({ text: ` ${name}`, value: valueOf(name) })),
      two.map(([a, b]) => ({ text: `(${a.text} + ${b.text})`, value: a.value + b.value })),
      two.map(([a, b]) => ({ text: `(${a.text}-${b.text})`, value: a.value - b.value })),
      two.map(([a, b]) => ({ text: `(${a.text}*${b.text})`, value: a.value * b.value })),
      two.map(([a, b]) => ({ text: `(${a.text} / ${b.text})`, value: a.value / b.value })),
      two.map(([a, b]) => ({
        text: `min(${a.text},max(${b.text}, 1))`,
        value: Math.min(a.value, Math.max(b.value, 1)),
      })),
      tie("tree").map((a) => ({ text: `-${a.text}`, value: -a.value })),
      tie("tree").map((a) => ({ text: `log(${a.text})`, value: Math.log(a.value) })),
      tie("tree").map((a) => ({
        text: `clip(exp(${a.text}), 0, 9)`,
        value: Math.min(Math.max(Math.exp(a.value), 0), 9),
      })),
    ),
  };
});

describe("an expression", () => {
  test("is written with no more brackets than it needs", () => {
    const text = "0.7 * ctr - (score - 2 * -(watch_time + 1)) / log(max(ctr, 1))";

    expect(
      scoreText(parsed(`((0.7)*ctr) - ((score-(2*(-(watch_time+1)))))/(log(max(ctr,1)))`)),
    ).toBe(text);
  });

  test("has the value of the tree that it was written from, and is read back as it was", () => {
    fc.assert(
      fc.property(tree, ({ text, value }) => {
        const expression = parsed(text);
        const again = scoreReader({ value: JSON.parse(JSON.stringify(expression)), path: "" });

        expect(evaluateScore(expression, valueOf)).toBe(value);
        expect(again).toEqual(expression);
        expect(parsed(scoreText(expression))).toEqual(expression);
      }),
    );
  });

  test.each([
    ["1 + 2 * 3", 7],
    ["2 * 3 + 1", 7],
    ["8 - 4 - 2", 2],
    ["8 / 4 / 2", 1],
    ["-2 * -3", 6],
    ["--2", 2],
    ["-(1 + 2) * 3", -9],
    [".5 + 1. + 2e-1", 1.7],
    ["0.7*ctr + 0.3*watch_time", 0.7 * 0.25 + 0.3 * -3.5],
    ["1 / 0", Infinity],
    ["log(-1)", NaN],
  ])("%s is %d", (text, value) => {
    expect(valueOfText(text)).toBe(value);
  });

  test.each([
    ["", "has the end at character 1, where a number, a name or ( belongs"],
    ["ctr +", "has the end at character 6, where a number, a name or ( belongs"],
    ["ctr ctr", 'has "ctr" at character 5, where an operator or the end belongs'],
    ["clicks", 'has "clicks" at character 1, where one of ctr, watch_time, score, log, exp, min'],
    ["min(ctr)", 'has ")" at character 8, where , belongs'],
    ["log ctr", 'has "ctr" at character 5, where ( belongs'],
    ["1e999", 'has "1e999" at character 1, where a smaller number belongs'],
    ["(ctr", "has the end at character 5, where ) belongs"],
    ["ctr % 2", 'has "%" at character 5, which means nothing here'],
    ["ctr; drop", 'has ";" at character 4, which means nothing here'],
    ["(".repeat(40), "is nested deeper than 32"],
    ["1+".repeat(200) + "1", "has more than 256 numbers, names and operations"],
  ])("%s %s", (text, fault) => {
    expect(faultOf(text)).toContain(fault);
  });

  test("tells the names it asks for; a name is a word that is no function", () => {
    expect(namesInScore(parsed("ctr * score - log(ctr)"))).toEqual(["ctr", "score", "ctr"]);
    expect(["ctr", "_a9", "log", "9a", "a-b", ""].map(isScoreName)).toEqual([
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  test.each<[string, unknown]>([
    ["steps that find their values", [{ kind: "apply", operation: "add" }]],
    [
      "leave one value",
      [
        { kind: "number", value: 1 },
        { kind: "number", value: 1 },
      ],
    ],
    ["leave one value", []],
    ["a finite number", [{ kind: "number", value: null }]],
  ])("of a damaged program is refused: not %s", (text, value) => {
    expect(() => scoreReader({ value, path: "expression" })).toThrow(text);
  });
});
