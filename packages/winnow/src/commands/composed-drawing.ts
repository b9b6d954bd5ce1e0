// Versions that are composed of other models, as `winnow inspect` shows them: a pipeline in one line, and an experiment with
// each arm, its part of the keys and what it asks.
//
//   Retrieve(movies, k=500) → Filter(year ≥ 1990) → Rank(movies-ranking) → Score(0.7 * ctr + prior) → Limit(20)
//
//   experiment  by input user_id, salt home-feed
//     control    90 %   movies/3   answers for others that are not there
//     new-tower  10 %   movies/4

import type { Experiment, Pipeline, StickyKey } from "@winnow/core";
import { stageWords, targetText } from "@winnow/core";
import { align } from "../text-columns.ts";

/** The stages of a pipeline. */
export function pipelineText({ stages }: Pipeline): string {
  return stages
    .map((stage) => {
      const kind = `${stage.kind.slice(0, 1).toUpperCase()}${stage.kind.slice(1)}`;
      return `${kind}(${stageWords(stage)})`;
    })
    .join(" → ");
}

/** `model`: the experiment's, which is its salt where the file says none. */
export function experimentText(
  { arms, sticky, salt, fallback, shadow }: Experiment,
  model: string,
): string {
  const sum = arms.reduce((total, { weight }) => total + weight, 0);
  const rows = arms.map((arm) => [
    `  ${arm.name}`,
    percentText(arm.weight / sum),
    targetText(arm),
    [
      ...(arm.name === fallback ? ["answers for others that are not there"] : []),
      ...(sticky?.by === "header" && arm.name === sticky.missing ? ["without the header"] : []),
    ].join(", "),
  ]);
  if (shadow !== undefined) {
    const part = `${percentText(shadow.share)} more`;
    rows.push([
      "  (shadow)",
      part,
      targetText(shadow),
      `within ${shadow.budgetMs} ms, never answered`,
    ]);
  }
  const lines = align(rows)
    .split("\n")
    .map((line) => line.trimEnd());
  return `experiment  ${keyText(sticky)}, salt ${salt ?? model}\n${lines.join("\n")}`;
}

/** Three digits. */
function percentText(share: number): string {
  return `${Number((100 * share).toPrecision(3))} %`;
}

function keyText(sticky: StickyKey | undefined): string {
  return sticky === undefined ? "without a key" : `by ${sticky.by} ${sticky.name}`;
}
