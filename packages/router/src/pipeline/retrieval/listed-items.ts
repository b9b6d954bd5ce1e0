// A fixed list of items in place of what a model finds: the items are searched by a vector of zeros, which asks nothing
// of a user, among the listed ones alone. So filters, exclusions and attributes are the search's own.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { Candidates } from "../candidates.ts";
import { take } from "../candidates.ts";

/** The listed ids, of those of each list that a request includes. */
export function listedItems(
  listed: Tensor,
  include: readonly Tensor[] | undefined,
): readonly Tensor[] {
  if (include === undefined || include.length === 0) return [listed];
  return include.map((ids) => {
    const wanted = new Set(textsOf(ids));
    const positions = textsOf(listed).flatMap((text, at) => (wanted.has(text) ? [at] : []));
    return take(listed, positions);
  });
}

/**
 * Whether rows of listed items may be missing: an id that stands in several rows of the table takes several places, and
 * of a full list nobody knows what comes behind it.
 */
export function mayLackItems(candidates: Candidates, k: number): boolean {
  const full = candidates.lists.filter(({ positions }) => positions.length >= k);
  if (full.length === 0) return false;
  const ids = textsOf(candidates.ids);
  return full.some(({ positions }) => new Set(positions.map((at) => ids[at]!)).size < k);
}

/** Candidates in the order of the list, each id once; their scores are 0, as nothing is known of the user. */
export function listedFirst(candidates: Candidates, listed: Tensor): Candidates {
  const places = new Map(textsOf(listed).map((text, at) => [text, at]));
  const ids = textsOf(candidates.ids);
  const lists = candidates.lists.map(({ positions }) => {
    const first = new Map<string, number>();
    for (const at of positions) if (!first.has(ids[at]!)) first.set(ids[at]!, at);
    const inOrder = [...first.values()].toSorted(
      (a, b) => places.get(ids[a]!)! - places.get(ids[b]!)!,
    );
    return { positions: inOrder, scores: inOrder.map(() => 0) };
  });
  return { ...candidates, lists };
}

/** Ids as texts that differ where the ids do. */
function textsOf({ data }: Tensor): readonly string[] {
  return data instanceof StringColumn
    ? Array.from({ length: data.length }, (_, at) => Buffer.from(data.at(at)).toString("latin1"))
    : Array.from(data, String);
}
