// What graphs do with all items in order, `tf.argsort(scores, direction="DESCENDING")[:, :k]`: TensorFlow writes it as
// a top-k of as many items as there are, and a slice of that. The first items of a search are those of a search for
// fewer, so the slice becomes one, and the long search falls away unless something else reads it. The scores that a
// graph then gathers by these rows are the scores of that search.

import type { GraphValue, TopKNode } from "../graph-value.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { inferShape } from "../shapes/shape-inference.ts";
import { beginOf } from "./steps/score-slice.ts";

/** Handles StridedSlice and Slice of the results of a search. */
export function visitPrefix(lowering: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const [whole] = visit.inputs;
  const search = whole?.producer;
  if (whole === undefined || search?.kind !== "topK" || search.capped) return undefined;
  if (search.k === undefined || search.when !== lowering.condition) return undefined;
  const count = prefixOf(visit);
  if (count === undefined) return undefined;
  if (count === search.k) return [whole];
  const shorter = lowering.shorterSearches.get(search)?.get(count);
  const output = search.outputs.indexOf(whole);
  const outputs = narrowed(lowering, search, { count, shorter }).outputs[output];
  return outputs && [outputs];
}

/** How many items of each list a slice keeps, from the first on; `undefined` where it does anything else. */
function prefixOf({ node, inputs }: Visit): number | undefined {
  const { op, attributes } = node;
  if (beginOf({ op, attributes, inputs }, 2) !== 0) return undefined;
  const count = inferShape(node, inputs).shape?.at(-1) ?? 0;
  return count >= 1 ? count : undefined;
}

/** The same search for fewer items, one for each number of items. */
function narrowed(
  lowering: Lowering,
  search: TopKNode,
  { count, shorter }: { readonly count: number; readonly shorter: TopKNode | undefined },
): TopKNode {
  const found = shorter ?? added(lowering, search, count);
  // Ids that were gathered by the rows of the long search meanwhile.
  if (found.outputs.length < search.outputs.length) {
    found.table = search.table;
    found.outputs = outputsOf(search, found, count);
  }
  return found;
}

function added(lowering: Lowering, search: TopKNode, count: number): TopKNode {
  const node: TopKNode = { ...search, k: count, outputs: [] };
  node.outputs = outputsOf(search, node, count);
  lowering.add(node);
  lowering.rankings.set(node.outputs[0]!, node);
  const scored = lowering.scoresOfSearches.get(search);
  if (scored !== undefined) lowering.scoresOfSearches.set(node, scored);
  const own = lowering.shorterSearches.get(search) ?? new Map<number, TopKNode>();
  lowering.shorterSearches.set(search, own.set(count, node));
  return node;
}

/** The outputs of a shorter search: those that it has, and the others of the long one. */
function outputsOf(search: TopKNode, node: TopKNode, count: number): readonly GraphValue[] {
  return search.outputs.map((output, at): GraphValue => {
    const shape = output.shape && [...output.shape.slice(0, -1), count];
    return node.outputs[at] ?? { dtype: output.dtype, shape, producer: node };
  });
}

/** The scores of a search, where a graph gathers them by the rows that it found: `tf.gather(scores, rows, batch_dims=1)`. */
export function gatheredScores(
  lowering: Lowering,
  source: GraphValue,
  indices: GraphValue,
): GraphValue | undefined {
  const search = indices.producer;
  if (search?.kind !== "topK" || search.outputs[1] !== indices) return undefined;
  return lowering.scoresOfSearches.get(search) === source ? search.outputs[0] : undefined;
}
