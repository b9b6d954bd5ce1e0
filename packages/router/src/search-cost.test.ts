// What searches are reckoned at, and that no frame is larger than it may be.

import fc from "fast-check";
import { expect, test } from "vitest";
import { resolveRouterOptions } from "./router-settings.ts";
import { frameQueriesOf, searchCost } from "./search-cost.ts";

const settings = resolveRouterOptions();

test("a query vector counts for one row where nothing but their number fills a frame", () => {
  expect(searchCost(1, { dim: 64, k: 10 }, settings)).toBe(1);
  expect(searchCost(4096, { dim: 64, k: 10 }, settings)).toBe(4096);
});

test("a full frame counts the same whatever fills it, and keeps every bound", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4096 }), fc.integer({ min: 1, max: 4096 }), (dim, k) => {
      const queries = frameQueriesOf({ dim, k }, settings);

      expect(queries * k).toBeLessThanOrEqual(Math.max(k, settings.frameCandidatesMax));
      expect(queries * dim * 4).toBeLessThanOrEqual(Math.max(dim * 4, settings.frameBytesMax));
      expect(searchCost(queries, { dim, k }, settings)).toBe(settings.frameQueriesMax);
    }),
  );
});
