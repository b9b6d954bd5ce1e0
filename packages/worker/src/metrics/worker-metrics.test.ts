// What the metrics page says after known events.

import { fingerprint, incarnation, workerId } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { expect, test, vi } from "vitest";

import type { WorkerStatus } from "../worker-observer.ts";
import { createWorkerMetrics } from "./worker-metrics.ts";

const SCAN = { kind: "topK", queries: 3, rows: 10, rowsScanned: 700 } as const;

function measured() {
  const clock = new ManualClock();
  const metrics = createWorkerMetrics({ clock, version: "1.2.3", processMetrics: false });
  return { clock, metrics, observer: metrics.observer };
}

test("what the cache of models found and fetched is told where there is a cache", async () => {
  const tallies = {
    fromCache: { reads: 3, bytes: 300 },
    fromStore: { reads: 1, bytes: 50 },
    heldBytes: 350,
  };
  const modelCache = { bytesMax: 1000, tallies: () => tallies };
  const options = { clock: new ManualClock(), version: "1.2.3", processMetrics: false };
  const page = await createWorkerMetrics({ ...options, modelCache }).text();
  const without = await createWorkerMetrics(options).text();

  for (const line of [
    'winnow_worker_model_cache_reads_total{from="cache"} 3',
    'winnow_worker_model_cache_reads_total{from="store"} 1',
    'winnow_worker_model_cache_read_bytes_total{from="cache"} 300',
    'winnow_worker_model_cache_read_bytes_total{from="store"} 50',
    'winnow_worker_model_cache_bytes{kind="used"} 350',
    'winnow_worker_model_cache_bytes{kind="capacity"} 1000',
  ]) {
    expect(page).toContain(`${line}\n`);
  }
  expect(without).not.toMatch(/^winnow_worker_model_cache_.*\{/m);
});

function statusWith(versions: readonly number[]): WorkerStatus {
  return {
    announcement: {
      workerId: workerId("w0"),
      incarnation: incarnation(1),
      address: "127.0.0.1:7600",
      state: "ready",
      accelerator: "cpu",
      device: "AVX2",
      memoryUsedBytes: 300,
      memoryCapacityBytes: 1000,
      versions: versions.map((version, index) => ({
        model: "movies",
        version,
        fingerprint: fingerprint("abc"),
        state: "ready" as const,
        error: undefined,
        tables: [],
        serving: index === 0,
      })),
    },
    askedAccelerator: "gpu",
    queueRows: 7,
    isStalled: false,
    isSuperseded: false,
    assignments: versions.map((version) => ({
      model: "movies",
      version,
      replicas: { loading: 1, ready: 4, retiring: 0, releasing: 0 },
      loadedRatio: 0.8,
      ...(version === 7 && { changes: { file: "updates", vectors: 5, removed: 2 } }),
    })),
    orderNumbers: { known: 4, followed: 3 },
  };
}

test("a page of many models searches no list of all of them for each", async () => {
  const { metrics, observer } = measured();
  const names = Array.from({ length: 200 }, (_, at) => `m${at}`);
  for (const model of names) observer.assignmentLoaded({ model, elapsedMs: 1 });
  const status = statusWith([1]);
  const versions = names.flatMap((model) => {
    const { announcement } = statusWith([1]);
    return announcement.versions.map((each) => Object.assign(each, { model }));
  });
  metrics.watch({
    status: () => ({ ...status, announcement: { ...status.announcement, versions } }),
  });

  const searches = vi.spyOn(Array.prototype, "includes");
  const page = await metrics.text();
  const long = (searches.mock.contexts as unknown[][]).filter(({ length }) => length >= 200);
  searches.mockRestore();

  expect(page).toContain('winnow_model_load_duration_seconds_count{model="m199"} 1');
  expect(long).toHaveLength(0);
});

test("queries are counted by how they end, and their waits measured in seconds", async () => {
  const { metrics, observer } = measured();

  observer.queryEnded({ kind: "topK", end: "OK", queueMs: 20 });
  observer.queryEnded({ kind: "topK", end: "EXPIRED", queueMs: undefined });
  observer.queryEnded({ kind: "lookup", end: "CANCELLED", queueMs: undefined });
  const page = await metrics.text();

  expect(page).toContain('winnow_worker_queries_total{kind="topK",outcome="OK"} 1');
  expect(page).toContain('winnow_worker_queries_total{kind="topK",outcome="EXPIRED"} 1');
  expect(page).toContain('winnow_worker_queries_total{kind="lookup",outcome="CANCELLED"} 1');
  expect(page).toContain('winnow_worker_queue_wait_seconds_sum{kind="topK"} 0.02');
  expect(page).toContain('winnow_worker_queue_wait_seconds_count{kind="topK"} 1');
});

test("waits for company are measured by whether all have come", async () => {
  const { metrics, observer } = measured();

  observer.companyWaited({ ms: 2, haveAllCome: true });
  observer.companyWaited({ ms: 3, haveAllCome: true });
  observer.companyWaited({ ms: 1, haveAllCome: false });
  const page = await metrics.text();

  expect(page).toContain('winnow_worker_company_wait_seconds_sum{outcome="joined"} 0.005');
  expect(page).toContain('winnow_worker_company_wait_seconds_count{outcome="joined"} 2');
  expect(page).toContain('winnow_worker_company_wait_seconds_count{outcome="in_vain"} 1');
});

test("a batch gives its size, its time on the device, and rows scanned if it did not fail", async () => {
  const { metrics, observer } = measured();

  observer.batchStarted(SCAN)(4);
  observer.batchStarted(SCAN)(undefined);
  const page = await metrics.text();

  expect(page).toContain('winnow_worker_batch_rows_sum{kind="topK"} 20');
  expect(page).toContain('winnow_worker_batch_queries_sum{kind="topK"} 6');
  expect(page).toContain("winnow_worker_topk_duration_seconds_sum 0.004");
  expect(page).toContain("winnow_worker_topk_duration_seconds_count 1");
  expect(page).toContain("winnow_worker_rows_scanned_total 700");
});

test("time in which two batches overlap counts once as busy, idle time not at all", async () => {
  const { clock, metrics, observer } = measured();

  const endFirst = observer.batchStarted(SCAN);
  clock.advance(1000);
  const endSecond = observer.batchStarted({ ...SCAN, kind: "lookup" });
  clock.advance(1000);
  endFirst(2000);
  clock.advance(1000);
  endSecond(2000);
  clock.advance(5000);
  observer.batchStarted(SCAN)(0);

  expect(await metrics.text()).toContain("winnow_worker_busy_seconds_total 3");
});

test("loads and failures are told by model", async () => {
  const { metrics, observer } = measured();

  observer.assignmentLoaded({ model: "movies", elapsedMs: 1500 });
  observer.loadFailed({ model: "movies", code: "DATA_LOSS" });
  const page = await metrics.text();

  expect(page).toContain('winnow_model_load_duration_seconds_sum{model="movies"} 1.5');
  expect(page).toContain('winnow_model_load_failures_total{model="movies",code="DATA_LOSS"} 1');
});

test("loads and failures of a model that is gone leave the page after one more", async () => {
  const { metrics, observer } = measured();
  metrics.watch({ status: () => statusWith([1]) });
  for (const model of ["movies", "gone"]) {
    observer.assignmentLoaded({ model, elapsedMs: 1500 });
    observer.loadFailed({ model, code: "DATA_LOSS" });
  }

  const last = await metrics.text();
  const page = await metrics.text();

  expect(last).toContain('winnow_model_load_failures_total{model="gone",code="DATA_LOSS"} 1');
  expect(page).toContain('winnow_model_load_failures_total{model="movies",code="DATA_LOSS"} 1');
  expect(page).toContain('winnow_model_load_duration_seconds_count{model="movies"} 1');
  expect(page).not.toContain("gone");
});

test("the page tells how the watched worker stands, and forgets versions that are gone", async () => {
  const { metrics } = measured();
  let status = statusWith([6, 7]);
  metrics.watch({ status: () => status });

  const before = await metrics.text();
  status = statusWith([7]);
  const after = await metrics.text();

  expect(before).toContain("winnow_worker_queue_rows 7");
  expect(before).toContain('winnow_worker_models_order{kind="known"} 4');
  expect(before).toContain('winnow_worker_models_order{kind="followed"} 3');
  expect(before).toContain('winnow_worker_state{state="ready"} 1');
  expect(before).toContain('winnow_worker_state{state="draining"} 0');
  expect(before).toContain('winnow_worker_replicas{state="ready"} 8');
  expect(before).toContain('winnow_worker_memory_bytes{kind="used"} 300');
  expect(before).toContain(
    'winnow_worker_accelerator_info{kind="cpu",device="AVX2",asked="gpu"} 1',
  );
  expect(before).toContain('winnow_worker_load_ratio{model="movies",version="6"} 0.8');
  expect(before).toContain('winnow_model_version{model="movies"} 6');
  expect(before).not.toContain('winnow_model_changed_items{model="movies",version="6"');
  expect(after).toContain('winnow_model_changed_items{model="movies",version="7",kind="vector"} 5');
  expect(after).toContain(
    'winnow_model_changed_items{model="movies",version="7",kind="removed"} 2',
  );
  expect(after).not.toContain('version="6"');
  expect(after).toContain('winnow_model_version{model="movies"} 7');
});

test("before there is a worker the page tells of the build, and of no state", async () => {
  const { metrics } = measured();

  const page = await metrics.text();

  expect(page).toContain('winnow_build_info{version="1.2.3"} 1');
  expect(page).not.toMatch(/^winnow_worker_state\{/m);
});
