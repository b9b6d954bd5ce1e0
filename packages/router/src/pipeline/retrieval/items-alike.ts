// Items like an item, or like several, that the request names, and unlike others. The model's own search gives the items'
// vectors first; the items whose products with their mean are largest are those that are like them. From items to be unlike
// the mean moves as far away as it lies from theirs. Nothing is asked of a user.
//
//   ids ─▶ a search of each id alone, with its vector ─▶ means ─▶ a search by these, without the ids themselves

import { VECTOR_ATTRIBUTE, WinnowError, itemInputsOf, tensor, valuesOfVector } from "@winnow/core";
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
  /**
   * Of some of the instances `[rows, dim]`: the mean of their items, or, of instances with items to be unlike, twice it less
   * the mean of those; any values where the model has none of the items.
   */
  readonly vectorsOf: (rows: readonly number[]) => Float32Array<ArrayBuffer>;
  /** The candidates of these instances, without those of instances of whose items the model has none: they are like nothing. */
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
  const instances = requestInput(run, stage.like).shape[0] ?? 0;
  const liked = new Means(instances, dim);
  const unliked = new Means(instances, dim);
  const wanted = [
    ...vectorsWanted(run, stage.like, liked),
    ...(stage.unlike === undefined ? [] : vectorsWanted(run, stage.unlike, unliked)),
  ];
  const ids = wanted.map(({ id }) => id);
  const atOnce = Math.max(1, Math.floor(run.describedValuesMax / valuesOfVector(dim)));
  const { context, allowPartial } = run.request;
  let leastCoverage = 1;
  for (let from = 0; from < ids.length;) {
    const end = Math.min(ids.length, from + atOnce, endOfListed(from, ids, run.limits));
    const answer = await run.ask(pinned, {
      signature: search.signature,
      inputs: search.inputs(new Float32Array((end - from) * dim)),
      context,
      allowPartial,
      k: 1,
      include: ids.slice(from, end),
      attributes: [VECTOR_ATTRIBUTE],
      vectorBytes: true,
      itemRows: undefined,
    });
    leastCoverage = Math.min(leastCoverage, answer.coverage);
    const scores = outputOf(answer.outputs, stage.scores, stage);
    const found = outputOf(answer.outputs, stage.ids, stage);
    const cells = answer.attributes;
    if (cells === undefined) throw new RangeError("an answer without the vectors wanted");
    const described = await inTurns(vectorsIn(cells), context.signal);
    for (const [at, { positions }] of candidatesOf(scores, found, stage.model).lists.entries()) {
      const [position] = positions;
      if (position === undefined) continue;
      // Without what a search adds to vectors, such as a bias.
      const first = position * described.dim;
      const vector = described.values.subarray(first, first + described.dim);
      const { means, instance } = wanted[from + at]!;
      means.add(instance, vector);
    }
    from = end;
  }
  return {
    vectorsOf: (rows) => vectorsOf(rows, { liked, unliked, dim }),
    known: (found, rows) => {
      const known = found.lists.map((list, at) => (liked.has(rows[at]!) ? list : NOTHING));
      return { ...found, lists: known };
    },
    coverage: leastCoverage,
  };
}

/** An item whose vector belongs to the mean of an instance. */
interface WantedVector {
  readonly id: Tensor;
  readonly means: Means;
  readonly instance: number;
}

/** The items of an input, instance by instance. */
function vectorsWanted(run: PipelineRun, input: string, means: Means): readonly WantedVector[] {
  const items = requestInput(run, input);
  const length = items.shape[1] ?? 1;
  return Array.from({ length: items.data.length }, (_, at) => {
    return { id: idsAt(items, [at]), means, instance: Math.floor(at / length) };
  });
}

/**
 * The vectors of `LikedItems`, computed in float64 and rounded to float32 once. Those of instances without any are ones,
 * because to zeros all rows are alike, and a search of equal scores can leave out none early.
 */
function vectorsOf(
  rows: readonly number[],
  { liked, unliked, dim }: Readonly<Record<"liked" | "unliked", Means>> & { readonly dim: number },
): Float32Array<ArrayBuffer> {
  const vectors = new Float32Array(rows.length * dim).fill(1);
  for (const [at, row] of rows.entries()) {
    if (!liked.has(row)) continue;
    const isMoved = unliked.has(row);
    for (let each = 0; each < dim; each += 1) {
      const mean = liked.at(row, each);
      vectors[at * dim + each] = isMoved ? 2 * mean - unliked.at(row, each) : mean;
    }
  }
  return vectors;
}

/** The mean of the vectors of each instance, summed in float64 in the order of its items. */
class Means {
  readonly #dim: number;
  readonly #sums: Float64Array;
  readonly #counts: Uint32Array;

  constructor(instances: number, dim: number) {
    this.#dim = dim;
    this.#sums = new Float64Array(instances * dim);
    this.#counts = new Uint32Array(instances);
  }

  add(instance: number, vector: Float32Array): void {
    const first = instance * this.#dim;
    for (const [at, value] of vector.entries()) this.#sums[first + at]! += value;
    this.#counts[instance]! += 1;
  }

  has(instance: number): boolean {
    return this.#counts[instance]! > 0;
  }

  /** One value of the mean of an instance that has one. */
  at(instance: number, axis: number): number {
    return this.#sums[instance * this.#dim + axis]! / this.#counts[instance]!;
  }
}

const NOTHING: CandidateList = { positions: [], scores: [] };

/** Ids of items, integers as int64. */
function idsAt(items: Tensor, positions: readonly number[]): Tensor {
  const ids = take(items, positions);
  if (ids.dtype !== "int32") return ids;
  return tensor("int64", ids.shape, BigInt64Array.from(ids.data, BigInt));
}

/** The items that each instance names. */
function listsOf(run: PipelineRun, input: string): readonly Tensor[] {
  const items = requestInput(run, input);
  const [instances = 0, length = 1] = items.shape;
  return Array.from({ length: instances }, (_, instance) =>
    idsAt(
      items,
      Array.from({ length }, (__, at) => instance * length + at),
    ),
  );
}

/**
 * The run with the items to which similar or unlike ones are retrieved among what the request excludes: no retrieval of the
 * pipeline finds them. @throws WinnowError INVALID_ARGUMENT where there is no room for them
 */
export function withoutLiked(run: PipelineRun): PipelineRun {
  const inputs = run.pipeline.stages.flatMap(itemInputsOf);
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
