// docs/metrics.md as a table: every metric with its type, its labels and the words that explain it. It is
// what expressions and live pages are held against; test/metrics.test.ts holds it against the code.

import { readTracked } from "./tracked-files.ts";

/** One row of docs/metrics.md. */
export interface DocumentedMetric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** What the row says. */
  readonly tells: string;
}

/** The page. */
const metricsDocument: string = readTracked("docs/metrics.md");

const [, sharing = "", router = "", worker = ""] =
  /## Routers that share their ports\n(.*)## Router\n(.*)## Worker\n(.*)## What/s.exec(
    metricsDocument,
  ) ?? [];
const ROW = /^\| `([^`{]+)(?:\{([^}]*)\})?` +\| (counter|gauge|histogram) +\| (.*) \|$/gm;

/** Metrics by role, as the document lists them. */
export const documentedMetrics: Readonly<Record<"router" | "worker", readonly DocumentedMetric[]>> =
  { router: rows(router), worker: rows(worker) };

/** What a page of several routers that share their ports has beside the metrics of each. */
export const sharedPageMetrics: readonly DocumentedMetric[] = rows(sharing);

function rows(section: string): DocumentedMetric[] {
  return Array.from(section.matchAll(ROW), ([, name = "", labels, type, tells = ""]) => ({
    name,
    type: type as DocumentedMetric["type"],
    labels: labels?.split(",") ?? [],
    tells,
  }));
}

/** A metric as queries name it: a histogram's parts lead to the histogram. */
export interface NamedMetric extends DocumentedMetric {
  readonly part: "bucket" | "sum" | "count" | undefined;
}

/** The metric that a name in a query or a page means; both roles' where both have it. */
export function metricNamed(name: string): NamedMetric | undefined {
  const all = [...documentedMetrics.router, ...documentedMetrics.worker, ...sharedPageMetrics];
  const whole = all.find((metric) => metric.name === name);
  if (whole !== undefined) return { ...whole, part: undefined };
  const [, stem, part] = /^(.*)_(bucket|sum|count)$/.exec(name) ?? [];
  const histogram = all.find((metric) => metric.name === stem && metric.type === "histogram");
  return histogram && { ...histogram, part: part as "bucket" | "sum" | "count" };
}
