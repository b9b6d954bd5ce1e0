// Metrics that are read off something whenever the page is asked for: nothing is counted between two looks, so
// a page cannot disagree with the state that it tells of. A registry of prom-client takes them in as its own kind.

import type { MetricRegister } from "./tallies.ts";

/** One series as it is now. */
export interface MetricSeries {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric, and how its series are read off a `Subject`. */
export interface ReadMetric<Subject> {
  readonly name: string;
  readonly help: string;
  /** Default "gauge". */
  readonly type?: "gauge" | "counter";
  /** A metric without labels is 0 while there is no subject; one with labels has no series then. */
  readonly labelNames?: readonly string[];
  readonly read: (subject: Subject) => readonly MetricSeries[];
}

/** What `get()` gives. */
interface MetricPage {
  readonly name: string;
  readonly help: string;
  readonly type: "gauge" | "counter";
  readonly aggregator: "sum";
  readonly values: readonly MetricSeries[];
}

/** Registers metrics; a series that `read` no longer gives disappears from the page. */
export function addReadMetrics<Subject>(
  register: MetricRegister,
  metrics: readonly ReadMetric<Subject>[],
  subject: () => Subject | undefined,
): void {
  for (const { name, help, type = "gauge", labelNames = [], read } of metrics) {
    const unread = labelNames.length === 0 ? [{ value: 0 }] : [];
    const get = (): Promise<MetricPage> => {
      const now = subject();
      const values = now === undefined ? unread : withoutRepeats(read(now));
      return Promise.resolve({ name, help, type, aggregator: "sum", values });
    };
    register.registerMetric({ name, help, type, get } as never);
  }
}

/** Of series with the same labels the last one counts: Prometheus refuses a page that has a series twice. */
function withoutRepeats(series: readonly MetricSeries[]): readonly MetricSeries[] {
  const byLabels = new Map(
    series.map((each) => [JSON.stringify(Object.values(each.labels ?? {})), each]),
  );
  return [...byLabels.values()];
}
