// How a stage of a pipeline asks its model: the pinned version and its signature, inputs in the form that it
// declares, and outputs that it must have. If something does not fit, the error names the model.

import type {
  Clock,
  Pipeline,
  RankStage,
  RetrieveStage,
  SignatureTensor,
  Tensor,
} from "@winnow/core";
import { WinnowError, excerpt } from "@winnow/core";
import type { SeenItems } from "@winnow/cluster";
import type { RequestLimits } from "../limits/request-limits.ts";
import type { Degradation, PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import type { ItemRows } from "../item-rows.ts";
import type { KnownKeys } from "../program/known-keys.ts";
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

/** An input of the request. */
export function requestInput({ request }: PipelineRun, name: string): Tensor {
  const input = request.inputs.get(name);
  if (input === undefined) throw new RangeError(`a request without input ${name}`);
  return input;
}

/** The pinned model of a stage, and the signature that the stage uses. @throws WinnowError FAILED_PRECONDITION */
export function memberOf(
  run: PipelineRun,
  stage: RetrieveStage | RankStage,
): { readonly pinned: PinnedModel; readonly signature: PredictRequest["signature"] } {
  const pinned = run.pinned.get(stage.model);
  if (pinned === undefined) throw new RangeError(`model ${stage.model} is not pinned`);
  const signature = pinned.program.signatures.find(({ name }) => name === stage.signature);
  if (signature !== undefined) return { pinned, signature };
  const names = pinned.program.signatures.map(({ name }) => name).join(", ");
  throw memberFault(stage, `it has no signature "${excerpt(stage.signature)}", but ${names}`);
}

/** An input that a signature declares. @throws WinnowError FAILED_PRECONDITION */
export function inputOf(
  inputs: readonly SignatureTensor[],
  name: string,
  stage: RetrieveStage | RankStage,
): SignatureTensor {
  const declared = inputs.find((input) => input.name === name);
  if (declared !== undefined) return declared;
  const names = inputs.map((input) => input.name).join(", ");
  throw memberFault(stage, `it has no input "${excerpt(name)}", but ${names}`);
}

/**
 * One value per row, in the shape that the model declares: `[rows]` or `[rows, 1]`. @throws WinnowError
 * FAILED_PRECONDITION
 */
export function fitted(
  values: Tensor,
  declared: SignatureTensor,
  stage: RetrieveStage | RankStage,
): Tensor {
  const { name, dtype, shape } = declared;
  if (values.dtype !== dtype) {
    throw memberFault(stage, `its input "${excerpt(name)}" takes ${dtype}, not ${values.dtype}`);
  }
  const rows = values.data.length;
  if (shape === undefined || shape.length === 1) return { ...values, shape: [rows] };
  if (shape.length === 2 && shape[1] === 1) return { ...values, shape: [rows, 1] };
  const text = `its input "${excerpt(name)}" has shape [${shape.join(",")}]`;
  throw memberFault(stage, `${text}; a pipeline gives one value for each row`);
}

/** An output of an answer. @throws WinnowError FAILED_PRECONDITION */
export function outputOf(
  outputs: ReadonlyMap<string, Tensor>,
  name: string,
  stage: RetrieveStage | RankStage,
): Tensor {
  const output = outputs.get(name);
  if (output !== undefined) return output;
  throw memberFault(
    stage,
    `it has no output "${excerpt(name)}", but ${[...outputs.keys()].join(", ")}`,
  );
}

/** The error for a model that lacks what a stage needs. */
export function memberFault(stage: RetrieveStage | RankStage, fault: string): WinnowError {
  const text = `Model ${excerpt(stage.model)} cannot serve the stage "${stage.kind}": ${fault}`;
  return new WinnowError("FAILED_PRECONDITION", text);
}
