// Which functions have no value for the best scores, said of each by its bounds.

import type { ScoreOperationName } from "@winnow/core";
import { expect, test } from "vitest";
import { constantValue } from "../../graph-value.ts";
import type { GraphValue, NodeFunction } from "../../graph-value.ts";
import { losesTheBest, turnsOver } from "./score-domain.ts";

const unknown: GraphValue = { dtype: "float32", shape: [-1, 1] };

function functions(
  ...parts: readonly (ScoreOperationName | number | GraphValue)[]
): NodeFunction[] {
  const made: NodeFunction[] = [];
  for (const part of parts) {
    if (typeof part === "string") made.push({ op: part });
    else made.push({ ...made.pop()!, operand: typeof part === "number" ? scalar(part) : part });
  }
  return made;
}

function scalar(number: number): GraphValue {
  return constantValue({ dtype: "float32", shape: [], data: Float32Array.of(number) });
}

test.each([
  ["log(s): the worst have no value", functions("Log")],
  ["sqrt(s + x)", functions("Add", unknown, "Sqrt")],
  ["-log(1 - sigmoid(s))", functions("Sigmoid", "Mul", -1, "Add", 1, "Log", "Mul", -1)],
  ["sqrt(max(-s, 0))", functions("Mul", -1, "Maximum", 0, "Sqrt")],
  ["sqrt(-min(s - x, 0))", functions("Sub", unknown, "Minimum", 0, "Mul", -1, "Sqrt")],
  ["log1p(-tanh(s))", functions("Tanh", "Mul", -1, "Log1p")],
  ["log(1 / 4 - sigmoid(s) / 4)", functions("Sigmoid", "Div", -4, "Add", 0.25, "Log")],
])("%s is searched", (_, chain) => {
  expect(losesTheBest(chain, () => undefined)).toBe(false);
});

test.each([
  ["log(-s)", functions("Mul", -1, "Log")],
  ["sqrt(3 - s)", functions("Mul", -1, "Add", 3, "Sqrt")],
  ["log(x - sigmoid(s))", functions("Sigmoid", "Mul", -1, "Add", unknown, "Log")],
  ["log1p(-2 tanh(s))", functions("Tanh", "Mul", -2, "Log1p")],
  ["sqrt(max(-s, x) - 1)", functions("Mul", -1, "Maximum", unknown, "Sub", 1, "Sqrt")],
  ["log(min(-s, 0.5))", functions("Mul", -1, "Minimum", 0.5, "Log")],
])("%s loses the best", (_, chain) => {
  expect(losesTheBest(chain, () => undefined)).toBe(true);
});

test.each([
  ["s³", functions("Pow", 3), false],
  ["max(s, 0)²", functions("Maximum", 0, "Pow", 2), false],
  ["sigmoid(s)^1.5 - 2, cubed", functions("Sigmoid", "Pow", 1.5, "Sub", 2, "Pow", 3), false],
  ["(-min(s, 0))²", functions("Minimum", 0, "Mul", -1, "Pow", 2), false],
  ["scores above 3, or 0, squared", functions("KeepAbove", 3, "Maximum", 0, "Pow", 2), false],
  ["s²", functions("Pow", 2), true],
  ["√s as a power", functions("Pow", 0.5), true],
  ["scores from 3 on, squared", functions("KeepFrom", 3, "Pow", 2), true],
  ["(sigmoid(s) - ½)²", functions("Sigmoid", "Sub", 0.5, "Pow", 2), true],
  ["a power that a request says", functions("Maximum", 0, "Pow", unknown, "Pow", 2), true],
])("%s: whether it may put a lower score first", (_, chain, isTurned) => {
  expect(turnsOver(chain, () => undefined)).toBe(isTurned);
});
