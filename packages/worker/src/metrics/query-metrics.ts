// Metrics of queries and batches: how many, how they end, how long they wait, how large batches
// are, and how long the device works.

import { TalliedCounter, TalliedHistogram } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { Registry } from "prom-client";

import type { QueryKind, WorkerObserver } from "../worker-observer.ts";

const SECONDS_BUCKETS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
const ROWS_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536];
const QUERIES_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128];

/** Counts and measures the queries and batches of both lanes. */
export function queryRecorder(
  registry: Registry,
  clock: Clock,
): Pick<WorkerObserver, "queryEnded" | "companyWaited" | "batchStarted"> {
  const registers = [registry];
  const queries = new TalliedCounter({
    name: "winnow_worker_queries_total",
    help: "Routers' queries by how they ended",
    labelNames: ["kind", "outcome"],
    registers,
  });
  const waits = new TalliedHistogram({
    name: "winnow_worker_queue_wait_seconds",
    help: "Time an answered query waited for the device",
    labelNames: ["kind"],
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const rowsScanned = new TalliedCounter({
    name: "winnow_worker_rows_scanned_total",
    help: "Rows of candidate tables that scans have read, once for each batch",
    registers,
  });
  const companyWaits = new TalliedHistogram({
    name: "winnow_worker_company_wait_seconds",
    help: "Time a batch waited for queries to join it, while the device was idle",
    labelNames: ["outcome"],
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const record = batchRecorder(registry);
  const busy = busyRecorder(registry, clock);
  return {
    queryEnded: ({ kind, end, queueMs }) => {
      queries.add(1, kind, end);
      if (queueMs !== undefined) waits.observe(queueMs / 1000, kind);
    },
    companyWaited: ({ ms, haveAllCome }) => {
      companyWaits.observe(ms / 1000, haveAllCome ? "joined" : "in_vain");
    },
    batchStarted: (batch) => {
      record.rows.observe(batch.rows, batch.kind);
      record.queries.observe(batch.queries, batch.kind);
      busy.start();
      return (computeMs) => {
        busy.end();
        if (computeMs === undefined) return;
        rowsScanned.add(batch.rowsScanned);
        record.seconds[batch.kind].observe(computeMs / 1000);
      };
    },
  };
}

interface BatchHistograms {
  readonly rows: TalliedHistogram;
  readonly queries: TalliedHistogram;
  readonly seconds: Readonly<Record<QueryKind, TalliedHistogram>>;
}

function batchRecorder(registry: Registry): BatchHistograms {
  const registers = [registry];
  return {
    rows: new TalliedHistogram({
      name: "winnow_worker_batch_rows",
      help: "Query vectors, or keys, that go to the device together",
      labelNames: ["kind"],
      buckets: ROWS_BUCKETS,
      registers,
    }),
    queries: new TalliedHistogram({
      name: "winnow_worker_batch_queries",
      help: "Routers' queries that go to the device together",
      labelNames: ["kind"],
      buckets: QUERIES_BUCKETS,
      registers,
    }),
    seconds: {
      topK: new TalliedHistogram({
        name: "winnow_worker_topk_duration_seconds",
        help: "Time of one scan on the device",
        buckets: SECONDS_BUCKETS,
        registers,
      }),
      lookup: new TalliedHistogram({
        name: "winnow_worker_lookup_duration_seconds",
        help: "Time of one gather on the device",
        buckets: SECONDS_BUCKETS,
        registers,
      }),
    },
  };
}

/** Time in which at least one batch was under way: its rate is the device's load, 0…1. */
function busyRecorder(registry: Registry, clock: Clock): { start(): void; end(): void } {
  const seconds = new TalliedCounter({
    name: "winnow_worker_busy_seconds_total",
    help: "Time in which the device had work",
    registers: [registry],
  });
  let running = 0;
  let sinceMs = 0;
  return {
    start: () => {
      if (running === 0) sinceMs = clock.nowMs();
      running += 1;
    },
    end: () => {
      running -= 1;
      if (running === 0) seconds.add((clock.nowMs() - sinceMs) / 1000);
    },
  };
}
