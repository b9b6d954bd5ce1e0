// One request run through the stages of a pipeline. Models are asked through `ask`, which is the
// router's own predict on the versions pinned for this request: so slices, hedges, retries, exclusions
// and the deadline are those of any request.

import type { Filter, Pipeline, RankSource, RankStage, RetrieveStage, Tensor } from "@winnow/core";
import { WinnowError, excerpt, filterText, parseFilterText, toWinnowError } from "@winnow/core";
import type { SignatureTensor } from "@winnow/core";
import type { PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import type { Candidates } from "./candidates.ts";
import {
  candidatesOf,
  flatPositions,
  limited,
  reordered,
  scored,
  take,
  tensorsOf,
  withNamed,
} from "./candidates.ts";

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

/** Bytes of the request's texts, repeated for candidates, in one stage of one request. */
const REPEATED_BYTES_MAX = 8 * 2 ** 20;
/** The same in one question to a ranking model: others have their turn between two. */
const QUESTION_BYTES_MAX = 2 ** 20;

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
export type PipelineAnswer = Pick<Prediction, "outputs" | "coverage" | "attributes">;

/** Runs the stages in turn. @throws WinnowError as the models do, or naming what a model lacks */
export async function runPipeline(run: PipelineRun): Promise<PipelineAnswer> {
  const { pipeline, request } = run;
  const [first, ...later] = pipeline.stages;
  if (first?.kind !== "retrieve") throw new RangeError("a pipeline that does not retrieve first");
  const retrieved = await retrieve(run, first);
  let { candidates, coverage } = retrieved;
  for (const stage of later) {
    request.context.signal.throwIfAborted();
    if (stage.kind === "rank") {
      const ranked = await rank(run, stage, candidates);
      ({ candidates } = ranked);
      coverage *= ranked.coverage;
    }
    if (stage.kind === "score") candidates = scored(candidates, stage.expression);
    if (stage.kind === "limit") candidates = limited(candidates, stage.count);
  }
  if (request.k !== undefined) candidates = limited(candidates, request.k);
  const { scores, ids, attributes } = tensorsOf(candidates);
  const outputs = new Map([
    [pipeline.outputs.scores, scores],
    [pipeline.outputs.ids, ids],
  ]);
  return { outputs, coverage, ...(attributes && { attributes }) };
}

/** The candidates after a stage, and the coverage of what the stage asked. */
interface StageAnswer {
  readonly candidates: Candidates;
  readonly coverage: number;
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

async function rank(
  run: PipelineRun,
  stage: RankStage,
  candidates: Candidates,
): Promise<StageAnswer> {
  const { pinned, signature } = memberOf(run, stage);
  const { context, allowPartial } = run.request;
  const positions = flatPositions(candidates);
  if (positions.length === 0) return { candidates, coverage: 1 };
  const given = candidates.lists.flatMap((list) => list.scores);
  const instances = candidates.lists.flatMap(({ positions: own }, at) => own.map(() => at));
  const repeated = repeatedBytes(run, stage, instances);
  const { heads = [] } = stage;
  const wanted = [stage.scores, ...heads.map(({ output }) => output)];
  const columns = wanted.map(() => new Float32Array(positions.length));
  let leastCoverage = 1;
  // One question after the other: a request has at most one run on the router at a time.
  for (let from = 0; from < positions.length;) {
    const end = endOfQuestion(from, repeated, run.instancesMax);
    const inputs = new Map(
      stage.inputs.map(({ name, from: source }) => {
        const declared = inputOf(signature.inputs, name, stage);
        const values = rankInput(run, source, {
          ids: take(candidates.ids, positions.slice(from, end)),
          scores: given.slice(from, end),
          instances: instances.slice(from, end),
        });
        return [name, fitted(values, declared, stage)] as const;
      }),
    );
    const { outputs, coverage } = await run.ask(pinned, {
      signature,
      inputs,
      context,
      allowPartial,
    });
    leastCoverage = Math.min(leastCoverage, coverage);
    for (const [at, name] of wanted.entries()) {
      columns[at]!.set(
        oneForEach(outputOf(outputs, name, stage), end - from, { stage, name }),
        from,
      );
    }
    from = end;
  }
  let named = candidates;
  for (const [at, { name }] of heads.entries()) named = withNamed(named, name, columns[at + 1]!);
  return { candidates: reordered(named, columns[0]!), coverage: leastCoverage };
}

/** The values of an output. @throws WinnowError where there is not one float32 for each candidate */
function oneForEach(
  { dtype, data }: Tensor,
  count: number,
  { stage, name }: { readonly stage: RankStage; readonly name: string },
): Float32Array {
  if (dtype === "float32" && data.length === count) return data;
  const text = `gives ${data.length} ${dtype} values for ${count} candidates`;
  throw memberFault(stage, `its output "${excerpt(name)}" ${text}, not one float32 for each`);
}

/**
 * Bytes of the request's texts that go with each candidate. A text of the request is repeated for all
 * candidates of its instance: without a bound, a request of 1 MB would become gigabytes.
 * @throws WinnowError INVALID_ARGUMENT
 */
function repeatedBytes(
  run: PipelineRun,
  stage: RankStage,
  instances: readonly number[],
): readonly number[] {
  const texts = stage.inputs.flatMap(({ from }) => {
    const values = from.kind === "request" ? requestInput(run, from.input) : undefined;
    return values?.dtype === "string" ? values.data : [];
  });
  const bytes = instances.map((instance) =>
    texts.reduce((sum, { offsets }) => sum + offsets[instance + 1]! - offsets[instance]!, 0),
  );
  const total = bytes.reduce((sum, each) => sum + each, 0);
  if (total <= REPEATED_BYTES_MAX) return bytes;
  const text = `Cannot rank ${instances.length} candidates with ${total} bytes of the request's texts, which go with each`;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `${text}: at most ${REPEATED_BYTES_MAX} are allowed; send shorter texts or fewer instances`,
  );
}

/** As many candidates as fit into one question; at least one. */
function endOfQuestion(from: number, bytes: readonly number[], instancesMax: number): number {
  let end = from;
  let sum = 0;
  while (end < bytes.length && end - from < instancesMax) {
    sum += bytes[end]!;
    if (end > from && sum > QUESTION_BYTES_MAX) break;
    end += 1;
  }
  return end;
}

/** Candidates of one question. */
interface RankedRows {
  readonly ids: Tensor;
  readonly scores: readonly number[];
  /** The instance of each. */
  readonly instances: readonly number[];
}

/** One value for each candidate. */
function rankInput(run: PipelineRun, from: RankSource, rows: RankedRows): Tensor {
  switch (from.kind) {
    case "item":
      return rows.ids;
    case "score":
      return {
        dtype: "float32",
        shape: [rows.scores.length],
        data: Float32Array.from(rows.scores),
      };
    case "request":
      return take(requestInput(run, from.input), rows.instances);
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
