// One request run through the stages of a pipeline. Models are asked through `ask`, which is the
// router's own predict on the versions pinned for this request: so slices, hedges, retries, exclusions
// and the deadline are those of any request.

import { WinnowError } from "@winnow/core";
import type { Prediction } from "../predictor.ts";
import { limited, scored, tensorsOf } from "./candidates.ts";
import type { Candidates } from "./candidates.ts";
import { diversified } from "./diversity.ts";
import { StageNotes } from "./explanation.ts";
import { withMembers } from "./item-texts.ts";
import type { PipelineRun } from "./member-access.ts";
import { rank } from "./ranking.ts";
import { retrieveAll } from "./retrieval.ts";
import { excludedWith, readSeen } from "./seen-items.ts";

/** The pinned models of one run, by name. */
type Members<Member> = ReadonlyMap<string, Member>;

/** How the models of a pipeline are pinned, compared and asked. */
export interface MemberRun<Member, Answer> {
  readonly pin: () => Promise<Members<Member>>;
  /** Whether two pins of one name are of the same content. */
  readonly isSame: (before: Member, now: Member) => boolean;
  readonly run: (members: Members<Member>) => Promise<Answer>;
}

/**
 * Runs on pinned members, which it releases. Where one was lost meanwhile, runs once more as a whole on what
 * the names mean by then: an answer never mixes two versions. Where they mean the same, nothing was lost
 * (a router that is busy refuses, too), and another run would only add load.
 */
export async function runOnMembers<Member extends { release(): void }, Answer>({
  pin,
  isSame,
  run,
}: MemberRun<Member, Answer>): Promise<Answer> {
  const members = await pin();
  try {
    return await run(members);
  } catch (error) {
    if (!(error instanceof WinnowError) || error.code !== "UNAVAILABLE") throw error;
    const now = await pin().catch(() => {
      throw error;
    });
    try {
      if ([...now].every(([model, member]) => isSame(members.get(model)!, member))) throw error;
      return await run(now);
    } finally {
      for (const member of now.values()) member.release();
    }
  } finally {
    for (const member of members.values()) member.release();
  }
}

/** What the stages gave; `coverage` is the product of theirs. */
export type PipelineAnswer = Pick<
  Prediction,
  "outputs" | "coverage" | "attributes" | "explanation" | "degradations"
>;

/** Runs the stages in turn. @throws WinnowError as the models do, or naming what a model lacks */
export async function runPipeline(run: PipelineRun): Promise<PipelineAnswer> {
  const { pipeline, request } = run;
  const notes = new StageNotes(run);
  const seen = await readSeen(run);
  const excluded = excludedWith(run, seen);
  let { candidates, coverage } = await retrieveAll(run, excluded.lists, notes);
  for (const stage of pipeline.stages) {
    request.context.signal.throwIfAborted();
    const startMs = run.clock.nowMs();
    if (stage.kind === "rank") {
      const ranked = await rank(run, stage, candidates);
      ({ candidates } = ranked);
      coverage *= ranked.coverage;
    }
    if (stage.kind === "score") candidates = scored(candidates, stage.expression);
    if (stage.kind === "diversify") {
      candidates = await diversified(candidates, stage, request.context.signal);
    }
    if (stage.kind === "limit") candidates = limited(candidates, stage.count);
    const outcome = seen.find((each) => each.stage === stage);
    if (outcome !== undefined) notes.addSeen(outcome, candidates);
    else if (stage.kind !== "retrieve") notes.add(stage, candidates, run.clock.nowMs() - startMs);
  }
  const degradations = [
    ...seen.flatMap((each) => each.degradations),
    ...(excluded.isCut ? ([{ stage: "seen", reason: "cut" }] as const) : []),
  ];
  const explanation = notes.finish();
  const told = { coverage, degradations, ...(explanation && { explanation }) };
  return { ...outputsOf(run, candidates), ...told };
}

/** The candidates that are left, and the attributes that the request wants of them. */
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
  return { outputs, attributes: withMembers(attributes, wanted) };
}
