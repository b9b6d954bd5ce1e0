// What a pipeline retrieves: the best items of one model, or of several at once, whose lists are merged. What the
// request says of the items that it wants goes to each of them.

import type { Filter, MergeStage, RetrieveStage } from "@winnow/core";
import { WinnowError, filterText, parseFilterText, toWinnowError } from "@winnow/core";
import { candidatesOf, withNamed } from "./candidates.ts";
import { mergedCandidates } from "./candidate-merge.ts";
import { fitted, inputOf, memberOf, outputOf, requestInput } from "./member-access.ts";
import type { PipelineRun, StageAnswer } from "./member-access.ts";

/**
 * Asks all retrieving stages side by side, and merges. Where one fails, the others are waited for: none may
 * be under way when the pins of the request end.
 */
export async function retrieveAll(run: PipelineRun): Promise<StageAnswer> {
  const { stages } = run.pipeline;
  const retrievals = stages.filter((stage) => stage.kind === "retrieve");
  const merge = stages.find((stage) => stage.kind === "merge");
  const settled = await Promise.allSettled(retrievals.map((stage) => retrieve(run, stage)));
  const answers = settled.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
  const [first] = answers;
  if (first === undefined) throw new RangeError("a pipeline that does not retrieve first");
  if (merge === undefined) return first;
  const coverage = answers.reduce((product, answer) => product * answer.coverage, 1);
  return { candidates: merged(retrievals, answers, merge), coverage };
}

function merged(
  retrievals: readonly RetrieveStage[],
  answers: readonly StageAnswer[],
  merge: MergeStage,
): StageAnswer["candidates"] {
  const lists = answers.map(({ candidates }, at) => ({ name: retrievals[at]!.as!, candidates }));
  const [first] = lists;
  const other = lists.find(
    ({ candidates }) => candidates.ids.dtype !== first!.candidates.ids.dtype,
  );
  if (other === undefined) return mergedCandidates(lists, merge);
  const dtypes = `${first!.candidates.ids.dtype} and ${other.candidates.ids.dtype}`;
  throw new WinnowError("FAILED_PRECONDITION", `Retrievals with ids of ${dtypes} cannot be merged`);
}

async function retrieve(run: PipelineRun, stage: RetrieveStage): Promise<StageAnswer> {
  const { pinned, signature } = memberOf(run, stage);
  const { context, ...wanted } = wishesOf(run);
  const inputs = new Map(
    stage.inputs.map(({ name, from }) => {
      const declared = inputOf(signature.inputs, name, stage);
      return [name, fitted(requestInput(run, from), declared, stage)] as const;
    }),
  );
  const asked = { signature, inputs, context, k: stage.k, ...wanted };
  const { outputs, coverage, attributes } = await run.ask(pinned, asked);
  const scores = outputOf(outputs, stage.scores, stage);
  const ids = outputOf(outputs, stage.ids, stage);
  const candidates = { ...candidatesOf(scores, ids, stage.model), attributes };
  if (stage.as === undefined) return { candidates, coverage };
  const given = candidates.lists.flatMap((list) => list.scores);
  return { candidates: withNamed(candidates, stage.as, given), coverage };
}

/** What a request says of the items that it wants, for the retrieval to heed; the pipeline's filters hold too. */
function wishesOf({ request, pipeline }: PipelineRun) {
  const { context, exclude, include, attributes, allowPartial } = request;
  const own = pipeline.stages.flatMap((stage) =>
    stage.kind === "filter" ? [parseFilterText(stage.filter)] : [],
  );
  const filter = own.length === 0 ? request.filter : joinedFilters(own, request.filter);
  return { context, exclude, include, filter, attributes, allowPartial };
}

/** All filters of a pipeline with each of a request's. @throws WinnowError INVALID_ARGUMENT */
function joinedFilters(
  own: readonly Filter[],
  asked: readonly Filter[] = [{ kind: "and", of: [] }],
): readonly Filter[] {
  return asked.map((each): Filter => {
    const filter: Filter = { kind: "and", of: [...own, each] };
    try {
      // As workers read it: what they would refuse is refused before they are asked.
      parseFilterText(filterText(filter));
    } catch (cause) {
      const text = "The filter of the request and those of the pipeline are too large together";
      const message = `${text}: ${toWinnowError(cause).message}`;
      throw new WinnowError("INVALID_ARGUMENT", message, { cause });
    }
    return filter;
  });
}
