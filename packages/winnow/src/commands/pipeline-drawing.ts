// A pipeline in one line, as `winnow inspect` shows it: each stage with what it is told, filters and expressions
// as people read them.
//
//   Retrieve(movies, k=500) → Filter(year ≥ 1990) → Rank(movies-ranking) → Score(0.7 * ctr + prior) → Limit(20)

import type { DiversifyStage, Filter, MergeStage, Pipeline, PipelineStage } from "@winnow/core";
import { excerpt, parseFilterText, scoreText } from "@winnow/core";

/** The stages of a pipeline. */
export function pipelineText({ stages }: Pipeline): string {
  return stages.map(stageText).join(" → ");
}

function stageText(stage: PipelineStage): string {
  switch (stage.kind) {
    case "retrieve":
      return `Retrieve(${stage.model}, k=${stage.k})`;
    case "merge":
      return `Merge(${partsText(stage)})`;
    case "filter":
      return `Filter(${excerpt(conditionText(parseFilterText(stage.filter)))})`;
    case "seen":
      return `Seen(${excerpt(stage.key)}, ${stage.countMax} within ${stage.budgetMs} ms)`;
    case "rank":
      return `Rank(${stage.model}${stage.budgetMs === undefined ? "" : ` within ${stage.budgetMs} ms`})`;
    case "score":
      return `Score(${excerpt(scoreText(stage.expression))})`;
    case "diversify":
      return `Diversify(${diversityText(stage)})`;
    case "limit":
      return `Limit(${stage.count})`;
  }
}

function diversityText(stage: DiversifyStage): string {
  if (stage.by === "at-most") return `at most ${stage.count} per ${stage.attribute}`;
  if (stage.by === "round-robin") return `${stage.attribute} in turn`;
  return `MMR ${stage.balance}, ${stage.count} of ${stage.of ?? "all"}`;
}

function partsText({ by, parts }: MergeStage): string {
  if (by === "quotas") return parts.map(({ name, value }) => `${value} of ${name}`).join(", ");
  return parts.map(({ name, value }) => `${value} * ${name}`).join(" + ");
}

const SIGNS = { gt: ">", gte: "≥", lt: "<", lte: "≤" } as const;

function conditionText(filter: Filter): string {
  if (filter.kind === "not") return `not (${conditionText(filter.of)})`;
  if (filter.kind !== "test") {
    const parts = filter.of.map((each) =>
      each.kind === "test" || each.kind === "not"
        ? conditionText(each)
        : `(${conditionText(each)})`,
    );
    return parts.join(` ${filter.kind} `) || (filter.kind === "and" ? "all" : "none");
  }
  const { attribute, is, values } = filter;
  if (is === "exists") return `${attribute} exists`;
  const texts = values.map((value) => (typeof value === "string" ? value : String(value)));
  if (is !== "in") return `${attribute} ${SIGNS[is]} ${texts.join()}`;
  return texts.length === 1 ? `${attribute} = ${texts[0]}` : `${attribute} in ${texts.join(", ")}`;
}
