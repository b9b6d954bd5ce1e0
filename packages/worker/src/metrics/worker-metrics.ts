// What a worker tells Prometheus. Events are counted as they happen (`WorkerObserver`); states are
// read from the worker when the page is requested. docs/metrics.md lists every name. A model's name
// may be a label: it comes from a directory or a configuration, never from a request.

import { addMemberMetrics } from "@winnow/cluster";
import type { MemberMetricsOptions } from "@winnow/cluster";
import {
  LAG_TIMER_MS,
  NamedSeries,
  TalliedCounter,
  TalliedHistogram,
  addReadMetrics,
  sharedMaking,
  takeOffLagTimer,
} from "@winnow/core";
import type { Clock, MetricRegister, MetricSeries, ReadMetric } from "@winnow/core";
import type { CacheTallies } from "@winnow/model";
import { Registry, collectDefaultMetrics } from "prom-client";

import type { WorkerObserver, WorkerStatus } from "../worker-observer.ts";
import { queryRecorder } from "./query-metrics.ts";
import { STATUS_GAUGES } from "./status-gauges.ts";

/** The state of a worker that the metrics page reads. */
interface WatchedWorker {
  status(): WorkerStatus;
}

/** The metrics of one process. */
export interface WorkerMetrics {
  readonly observer: WorkerObserver;
  /** Adds this worker's state to the page. */
  watch(worker: WatchedWorker): void;
  /** The page, in Prometheus' text format. */
  text(): Promise<string>;
}

/** Sources of the metrics. */
export interface MetricsOptions extends MemberMetricsOptions {
  readonly clock: Clock;
  /** Also memory, garbage collection and event loop of the process. Default true. */
  readonly processMetrics?: boolean;
  /** The cache of models in object stores, where there is one. */
  readonly modelCache?: CacheSource | undefined;
}

interface CacheSource {
  readonly bytesMax: number;
  readonly tallies: () => CacheTallies;
}

const LOAD_SECONDS_BUCKETS = [0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800];

/** Makes empty metrics. */
export function createWorkerMetrics(options: MetricsOptions): WorkerMetrics {
  const registry = new Registry();
  if (options.processMetrics ?? true) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_TIMER_MS });
    takeOffLagTimer((name) => registry.getSingleMetric(name));
  }
  let watched: WatchedWorker | undefined;
  const models = new NamedSeries();
  addMemberMetrics(registry, options);
  addReadMetrics(registry, CACHE_METRICS, () => options.modelCache);
  addReadMetrics(registry, STATUS_GAUGES, () => watched?.status());
  return {
    observer: { ...queryRecorder(registry, options.clock), ...loadRecorder([registry, models]) },
    watch: (worker) => {
      watched = worker;
    },
    text: sharedMaking(() => {
      const versions = watched?.status().announcement.versions;
      if (versions !== undefined) {
        const held = new Set(versions.map(({ model }) => model));
        models.endGone((name) => held.has(name));
      }
      return registry.metrics();
    }),
  };
}

function loadRecorder(
  registers: readonly MetricRegister[],
): Pick<WorkerObserver, "assignmentLoaded" | "loadFailed"> {
  const durations = new TalliedHistogram({
    name: "winnow_model_load_duration_seconds",
    help: "Time from opening a version until the worker's assignment of it is loaded",
    labelNames: ["model"],
    buckets: LOAD_SECONDS_BUCKETS,
    registers,
  });
  const failures = new TalliedCounter({
    name: "winnow_model_load_failures_total",
    help: "Versions, or partitions of them, that could not be loaded",
    labelNames: ["model", "code"],
    registers,
  });
  return {
    assignmentLoaded: ({ model, elapsedMs }) => durations.observe(elapsedMs / 1000, model),
    loadFailed: ({ model, code }) => failures.add(1, model, code),
  };
}

const CACHE_METRICS: readonly ReadMetric<CacheSource>[] = [
  {
    name: "winnow_worker_model_cache_reads_total",
    help: "Ranges of objects that were read, by where they came from",
    type: "counter",
    labelNames: ["from"],
    read: (cache) => byOrigin(cache, ({ reads }) => reads),
  },
  {
    name: "winnow_worker_model_cache_read_bytes_total",
    help: "Bytes of objects that were read, by where they came from",
    type: "counter",
    labelNames: ["from"],
    read: (cache) => byOrigin(cache, ({ bytes }) => bytes),
  },
  {
    name: "winnow_worker_model_cache_bytes",
    help: "Bytes that the directory of the model cache holds, as seen last, and may hold",
    labelNames: ["kind"],
    read: ({ tallies, bytesMax }) => [
      { labels: { kind: "used" }, value: tallies().heldBytes },
      { labels: { kind: "capacity" }, value: bytesMax },
    ],
  },
];

function byOrigin(
  { tallies }: CacheSource,
  valueOf: (side: CacheTallies["fromCache"]) => number,
): MetricSeries[] {
  const { fromCache, fromStore } = tallies();
  return [
    { labels: { from: "cache" }, value: valueOf(fromCache) },
    { labels: { from: "store" }, value: valueOf(fromStore) },
  ];
}
