// docs/metrics.md and the metrics pages say the same: every name and type, in both directions. What
// a real worker's page says while it serves is in test/cluster/worker-metrics.test.ts.

import { readFileSync } from "node:fs";
import path from "node:path";
import { createMetrics } from "@winnow/router";
import { createWorkerMetrics } from "@winnow/worker";
import { systemClock } from "@winnow/core";
import { expect, test } from "vitest";

const document = readFileSync(path.resolve(import.meta.dirname, "../docs/metrics.md"), "utf8");
const [, router = "", worker = ""] = /## Router\n(.*)## Worker\n(.*)## What/s.exec(document) ?? [];
const ROW = /^\| `(?<name>[^`{]+)[^`]*` +\| (?<type>counter|gauge|histogram) +\|/gm;

/** `name type` of every metric that the document's section lists. */
const documented = (section: string): string[] =>
  Array.from(section.matchAll(ROW), ({ groups }) => `${groups?.["name"]} ${groups?.["type"]}`);

/** The same of a page. */
const shown = (page: string): string[] =>
  Array.from(page.matchAll(/^# TYPE (.*)$/gm), ([, type = ""]) => type);

const options = { version: "1.2.3", clock: systemClock, processMetrics: false };

test.each([
  ["router", router, () => createMetrics(options).text()],
  ["worker", worker, () => createWorkerMetrics(options).text()],
])("docs/metrics.md lists the metrics of a %s, and no others", async (_role, section, text) => {
  expect(documented(section).toSorted()).toEqual(shown(await text()).toSorted());
});

test("docs/metrics.md advises on metrics that exist", () => {
  const advised = document.slice(document.indexOf("## What to watch")).match(/winnow_\w+/g) ?? [];

  const known = new Set([router, worker].flatMap(documented).map((each) => each.split(" ")[0]));

  expect(advised.length).toBeGreaterThan(4);
  expect(advised.filter((name) => !known.has(name))).toEqual([]);
});
