// How a stage of a pipeline asks its model: the pinned version and its signature, inputs in the form that it
// declares, and outputs that it must have. If something does not fit, the error names the model.

import type { RankStage, RetrieveStage, SignatureTensor, Tensor } from "@winnow/core";
import { WinnowError, excerpt } from "@winnow/core";
import type { PinnedModel, PredictRequest } from "../predictor.ts";
import type { PipelineRun } from "./pipeline-run.ts";

/** An input of the request. */
export function requestInput({ request }: PipelineRun, name: string): Tensor {
  const input = request.inputs.get(name);
  if (input === undefined) throw new RangeError(`a request without input ${name}`);
  return input;
}

/** The pinned model of a stage, and the signature of it that the stage uses. */
export interface StageMember {
  readonly pinned: PinnedModel;
  readonly signature: PredictRequest["signature"];
}

/** Finds the model of a stage. @throws WinnowError FAILED_PRECONDITION */
export function memberOf(run: PipelineRun, stage: RetrieveStage | RankStage): StageMember {
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
 * Values in the shape that the model declares: one of each row as `[rows]` or `[rows, 1]`, a list of each row as
 * `[rows, length]`. @throws WinnowError FAILED_PRECONDITION
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
  const [rows = 0, length] = values.shape;
  if (length !== undefined) {
    if (shape === undefined || takesLists(shape, length)) return values;
    const text = `its input "${excerpt(name)}" has shape [${shape.join(",")}]`;
    throw memberFault(stage, `${text}; the pipeline gives a list of ${length} for each row`);
  }
  if (shape === undefined || shape.length === 1) return { ...values, shape: [rows] };
  if (takesOne(shape)) return { ...values, shape: [rows, 1] };
  const text = `its input "${excerpt(name)}" has shape [${shape.join(",")}]`;
  throw memberFault(stage, `${text}; a pipeline gives one value for each row`);
}

/** Whether an input of this shape takes one value for each row. */
export function takesOne(shape: readonly number[]): boolean {
  return shape.length === 1 || (shape.length === 2 && shape[1] === 1);
}

/** Whether an input of this shape takes a list of this length for each row; -1 is any length. */
export function takesLists([, own, ...deeper]: readonly number[], length: number): boolean {
  return own !== undefined && deeper.length === 0 && (own < 0 || own === length);
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
