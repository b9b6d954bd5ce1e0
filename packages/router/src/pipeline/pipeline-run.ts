// One request run through the stages of a pipeline. Models are asked through `ask`, which is the
// router's own predict on the versions pinned for this request: so slices, hedges, retries, exclusions
// and the deadline are those of any request.

import type { Pipeline, RankSource, RankStage, RetrieveStage, Tensor } from "@winnow/core";
import { WinnowError, excerpt } from "@winnow/core";
import type { SignatureTensor } from "@winnow/core";
import type { PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import type { Candidates } from "./candidates.ts";
import { candidatesOf, flatPositions, limited, reordered, take, tensorsOf } from "./candidates.ts";

/** A request of a pipeline, and how its models are asked. */
export interface PipelineRun {
  readonly pipeline: Pipeline;
  readonly request: PredictRequest;
  /** The pinned models, by name: one version for the whole request. */
  readonly pinned: ReadonlyMap<string, PinnedModel>;
  readonly ask: (pinned: PinnedModel, request: PredictRequest) => Promise<Prediction>;
  /** Candidates that one question to a ranking model may have. */
  readonly instancesMax: number;
}

/** What the stages gave. */
export type PipelineAnswer = Pick<Prediction, "outputs" | "coverage">;

/** Runs the stages in turn. @throws WinnowError as the models do, or naming what a model lacks */
export async function runPipeline(run: PipelineRun): Promise<PipelineAnswer> {
  const { pipeline, request } = run;
  const [first, ...later] = pipeline.stages;
  if (first?.kind !== "retrieve") throw new RangeError("a pipeline that does not retrieve first");
  const retrieved = await retrieve(run, first);
  let { candidates } = retrieved;
  for (const stage of later) {
    request.context.signal.throwIfAborted();
    if (stage.kind === "rank") candidates = await rank(run, stage, candidates);
    if (stage.kind === "limit") candidates = limited(candidates, stage.count);
  }
  if (request.k !== undefined) candidates = limited(candidates, request.k);
  const { scores, ids } = tensorsOf(candidates);
  const outputs = new Map([
    [pipeline.outputs.scores, scores],
    [pipeline.outputs.ids, ids],
  ]);
  return { outputs, coverage: retrieved.coverage };
}

async function retrieve(
  run: PipelineRun,
  stage: RetrieveStage,
): Promise<{ readonly candidates: Candidates; readonly coverage: number }> {
  const { pinned, signature } = memberOf(run, stage);
  const { context, exclude, allowPartial } = run.request;
  const inputs = new Map(
    stage.inputs.map(({ name, from }) => {
      const declared = inputOf(signature.inputs, name, stage);
      return [name, fitted(requestInput(run, from), declared, stage)] as const;
    }),
  );
  const asked = { signature, inputs, context, k: stage.k, exclude, allowPartial };
  const { outputs, coverage } = await run.ask(pinned, asked);
  const scores = outputOf(outputs, stage.scores, stage);
  const ids = outputOf(outputs, stage.ids, stage);
  return { candidates: candidatesOf(scores, ids, stage.model), coverage };
}

async function rank(
  run: PipelineRun,
  stage: RankStage,
  candidates: Candidates,
): Promise<Candidates> {
  const { pinned, signature } = memberOf(run, stage);
  const { context } = run.request;
  const positions = flatPositions(candidates);
  if (positions.length === 0) return candidates;
  const columns = stage.inputs.map(({ name, from }) => {
    const declared = inputOf(signature.inputs, name, stage);
    return { name, declared, values: rankInput(run, from, candidates) };
  });
  const scores = new Float32Array(positions.length);
  // One question after the other: a request has at most one run on the router at a time.
  for (let from = 0; from < positions.length; from += run.instancesMax) {
    const end = Math.min(positions.length, from + run.instancesMax);
    const rows = Array.from({ length: end - from }, (_, at) => from + at);
    const inputs = new Map(
      columns.map(({ name, declared, values }) => [
        name,
        fitted(take(values, rows), declared, stage),
      ]),
    );
    const { outputs } = await run.ask(pinned, { signature, inputs, context });
    const given = outputOf(outputs, stage.scores, stage);
    if (given.dtype !== "float32" || given.data.length !== rows.length) {
      const text = `gives ${given.data.length} ${given.dtype} values for ${rows.length} candidates`;
      throw memberFault(stage, `its output "${stage.scores}" ${text}, not one float32 for each`);
    }
    scores.set(given.data, from);
  }
  return reordered(candidates, scores);
}

/** One value for each candidate. */
function rankInput(run: PipelineRun, from: RankSource, candidates: Candidates): Tensor {
  const positions = flatPositions(candidates);
  switch (from.kind) {
    case "item":
      return take(candidates.ids, positions);
    case "score": {
      const data = Float32Array.from(candidates.lists.flatMap(({ scores }) => scores));
      return { dtype: "float32", shape: [data.length], data };
    }
    case "request": {
      const instances = candidates.lists.flatMap(({ positions: own }, instance) =>
        own.map(() => instance),
      );
      return take(requestInput(run, from.input), instances);
    }
  }
}

function requestInput({ request }: PipelineRun, name: string): Tensor {
  const input = request.inputs.get(name);
  if (input === undefined) throw new RangeError(`a request without input ${name}`);
  return input;
}

function memberOf(
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

function inputOf(
  inputs: readonly SignatureTensor[],
  name: string,
  stage: RetrieveStage | RankStage,
): SignatureTensor {
  const declared = inputs.find((input) => input.name === name);
  if (declared !== undefined) return declared;
  const names = inputs.map((input) => input.name).join(", ");
  throw memberFault(stage, `it has no input "${excerpt(name)}", but ${names}`);
}

/** One value per row as the model declares its input: `[rows]`, or `[rows, 1]`. */
function fitted(
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

function outputOf(
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

function memberFault(stage: RetrieveStage | RankStage, fault: string): WinnowError {
  const text = `Model ${excerpt(stage.model)} cannot serve the stage "${stage.kind}": ${fault}`;
  return new WinnowError("FAILED_PRECONDITION", text);
}
