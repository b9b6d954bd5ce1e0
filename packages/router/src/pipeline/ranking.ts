// Asks a ranking model to score each candidate, in questions of bounded size.

import type { RankSource, RankStage, Tensor } from "@winnow/core";
import { WinnowError, excerpt } from "@winnow/core";
import type { Candidates } from "./candidates.ts";
import { flatPositions, reordered, take, takeRows, withNamed } from "./candidates.ts";
import { fitted, inputOf, memberFault, memberOf, outputOf, requestInput } from "./member-access.ts";
import type { PipelineRun, StageAnswer } from "./pipeline-run.ts";
import { inTurns, nextTurn } from "../turns/turns.ts";

/** Bytes of the request's strings and lists, repeated for candidates, in one stage of one request. */
const REPEATED_BYTES_MAX = 8 * 2 ** 20;
/** The same in one question to a ranking model. Other requests run between two questions. */
const QUESTION_BYTES_MAX = 2 ** 20;

/**
 * Sorts candidates by the score that a ranking model gives each; `undefined` if the model did not answer
 * within the stage's budget. Its work then goes on until it notices that it was aborted. @throws WinnowError
 * as the model does
 */
export async function rank(
  run: PipelineRun,
  stage: RankStage,
  candidates: Candidates,
): Promise<StageAnswer | undefined> {
  const { budgetMs } = stage;
  if (budgetMs === undefined) return await ranked(run, stage, candidates);
  const part = run.request.context.part();
  const late = new WinnowError("DEADLINE_EXCEEDED", `No ranking within ${budgetMs} ms`);
  const timer = run.clock.setTimer(budgetMs, () => part.abort(() => late));
  const request = { ...run.request, context: part };
  const work = ranked({ ...run, request }, stage, candidates);
  try {
    return await part.untilAborted(work);
  } catch (error) {
    run.outlives(work);
    if (error === late) return undefined;
    throw error;
  } finally {
    run.clock.clearTimer(timer);
    part.finish();
  }
}

async function ranked(
  run: PipelineRun,
  stage: RankStage,
  candidates: Candidates,
): Promise<StageAnswer> {
  const { pinned, signature } = memberOf(run, stage);
  const { context, allowPartial } = run.request;
  const positions = flatPositions(candidates);
  if (positions.length === 0) return { candidates, coverage: 1 };
  const { scores: given, instances } = rowsOf(candidates, positions.length);
  const repeated = repeatedBytes(run, stage, instances);
  const { heads = [] } = stage;
  const wanted = [stage.scores, ...heads.map(({ output }) => output)];
  const columns = wanted.map(() => new Float32Array(positions.length));
  let leastCoverage = 1;
  // Questions are asked one after the other, so that a request has at most one run on the router at a time.
  for (let from = 0; from < positions.length;) {
    // Making one of several questions, and what it costs here, takes some ms; other requests run in between.
    if (positions.length > run.instancesMax) await nextTurn(context.signal);
    else context.signal.throwIfAborted();
    const end = endOfQuestion(from, repeated, run.instancesMax);
    const inputs = new Map(
      stage.inputs.map(({ name, from: source }) => {
        const declared = inputOf(signature.inputs, name, stage);
        const values = rankInput(run, source, {
          ids: take(candidates.ids, positions.subarray(from, end)),
          scores: given.slice(from, end),
          instances: instances.subarray(from, end),
        });
        return [name, fitted(values, declared, stage)] as const;
      }),
    );
    const { outputs, coverage } = await run
      .ask(pinned, { signature, inputs, context, allowPartial })
      .catch((error: unknown) => {
        throw refusalOf(stage, error);
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
  const ordered = await inTurns(reordered(named, columns[0]!), context.signal);
  return { candidates: ordered, coverage: leastCoverage };
}

/** The error of a ranking; a refusal names its model, because the values that it names may be no client's, but items that were retrieved. */
function refusalOf({ model }: RankStage, error: unknown): unknown {
  if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") return error;
  const text = `Model ${excerpt(model)} cannot rank what was retrieved: ${error.message}`;
  return new WinnowError("INVALID_ARGUMENT", text, { cause: error });
}

/** The score so far and the instance of each candidate, list after list. */
function rowsOf(
  { lists }: Candidates,
  count: number,
): { readonly scores: Float32Array; readonly instances: Int32Array } {
  const [scores, instances] = [new Float32Array(count), new Int32Array(count)];
  let from = 0;
  for (const [instance, list] of lists.entries()) {
    const end = from + list.scores.length;
    scores.set(list.scores, from);
    instances.fill(instance, from, end);
    from = end;
  }
  return { scores, instances };
}

/** The values of an output. @throws WinnowError unless there is one float32 for each candidate */
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
 * Bytes of the request's strings and lists that travel with each candidate. They are repeated for all candidates of their
 * instance: without a bound, a request of 1 MB would become gigabytes.
 * @throws WinnowError INVALID_ARGUMENT
 */
function repeatedBytes(run: PipelineRun, stage: RankStage, instances: Int32Array): Float64Array {
  const given = stage.inputs.flatMap(({ from }) =>
    from.kind === "request" ? requestInput(run, from.input) : [],
  );
  const bytes = Float64Array.from(instances, (instance) =>
    given.reduce((sum, values) => sum + bytesOfRow(values, instance), 0),
  );
  const total = bytes.reduce((sum, each) => sum + each, 0);
  if (total <= REPEATED_BYTES_MAX) return bytes;
  const text = `Cannot rank ${instances.length} candidates with ${total} bytes of the request's texts and lists, which go with each`;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `${text}: at most ${REPEATED_BYTES_MAX} are allowed; send shorter ones or fewer instances`,
  );
}

/** Bytes of a string, or of a list, of an instance; a number alone counts for none. */
function bytesOfRow({ dtype, shape: [, length], data }: Tensor, row: number): number {
  const width = length ?? 1;
  if (dtype !== "string") return length === undefined ? 0 : width * data.BYTES_PER_ELEMENT;
  const { offsets } = data;
  const texts = offsets[(row + 1) * width]! - offsets[row * width]!;
  return length === undefined ? texts : texts + width * offsets.BYTES_PER_ELEMENT;
}

/** The end of a question that begins at `from`: as many candidates as fit, at least one. */
function endOfQuestion(from: number, bytes: Float64Array, instancesMax: number): number {
  let end = from;
  let sum = 0;
  while (end < bytes.length && end - from < instancesMax) {
    sum += bytes[end]!;
    if (end > from && sum > QUESTION_BYTES_MAX) break;
    end += 1;
  }
  return end;
}

/** The candidates of one question. */
interface RankedRows {
  readonly ids: Tensor;
  readonly scores: Float32Array<ArrayBuffer>;
  /** The instance of each candidate. */
  readonly instances: Int32Array;
}

/** An input of the model, with one value, or one list of the request, for each candidate. */
function rankInput(run: PipelineRun, from: RankSource, rows: RankedRows): Tensor {
  switch (from.kind) {
    case "item":
      return rows.ids;
    case "score":
      return { dtype: "float32", shape: [rows.scores.length], data: rows.scores };
    case "request":
      return takeRows(requestInput(run, from.input), rows.instances);
  }
}
