// The lag of the event loop in the metrics of a process. It is measured by a timer: the lag is how late the
// timer fires. The timer wakes an idle process, so it is slow; its interval is subtracted, because it is no
// part of the lag.

/** Ms between two measurements. */
export const LAG_TIMER_MS = 500;

/** prom-client's metrics that contain the timer's interval. */
const NAMES = ["min", "max", "mean", "p50", "p90", "p99"].map(
  (name) => `nodejs_eventloop_lag_${name}_seconds`,
);

interface LagGauge {
  set(labels: object, seconds: number): void;
}

/** Subtracts the timer's interval from prom-client's metrics of the lag. */
export function takeOffLagTimer(metricOf: (name: string) => unknown): void {
  for (const name of NAMES) {
    const gauge = metricOf(name) as LagGauge | undefined;
    if (gauge === undefined) continue;
    const set = gauge.set.bind(gauge);
    gauge.set = (labels, seconds) => set(labels, Math.max(0, seconds - LAG_TIMER_MS / 1000));
  }
}
