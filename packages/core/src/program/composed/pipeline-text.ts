// What a stage of a pipeline does, as text for people: filters and expressions in a form that reads well.

import { excerpt } from "../../errors/errors.ts";
import type { Filter } from "../../attributes/filter.ts";
import { parseFilterText } from "../../attributes/filter-text.ts";
import type { DiversifyStage, MergeStage, PipelineStage, UnknownAnswer } from "./pipeline.ts";
import { scoreText } from "./score-expression.ts";

/** The words of one stage, without its kind: `movies, k=500`, `year ≥ 1990`. */
export function stageWords(stage: PipelineStage): string {
  switch (stage.kind) {
    case "retrieve":
      return `${stage.model}${likeText("like", stage.like)}${likeText("unlike", stage.unlike)}, k=${stage.k}`;
    case "merge":
      return partsText(stage);
    case "filter":
      return excerpt(conditionText(parseFilterText(stage.filter)));
    case "seen":
      return `${excerpt(stage.key)}, ${stage.countMax} within ${stage.budgetMs} ms`;
    case "unknown":
      return `${excerpt(stage.input)}: ${answerText(stage.answer)}`;
    case "rank":
      return `${stage.model}${stage.budgetMs === undefined ? "" : ` within ${stage.budgetMs} ms`}`;
    case "score":
      return excerpt(scoreText(stage.expression));
    case "diversify":
      return diversityText(stage);
    case "limit":
      return `${stage.count}`;
  }
}

const likeText = (word: string, input: string | undefined): string =>
  input === undefined ? "" : ` ${word} ${excerpt(input)}`;

function answerText(answer: UnknownAnswer): string {
  if (answer.kind === "list") return `list of ${answer.ids.length}`;
  return answer.kind === "pipeline" ? `pipeline ${excerpt(answer.model)}` : answer.kind;
}

function diversityText(stage: DiversifyStage): string {
  if (stage.by === "at-most") return `at most ${stage.count} per ${stage.attribute}`;
  if (stage.by === "round-robin") return `${stage.attribute} in turn`;
  return `MMR ${stage.balance}, ${stage.count} of ${stage.of ?? "all"}`;
}

function partsText(stage: MergeStage): string {
  const { by, parts } = stage;
  if (by === "quotas") return parts.map(({ name, value }) => `${value} of ${name}`).join(", ");
  if (by === "reciprocal-ranks") {
    const { constant } = stage;
    return parts.map(({ name, value }) => `${value} / (${constant} + rank in ${name})`).join(" + ");
  }
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
