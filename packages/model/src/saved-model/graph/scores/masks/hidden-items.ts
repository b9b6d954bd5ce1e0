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
 * Masks, last one first, with items that are hidden before the operations `steps`, last one first. Where another mask
 * hides items too, one hides both.
 */
export function withHidden(
  keeps: GraphMaskRule,
  steps: readonly ScoreStep[],
  masks: readonly MaskBehind[],
): readonly MaskBehind[] {
  // -∞ stays -∞ after a factor, additions and penalties, so the mask may also follow them.
  let stepsBehind = steps.findLastIndex((step) => !keepsHidden(step)) + 1;
  let at = masks.length;
  for (; at > 0; at -= 1) {
    const other = masks[at - 1]!;
    if (other.stepsBehind < stepsBehind) break;
    if (isHiding(other.mask)) {
      const both = { kind: "and", of: [other.mask.keeps, keeps] } as const;
      return masks.with(at - 1, { ...other, mask: { ...other.mask, keeps: both } });
    }
    if (other.mask.penalty !== undefined) continue;
    stepsBehind = other.stepsBehind;
    break;
  }
  return masks.toSpliced(at, 0, { mask: { keeps, score: -Infinity }, stepsBehind });
}

/** Whether a mask gives items the score -∞. */
export function isHiding({ score, penalty }: ScoreMask): boolean {
  return score === -Infinity && penalty === undefined;
}

/** Whether a step leaves -∞ as it is. */
export function keepsHidden(step: ScoreStep): boolean {
  if (step.kind === "scaled") return step.factor > 0;
  if (step.kind === "weighted") return step.functions !== undefined;
  return step.kind === "bias" || step.kind === "added";
}
