// Scores in half or bfloat16 with a bias, or a factor, of each item behind the product, as a layer of mixed precision has
// them: round(round(q · w) + b). No product of vectors is rounded in the middle, so such scores are rounded once, behind the
// bias, as TensorFlow does where it puts a layer and its bias together. They differ by the last digit of the type at most.

import type { RoundingName } from "../values/element-functions.ts";
import type { ScoreStep } from "./score-steps.ts";

/** Which of these steps, first step first, stay once roundings before the last step of an item are left to the one behind it. */
export function stepsRoundedOnce(steps: readonly ScoreStep[]): readonly boolean[] {
  const last = steps.findLastIndex(({ kind }) => kind === "bias" || kind === "itemFactor");
  const final = new Set(steps.slice(last + 1).map(roundingBy));
  return steps.map((step, at) => {
    const rounding = roundingBy(step);
    return at > last || rounding === undefined || !final.has(rounding);
  });
}

/** The type that a step rounds to, if it does nothing else. */
function roundingBy(step: ScoreStep): RoundingName | undefined {
  const [first, ...others] = step.kind === "function" ? step.functions : [];
  const isRounding = first?.op === "RoundToBfloat16" || first?.op === "RoundToHalf";
  return isRounding && others.length === 0 ? first.op : undefined;
}
