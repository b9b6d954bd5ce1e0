// Items that a graph hides by adding -∞ to their scores: the padding row of an embedding, items that are sold
// out. A table holds only finite values, so such items are masked (score-mask.ts), and the rest of the bias
// stays a bias.

import type { GraphMaskRule } from "../../graph-value.ts";
import type { ScoreStep } from "../steps/score-steps.ts";
import type { ScoreMask } from "./changed-scores.ts";

/** A mask and how many of the operations on scores stand behind it. */
export interface MaskBehind {
  readonly mask: ScoreMask;
  readonly stepsBehind: number;
}

/**
 * The mask of all scores, with items that are hidden before the operations `steps`, last one first; `undefined`
 * where these have another score than the mask gives.
 */
export function withHidden(
  keeps: GraphMaskRule,
  steps: readonly ScoreStep[],
  masked: MaskBehind | undefined,
): MaskBehind | undefined {
  // -∞ stays -∞ after a factor and additions, so the mask may also follow them.
  const stepsBehind = steps.findLastIndex((step) => !keepsHidden(step)) + 1;
  if (masked === undefined) return { mask: { keeps, score: -Infinity }, stepsBehind };
  const { mask } = masked;
  const isSame = mask.score === -Infinity && mask.penalty === undefined;
  if (!isSame || masked.stepsBehind < stepsBehind) return undefined;
  return { ...masked, mask: { ...mask, keeps: { kind: "and", of: [mask.keeps, keeps] } } };
}

/** Whether a step leaves -∞ as it is. */
export function keepsHidden(step: ScoreStep): boolean {
  if (step.kind === "scaled") return step.factor > 0;
  if (step.kind === "weighted") return step.functions !== undefined;
  return step.kind === "bias" || step.kind === "added";
}
