// What the metrics page says after a few requests.

import { expect, test } from "vitest";
import type { ClusterStatus } from "../workers/cluster-status.ts";
import type { AnsweredRequest } from "../http/http-observer.ts";
import { createMetrics } from "./metrics.ts";

const ANSWERED: AnsweredRequest = {
  requestId: "1",
  version: "3",
  api: "predict",
  model: "movies",
  status: 200,
  code: "OK",
  instances: 3,
  coverage: 1,
  answerBytes: 100,
  elapsedMs: 2,
};
const ROUTER = {
  counters: { requests: 2, questions: 5, rows: 300, waiting: 1 },
  models: () => ["movies"],
  workers: () => [
    { id: "w0", askable: true, trusted: true },
    { id: "w1", askable: true, trusted: false },
    { id: "w2", askable: false, trusted: true },
  ],
  orders: { status: () => ({ number: 7, following: 2, behind: 1 }) },
  clusterStatus: (): ClusterStatus => ({
    generation: 12,
    membershipAgeMs: 1500,
    models: [
      {
        model: "movies",
        version: 3,
        coverage: 0.75,
        partitions: { covered: 4, underreplicated: 2, lost: 2 },
      },
    ],
  }),
};

test("scrapes of one moment are one page, and the next one shows what is then", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  let made = 0;
  const clusterStatus = (): ClusterStatus => {
    made += 1;
    return ROUTER.clusterStatus();
  };
  await metrics.text();
  metrics.watch({ ...ROUTER, clusterStatus });
  const alone = await metrics.text();
  const readOnce = made;

  const crowd = Promise.all(Array.from({ length: 100 }, () => metrics.text()));
  metrics.http.answered(ANSWERED);
  const pages = new Set(await crowd);

  expect([made, pages.size]).toEqual([2 * readOnce, 1]);
  expect(alone).not.toContain("winnow_requests_total{");
  expect([...pages][0]).toContain("winnow_requests_total{");
});

test("the page counts requests under Winnow's names and TensorFlow Serving's", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  metrics.watch(ROUTER);

  metrics.http.answered(ANSWERED);
  metrics.http.answered({ ...ANSWERED, coverage: 0.5 });
  metrics.http.answered({ ...ANSWERED, code: "NOT_FOUND", status: 404, instances: 0 });
  metrics.http.answered({ ...ANSWERED, api: "status", instances: 0 });
  const page = await metrics.text();

  expect(page).toContain('winnow_requests_total{model="movies",kind="predict",code="OK"} 2');
  expect(page).toContain('winnow_requests_total{model="movies",kind="status",code="OK"} 1');
  expect(page).toContain('winnow_instances_total{model="movies"} 6');
  expect(page).toContain('winnow_partial_responses_total{model="movies"} 1');
  expect(page).toMatch(/^# TYPE :tensorflow:serving:request_count counter$/m);
  expect(page).toContain(':tensorflow:serving:request_count{model_name="movies",status="OK"} 2');
  expect(page).toContain(
    ':tensorflow:serving:request_latency_sum{model_name="movies",API="predict",entrypoint="REST"} 4000',
  );
});

test("gRPC calls count beside REST requests, told apart", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  metrics.watch(ROUTER);
  const call = { ...ANSWERED, api: "Predict", requestBytes: 100 };

  metrics.http.answered(ANSWERED);
  metrics.grpc.answered(call);
  metrics.grpc.answered({ ...call, model: "invented", code: "NOT_FOUND", instances: 0 });
  const page = await metrics.text();

  expect(page).toContain('winnow_requests_total{model="movies",kind="grpc:Predict",code="OK"} 1');
  expect(page).toContain('winnow_instances_total{model="movies"} 6');
  expect(page).toContain(':tensorflow:serving:request_count{model_name="movies",status="OK"} 2');
  expect(page).toContain(
    ':tensorflow:serving:request_latency_sum{model_name="movies",API="Predict",entrypoint="GRPC"} 2000',
  );
  expect(page).not.toContain("invented");
});

test("invented model names share one label", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  metrics.watch(ROUTER);

  for (let index = 0; index < 100; index++) {
    metrics.http.answered({ ...ANSWERED, model: `invented-${index}`, code: "NOT_FOUND" });
  }
  const page = await metrics.text();

  expect(page).toContain('model="(unknown)",kind="predict",code="NOT_FOUND"} 100');
  expect(page).not.toContain("invented");
});

test("the page tells of the watched router and its stages", async () => {
  const metrics = createMetrics({ version: "1.2.3" });
  metrics.watch(ROUTER);

  metrics.router.stage?.("topK", 20, "movies");
  metrics.router.secondAttempt?.("hedge", "slow");
  metrics.router.lateReply?.("worker-1");
  metrics.router.refused?.("rows");
  metrics.router.waited?.(50);
  const page = await metrics.text();

  expect(page).toContain("winnow_inflight_requests 2");
  expect(page).toContain("winnow_inflight_questions 5");
  expect(page).toContain("winnow_inflight_rows 300");
  expect(page).toContain("winnow_waiting_slices 1");
  expect(page).toContain('winnow_refused_requests_total{reason="rows"} 1');
  expect(page).toContain("winnow_slice_wait_seconds_sum 0.05");
  expect(page).toContain('winnow_membership_workers{state="suspect"} 1');
  expect(page).toContain('winnow_membership_workers{state="unreachable"} 1');
  expect(page.match(/^winnow_membership_worker\{.*$/gm)).toEqual([
    'winnow_membership_worker{worker="w1",state="suspect"} 1',
    'winnow_membership_worker{worker="w2",state="unreachable"} 1',
  ]);
  expect(page).toContain('winnow_stage_duration_seconds_sum{stage="topK"} 0.02');
  expect(page).toContain('winnow_second_attempts_total{kind="hedge",reason="slow"} 1');
  expect(page).toContain("winnow_late_replies_total 1");
  expect(page).toContain('winnow_build_info{version="1.2.3"} 1');
  expect(page).toContain("nodejs_eventloop_lag_seconds");
});

test("the page tells how the cluster stands, and forgets a model that is gone", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  let clusterStatus = ROUTER.clusterStatus();
  metrics.watch({ ...ROUTER, clusterStatus: () => clusterStatus });

  const page = await metrics.text();
  clusterStatus = { generation: 13, membershipAgeMs: undefined, models: [] };
  const later = await metrics.text();

  expect(page).toContain("winnow_routing_generation 12");
  expect(page).toContain("winnow_membership_age_seconds 1.5");
  expect(page).toContain("winnow_models_order 7");
  expect(page).toContain('winnow_models_order_workers{state="following"} 2');
  expect(page).toContain('winnow_models_order_workers{state="behind"} 1');
  expect(page).toContain('winnow_coverage_ratio{model="movies"} 0.75');
  expect(page).toContain('winnow_partitions{model="movies",state="underreplicated"} 2');
  expect(page).toContain('winnow_partitions{model="movies",state="lost"} 2');
  expect(page).toContain('winnow_model_version{model="movies"} 3');
  expect(later).toContain("winnow_membership_age_seconds +Inf");
  expect(later).not.toContain("movies");
});

test("series of models and workers that are gone leave the page after one more", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  const names = ["movies", "gone"];
  const workers = [{ id: "w0", askable: true, trusted: true }];
  metrics.watch({ ...ROUTER, models: () => names, workers: () => workers });
  const arm = { model: "gone", arm: "new", code: "OK", instances: 1, elapsedMs: 20 };
  for (const model of ["movies", "gone", "invented", undefined]) {
    const degradations = [{ stage: "seen", reason: "late" }] as const;
    const unknownUsers = [{ answer: "list", instances: 2 }] as const;
    const more = { coverage: 0.5, ignoredKeys: 1, degradations, unknownUsers };
    metrics.http.answered({ ...ANSWERED, ...more, model });
  }
  metrics.router.arm?.(arm);
  metrics.router.shadow?.({ model: "gone", outcome: "same", reason: "", elapsedMs: 20 });
  for (const worker of ["w0", "left"]) {
    metrics.router.reply?.({ worker, elapsedMs: 1, queueMs: 0, computeMs: 1 });
  }

  names.pop();
  const last = await metrics.text();
  const page = await metrics.text();

  expect(last).toContain('winnow_requests_total{model="gone",kind="predict",code="OK"} 1');
  expect(last).toContain('winnow_rpc_duration_seconds_count{worker="left"} 1');
  expect(page).not.toMatch(/="(gone|left)"/);
  for (const model of ["movies", "(unknown)", ""]) {
    expect(page).toContain(`winnow_requests_total{model="${model}",kind="predict",code="OK"} 1`);
    expect(page).toContain(`winnow_partial_responses_total{model="${model}"} 1`);
  }
  expect(page).toContain('winnow_rpc_duration_seconds_count{worker="w0"} 1');
});

test("a model that is back before the next page keeps its series", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  let names = ["movies"];
  metrics.watch({ ...ROUTER, models: () => names });
  metrics.http.answered(ANSWERED);

  const pages: string[] = [];
  for (const there of [[], ["movies"], []]) {
    names = there;
    pages.push(await metrics.text());
  }

  for (const page of pages) {
    expect(page).toContain('winnow_requests_total{model="movies",kind="predict",code="OK"} 1');
  }
});

test("the page has the 64 arms of an experiment that were asked last, however many its versions had", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  const record = { model: "feed", code: "OK", instances: 1, elapsedMs: 20 };

  metrics.router.arm?.({ ...record, model: "other", arm: "arm 0" });
  for (let at = 0; at < 100; at += 1) {
    metrics.router.arm?.({ ...record, arm: "control" });
    metrics.router.arm?.({ ...record, arm: `arm ${at}` });
  }
  const page = await metrics.text();

  for (const name of ["requests_total", "instances_total", "duration_seconds_count"]) {
    const lines = page.match(new RegExp(`^winnow_arm_${name}{model="feed".*`, "gm"))!;
    expect(lines).toHaveLength(64);
    expect(lines.join()).toContain('arm="control"');
    expect(lines.filter((line) => line.endsWith(" 100"))).toHaveLength(1);
    expect(lines.join()).toContain('arm="arm 37"');
    expect(lines.join()).not.toContain('arm="arm 36"');
  }
  expect(page).toContain('winnow_arm_instances_total{model="other",arm="arm 0"} 1');
});

test("the page counts what each arm of an experiment answers, and what it fails", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  const record = { model: "feed", arm: "new", code: "OK", instances: 3, elapsedMs: 20 };

  metrics.router.arm?.(record);
  metrics.router.arm?.({ ...record, code: "UNAVAILABLE", elapsedMs: 5000 });
  const page = await metrics.text();

  expect(page).toContain('winnow_arm_requests_total{model="feed",arm="new",code="OK"} 1');
  expect(page).toContain('winnow_arm_requests_total{model="feed",arm="new",code="UNAVAILABLE"} 1');
  expect(page).toContain('winnow_arm_instances_total{model="feed",arm="new"} 3');
  expect(page).toContain('winnow_arm_duration_seconds_sum{model="feed",arm="new"} 0.02');
  expect(page).toContain('winnow_arm_duration_seconds_count{model="feed",arm="new"} 1');
});

test("the page counts what shadows answer, and times those that did", async () => {
  const metrics = createMetrics({ version: "1.2.3", processMetrics: false });
  const of = { model: "feed", reason: "", elapsedMs: 30 };

  metrics.router.shadow?.({ ...of, outcome: "same" });
  metrics.router.shadow?.({ ...of, outcome: "reordered" });
  metrics.router.shadow?.({ ...of, outcome: "failed", reason: "UNAVAILABLE" });
  metrics.router.shadow?.({ ...of, outcome: "dropped", reason: "busy", elapsedMs: 0 });
  const page = await metrics.text();

  const total = 'winnow_shadow_requests_total{model="feed",outcome=';
  expect(page).toContain(`${total}"same",reason=""} 1`);
  expect(page).toContain(`${total}"failed",reason="UNAVAILABLE"} 1`);
  expect(page).toContain(`${total}"dropped",reason="busy"} 1`);
  expect(page).toContain('winnow_shadow_duration_seconds_count{model="feed"} 2');
});
