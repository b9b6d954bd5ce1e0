// One request of a pipeline while its stages run: what it asks, the models that it pinned, and the means to ask them.

import type { Clock, Pipeline, PipelineStage, Tensor } from "@winnow/core";
import type { SeenItems } from "@winnow/cluster";
import type { ItemRows } from "../item-rows.ts";
import type { RequestLimits } from "../limits/request-limits.ts";
import type { Degradation, PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import type { KnownKeys } from "../program/lookup/known-keys.ts";
import type { Candidates } from "./candidates.ts";

/** A request of a pipeline, and the means to ask its models. */
export interface PipelineRun {
  readonly pipeline: Pipeline;
  readonly request: PredictRequest;
  /** The pinned models, by name: one version of each for the whole request. */
  readonly pinned: ReadonlyMap<string, PinnedModel>;
  readonly clock: Clock;
  readonly ask: (pinned: PinnedModel, request: PredictRequest) => Promise<Prediction>;
  /** Candidates in one question to a ranking model, at most. */
  readonly instancesMax: number;
  /** Attribute values in one answer of a retrieval, at most. */
  readonly describedValuesMax: number;
  /** What one question to a model may exclude, at most. */
  readonly limits: Pick<RequestLimits, "excludedIdsMax" | "excludedBytesMax">;
  /** Reads what users have seen; `undefined` where no store is configured. */
  readonly seenItems?: SeenItems | undefined;
  /** Refuses what a request may not ask of a pipeline. */
  readonly check?: ((pipeline: Pipeline, request: PredictRequest) => void) | undefined;
  /** Which values of an input a model knows; without it nobody can tell. */
  readonly knows?:
    | ((pinned: PinnedModel, question: KnownQuestion) => Promise<KnownKeys>)
    | undefined;
  /** What a search may bring of the table in which a model looks this input up; `undefined` where that helps nothing. */
  readonly itemRows?:
    | ((
        pinned: PinnedModel,
        of: { readonly signature: PredictRequest["signature"]; readonly input: string },
      ) => ItemRows | undefined)
    | undefined;
  /** What the questions of a retrieval bring beside their answers, if they do. */
  readonly brought?: ItemRows | undefined;
  /** The only items, in this order: instead of what the retrieval finds, for users that its model does not know. */
  readonly listed?: Tensor | undefined;
  /** To be called with work that outlives the answer: the models stay pinned until it has settled. */
  readonly outlives: (work: Promise<unknown>) => void;
}

/** Which of these values, one for each instance, a signature's vocabularies have. */
export interface KnownQuestion extends Pick<PredictRequest, "signature" | "context"> {
  /** Name of the signature's input. */
  readonly input: string;
  readonly values: Tensor;
}

/** The candidates after a stage, and the coverage of its answers. */
export interface StageAnswer {
  readonly candidates: Candidates;
  readonly coverage: number;
}

/** What the stages of a pipeline did with one instance, in their order: JSON objects. */
export type InstanceNotes = readonly string[];

/** What all stages gave. */
export interface StagesAnswer extends StageAnswer {
  readonly degradations: readonly Degradation[];
  /** For each instance, where the request wants them. */
  readonly notes: readonly InstanceNotes[] | undefined;
}

/** The stages that make or change lists of candidates, in their order; the others say what a retrieval finds, or of whom. */
export function stagesOnLists({ stages }: Pipeline): readonly PipelineStage[] {
  return stages.filter(({ kind }) => kind !== "filter" && kind !== "seen" && kind !== "unknown");
}
