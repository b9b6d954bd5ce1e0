// What a worker tells Prometheus. Events are counted as they happen (`WorkerObserver`); states are
// read from the worker when the page is requested. docs/metrics.md lists every name. A model's name
// may be a label: it comes from a directory or a configuration, never from a request.

import type { RefusalCounts, TlsStatus } from "@winnow/cluster";
import { LAG_TIMER_MS, takeOffLagTimer } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { CacheTallies } from "@winnow/model";
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";

import type { WorkerObserver, WorkerStatus } from "../worker-observer.ts";
import { queryRecorder } from "./query-metrics.ts";
import { addStatusGauges } from "./status-gauges.ts";

/** The state of a worker that the metrics page reads. */
interface WatchedWorker {
  status(): WorkerStatus;
}

/** The metrics of one process. */
export interface WorkerMetrics {
  readonly observer: WorkerObserver;
  /** From now on the page tells of this worker too. */
  watch(worker: WatchedWorker): void;
  /** The page, in Prometheus' text format. */
  text(): Promise<string>;
}

/** Sources of the metrics. */
export interface MetricsOptions {
  readonly clock: Clock;
  /** Winnow's version, for `winnow_build_info`. */
  readonly version: string;
  /** Also memory, garbage collection and event loop of the process. Default true. */
  readonly processMetrics?: boolean;
  /** Records of the store and answers of peers that were refused, by reason. */
  readonly refusals?: () => RefusalCounts;
  /** The certificates of this process, and how long they last. */
  readonly tls?: () => readonly TlsStatus[];
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
  const status = (): WorkerStatus | undefined => watched?.status();
  addBuildInfo(registry, options.version);
  addRefusals(registry, options.refusals);
  addCertificates(registry, options.tls);
  addModelCache(registry, options.modelCache);
  addStatusGauges(registry, status);
  return {
    observer: { ...queryRecorder(registry, options.clock), ...loadRecorder(registry) },
    watch: (worker) => {
      watched = worker;
    },
    text: () => registry.metrics(),
  };
}

function loadRecorder(registry: Registry): Pick<WorkerObserver, "assignmentLoaded" | "loadFailed"> {
  const registers = [registry];
  const durations = new Histogram({
    name: "winnow_model_load_duration_seconds",
    help: "Time from opening a version until the worker's assignment of it is loaded",
    labelNames: ["model"],
    buckets: LOAD_SECONDS_BUCKETS,
    registers,
  });
  const failures = new Counter({
    name: "winnow_model_load_failures_total",
    help: "Versions, or partitions of them, that could not be loaded",
    labelNames: ["model", "code"],
    registers,
  });
  return {
    assignmentLoaded: ({ model, elapsedMs }) => durations.observe({ model }, elapsedMs / 1000),
    loadFailed: ({ model, code }) => failures.inc({ model, code }),
  };
}

function addBuildInfo(registry: Registry, version: string): void {
  const info = new Gauge({
    name: "winnow_build_info",
    help: "1, with the version of Winnow",
    labelNames: ["version"],
    registers: [registry],
  });
  info.set({ version }, 1);
}

function addRefusals(registry: Registry, refusals: (() => RefusalCounts) | undefined): void {
  const counter = new Counter({
    name: "winnow_refused_records_total",
    help: "Records of the store and answers of peers that were not believed",
    labelNames: ["reason"],
    registers: [registry],
    collect() {
      counter.reset();
      for (const [reason, count] of Object.entries(refusals?.() ?? {}))
        counter.inc({ reason }, count);
    },
  });
}

function addModelCache(registry: Registry, cache: CacheSource | undefined): void {
  const addCounter = (
    about: { name: string; help: string },
    read: (side: CacheTallies["fromCache"]) => number,
  ): void => {
    const counter = new Counter({
      ...about,
      labelNames: ["from"],
      registers: [registry],
      collect() {
        counter.reset();
        if (cache === undefined) return;
        const { fromCache, fromStore } = cache.tallies();
        counter.inc({ from: "cache" }, read(fromCache));
        counter.inc({ from: "store" }, read(fromStore));
      },
    });
  };
  addCounter(
    {
      name: "winnow_worker_model_cache_reads_total",
      help: "Ranges of objects that were read, by where they came from",
    },
    ({ reads }) => reads,
  );
  addCounter(
    {
      name: "winnow_worker_model_cache_read_bytes_total",
      help: "Bytes of objects that were read, by where they came from",
    },
    ({ bytes }) => bytes,
  );
  const held = new Gauge({
    name: "winnow_worker_model_cache_bytes",
    help: "Bytes that the directory of the model cache holds, as seen last, and may hold",
    labelNames: ["kind"],
    registers: [registry],
    collect() {
      if (cache === undefined) return;
      held.set({ kind: "used" }, cache.tallies().heldBytes);
      held.set({ kind: "capacity" }, cache.bytesMax);
    },
  });
}

function addCertificates(registry: Registry, tls: (() => readonly TlsStatus[]) | undefined): void {
  const add = (
    about: { name: string; help: string },
    read: (status: TlsStatus) => number | undefined,
  ): void => {
    const gauge = new Gauge({
      ...about,
      labelNames: ["use"],
      registers: [registry],
      collect() {
        gauge.reset();
        for (const status of tls?.() ?? []) {
          const value = read(status);
          if (value !== undefined) gauge.set({ use: status.use }, value);
        }
      },
    });
  };
  add(
    { name: "winnow_tls_certificate_expiry_timestamp_seconds", help: "When the certificate ends" },
    ({ expiresMs }) => (expiresMs === undefined ? undefined : expiresMs / 1000),
  );
  add(
    { name: "winnow_tls_files_refused", help: "1 while files hold other certificates, refused" },
    ({ isRefused }) => Number(isRefused),
  );
}
