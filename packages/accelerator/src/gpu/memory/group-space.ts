// Which groups of a slab are free: an ascending list of spans that neither touch nor overlap.
// Groups are taken from as few spans as possible and given back one span at a time.

/** Consecutive groups of a slab. */
export interface Span {
  readonly first: number;
  /** From 1. */
  readonly groups: number;
}

/** The groups taken, ascending, and the groups that remain free. */
export interface TakenGroups {
  readonly taken: readonly Span[];
  readonly free: readonly Span[];
}

/** Number of groups in the spans. */
export function groupsIn(spans: readonly Span[]): number {
  return spans.reduce((sum, { groups }) => sum + groups, 0);
}

/** Takes `count` groups, or all if there are fewer: the smallest span that suffices, else the largest. */
export function takeGroups(free: readonly Span[], count: number): TakenGroups {
  const taken: Span[] = [];
  let left = [...free];
  let missing = Math.min(count, groupsIn(free));
  while (missing > 0) {
    const source = bestSpan(left, missing);
    const groups = Math.min(source.groups, missing);
    taken.push({ first: source.first, groups });
    const rest = { first: source.first + groups, groups: source.groups - groups };
    left = left.flatMap((span) => (span !== source ? [span] : rest.groups > 0 ? [rest] : []));
    missing -= groups;
  }
  return { taken: taken.toSorted(byFirst), free: left };
}

/** The smallest span of at least `groups`, or the largest. */
function bestSpan(spans: readonly Span[], groups: number): Span {
  return spans.reduce((best, span) => {
    const [suffices, bestSuffices] = [span.groups >= groups, best.groups >= groups];
    if (suffices !== bestSuffices) return suffices ? span : best;
    return suffices === span.groups < best.groups ? span : best;
  });
}

/** The free spans with one more. @throws RangeError if a part of it is already free */
export function withSpan(free: readonly Span[], span: Span): readonly Span[] {
  const joined: Span[] = [];
  for (const next of [...free, span].toSorted(byFirst)) {
    const last = joined.at(-1);
    const end = last === undefined ? -1 : last.first + last.groups;
    if (next.first < end) throw new RangeError(`groups from ${next.first} on are free already`);
    if (last === undefined || next.first > end) joined.push(next);
    else joined[joined.length - 1] = { first: last.first, groups: last.groups + next.groups };
  }
  return joined;
}

function byFirst(one: Span, other: Span): number {
  return one.first - other.first;
}
