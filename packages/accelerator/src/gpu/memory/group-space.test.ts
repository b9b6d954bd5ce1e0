// However groups are taken and given back, none is lost, and none has two owners.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { groupsIn, takeGroups, withSpan } from "./group-space.ts";
import type { Span } from "./group-space.ts";

const SIZE = 60;

/** Each group of spans by its number. */
function groupsOf(spans: readonly Span[]): number[] {
  return spans.flatMap(({ first, groups }) =>
    Array.from({ length: groups }, (_, at) => first + at),
  );
}

describe("groups of a slab", () => {
  test("come from the smallest span that suffices", () => {
    const free = [
      { first: 0, groups: 9 },
      { first: 20, groups: 3 },
      { first: 30, groups: 4 },
    ];

    const { taken, free: left } = takeGroups(free, 3);

    expect(taken).toEqual([{ first: 20, groups: 3 }]);
    expect(left).toEqual([free[0], free[2]]);
  });

  test("come from the largest spans if none suffices, and from all there are at most", () => {
    const free = [
      { first: 0, groups: 2 },
      { first: 20, groups: 3 },
    ];

    expect(takeGroups(free, 4).taken).toEqual([
      { first: 0, groups: 1 },
      { first: 20, groups: 3 },
    ]);
    expect(takeGroups(free, 4).free).toEqual([{ first: 1, groups: 1 }]);
    expect(groupsIn(takeGroups(free, 99).taken)).toBe(5);
    expect(takeGroups([], 1)).toEqual({ taken: [], free: [] });
  });

  test("that are free already cannot be given back", () => {
    const free = [{ first: 4, groups: 4 }];

    expect(() => withSpan(free, { first: 7, groups: 1 })).toThrow(RangeError);
    expect(() => withSpan(free, { first: 3, groups: 2 })).toThrow(RangeError);
    expect(withSpan(free, { first: 8, groups: 1 })).toEqual([{ first: 4, groups: 5 }]);
  });

  test("have one owner or are free, whatever is taken and given back", () => {
    const step = fc.record({ isTaking: fc.boolean(), count: fc.integer({ min: 0, max: 25 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let free: readonly Span[] = [{ first: 0, groups: SIZE }];
        const owned: Span[] = [];
        for (const { isTaking, count } of steps) {
          const wanted = isTaking ? Math.min(count, groupsIn(free)) : 0;
          const { taken, free: left } = takeGroups(free, isTaking ? count : 0);
          expect(groupsIn(taken)).toBe(wanted);
          if (isTaking) {
            owned.push(...taken);
            free = left;
          } else if (owned.length > 0) {
            free = withSpan(free, owned.splice(count % owned.length, 1)[0]!);
          }
          const all = [...groupsOf(free), ...groupsOf(owned)].toSorted((a, b) => a - b);
          expect(all).toEqual(Array.from({ length: SIZE }, (_, group) => group));
          const ends = free.map(({ first, groups }) => first + groups);
          expect(free.slice(1).every(({ first }, at) => first > ends[at]!)).toBe(true);
        }
      }),
    );
  });
});
