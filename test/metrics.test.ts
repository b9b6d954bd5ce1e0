// docs/metrics.md and the metrics pages say the same: every name and type, in both directions. What
// real pages say while a cluster serves, with labels, is in test/cluster.

import { createMetrics } from "@winnow/router";
import { createWorkerMetrics } from "@winnow/worker";
import { systemClock } from "@winnow/core";
import { expect, test } from "vitest";
import { documentedMetrics } from "./metric-table.ts";

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
