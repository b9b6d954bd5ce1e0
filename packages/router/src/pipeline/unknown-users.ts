// Users that a model does not know, as the pipeline's `unknown` stage has them answered. Who they are is found out before
// anything is retrieved, in the vocabularies in which the model itself looks their keys up.
//
//   instances ─▶ known, or nobody can tell ─▶ the stages ────────────────────────┐
//            └─▶ unknown ─▶ oov: the stages │ list: its items │ pipeline: that ─▶ one answer, in their order

import {
  StringColumn,
  WinnowError,
  excerpt,
  retrievalOf,
  stringTensor,
  tensor,
  unknownStageOf,
} from "@winnow/core";
import type {
  Dtype,
  Pipeline,
  PipelineStage,
  Tensor,
  UnknownAnswer,
  UnknownStage,
} from "@winnow/core";
import { instancesOf } from "../limits/request-limits.ts";
import { degradedText } from "../predictor.ts";
import type { Degradation, PredictRequest, UnknownUsers } from "../predictor.ts";
import type { KnownKeys } from "../program/lookup/known-keys.ts";
import { joinedInstances, takeRows } from "./candidates.ts";
import type { Candidates } from "./candidates.ts";
import { unknownNote } from "./explanation.ts";
import { fitted, inputOf, memberOf, requestInput } from "./member-access.ts";
import type { InstanceNotes, PipelineRun, StagesAnswer } from "./pipeline-run.ts";

/** What was answered, and to how many unknown users. */
export interface UsersAnswer extends StagesAnswer {
  readonly unknownUsers?: readonly UnknownUsers[] | undefined;
}

type RunStages = (run: PipelineRun) => Promise<StagesAnswer>;

/** Runs a pipeline, for known and unknown users. @throws WinnowError as its models do; INVALID_ARGUMENT where a stage says so */
export async function runForUsers(run: PipelineRun, runStages: RunStages): Promise<UsersAnswer> {
  const stage = unknownStageOf(run.pipeline);
  if (stage === undefined) return await runStages(run);
  const startMs = run.clock.nowMs();
  const { isKnown, isTold } = await tellUsers(run, stage);
  const elapsedMs = run.clock.nowMs() - startMs;
  const { answer } = stage;
  const unknown = positionsOf(isKnown, false);
  if (answer.kind === "error" && unknown.length > 0) throw refusal(run, stage, unknown[0]!);
  const known = positionsOf(isKnown, true);
  const isWhole = unknown.length === 0 || answer.kind === "oov" || answer.kind === "error";
  const work = isWhole
    ? [{ positions: [...isKnown.keys()], answer: runStages(run) }]
    : [
        ...(known.length === 0
          ? []
          : [{ positions: known, answer: runStages(partOf(run, known)) }]),
        { positions: unknown, answer: answerUnknown(partOf(run, unknown), stage, runStages) },
      ];
  // All have ended before this does: the models are pinned until then.
  const outcomes = await Promise.allSettled(work.map(({ answer: given }) => given));
  const parts = outcomes.map((outcome, at) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return { positions: work[at]!.positions, answer: outcome.value };
  });
  const untold: readonly Degradation[] = isTold
    ? []
    : [{ stage: "unknown", reason: "unavailable" }];
  const degraded = degradedText(untold);
  const told = toldOf(run, answer);
  const whole = joinedParts(run, parts, (instance) => {
    if (!isKnown[instance]) return unknownNote({ unknown: true, ...told }, elapsedMs);
    return unknownNote({ unknown: false, ...(degraded && { degraded }) }, elapsedMs);
  });
  return {
    ...whole,
    degradations: [...untold, ...whole.degradations],
    ...(unknown.length > 0 &&
      answer.kind !== "error" && {
        unknownUsers: [{ answer: answer.kind, instances: unknown.length }],
      }),
  };
}

/** Asks the model of the stage's retrieval which users it knows. */
async function tellUsers(run: PipelineRun, stage: UnknownStage): Promise<KnownKeys> {
  const retrieval = retrievalOf(stage, run.pipeline.stages);
  const from = retrieval?.inputs.find((each) => each.from === stage.input);
  if (retrieval === undefined || from === undefined) throw new RangeError("no such retrieval");
  const { pinned, signature } = memberOf(run, retrieval);
  const declared = inputOf(signature.inputs, from.name, retrieval);
  const values = fitted(requestInput(run, stage.input), declared, retrieval);
  const { context } = run.request;
  const question = { signature, input: from.name, values, context };
  if (run.knows !== undefined) return await run.knows(pinned, question);
  return { isKnown: Array.from({ length: values.data.length }, () => true), isTold: false };
}

function positionsOf(isKnown: readonly boolean[], wanted: boolean): readonly number[] {
  return isKnown.flatMap((each, at) => (each === wanted ? [at] : []));
}

function refusal(run: PipelineRun, stage: UnknownStage, instance: number): WinnowError {
  const { data } = requestInput(run, stage.input);
  const key = data instanceof StringColumn ? data.textAt(instance) : String(data[instance]);
  const { model } = retrievalOf(stage, run.pipeline.stages)!;
  const where = `input "${excerpt(stage.input)}" of instance ${instance}`;
  const text = `No vocabulary of model ${excerpt(model)} has "${excerpt(key)}", ${where}`;
  return new WinnowError("INVALID_ARGUMENT", `${text}; the pipeline answers known users alone`);
}

/** What is answered to unknown users, for people. */
function toldOf({ pinned }: PipelineRun, answer: UnknownAnswer): object {
  if (answer.kind !== "pipeline") return { answer: answer.kind };
  const { model } = answer;
  return { answer: answer.kind, model, version: pinned.get(model)?.version };
}

/** The run for some of its instances. */
function partOf(run: PipelineRun, positions: readonly number[]): PipelineRun {
  const { request } = run;
  const instances = instancesOf(request.signature, request.inputs);
  if (positions.length === instances) return run;
  const part = <Item>(list: readonly Item[] | undefined): readonly Item[] | undefined =>
    list === undefined || list.length <= 1 ? list : positions.map((position) => list[position]!);
  const { exclude, include, filter } = request;
  const inputs = new Map(
    Array.from(request.inputs, ([name, values]) => [name, takeRows(values, positions)]),
  );
  const lists = { exclude: part(exclude), include: part(include), filter: part(filter) };
  return { ...run, request: { ...request, inputs, ...lists } };
}

/** What is answered to users of whom all are unknown. */
async function answerUnknown(
  run: PipelineRun,
  stage: UnknownStage,
  runStages: RunStages,
): Promise<StagesAnswer> {
  const { answer } = stage;
  if (answer.kind === "list") {
    const listed = listTensor(answer.ids, itemsOf(run.pipeline, run.request));
    const pipeline = listPipeline(run.pipeline, stage, answer.ids.length);
    run.check?.(pipeline, run.request);
    return await runStages({ ...run, pipeline, listed });
  }
  if (answer.kind !== "pipeline") throw new RangeError("unknown users that nobody answers");
  const other = otherRun(run, answer.model);
  run.check?.(other.pipeline, other.request);
  return await runForUsers(other, runStages);
}

/** Type of the ids that a pipeline answers. */
function itemsOf({ outputs }: Pipeline, { signature }: PredictRequest): Dtype {
  return signature.outputs.find(({ name }) => name === outputs.ids)?.dtype ?? "string";
}

function listTensor(ids: readonly string[], items: Dtype): Tensor {
  if (items === "string") return stringTensor(ids);
  return tensor("int64", [ids.length], BigInt64Array.from(ids, BigInt));
}

/**
 * The stages that a list goes through: those that say which items there may be, and how many. Whatever ranks goes by
 * users; the list has its order.
 */
function listPipeline(pipeline: Pipeline, stage: UnknownStage, count: number): Pipeline {
  const retrieval = { ...retrievalOf(stage, pipeline.stages)!, k: count };
  const rest = pipeline.stages.filter(({ kind }) => STAGES_OF_LISTS.has(kind));
  return { ...pipeline, stages: [retrieval, ...rest] };
}

const STAGES_OF_LISTS: ReadonlySet<PipelineStage["kind"]> = new Set<PipelineStage["kind"]>([
  "filter",
  "seen",
  "limit",
]);

/** The same question to another pipeline. @throws WinnowError FAILED_PRECONDITION where it does not fit */
function otherRun(run: PipelineRun, model: string): PipelineRun {
  const { program } = run.pinned.get(model) ?? {};
  const { pipeline, signatures = [] } = program ?? {};
  const [signature] = signatures;
  if (pipeline === undefined || signature === undefined) throw unfit(model, "is no pipeline");
  const inputs = new Map(
    signature.inputs.map(({ name, dtype }) => {
      const values = run.request.inputs.get(name);
      if (values?.dtype === dtype) return [name, values] as const;
      throw unfit(
        model,
        `takes an input "${excerpt(name)}" of ${dtype}, which this one does not have`,
      );
    }),
  );
  const request = { ...run.request, signature, inputs };
  const [own, others] = [itemsOf(run.pipeline, run.request), itemsOf(pipeline, request)];
  if (own === others) return { ...run, pipeline, request };
  throw unfit(model, `answers ids of ${others}, this one of ${own}`);
}

function unfit(model: string, why: string): WinnowError {
  const text = `Pipeline ${excerpt(model)} cannot answer the unknown users of another: it ${why}`;
  return new WinnowError("FAILED_PRECONDITION", text);
}

interface UsersPart {
  readonly positions: readonly number[];
  readonly answer: StagesAnswer;
}

/** One answer, instances in the order of the request. */
function joinedParts(
  { request: { attributes = [] } }: PipelineRun,
  parts: readonly UsersPart[],
  noteOf: (instance: number) => string,
): StagesAnswer {
  const positions = parts.flatMap((part) => part.positions);
  const answers = parts.map(({ answer }) => answer);
  const notes = answers.flatMap((answer) => answer.notes ?? []);
  const withNote = (stages: InstanceNotes, instance: number): InstanceNotes => [
    noteOf(instance),
    ...stages,
  ];
  const candidates = joinedWanted(answers, attributes.length > 0);
  return {
    candidates: { ...candidates, lists: inPlace(candidates.lists, positions) },
    coverage: Math.min(...answers.map(({ coverage }) => coverage)),
    degradations: answers.flatMap((answer) => answer.degradations),
    notes: notes.length === 0 ? undefined : inPlace(notes, positions).map(withNote),
  };
}

/** Attributes that stages alone wanted are not those of all parts. */
function joinedWanted(answers: readonly StagesAnswer[], wantsAttributes: boolean): Candidates {
  const [only, other] = answers;
  if (other === undefined) return only!.candidates;
  return joinedInstances(
    answers.map(({ candidates: { ids, lists, attributes } }) => {
      return { ids, lists, named: new Map(), ...(wantsAttributes && { attributes }) };
    }),
  );
}

/** What stands part after part, where its instances do. */
function inPlace<Item>(items: readonly Item[], positions: readonly number[]): readonly Item[] {
  const moved = [...items];
  for (const [at, position] of positions.entries()) moved[position] = items[at]!;
  return moved;
}
