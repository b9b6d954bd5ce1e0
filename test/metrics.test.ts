// docs/metrics.md and the metrics pages say the same: every name and type, in both directions. What
// real pages say while a cluster serves, with labels, is in test/cluster.

import { createMetrics } from "@winnow/router";
import { createWorkerMetrics } from "@winnow/worker";
import { systemClock } from "@winnow/core";
import { expect, test } from "vitest";
import { labelledPages } from "../packages/winnow/src/local-cluster/labelled-pages.ts";
import { documentedMetrics, sharedPageMetrics } from "./metric-table.ts";

/** `name type` of every metric that the document lists for a role. */
const documented = (role: "router" | "worker"): string[] =>
  documentedMetrics[role].map(({ name, type }) => `${name} ${type}`);

/** The same of a page. */
const shown = (page: string): string[] =>
  Array.from(page.matchAll(/^# TYPE (.*)$/gm), ([, type = ""]) => type);

const options = { version: "1.2.3", clock: systemClock, processMetrics: false };

test.each([
  ["router" as const, () => createMetrics(options).text()],
  ["worker" as const, () => createWorkerMetrics(options).text()],
])("docs/metrics.md lists the metrics of a %s, and no others", async (role, text) => {
  expect(documented(role).toSorted()).toEqual(shown(await text()).toSorted());
});

test("docs/metrics.md lists what a page of several routers has besides", async () => {
  const text = await createMetrics(options).text();
  const page = labelledPages([{ name: "r0", text }]);
  const besides = sharedPageMetrics.map(({ name, type }) => `${name} ${type}`);

  expect(besides.length).toBeGreaterThan(0);
  expect(shown(page).toSorted()).toEqual([...documented("router"), ...besides].toSorted());
});
