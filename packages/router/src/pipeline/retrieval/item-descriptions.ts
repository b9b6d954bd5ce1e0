// What a pipeline wants to know of the items that it retrieves: attributes for the client or for a stage, and vectors that a
// stage compares. Vectors that only a stage behind a ranking reads come, or are read, while the ranking is under way:
//
//   with the answer            texts and vectors, which are split here
//   in a later turn            vectors that came with the answer, read once the ranking is sent
//   behind the ranking's rows  vectors that come from the worker later; those that do not come are asked for again

import type { RetrieveStage, Tensor } from "@winnow/core";
import { VECTOR_ATTRIBUTE, WinnowError, valuesOfVector } from "@winnow/core";
import type { Prediction, PredictRequest } from "../../predictor.ts";
import { areSame } from "../../item-rows.ts";
import type { LaterVectors } from "../../item-rows.ts";
import type { Candidates, ItemVectors } from "../candidates.ts";
import { outputOf } from "../member-access.ts";
import type { StageMember } from "../member-access.ts";
import { stagesOnLists } from "../pipeline-run.ts";
import type { PipelineRun } from "../pipeline-run.ts";
import { splitCells, vectorsIn } from "../../program/item-vectors.ts";
import type { CellVectors, SplitCells } from "../../program/item-vectors.ts";
import { inTurns, nextTurn } from "../../turns/turns.ts";

/** What is wanted of each item, and the length of the vectors. */
export interface Description {
  readonly dim: number;
  /** Attributes that the request or a stage wants; the vector is last. */
  readonly names: readonly string[];
  /** Whether a stage compares the vectors. Vectors of different retrievals must not be compared. */
  readonly isCompared: boolean;
}

/** What a retrieval must return about each item. */
export function describedBy(
  { pipeline, request }: PipelineRun,
  stage: RetrieveStage,
  { pinned, signature }: StageMember,
): Description {
  const search = signature.steps.find((step) => step.kind === "topK");
  const dim = search === undefined ? 0 : (pinned.program.tables[search.table]?.dim ?? 0);
  const diversify = pipeline.stages.filter((each) => each.kind === "diversify");
  const needed = diversify.flatMap((each) => {
    if (each.by !== "mmr") return [each.attribute];
    return each.of === undefined || each.of === stage.as ? [VECTOR_ATTRIBUTE] : [];
  });
  const isCompared = needed.includes(VECTOR_ATTRIBUTE);
  return { dim, names: [...new Set([...(request.attributes ?? []), ...needed])], isCompared };
}

/** Items that one answer may describe. */
export function itemsDescribedMax(
  { describedValuesMax }: PipelineRun,
  { dim, names }: Description,
): number {
  const values = names.reduce(
    (sum, name) => sum + (name === VECTOR_ATTRIBUTE ? valuesOfVector(dim) : 1),
    0,
  );
  return values === 0 ? Infinity : Math.floor(describedValuesMax / values);
}

/** Asks for items; `more` stands for what the question would bring beside its answer. */
export type AskItems = (more?: Pick<PredictRequest, "itemRows">) => Promise<Prediction>;

/** The descriptions of an answer's items, or what gives them later: vectors on their way, or of all instances at once. */
export async function descriptionsOf(
  run: PipelineRun,
  answer: Prediction,
  {
    description,
    isWhole,
    vectorsLater,
  }: Pick<Candidates, "vectorsLater"> & {
    readonly description: Description;
    readonly isWhole: boolean;
  },
): Promise<Pick<Candidates, "attributes" | "vectors" | "vectorsLater">> {
  if (vectorsLater !== undefined) return { vectorsLater };
  const later = isWhole ? laterDescribed(run, answer, description) : undefined;
  return later ?? (await described(run, answer, description));
}

/** The descriptions of an answer's items, with vectors split from texts. */
async function described(
  { request }: PipelineRun,
  { attributes: cells }: Prediction,
  description: Description,
): Promise<Pick<Candidates, "attributes" | "vectors">> {
  if (cells === undefined || !description.isCompared) return { attributes: cells };
  const steps = isVectorAlone(request, description)
    ? vectorsIn(cells)
    : splitCells(cells, request.attributes?.includes(VECTOR_ATTRIBUTE) === true);
  const split: CellVectors & Partial<SplitCells> = await inTurns(steps, request.context.signal);
  return { attributes: split.texts, vectors: vectorsOf(split) };
}

/**
 * Like `described`, but what only a stage after a ranking reads is read in the next turn of the event loop, when the
 * ranking has been sent to where it is computed; `undefined` where something else is wanted, or nothing is ranked next.
 */
function laterDescribed(
  run: PipelineRun,
  { attributes: cells }: Prediction,
  description: Description,
): Pick<Candidates, "vectorsLater"> | undefined {
  const { context } = run.request;
  if (cells === undefined || !isVectorAlone(run.request, description) || !isRankedNext(run)) {
    return undefined;
  }
  const vectorsLater = (async () => {
    await nextTurn(context.signal);
    return vectorsOf(await inTurns(vectorsIn(cells), context.signal));
  })();
  // If the ranking fails first, nobody waits for them.
  vectorsLater.catch(() => undefined);
  return { vectorsLater: () => vectorsLater };
}

/** Whether vectors are all that is wanted of items, and only a stage compares them. */
function isVectorAlone(
  { attributes: wanted = [] }: PredictRequest,
  { isCompared, names }: Pick<Description, "isCompared" | "names">,
): boolean {
  return isCompared && names.length === 1 && wanted.length === 0;
}

/**
 * Whether vectors may come behind the rows of the ranking. Where an answer may lack items, a second one may lack others,
 * and could not stand in for vectors that do not come.
 */
export function mayVectorsFollow({ request }: PipelineRun, description: Description): boolean {
  return request.allowPartial !== true && isVectorAlone(request, description);
}

/** Gives the vectors that come behind the rows; if they do not come, those of the same items, asked for again. */
export function vectorsBehind(
  { request: { context } }: PipelineRun,
  following: LaterVectors,
  {
    ids,
    ask,
    stage,
  }: {
    readonly ids: Tensor;
    readonly ask: AskItems;
    readonly stage: RetrieveStage;
  },
): () => Promise<ItemVectors> {
  const count = ids.data.length;
  const read = following.then(
    (values) => values && vectorsOf({ values, dim: values.length / count }),
  );
  return async () => {
    const vectors = await context.untilAborted(read);
    if (vectors !== undefined) return vectors;
    const again = await ask({ itemRows: undefined });
    const cells = again.attributes;
    if (cells === undefined || !areSame(ids, outputOf(again.outputs, stage.ids, stage))) {
      throw new WinnowError(
        "UNAVAILABLE",
        "The vectors of the items found did not come; try again",
      );
    }
    return vectorsOf(await inTurns(vectorsIn(cells), context.signal));
  };
}

function vectorsOf({
  dim,
  values,
}: Pick<CellVectors, "dim"> & { readonly values: Float32Array }): ItemVectors {
  const vectors = new Map<number, Float32Array>();
  for (let at = 0; at < values.length / dim; at += 1) {
    vectors.set(at, values.subarray(at * dim, (at + 1) * dim));
  }
  return vectors;
}

/** Whether what is retrieved is ranked before anything else is done with it; several lists are merged first. */
function isRankedNext({ pipeline }: PipelineRun): boolean {
  const next = stagesOnLists(pipeline).find(({ kind }) => kind !== "retrieve");
  return next?.kind === "rank";
}
