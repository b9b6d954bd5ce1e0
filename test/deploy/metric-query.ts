// What is wrong with a PromQL expression, as far as docs/metrics.md can tell: names and labels that do not
// exist, a rate of something that is no counter, aggregations by labels that their metrics lack. Syntax is
// promtool's matter.

import { codeOfGrpcStatus } from "@winnow/core";
import { type NamedMetric, metricNamed } from "../metric-table.ts";

/** Labels that the Prometheus operator adds to everything it reads from a pod. */
const TARGET_LABELS = ["namespace", "pod", "container", "job", "instance"];
/** Counters whose value itself is of interest: what has happened since the process started. */
const SINCE_START = /^winnow_model_load_/;

/** One use of a metric in an expression. */
export interface MetricUse {
  readonly name: string;
  readonly metric: NamedMetric | undefined;
  /** Label, operator and value of each matcher. */
  readonly matchers: readonly { readonly label: string; readonly value: string }[];
  readonly hasRange: boolean;
}

/** Winnow's metrics in an expression, in order. */
export function metricUses(expression: string): MetricUse[] {
  const uses = expression.matchAll(/\b(winnow_\w+)(?:\{([^}]*)\})?(\[)?/g);
  return Array.from(uses, ([, name = "", matchers = "", range]) => ({
    name,
    metric: metricNamed(name),
    matchers: Array.from(matchers.matchAll(/(\w+)\s*[=!~]{1,2}\s*"([^"]*)"/g), (match) => ({
      label: match[1] ?? "",
      value: match[2] ?? "",
    })),
    hasRange: range !== undefined,
  }));
}

/** Everything that is wrong with an expression. */
export function queryFaults(expression: string): string[] {
  return [
    ...metricUses(expression).flatMap(useFaults),
    ...aggregations(expression).flatMap(aggregationFaults),
  ];
}

function useFaults({ name, metric, matchers, hasRange }: MetricUse): string[] {
  if (metric === undefined) return [`${name} does not exist`];
  const known = labelsOf(metric);
  const strange = matchers.filter(({ label }) => !known.includes(label));
  const faults = strange.map(({ label }) => `${name} has no label ${label}`);
  if (metric.type === "histogram" && metric.part === undefined) {
    faults.push(`${name} is a histogram: only its _bucket, _sum and _count are series`);
  }
  if (metric.type === "gauge" && hasRange) faults.push(`${name} is a gauge and has no rate`);
  if (metric.type !== "gauge" && !hasRange && !SINCE_START.test(name)) {
    faults.push(`${name} only grows: take its rate`);
  }
  return [...faults, ...matchers.flatMap((matcher) => valueFaults(metric, matcher))];
}

/** Labels whose values the document's rows list. */
const LISTED_LABELS = new Set(["state", "outcome"]);
const CODES = new Set([
  "OK",
  ...Array.from({ length: 16 }, (_, code) => codeOfGrpcStatus(code + 1)),
]);

/** Values that a label cannot have. */
function valueFaults(metric: NamedMetric, matcher: MetricUse["matchers"][number]): string[] {
  const { label, value } = matcher;
  if (!LISTED_LABELS.has(label) && label !== "code") return [];
  const known = label === "code" ? CODES : new Set(metric.tells.match(/(?<=`)[^`]+(?=`)/g));
  const strange = value.split("|").filter((each) => !known.has(each));
  return strange.map((each) => `${metric.name} has no ${label} ${each}`);
}

function labelsOf({ labels, part }: NamedMetric): string[] {
  return [...labels, ...TARGET_LABELS, ...(part === "bucket" ? ["le"] : [])];
}

/** An aggregation: the labels it keeps and what it is over. */
interface Aggregation {
  readonly by: readonly string[];
  readonly over: string;
}

/** Every `by (…) (…)` of an expression; parentheses in strings do not occur. */
export function aggregations(expression: string): Aggregation[] {
  return Array.from(expression.matchAll(/\bby \(([^)]*)\) \(/g), (match) => {
    const rest = expression.slice(match.index + match[0].length);
    let depth = 1;
    let end = 0;
    for (; depth > 0 && end < rest.length; end += 1) {
      if (rest[end] === "(") depth += 1;
      if (rest[end] === ")") depth -= 1;
    }
    return { by: (match[1] ?? "").split(/,\s*/), over: rest.slice(0, end - 1) };
  });
}

function aggregationFaults({ by, over }: Aggregation): string[] {
  return metricUses(over).flatMap(({ name, metric }) => {
    const known = metric === undefined ? by : labelsOf(metric);
    const strange = by.filter((label) => !known.includes(label));
    const faults = strange.map((label) => `${name} has no label ${label} to aggregate by`);
    if (metric?.part === "bucket" && !by.includes("le")) faults.push(`${name} loses its le`);
    return faults;
  });
}
