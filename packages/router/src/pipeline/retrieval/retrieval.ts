// What a pipeline retrieves: the best items of one model, or of several whose lists are merged. The request's
// conditions on items are passed to each of them.

import type { Filter, MergeStage, RetrieveStage, Tensor } from "@winnow/core";
import { WinnowError, filterText, parseFilterText, toWinnowError } from "@winnow/core";
import type { Prediction, PredictRequest } from "../../predictor.ts";
import type { LaterVectors } from "../../item-rows.ts";
import { instancesOf } from "../../limits/request-limits.ts";
import type { Candidates } from "../candidates.ts";
import { candidatesOf, joinedInstances, takeRows, withNamed } from "../candidates.ts";
import { mergedCandidates } from "./candidate-merge.ts";
import type { StageNotes } from "../explanation.ts";
import {
  describedBy,
  descriptionsOf,
  itemsDescribedMax,
  mayVectorsFollow,
  vectorsBehind,
} from "./item-descriptions.ts";
import type { AskItems, Description } from "./item-descriptions.ts";
import { searchOfItems } from "./item-search.ts";
import { likedItems } from "./items-alike.ts";
import type { LikedItems } from "./items-alike.ts";
import { listedFirst, listedItems, mayLackItems } from "./listed-items.ts";
import { fitted, inputOf, memberOf, outputOf, requestInput } from "../member-access.ts";
import type { StageMember } from "../member-access.ts";
import type { PipelineRun, StageAnswer } from "../pipeline-run.ts";
import { endOfListed } from "../seen-items.ts";
import { inTurns } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";

/**
 * Asks all retrieving stages at the same time, and merges their lists. `exclude`: ids as in a request, one
 * list for all instances or one for each. If one stage fails, the others are still waited for, because none
 * may be under way when the request's pins are released.
 */
export async function retrieveAll(
  run: PipelineRun,
  exclude: readonly Tensor[] | undefined,
  notes: StageNotes,
): Promise<StageAnswer> {
  const { stages } = run.pipeline;
  const retrievals = stages.filter((stage) => stage.kind === "retrieve");
  const merge = stages.find((stage) => stage.kind === "merge");
  const settled = await Promise.allSettled(
    retrievals.map(async (stage) => {
      const startMs = run.clock.nowMs();
      const answer = await retrieve(run, stage, exclude);
      return { ...answer, elapsedMs: run.clock.nowMs() - startMs };
    }),
  );
  const answers = settled.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
  for (const [at, { candidates, elapsedMs }] of answers.entries()) {
    notes.add(retrievals[at]!, candidates, { elapsedMs });
  }
  const [first] = answers;
  if (first === undefined) throw new RangeError("a pipeline that does not retrieve first");
  if (merge === undefined) return first;
  const coverage = answers.reduce((product, answer) => product * answer.coverage, 1);
  const steps = merged(retrievals, answers, merge);
  return { candidates: await inTurns(steps, run.request.context.signal), coverage };
}

function merged(
  retrievals: readonly RetrieveStage[],
  answers: readonly StageAnswer[],
  merge: MergeStage,
): Steps<StageAnswer["candidates"]> {
  const lists = answers.map(({ candidates }, at) => ({ name: retrievals[at]!.as!, candidates }));
  const [first] = lists;
  const other = lists.find(
    ({ candidates }) => candidates.ids.dtype !== first!.candidates.ids.dtype,
  );
  if (other === undefined) return mergedCandidates(lists, merge);
  const dtypes = `${first!.candidates.ids.dtype} and ${other.candidates.ids.dtype}`;
  throw new WinnowError("FAILED_PRECONDITION", `Retrievals with ids of ${dtypes} cannot be merged`);
}

async function retrieve(
  run: PipelineRun,
  stage: RetrieveStage,
  exclude: readonly Tensor[] | undefined,
): Promise<StageAnswer> {
  const { pinned, signature } = memberOf(run, stage);
  const { like } = stage;
  const liked = like === undefined ? undefined : await likedItems(run, { ...stage, like });
  const conditions = conditionsOf(run, exclude);
  const description = describedBy(run, stage, { pinned, signature });
  const { context, allowPartial } = run.request;
  const instances = instancesOf(run.request.signature, run.request.inputs);
  const parts: Candidates[] = [];
  let leastCoverage = liked?.coverage ?? 1;
  let { k } = stage;
  // Several questions one after the other, if a single one would describe or exclude more items than it may.
  for (let from = 0; from < instances;) {
    const atOnce = instancesAtOnce(run, { k, isDeeper: k > stage.k }, description);
    const end = Math.min(instances, from + atOnce, endOfListed(from, exclude, run.limits));
    const isWhole = end - from === instances;
    const rows = Array.from({ length: end - from }, (_, at) => from + at);
    const question: PredictRequest = {
      ...searchFor(run, { ...stage, k }, { rows, liked }),
      context,
      allowPartial,
      k,
      attributes: description.names,
      ...(description.isCompared && { vectorBytes: true as const }),
      ...conditions.ofInstances(from, end),
    };
    const ask: AskItems = (more) => run.ask(pinned, { ...question, ...more });
    const { answer, following } = await askedItems(run, ask, isWhole ? description : undefined);
    leastCoverage = Math.min(leastCoverage, answer.coverage);
    const scores = outputOf(answer.outputs, stage.scores, stage);
    const ids = outputOf(answer.outputs, stage.ids, stage);
    const found = candidatesOf(scores, ids, stage.model);
    const deeper = depthForList(run, description, { found, k });
    if (deeper !== undefined) {
      k = deeper;
      continue;
    }
    const list = inOwnOrder(run, { found, rows, liked });
    const vectorsLater = following && vectorsBehind(run, following, { ids, ask, stage });
    const how = { description, isWhole, vectorsLater };
    parts.push({ ...list, ...(await descriptionsOf(run, answer, how)) });
    from = end;
  }
  return { candidates: withOwnName(joinedInstances(parts), stage), coverage: leastCoverage };
}

/** Instances of a retrieval, and the items to which it finds similar ones, if it does. */
interface RetrievedFor {
  readonly rows: readonly number[];
  readonly liked: LikedItems | undefined;
}

/** What a retrieval asks its model: what the stage names, or the items of its search by other vectors. */
function searchFor(
  run: PipelineRun,
  stage: RetrieveStage,
  { rows, liked }: RetrievedFor,
): Pick<PredictRequest, "signature" | "inputs"> {
  const { pinned, signature } = memberOf(run, stage);
  if (run.listed === undefined && liked === undefined) {
    return { signature, inputs: inputsOf(run, stage, { signature, rows }) };
  }
  const search = searchOfItems(pinned, signature, stage);
  const vectors = liked?.vectorsOf(rows) ?? new Float32Array(rows.length * search.dim);
  return { signature: search.signature, inputs: search.inputs(vectors) };
}

/** What was found as the retrieval gives it: items of a list in its order, and none that are like an unknown item. */
function inOwnOrder(
  { listed }: PipelineRun,
  { found, rows, liked }: RetrievedFor & { readonly found: Candidates },
): Candidates {
  if (listed !== undefined) return listedFirst(found, listed);
  return liked?.known(found, rows) ?? found;
}

/**
 * Asks for items, and gives the vectors that come behind them, if they do. They may where they are all that is described of
 * the items of all instances.
 */
async function askedItems(
  run: PipelineRun,
  ask: AskItems,
  description: Description | undefined,
): Promise<{ readonly answer: Prediction; readonly following: LaterVectors | undefined }> {
  const { brought } = run;
  if (brought === undefined) return { answer: await ask(), following: undefined };
  brought.vectorsMayFollow = description !== undefined && mayVectorsFollow(run, description);
  const answer = await ask();
  return { answer, following: brought.takeVectors() };
}

/** Candidates whose scores have the name of the retrieval, if it has one. */
function withOwnName(candidates: Candidates, { as }: RetrieveStage): Candidates {
  if (as === undefined) return candidates;
  const given = candidates.lists.flatMap((list) => list.scores);
  return withNamed(candidates, as, given);
}

/** The k by which to look for the items of a list again, as some may be missing; `undefined` where none are, or no more may be asked. */
function depthForList(
  run: PipelineRun,
  description: Description,
  { found, k }: { readonly found: Candidates; readonly k: number },
): number | undefined {
  if (run.listed === undefined) return undefined;
  const most = Math.min(LISTED_ROWS_MAX, itemsDescribedMax(run, description));
  return k < most && mayLackItems(found, k) ? Math.min(2 * k, most) : undefined;
}

/** The inputs of a model for these instances. */
function inputsOf(
  run: PipelineRun,
  stage: RetrieveStage,
  { signature, rows }: Pick<StageMember, "signature"> & { readonly rows: readonly number[] },
): ReadonlyMap<string, Tensor> {
  return new Map(
    stage.inputs.map(({ name, from: source }) => {
      const declared = inputOf(signature.inputs, name, stage);
      return [name, fitted(takeRows(requestInput(run, source), rows), declared, stage)] as const;
    }),
  );
}

/** Instances of one question, so that its answer describes no more items than it may; of a list, that it has no more rows. */
function instancesAtOnce(
  run: PipelineRun,
  { k, isDeeper }: { readonly k: number; readonly isDeeper: boolean },
  description: Description,
): number {
  const items = itemsDescribedMax(run, description);
  const most = isDeeper ? Math.min(LISTED_ROWS_MAX, items) : items;
  return Math.max(1, Math.floor(most / k));
}

/** Rows that are looked through for the items of a list, at most; of all instances of one question. */
const LISTED_ROWS_MAX = 8192;

/** The request's conditions on items, for a retrieval; the pipeline's filters hold in addition. */
function conditionsOf(
  { request, pipeline, listed }: PipelineRun,
  exclude: readonly Tensor[] | undefined,
) {
  const include = listed === undefined ? request.include : listedItems(listed, request.include);
  const instances = instancesOf(request.signature, request.inputs);
  const own = pipeline.stages.flatMap((stage) =>
    stage.kind === "filter" ? [parseFilterText(stage.filter)] : [],
  );
  const filter = own.length === 0 ? request.filter : joinedFilters(own, request.filter);
  return {
    /** The part of the lists that belongs to some of the instances. */
    ofInstances: (from: number, end: number) => {
      const part = <Item>(list: readonly Item[] | undefined): readonly Item[] | undefined =>
        list?.length === instances && instances > 1 ? list.slice(from, end) : list;
      return { exclude: part(exclude), include: part(include), filter: part(filter) };
    },
  };
}

/** Each filter of a request joined with all filters of the pipeline. @throws WinnowError INVALID_ARGUMENT */
function joinedFilters(
  own: readonly Filter[],
  asked: readonly Filter[] = [{ kind: "and", of: [] }],
): readonly Filter[] {
  return asked.map((each): Filter => {
    const filter: Filter = { kind: "and", of: [...own, each] };
    try {
      // Parsed as workers do: what they would refuse is refused before they are asked.
      parseFilterText(filterText(filter));
    } catch (cause) {
      const text = "The filter of the request and those of the pipeline are too large together";
      const message = `${text}: ${toWinnowError(cause).message}`;
      throw new WinnowError("INVALID_ARGUMENT", message, { cause });
    }
    return filter;
  });
}
