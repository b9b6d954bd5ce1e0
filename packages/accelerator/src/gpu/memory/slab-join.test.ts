// However partitions come and go, few slabs remain, no hole stays while there is memory to close
// it, and no byte is copied often.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planJoin } from "./slab-join.ts";
import type { JoinLimits, SlabFill } from "./slab-join.ts";

const AMPLE = { slabGroupsMax: 1000, spareGroups: Infinity };
const full = (live: number): SlabFill => ({ groups: live, live });

/** Joins until no join is planned; counts the groups that are copied. */
function joined(
  slabs: readonly SlabFill[],
  limits: JoinLimits,
): { readonly slabs: readonly SlabFill[]; readonly copied: number } {
  let copied = 0;
  let left = [...slabs];
  for (;;) {
    const members = planJoin(left, limits);
    if (members.length === 0) return { slabs: left, copied };
    const live = members.reduce((sum, member) => sum + member.live, 0);
    expect(live).toBeLessThanOrEqual(Math.min(limits.slabGroupsMax, limits.spareGroups));
    left = [...left.filter((slab) => !members.includes(slab)), full(live)];
    copied += live;
  }
}

describe("a join of slabs", () => {
  test("of equal size makes one", () => {
    expect(joined([full(5), full(5), full(5)], AMPLE).slabs).toEqual([full(15)]);
  });

  test("closes the holes of one slab", () => {
    const slabs = [{ groups: 10, live: 9 }, full(1)];

    expect(joined(slabs, { ...AMPLE, slabGroupsMax: 9 }).slabs).toEqual([full(1), full(9)]);
  });

  test("waits until there is memory for a copy", () => {
    const slabs = [{ groups: 10, live: 9 }, full(7)];

    expect(planJoin(slabs, { ...AMPLE, spareGroups: 6 })).toEqual([]);
    expect(planJoin(slabs, { ...AMPLE, spareGroups: 9 })).toEqual([slabs[0]]);
  });

  test("leaves large slabs alone that a small one would hardly enlarge", () => {
    expect(planJoin([full(100), full(24)], AMPLE)).toEqual([]);
    expect(planJoin([full(100), full(25)], AMPLE)).toHaveLength(2);
    expect(planJoin([full(999), full(2)], AMPLE)).toEqual([]);
  });

  test("always ends, loses nothing and leaves no hole", () => {
    const slab = fc
      .record({ groups: fc.integer({ min: 1, max: 1000 }), part: fc.double({ min: 0.01, max: 1 }) })
      .map(({ groups, part }) => ({ groups, live: Math.ceil(groups * Math.min(1, part || 1)) }));
    fc.assert(
      fc.property(fc.array(slab, { maxLength: 40 }), (slabs) => {
        const live = slabs.reduce((sum, each) => sum + each.live, 0);

        const { slabs: left } = joined(slabs, AMPLE);

        expect(left.reduce((sum, each) => sum + each.live, 0)).toBe(live);
        expect(left.every((each) => each.groups === each.live)).toBe(true);
      }),
    );
  });

  test("keeps slabs few and copies rare while partitions are loaded one by one", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 200 }),
        (partitions) => {
          let slabs: readonly SlabFill[] = [];
          let copied = 0;
          for (const live of partitions) {
            const after = joined([...slabs, full(live)], AMPLE);
            slabs = after.slabs;
            copied += after.copied;
          }
          const total = partitions.reduce((sum, live) => sum + live, 0);

          // Of two slabs next in size, one is over 4 times the other, or both exceed a slab.
          expect(slabs.length).toBeLessThanOrEqual(2 * (total / 1000) + 6);
          expect(copied).toBeLessThanOrEqual(total * 5 * Math.log2(2 * 1000));
        },
      ),
    );
  });
});
