// A pipeline in one line, as `winnow inspect` shows it.
//
//   Retrieve(movies, k=500) → Filter(year ≥ 1990) → Rank(movies-ranking) → Score(0.7 * ctr + prior) → Limit(20)

import type { Pipeline } from "@winnow/core";
import { stageWords } from "@winnow/core";

/** The stages of a pipeline. */
export function pipelineText({ stages }: Pipeline): string {
  return stages
    .map((stage) => {
      const kind = `${stage.kind.slice(0, 1).toUpperCase()}${stage.kind.slice(1)}`;
      return `${kind}(${stageWords(stage)})`;
    })
    .join(" → ");
}
