// What searches are reckoned at, and that no frame is larger than it may be.

import fc from "fast-check";
import { expect, test } from "vitest";
import { resolveRouterOptions } from "../router-settings.ts";
import { cutSearch } from "./search-cost.ts";

const settings = resolveRouterOptions();

const searchCost = (queries: number, shape: { dim: number; k: number }): number =>
  cutSearch({ ...shape, queries, excludedBytes: [] }, settings).reduce(
    (sum, { rows }) => sum + rows,
    0,
  );

test("a query vector counts for one row where nothing but their number fills a frame", () => {
  expect(searchCost(1, { dim: 64, k: 10 })).toBe(1);
  expect(searchCost(4096, { dim: 64, k: 10 })).toBe(4096);
});

test("a full frame counts the same whatever fills it, and keeps every bound", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4096 }), fc.integer({ min: 1, max: 4096 }), (dim, k) => {
      const queries = cutSearch({ queries: 4096, dim, k, excludedBytes: [] }, settings)[0]!.endRow;

      expect(queries * k).toBeLessThanOrEqual(Math.max(k, settings.frameCandidatesMax));
      expect(queries * dim * 4).toBeLessThanOrEqual(Math.max(dim * 4, settings.frameBytesMax));
      expect(searchCost(queries, { dim, k })).toBe(settings.frameQueriesMax);
    }),
  );
});

test("a list of excluded ids for all queries counts with each frame it goes along with", () => {
  const search = { queries: 600, dim: 4, k: 10, excludedBytes: [settings.frameBytesMax / 2] };

  const frames = cutSearch(search, settings);

  expect(frames).toEqual([
    { firstRow: 0, endRow: 256, rows: 256 + 128, idBytes: settings.frameBytesMax / 2 },
    { firstRow: 256, endRow: 512, rows: 256 + 128, idBytes: settings.frameBytesMax / 2 },
    { firstRow: 512, endRow: 600, rows: 88 + 128, idBytes: settings.frameBytesMax / 2 },
  ]);
});

test("lists of single queries travel once, in frames that are not longer for them", () => {
  const lists = fc.array(fc.integer({ min: 0, max: 2 * settings.frameBytesMax }), { minLength: 2 });
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 1024 }), (excludedBytes, dim) => {
      const queries = excludedBytes.length;
      const frames = cutSearch({ queries, dim, k: 10, excludedBytes }, settings);
      const sum = (of: readonly number[]): number => of.reduce((all, one) => all + one, 0);

      expect(frames.map(({ firstRow }) => firstRow)).toEqual([
        0,
        ...frames.slice(0, -1).map(({ endRow }) => endRow),
      ]);
      expect(frames.at(-1)!.endRow).toBe(queries);
      expect(sum(frames.map(({ idBytes }) => idBytes))).toBe(sum(excludedBytes));
      for (const { firstRow, endRow, idBytes, rows } of frames) {
        const bytes = idBytes + (endRow - firstRow) * dim * 4;
        expect(endRow - firstRow === 1 || bytes <= settings.frameBytesMax).toBe(true);
        expect(rows).toBeGreaterThanOrEqual((idBytes / settings.frameBytesMax) * 256);
      }
    }),
  );
});
