// Items like an item that the request names. The model's own search gives the item's vector first; the items whose
// products with it are largest are those that are like it. Nothing is asked of a user.
//
//   ids ─▶ a search of each id alone, with its vector ─▶ vectors ─▶ a search by these, without the ids themselves

import { VECTOR_ATTRIBUTE, WinnowError, tensor, valuesOfVector } from "@winnow/core";
import type { RetrieveStage, Tensor } from "@winnow/core";
import { vectorsIn } from "../../program/item-vectors.ts";
import { inTurns } from "../../turns/turns.ts";
import { candidatesOf, take } from "../candidates.ts";
import type { CandidateList, Candidates } from "../candidates.ts";
import { searchOfItems } from "./item-search.ts";
import { memberOf, outputOf, requestInput } from "../member-access.ts";
import type { PipelineRun } from "../pipeline-run.ts";
import { endOfListed, excludedWith } from "../seen-items.ts";

/** The vectors of the items that the instances name. */
export interface LikedItems {
  /** Of some of the instances: `[rows, dim]`, zeros for an item that the model does not have. */
  readonly vectorsOf: (rows: readonly number[]) => Float32Array<ArrayBuffer>;
  /** The candidates of these instances, without those of items that the model does not have: they are like none. */
  readonly known: (found: Candidates, rows: readonly number[]) => Candidates;
  readonly coverage: number;
}

/**
 * Asks for the vectors of the items to which a retrieval finds similar ones. @throws WinnowError FAILED_PRECONDITION where
 * the model does not answer the items of one search; INVALID_ARGUMENT for ids of another type than the table's
 */
export async function likedItems(
  run: PipelineRun,
  stage: RetrieveStage & { readonly like: string },
): Promise<LikedItems> {
  const { pinned, signature } = memberOf(run, stage);
  const search = searchOfItems(pinned, signature, { ...stage, k: 1 });
  const { dim } = search;
  const lists = listsOf(run, stage.like);
  const vectors = new Float32Array(lists.length * dim);
  const isKnown: boolean[] = [];
  const atOnce = Math.max(1, Math.floor(run.describedValuesMax / valuesOfVector(dim)));
  const { context, allowPartial } = run.request;
  let leastCoverage = 1;
  while (isKnown.length < lists.length) {
    const from = isKnown.length;
    const end = Math.min(lists.length, from + atOnce, endOfListed(from, lists, run.limits));
    const answer = await run.ask(pinned, {
      signature: search.signature,
      inputs: search.inputs(new Float32Array((end - from) * dim)),
      context,
      allowPartial,
      k: 1,
      include: lists.slice(from, end),
      attributes: [VECTOR_ATTRIBUTE],
      vectorBytes: true,
      itemRows: undefined,
    });
    leastCoverage = Math.min(leastCoverage, answer.coverage);
    const scores = outputOf(answer.outputs, stage.scores, stage);
    const ids = outputOf(answer.outputs, stage.ids, stage);
    const cells = answer.attributes;
    if (cells === undefined) throw new RangeError("an answer without the vectors wanted");
    const found = await inTurns(vectorsIn(cells), context.signal);
    for (const { positions } of candidatesOf(scores, ids, stage.model).lists) {
      const [position] = positions;
      if (position !== undefined) {
        const vector = found.values.subarray(position * found.dim, (position + 1) * found.dim);
        vectors.set(vector, isKnown.length * dim);
      }
      isKnown.push(position !== undefined);
    }
  }
  return {
    vectorsOf: (rows) => {
      const taken = new Float32Array(rows.length * dim);
      for (const [at, row] of rows.entries()) {
        taken.set(vectors.subarray(row * dim, (row + 1) * dim), at * dim);
      }
      return taken;
    },
    known: (found, rows) => {
      const known = found.lists.map((list, at) => (isKnown[rows[at]!] === true ? list : NOTHING));
      return { ...found, lists: known };
    },
    coverage: leastCoverage,
  };
}

const NOTHING: CandidateList = { positions: [], scores: [] };

/** The item that each instance names, integers as int64. */
function listsOf(run: PipelineRun, input: string): readonly Tensor[] {
  const items = requestInput(run, input);
  return Array.from({ length: items.data.length }, (_, at) => {
    const id = take(items, [at]);
    return id.dtype === "int32" ? tensor("int64", [1], BigInt64Array.from(id.data, BigInt)) : id;
  });
}

/**
 * The run with the items to which similar ones are retrieved among what the request excludes: no retrieval of the
 * pipeline finds them. @throws WinnowError INVALID_ARGUMENT where there is no room for them
 */
export function withoutLiked(run: PipelineRun): PipelineRun {
  const inputs = run.pipeline.stages.flatMap((stage) =>
    stage.kind === "retrieve" && stage.like !== undefined ? [stage.like] : [],
  );
  if (inputs.length === 0) return run;
  const liked = [...new Set(inputs)].map((input) => ({ lists: listsOf(run, input) }));
  const { lists, isCut } = excludedWith(run, liked);
  if (!isCut) return { ...run, request: { ...run.request, exclude: lists } };
  const { excludedIdsMax, excludedBytesMax } = run.limits;
  const text = "Cannot exclude the items themselves to which similar ones are retrieved";
  const most = `each instance may exclude ${excludedIdsMax} ids of ${excludedBytesMax} bytes in all`;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `${text}: ${most}; exclude less, or ask for shorter ids`,
  );
}
