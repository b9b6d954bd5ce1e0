// The event loop's lag, as a process tells it in its metrics. It is measured by a timer: how late the timer
// fires is the lag. The timer wakes a process that has nothing to do, so it is a slow one; its interval is no
// part of the lag and is taken off.

/** Ms between two looks at the lag. */
export const LAG_TIMER_MS = 200;

/** Metrics of prom-client that tell the interval of the timer along with the lag. */
const NAMES = ["min", "max", "mean", "p50", "p90", "p99"].map(
  (name) => `nodejs_eventloop_lag_${name}_seconds`,
);

interface LagGauge {
  set(labels: object, seconds: number): void;
}

/** Takes the timer's interval off what prom-client's metrics of the lag tell. */
export function takeOffLagTimer(metricOf: (name: string) => unknown): void {
  for (const name of NAMES) {
    const gauge = metricOf(name) as LagGauge | undefined;
    if (gauge === undefined) continue;
    const set = gauge.set.bind(gauge);
    gauge.set = (labels, seconds) => set(labels, Math.max(0, seconds - LAG_TIMER_MS / 1000));
  }
}
