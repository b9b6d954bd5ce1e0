// Metrics that are read off a subject, on a page of prom-client's registry.

import { addReadMetrics } from "@winnow/core";
import type { ReadMetric } from "@winnow/core";
import { Registry } from "prom-client";
import { expect, test } from "vitest";

interface Shelf {
  readonly boxes: number;
  readonly byColour: readonly (readonly [string, number])[];
}

const METRICS: readonly ReadMetric<Shelf>[] = [
  { name: "boxes", help: "Boxes", read: ({ boxes }) => [{ value: boxes }] },
  {
    name: "boxes_total",
    help: "Boxes by colour",
    type: "counter",
    labelNames: ["colour"],
    read: ({ byColour }) => byColour.map(([colour, value]) => ({ labels: { colour }, value })),
  },
];

function pageOf(shelf: () => Shelf | undefined): Registry {
  const registry = new Registry();
  addReadMetrics(registry, METRICS, shelf);
  return registry;
}

test("each page tells of the subject as it is then, and of no series that is gone", async () => {
  let shelf: Shelf = {
    boxes: 3,
    byColour: [
      ["red", 2],
      ['"blue"', 1],
    ],
  };
  const registry = pageOf(() => shelf);
  const first = await registry.metrics();

  shelf = { boxes: 1, byColour: [["red", 1]] };

  expect(first).toContain(
    "boxes 3\n\n# HELP boxes_total Boxes by colour\n# TYPE boxes_total counter\n",
  );
  expect(first).toContain('boxes_total{colour="red"} 2\nboxes_total{colour="\\"blue\\""} 1\n');
  expect(await registry.metrics()).toMatch(/boxes 1\n[^]*boxes_total\{colour="red"\} 1\n$/);
});

test("without a subject a metric without labels is 0, and one with labels has no series", async () => {
  const page = await pageOf(() => undefined).metrics();

  expect(page.match(/^[^#\n].*$/gm)).toEqual(["boxes 0"]);
});

test("of series with the same labels the last one stands on the page, and stands there once", async () => {
  const byColour = [
    ["red", 2],
    ["green", 5],
    ["red", 4],
  ] as const;

  const page = await pageOf(() => ({ boxes: 0, byColour })).metrics();

  expect(page.match(/^boxes_total.*$/gm)).toEqual([
    'boxes_total{colour="red"} 4',
    'boxes_total{colour="green"} 5',
  ]);
});
