// An experiment as `winnow inspect` shows it: each arm with its part of the keys and what it asks.
//
//   experiment  by input user_id, salt home-feed
//     control    90 %   movies/3   answers for others that are not there
//     new-tower  10 %   movies/4

import type { Experiment, StickyKey } from "@winnow/core";
import { targetText } from "@winnow/core";
import { align } from "./predict.ts";

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
