// What searches are reckoned at, and that no slice is larger than it may be.

import fc from "fast-check";
import { expect, test } from "vitest";
import { resolveRouterOptions } from "../router-settings.ts";
import { cutSearch } from "./search-cost.ts";

const settings = resolveRouterOptions();

const searchCost = (queries: number, shape: { dim: number; k: number }): number =>
  cutSearch({ ...shape, queries, listBytes: [] }, settings).reduce(
    (sum, { rows }) => sum + rows,
    0,
  );

test("a query vector counts for one row where nothing but their number fills a slice", () => {
  expect(searchCost(1, { dim: 64, k: 10 })).toBe(1);
  expect(searchCost(4096, { dim: 64, k: 10 })).toBe(4096);
});

test("a full slice counts the same whatever fills it, and keeps every bound", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4096 }), fc.integer({ min: 1, max: 4096 }), (dim, k) => {
      const queries = cutSearch({ queries: 4096, dim, k, listBytes: [] }, settings)[0]!.endRow;

      expect(queries * k).toBeLessThanOrEqual(Math.max(k, settings.sliceCandidatesMax));
      expect(queries * dim * 4).toBeLessThanOrEqual(Math.max(dim * 4, settings.sliceBytesMax));
      expect(searchCost(queries, { dim, k })).toBe(settings.sliceQueriesMax);
    }),
  );
});

test("a list of excluded ids for all queries counts with each slice it goes along with", () => {
  const search = { queries: 600, dim: 4, k: 10, listBytes: [settings.sliceBytesMax / 2] };

  const slices = cutSearch(search, settings);

  expect(slices).toEqual([
    { firstRow: 0, endRow: 256, rows: 256 + 128, idBytes: settings.sliceBytesMax / 2 },
    { firstRow: 256, endRow: 512, rows: 256 + 128, idBytes: settings.sliceBytesMax / 2 },
    { firstRow: 512, endRow: 600, rows: 88 + 128, idBytes: settings.sliceBytesMax / 2 },
  ]);
});

test("shorter slices cost the same, and a long list for all queries makes none", () => {
  const ends = (listBytes: number[]): number[] =>
    cutSearch({ queries: 300, dim: 4, k: 10, listBytes, sliceQueries: 100 }, settings).map(
      ({ endRow }) => endRow,
    );
  const large = { queries: 300, dim: 4, k: settings.sliceCandidatesMax / 64, listBytes: [] };

  expect(ends([])).toEqual([100, 200, 300]);
  expect(ends([100 * 4 * 4])).toEqual([100, 200, 300]);
  expect(ends([100 * 4 * 4 + 1])).toEqual([256, 300]);
  const rows = (sliceQueries: number): number =>
    cutSearch({ ...large, sliceQueries }, settings).reduce((sum, slice) => sum + slice.rows, 0);
  expect([rows(32), rows(64), rows(128)]).toEqual([1200, 1200, 1200]);
});

test("a slice has no more different filters than a request may bring", () => {
  const filtersMax = 3;
  const sliced = (names: string): number[] => {
    const filters = Array.from(names, (text) => ({ text }));
    const search = { queries: names.length, dim: 4, k: 10, listBytes: [], filters };
    return cutSearch(search, { ...settings, filtersMax }).map(({ endRow }) => endRow);
  };

  expect(sliced("abcabcabc")).toEqual([9]);
  expect(sliced("abcdefgaaaa")).toEqual([3, 6, 11]);
  expect(sliced("a")).toEqual([1]);
  const ofAll = { queries: 500, dim: 4, k: 10, listBytes: [9], filters: [{ text: "a" }] };
  expect(cutSearch(ofAll, settings).map(({ endRow }) => endRow)).toEqual([256, 500]);
});

test("lists of single queries travel once, in slices that are not longer for them", () => {
  const lists = fc.array(fc.integer({ min: 0, max: 2 * settings.sliceBytesMax }), { minLength: 2 });
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 1024 }), (listBytes, dim) => {
      const queries = listBytes.length;
      const slices = cutSearch({ queries, dim, k: 10, listBytes }, settings);
      const sum = (of: readonly number[]): number => of.reduce((all, one) => all + one, 0);

      expect(slices.map(({ firstRow }) => firstRow)).toEqual([
        0,
        ...slices.slice(0, -1).map(({ endRow }) => endRow),
      ]);
      expect(slices.at(-1)!.endRow).toBe(queries);
      expect(sum(slices.map(({ idBytes }) => idBytes))).toBe(sum(listBytes));
      for (const { firstRow, endRow, idBytes, rows } of slices) {
        const bytes = idBytes + (endRow - firstRow) * dim * 4;
        expect(endRow - firstRow === 1 || bytes <= settings.sliceBytesMax).toBe(true);
        expect(rows).toBeGreaterThanOrEqual((idBytes / settings.sliceBytesMax) * 256);
      }
    }),
  );
});
