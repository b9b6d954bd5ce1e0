// Runs one request through the stages of a pipeline. Models are asked through `ask`, which is the router's
// own predict on the versions pinned for this request, so slices, hedges, retries, exclusions and the
// deadline work as for any request.

import { SCORE_SO_FAR, StringColumn, namesInScore, scoreNamesOf } from "@winnow/core";
import type { PipelineStage } from "@winnow/core";
import type { Degradation, Prediction } from "../predictor.ts";
import { limited, scored, tensorsOf } from "./candidates.ts";
import type { Candidates } from "./candidates.ts";
import { diversified } from "./diversity.ts";
import { StageNotes, explanationOf } from "./explanation.ts";
import { withMembers } from "./item-texts.ts";
import { withoutLiked } from "./retrieval/items-alike.ts";
import { memberOf } from "./member-access.ts";
import { stagesOnLists } from "./pipeline-run.ts";
import type { PipelineRun, StageAnswer, StagesAnswer } from "./pipeline-run.ts";
import type { ItemRows } from "../item-rows.ts";
import { rank } from "./ranking.ts";
import { retrieveAll } from "./retrieval/retrieval.ts";
import { excludedWith, readSeen } from "./seen-items.ts";
import { cellsOfTexts } from "../program/item-vectors.ts";
import { inTurns } from "../turns/turns.ts";
import { runForUsers } from "./unknown-users.ts";

/** The result of the stages; `coverage` is the product of theirs. */
export type PipelineAnswer = Pick<
  Prediction,
  "outputs" | "coverage" | "attributes" | "explanation" | "degradations" | "unknownUsers"
>;

/** Answers a request. @throws WinnowError as the models do, or naming what a model lacks */
export async function runPipeline(run: PipelineRun): Promise<PipelineAnswer> {
  const { candidates, notes, unknownUsers, ...told } = await runForUsers(run, runStages);
  return {
    ...outputsOf(run, candidates),
    ...told,
    ...(notes && { explanation: explanationOf(notes) }),
    ...(unknownUsers && { unknownUsers }),
  };
}

/** Runs the stages in turn, for users of one kind. */
async function runStages(asked: PipelineRun): Promise<StagesAnswer> {
  const run = withoutLiked(asked);
  const { pipeline, request } = run;
  const notes = new StageNotes(run);
  const seen = await readSeen(run);
  const excluded = excludedWith(run, seen);
  const brought = broughtRows(run);
  let { candidates, coverage } = await retrieveAll(brought?.run ?? run, excluded.lists, notes);
  const degradations: Degradation[] = [
    ...seen.flatMap((each) => each.degradations),
    ...(excluded.isCut ? ([{ stage: "seen", reason: "cut" }] as const) : []),
  ];
  const missing = new Set<string>();
  for (const stage of pipeline.stages) {
    request.context.signal.throwIfAborted();
    const startMs = run.clock.nowMs();
    const outcome = await outcomeOf(run, stage, { candidates, missing, brought });
    const { degradation } = outcome;
    ({ candidates = candidates } = outcome);
    coverage *= outcome.coverage ?? 1;
    noteMissing(missing, stage, degradation);
    if (degradation !== undefined) degradations.push(degradation);
    const told = seen.find((each) => each.stage === stage);
    if (told !== undefined) notes.addSeen(told, candidates);
    else if (stage.kind !== "retrieve" && stage.kind !== "unknown") {
      const elapsedMs = run.clock.nowMs() - startMs;
      notes.add(stage, candidates, { elapsedMs, degradation });
    }
  }
  return { candidates, coverage, degradations, notes: notes.finish() };
}

/** A ranking whose rows come with the retrieval. */
interface BroughtRows {
  readonly ranking: PipelineStage;
  readonly itemRows: ItemRows;
  /** The run for the retrieval and for the ranking. */
  readonly run: PipelineRun;
}

/** The ranking of all that one retrieval finds, in its order, if the pipeline has one whose rows can be brought. */
function broughtRows(run: PipelineRun): BroughtRows | undefined {
  // The first one retrieves, in every pipeline.
  const [, ranking] = stagesOnLists(run.pipeline);
  if (ranking?.kind !== "rank") return undefined;
  const item = ranking.inputs.find(({ from }) => from.kind === "item");
  if (item === undefined || run.listed !== undefined) return undefined;
  const { pinned, signature } = memberOf(run, ranking);
  const itemRows = run.itemRows?.(pinned, { signature, input: item.name });
  if (itemRows === undefined) return undefined;
  const ask: PipelineRun["ask"] = (member, request) => run.ask(member, { itemRows, ...request });
  return { ranking, itemRows, run: { ...run, ask, brought: itemRows } };
}

/** What a stage changes. */
type StageOutcome = Partial<StageAnswer> & { readonly degradation?: Degradation };

/**
 * Runs one stage. `missing`: names of scores that differ from what the pipeline says, because an earlier
 * stage did not give them.
 */
async function outcomeOf(
  run: PipelineRun,
  stage: PipelineStage,
  {
    candidates,
    missing,
    brought,
  }: {
    readonly candidates: Candidates;
    readonly missing: ReadonlySet<string>;
    readonly brought: BroughtRows | undefined;
  },
): Promise<StageOutcome> {
  if (stage.kind === "diversify") {
    return { candidates: await diversified(candidates, stage, run.request.context.signal) };
  }
  if (stage.kind === "limit") return { candidates: limited(candidates, stage.count) };
  if (stage.kind !== "rank" && stage.kind !== "score") return {};
  if (scoresReadBy(stage).some((name) => missing.has(name))) {
    return { degradation: { stage: stage.kind, reason: "skipped" } };
  }
  if (stage.kind === "score") {
    const steps = scored(candidates, stage.expression);
    return { candidates: await inTurns(steps, run.request.context.signal) };
  }
  const isBrought = stage === brought?.ranking;
  const answer = await rank(isBrought ? brought.run : run, stage, candidates);
  if (isBrought) brought.itemRows.end();
  return answer ?? { degradation: { stage: "rank", reason: "late" } };
}

/** Names of the scores that a stage needs in order to do what the pipeline says. */
function scoresReadBy(
  stage: Extract<PipelineStage, { kind: "rank" | "score" }>,
): readonly string[] {
  if (stage.kind === "score") return namesInScore(stage.expression);
  return stage.inputs.some(({ from }) => from.kind === "score") ? [SCORE_SO_FAR] : [];
}

/**
 * After a stage that was left out, its own scores and the score so far are missing; after one that ran, they
 * are not.
 */
function noteMissing(
  missing: Set<string>,
  stage: PipelineStage,
  degradation: Degradation | undefined,
): void {
  if (stage.kind !== "rank" && stage.kind !== "score") return;
  for (const name of [SCORE_SO_FAR, ...scoreNamesOf(stage)]) {
    if (degradation === undefined) missing.delete(name);
    else missing.add(name);
  }
}

/** The remaining candidates, with the attributes that the request wants. */
function outputsOf(
  { pipeline, request }: PipelineRun,
  left: Candidates,
): Pick<PipelineAnswer, "outputs" | "attributes"> {
  const candidates = request.k === undefined ? left : limited(left, request.k);
  const { attributes: wanted = [] } = request;
  const { scores, ids, attributes } = tensorsOf(candidates);
  const outputs = new Map([
    [pipeline.outputs.scores, scores],
    [pipeline.outputs.ids, ids],
  ]);
  if (attributes === undefined || wanted.length === 0) return { outputs };
  const texts = withMembers(attributes, wanted);
  if (request.vectorBytes !== true || !(texts.data instanceof StringColumn)) {
    return { outputs, attributes: texts };
  }
  return { outputs, attributes: { ...texts, dtype: "string", data: cellsOfTexts(texts.data) } };
}
