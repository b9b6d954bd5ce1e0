// Metrics that are read from a state whenever the page is requested: nothing is counted in between, so the
// page cannot disagree with the state. A prom-client registry accepts them like its own metrics.

import type { MetricRegister } from "./tallies.ts";

/** One series as of now. */
export interface MetricSeries {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric, and how its series are read from a `Subject`. */
export interface ReadMetric<Subject> {
  readonly name: string;
  readonly help: string;
  /** Default "gauge". */
  readonly type?: "gauge" | "counter";
  /** Without a subject, a metric without labels is 0, and one with labels has no series. */
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

/** Registers metrics. A series that `read` no longer gives disappears from the page. */
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

/** Of several series with the same labels the last one is kept: Prometheus refuses a page that has one twice. */
function withoutRepeats(series: readonly MetricSeries[]): readonly MetricSeries[] {
  const byLabels = new Map(
    series.map((each) => [JSON.stringify(Object.values(each.labels ?? {})), each]),
  );
  return [...byLabels.values()];
}
