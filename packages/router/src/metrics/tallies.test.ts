// Tallies beside prom-client's own counters and histograms, whose page they must write.

import fc from "fast-check";
import { TalliedCounter, TalliedHistogram } from "@winnow/core";
import { Counter, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";

const BUCKETS = [0.5, 1, 2.5];
const NAMES = ["one", "two", "three"];

/** Labels that need escapes and that are empty, and values on bounds, between and beyond them. */
const noted = fc.record({
  labels: fc.tuple(
    fc.constantFrom("a", 'b"\n\\', ""),
    fc.constantFrom("c", "d"),
    fc.constantFrom("e", "f"),
  ),
  value: fc.constantFrom(0, 0.5, 0.7, 1, 2, 2.5, 3, 1e9),
});

test("tallies write the page that prom-client's own metrics write", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(noted), fc.nat(3), async (all, labelCount) => {
      const labelNames = NAMES.slice(0, labelCount);
      const [tallied, own] = [new Registry(), new Registry()];
      const about = { name: "things", help: "Things", labelNames };
      const times = { name: "times", help: "Times", labelNames, buckets: BUCKETS };
      const counter = new TalliedCounter({ ...about, registers: [tallied] });
      const histogram = new TalliedHistogram({ ...times, registers: [tallied] });
      const ownCounter = new Counter({ ...about, registers: [own] });
      const ownHistogram = new Histogram({ ...times, registers: [own] });

      for (const { labels, value } of all) {
        const texts = labels.slice(0, labelCount);
        const named = Object.fromEntries(labelNames.map((name, at) => [name, texts[at]!]));
        counter.add(value, ...texts);
        histogram.observe(value, ...texts);
        ownCounter.inc(named, value);
        ownHistogram.observe(named, value);
      }

      expect(linesOf(await tallied.metrics())).toEqual(linesOf(await own.metrics()));
    }),
  );
});

test("a tally of more than three labels is refused", () => {
  const about = { name: "things", help: "Things", labelNames: ["a", "b", "c", "d"], registers: [] };

  expect(() => new TalliedCounter(about)).toThrow("3 labels at most");
});

/** Series come in the order in which they were met, of which nothing depends. */
function linesOf(page: string): readonly string[] {
  return page.split("\n").toSorted();
}
