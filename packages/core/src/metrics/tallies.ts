// Counters and histograms for events that happen several times in every request. prom-client's own check,
// sort and join the labels into a text each time, which takes a microsecond and leaves garbage. Here a series
// is found by its label values directly, counting is an addition, and labels are only written when the page
// is read. A prom-client registry accepts these like its own metrics: it asks for a name, a type and `get()`.

const LABELS_MAX = 3;

/** Where metrics are registered: prom-client's Registry is one. */
export interface MetricRegister {
  registerMetric(metric: never): void;
}

/** Name, help and labels of a metric. */
export interface TallyDescription {
  readonly name: string;
  readonly help: string;
  /** At most three labels. */
  readonly labelNames?: readonly string[];
  readonly registers: readonly MetricRegister[];
}

type Labels = Readonly<Record<string, string | number>>;

/** One line of the page. */
export interface TallyLine {
  readonly metricName: string;
  readonly labels: Labels;
  readonly value: number;
}

/** What `get()` gives. */
export interface TallyPage {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "histogram";
  readonly aggregator: "sum";
  readonly values: readonly TallyLine[];
}

/** Values of one kind by up to three labels. Without labels there is one value from the beginning. */
class Series<Value> {
  readonly #labelNames: readonly string[];
  readonly #initial: () => Value;
  readonly #values = new Map<string, Map<string, Map<string, Value>>>();

  constructor(labelNames: readonly string[], initial: () => Value) {
    if (labelNames.length > LABELS_MAX) {
      throw new RangeError(`a tally has ${LABELS_MAX} labels at most`);
    }
    this.#labelNames = labelNames;
    this.#initial = initial;
    if (labelNames.length === 0) this.at([]);
  }

  /** The value with these labels, in the order of their names. */
  at(labels: readonly string[]): Value {
    const known = this.#values
      .get(labels[0] ?? "")
      ?.get(labels[1] ?? "")
      ?.get(labels[2] ?? "");
    return known ?? this.#add(labels);
  }

  /** Values of the first label. */
  firsts(): readonly string[] {
    return [...this.#values.keys()];
  }

  /** Ends the values whose first label, or first two, are these. */
  remove(first: string, second?: string): void {
    if (second === undefined) this.#values.delete(first);
    else this.#values.get(first)?.delete(second);
  }

  all(): readonly (readonly [Labels, Value])[] {
    return [...this.#values].flatMap(([first, seconds]) =>
      [...seconds].flatMap(([second, thirds]) =>
        [...thirds].map(([third, value]) => {
          const texts = [first, second, third];
          return [
            Object.fromEntries(this.#labelNames.map((name, at) => [name, texts[at]!])),
            value,
          ] as const;
        }),
      ),
    );
  }

  #add([first = "", second = "", third = ""]: readonly string[]): Value {
    const seconds = this.#values.get(first) ?? new Map<string, Map<string, Value>>();
    const thirds = seconds.get(second) ?? new Map<string, Value>();
    const value = this.#initial();
    this.#values.set(first, seconds.set(second, thirds.set(third, value)));
    return value;
  }
}

/** A number that only grows. */
export class TalliedCounter {
  readonly name: string;
  readonly help: string;
  readonly type = "counter";
  readonly #series: Series<{ count: number }>;

  constructor({ name, help, labelNames = [], registers }: TallyDescription) {
    this.name = name;
    this.help = help;
    this.#series = new Series(labelNames, () => ({ count: 0 }));
    for (const register of registers) register.registerMetric(this as never);
  }

  /** Adds to the series with these label values, in the order of the names. */
  add(amount: number, ...labels: readonly string[]): void {
    this.#series.at(labels).count += amount;
  }

  /** The values that the first label has in its series. */
  firsts(): readonly string[] {
    return this.#series.firsts();
  }

  /** Ends the series whose first label, or first two, have these values. */
  remove(first: string, second?: string): void {
    this.#series.remove(first, second);
  }

  /** @internal called by the registry */
  get(): Promise<TallyPage> {
    const { name, help, type } = this;
    const values = this.#series
      .all()
      .map(([labels, { count }]) => ({ metricName: name, labels, value: count }));
    return Promise.resolve({ name, help, type, aggregator: "sum", values });
  }
}

interface Distribution {
  /** Number of values up to each bound and above the one before; last, those above all bounds. */
  readonly counts: Float64Array;
  sum: number;
}

/** A distribution of values over ranges. */
export class TalliedHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = "histogram";
  /** Ascending. */
  readonly #bounds: readonly number[];
  readonly #series: Series<Distribution>;

  constructor(about: TallyDescription & { readonly buckets: readonly number[] }) {
    const { name, help, labelNames = [], registers, buckets } = about;
    this.name = name;
    this.help = help;
    this.#bounds = buckets;
    const initial = () => ({ counts: new Float64Array(buckets.length + 1), sum: 0 });
    this.#series = new Series(labelNames, initial);
    for (const register of registers) register.registerMetric(this as never);
  }

  /** Notes a value in the series with these label values, in the order of the names. */
  observe(value: number, ...labels: readonly string[]): void {
    const distribution = this.#series.at(labels);
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at += 1;
    distribution.counts[at]! += 1;
    distribution.sum += value;
  }

  /** The values that the first label has in its series. */
  firsts(): readonly string[] {
    return this.#series.firsts();
  }

  /** Ends the series whose first label, or first two, have these values. */
  remove(first: string, second?: string): void {
    this.#series.remove(first, second);
  }

  /** @internal called by the registry */
  get(): Promise<TallyPage> {
    const { name, help, type } = this;
    const values = this.#series.all().flatMap(([labels, each]) => this.#lines(labels, each));
    return Promise.resolve({ name, help, type, aggregator: "sum", values });
  }

  #lines(labels: Labels, { counts, sum }: Distribution): TallyLine[] {
    let count = 0;
    const lines = Array.from(counts, (own, at): TallyLine => {
      count += own;
      const le = this.#bounds[at] ?? "+Inf";
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...lines,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}
