// Which slabs of a pool to join into one. Few large slabs mean few dispatches, and a copy of only
// the live groups leaves no holes. Partitions come and go one by one, so a slab joins others only
// where these make it grow by a quarter: a byte is then copied a few times in its life, however
// many loads follow.

/** What a slab holds. */
export interface SlabFill {
  /** Groups that fit into it. */
  readonly groups: number;
  /** Groups that hold rows. */
  readonly live: number;
}

/** What limits a join, in groups. */
export interface JoinLimits {
  /** Groups of one slab at most. */
  readonly slabGroupsMax: number;
  /**
   * Groups for which there is memory, since old and new slabs exist side by side until a join ends.
   */
  readonly spareGroups: number;
}

/** A slab may be this many times as large as all smaller ones that join it. */
const GROWTH = 4;

/** Slabs whose content is to move into one new slab of that exact size; empty if there are none. */
export function planJoin<Slab extends SlabFill>(
  slabs: readonly Slab[],
  { slabGroupsMax, spareGroups }: JoinLimits,
): readonly Slab[] {
  const groupsMax = Math.min(slabGroupsMax, spareGroups);
  const ascending = slabs.toSorted((one, other) => one.live - other.live);
  for (let first = 0; first < ascending.length; first += 1) {
    let groups = ascending[first]!.live;
    let end = first + 1;
    while (end < ascending.length) {
      const next = ascending[end]!.live;
      if (groups + next > groupsMax || next > GROWTH * groups) break;
      groups += next;
      end += 1;
    }
    if (end - first > 1) return ascending.slice(first, end);
  }
  const holed = ascending.filter(({ groups, live }) => live < groups && live <= groupsMax);
  return holed.slice(-1);
}
