// What a router tells Prometheus. The names are Winnow's, with two of TensorFlow Serving's beside them
// (`:tensorflow:serving:request_count` and `request_latency`), because existing dashboards and alerts are
// built on these. A model's name is a label only if the router knows the model: names come from URLs, and a
// label for each invented name would let any client use up memory.

import { Counter, Registry, collectDefaultMetrics, exponentialBuckets } from "prom-client";
import { addMemberMetrics } from "@winnow/cluster";
import type { KeyObserver, MemberMetricsOptions } from "@winnow/cluster";
import {
  LAG_TIMER_MS,
  TalliedCounter,
  TalliedHistogram,
  NamedSeries,
  addReadMetrics,
  takeOffLagTimer,
  sharedMaking,
} from "@winnow/core";
import type { HeldMemory, MetricRegister, ReadMetric } from "@winnow/core";
import type { GrpcObserver } from "../grpc/grpc-observer.ts";
import type { Degradation, UnknownUsers } from "../predictor.ts";
import type { HttpObserver, MetricsPage } from "../http/http-observer.ts";
import { ROUTER_GAUGES } from "./router-gauges.ts";
import type { WatchedRouter } from "./router-gauges.ts";
import { PREDICTION_APIS } from "./prediction-apis.ts";
import type { RouterObserver } from "../router-observer.ts";

/** Where a request came in. */
type Door = "http" | "grpc";

/** The metrics of one process. */
export interface Metrics extends MetricsPage {
  readonly http: HttpObserver;
  readonly grpc: GrpcObserver;
  readonly router: RouterObserver;
  /** Receives the events of requests that present a key, or should. */
  readonly keys: KeyObserver;
  /** Counts the end of a process in which ONNX Runtime ran: `main` or `apart`. */
  denseProcessEnded(lane: string): void;
  /** Adds this router's state to the page. */
  watch(router: WatchedRouter): void;
  /** Adds to the page what this server holds for its clients. */
  watchDoor(door: Door, held: () => readonly HeldMemory[]): void;
}

const UNKNOWN_MODEL = "(unknown)";
/** Of requests that are not about one model. */
const NO_MODEL = "";
const SECONDS_BUCKETS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];
/** TensorFlow Serving's buckets: 10 × 1.8^i microseconds. */
const MICROSECONDS_BUCKETS = exponentialBuckets(10, 1.8, 33);

/** Sources of the metrics. */
export interface MetricsOptions extends MemberMetricsOptions {
  /** Also memory, garbage collection and event loop of the process. Default true. */
  readonly processMetrics?: boolean;
}

/** Makes empty metrics. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  if (options.processMetrics ?? true) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_TIMER_MS });
    takeOffLagTimer((name) => registry.getSingleMetric(name));
  }
  addMemberMetrics(registry, options);
  let watched: WatchedRouter | undefined;
  const models = new NamedSeries();
  const workers = new NamedSeries();
  const ofModels = [registry, models];
  const record = requestRecorder(ofModels, (name) => watched?.models().includes(name) === true);
  addReadMetrics(registry, ROUTER_GAUGES, () => watched);
  const doors: DoorMemory[] = [];
  addReadMetrics(registry, DOOR_GAUGES, () => doors);
  const givenUp = givenUpCounter(registry);
  const denseEnds = new Counter({
    name: "winnow_dense_process_ends_total",
    help: "Processes of ONNX Runtime that ended and were started again",
    labelNames: ["lane"],
    registers: [registry],
  });
  return {
    http: {
      answered: (request) => record(request, request.api, "REST"),
      gaveUp: (what, reason) => givenUp.inc({ door: "http", reason: `${what}_${reason}` }),
    },
    grpc: {
      answered: (call) => record(call, `grpc:${call.api}`, "GRPC"),
      gaveUp: (what, reason) => givenUp.inc({ door: "grpc", reason: `${what}_${reason}` }),
    },
    router: { ...routerObserver(registry, workers), ...armObserver(registry, models) },
    keys: keyObserver(registry),
    denseProcessEnded: (lane) => denseEnds.inc({ lane }),
    watch: (router) => {
      watched = router;
    },
    watchDoor: (door, held) => void doors.push({ door, held }),
    text: sharedMaking(() => {
      if (watched !== undefined) endGone(watched, models, workers);
      return registry.metrics();
    }),
  };
}

/** Ends the series of models and workers that a router does not know any more. */
function endGone(router: WatchedRouter, models: NamedSeries, workers: NamedSeries): void {
  const named = new Set([...router.models(), UNKNOWN_MODEL, NO_MODEL]);
  models.endGone((name) => named.has(name));
  const ids = new Set(router.workers().map(({ id }) => id));
  workers.endGone((name) => ids.has(name));
}

/** What both servers record of a request. */
interface RecordedRequest {
  readonly api: string;
  readonly model: string | undefined;
  readonly code: string;
  readonly instances: number;
  /** Default 1. */
  readonly coverage?: number;
  readonly ignoredKeys?: number;
  readonly degradations?: readonly Degradation[] | undefined;
  readonly unknownUsers?: readonly UnknownUsers[] | undefined;
  readonly elapsedMs: number;
}

/** Records a request under the kind that its server gives it, or under its model. */
type Recorder = (request: RecordedRequest, name: string, entrypoint: "REST" | "GRPC") => void;

type Registers = readonly MetricRegister[];

function requestRecorder(registers: Registers, isKnown: (model: string) => boolean): Recorder {
  const requests = new TalliedCounter({
    name: "winnow_requests_total",
    help: "Requests answered",
    labelNames: ["model", "kind", "code"],
    registers,
  });
  const durations = new TalliedHistogram({
    name: "winnow_request_duration_seconds",
    help: "Time from a request's head to its answer",
    labelNames: ["model", "kind"],
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const instances = new TalliedCounter({
    name: "winnow_instances_total",
    help: "Instances predicted for",
    labelNames: ["model"],
    registers,
  });
  const partial = new TalliedCounter({
    name: "winnow_partial_responses_total",
    help: "Answers that lack lost partitions",
    labelNames: ["model"],
    registers,
  });
  const ignoring = new TalliedCounter({
    name: "winnow_requests_with_ignored_keys_total",
    help: "Answered requests whose bodies have keys that mean nothing",
    labelNames: ["model"],
    registers,
  });
  const recordStages = stagesRecorder(registers);
  const recordServing = servingRecorder(registers);
  return (request, kind, entrypoint) => {
    const { model: name, code, coverage = 1, ignoredKeys = 0 } = request;
    const model = name === undefined || isKnown(name) ? (name ?? NO_MODEL) : UNKNOWN_MODEL;
    requests.add(1, model, kind, code);
    durations.observe(request.elapsedMs / 1000, model, kind);
    if (request.instances > 0) instances.add(request.instances, model);
    if (coverage < 1) partial.add(1, model);
    if (ignoredKeys > 0) ignoring.add(1, model);
    recordStages(request, model);
    recordServing(request, model, entrypoint);
  };
}

/** What the stages of a pipeline left out, and whom they do not know. */
function stagesRecorder(
  registers: Registers,
): (request: Pick<RecordedRequest, "degradations" | "unknownUsers">, model: string) => void {
  const degraded = new TalliedCounter({
    name: "winnow_degraded_responses_total",
    help: "Answers of pipelines that a stage is left out of",
    labelNames: ["model", "stage", "reason"],
    registers,
  });
  const unknown = new TalliedCounter({
    name: "winnow_unknown_users_total",
    help: "Instances of users that a pipeline's model does not know, by what they were answered",
    labelNames: ["model", "answer"],
    registers,
  });
  return ({ degradations = [], unknownUsers = [] }, model) => {
    for (const { stage, reason } of degradations) degraded.add(1, model, stage, reason);
    for (const { answer, instances } of unknownUsers) unknown.add(instances, model, answer);
  };
}

/**
 * Records TensorFlow Serving's two metrics for predict requests. Its label for the API differs between REST
 * and gRPC.
 */
function servingRecorder(registers: Registers): Recorder {
  const counts = new TalliedCounter({
    name: ":tensorflow:serving:request_count",
    help: "Predict requests by canonical code",
    labelNames: ["model_name", "status"],
    registers,
  });
  const latencies = new TalliedHistogram({
    name: ":tensorflow:serving:request_latency",
    help: "Microseconds of successful requests",
    labelNames: ["model_name", "API", "entrypoint"],
    buckets: MICROSECONDS_BUCKETS,
    registers,
  });
  return ({ api, code, elapsedMs }, model, entrypoint) => {
    if (!PREDICTION_APIS.has(api)) return;
    counts.add(1, model, code);
    if (code !== "OK") return;
    latencies.observe(elapsedMs * 1000, model, api, entrypoint);
  };
}

function routerObserver(registry: Registry, workers: NamedSeries): RouterObserver {
  const registers = [registry];
  const stages = new TalliedHistogram({
    name: "winnow_stage_duration_seconds",
    help: "Time of one stage of a request",
    labelNames: ["stage"],
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const replies = new TalliedHistogram({
    name: "winnow_rpc_duration_seconds",
    help: "Time from a question to a worker until its reply",
    labelNames: ["worker"],
    buckets: SECONDS_BUCKETS,
    registers: [registry, workers],
  });
  const waits = new TalliedHistogram({
    name: "winnow_slice_wait_seconds",
    help: "Time a slice of a search waited in the router's concurrency limiter",
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const refusals = new Counter({
    name: "winnow_refused_requests_total",
    help: "Requests that were not taken on",
    labelNames: ["reason"],
    registers,
  });
  const seconds = new Counter({
    name: "winnow_second_attempts_total",
    help: "Retries and hedges",
    labelNames: ["kind", "reason"],
    registers,
  });
  const spent = new Counter({
    name: "winnow_attempt_budget_spent_total",
    help: "Retries and hedges that the budget did not allow",
    labelNames: ["kind"],
    registers,
  });
  const replans = new Counter({
    name: "winnow_replans_total",
    help: "Queries planned again on another generation",
    registers,
  });
  const late = new Counter({
    name: "winnow_late_replies_total",
    help: "Replies to questions that are no longer asked",
    registers,
  });
  return {
    stage: (stage, elapsedMs) => stages.observe(elapsedMs / 1000, stage),
    reply: ({ worker, elapsedMs }) => replies.observe(elapsedMs / 1000, worker),
    waited: (waitedMs) => waits.observe(waitedMs / 1000),
    refused: (reason) => refusals.inc({ reason }),
    secondAttempt: (kind, reason) => seconds.inc({ kind, reason }),
    budgetSpent: (kind) => spent.inc({ kind }),
    replan: () => replans.inc(),
    lateReply: () => late.inc(),
  };
}

/** Outcomes of shadow requests that were answered. */
const COMPARED: ReadonlySet<string> = new Set(["same", "reordered", "different"]);

/** Arms of one experiment that have metrics: those of its last versions, which have at most 16 each. */
const ARMS_MAX = 64;

/**
 * The arms of each experiment by when they were asked last. Names of arms come from files and change with versions:
 * without a bound, arms that nobody asks any more would stay on the page for as long as the router runs.
 */
class RecentArms {
  /** By experiment and arm, the number of the request that asked it last. */
  readonly #byModel = new Map<string, Map<string, number>>();
  readonly #onForgotten: (model: string, arm: string) => void;
  #requests = 0;

  constructor(onForgotten: (model: string, arm: string) => void) {
    this.#onForgotten = onForgotten;
  }

  note(model: string, arm: string): void {
    const arms = this.#byModel.get(model) ?? new Map<string, number>();
    if (arms.size === 0) this.#byModel.set(model, arms);
    arms.set(arm, (this.#requests += 1));
    if (arms.size <= ARMS_MAX) return;
    const [[oldest]] = [...arms].toSorted(([, a], [, b]) => a - b) as [[string, number]];
    arms.delete(oldest);
    this.#onForgotten(model, oldest);
  }

  /** The experiments. */
  firsts(): readonly string[] {
    return [...this.#byModel.keys()];
  }

  /** Forgets an experiment that is gone. */
  remove(model: string): void {
    this.#byModel.delete(model);
  }
}

/** Metrics of experiments. */
function armObserver(registry: Registry, models: NamedSeries): RouterObserver {
  const registers = [registry, models];
  const requests = new TalliedCounter({
    name: "winnow_arm_requests_total",
    help: "Requests, or parts of batches, that an arm of an experiment answered or failed",
    labelNames: ["model", "arm", "code"],
    registers,
  });
  const instances = new TalliedCounter({
    name: "winnow_arm_instances_total",
    help: "Instances that an arm of an experiment answered",
    labelNames: ["model", "arm"],
    registers,
  });
  const durations = new TalliedHistogram({
    name: "winnow_arm_duration_seconds",
    help: "Time of the model of an arm, of answers",
    labelNames: ["model", "arm"],
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const shadows = new TalliedCounter({
    name: "winnow_shadow_requests_total",
    help: "Requests drawn for the shadow of an experiment, by what its answers are beside those given",
    labelNames: ["model", "outcome", "reason"],
    registers,
  });
  const shadowDurations = new TalliedHistogram({
    name: "winnow_shadow_duration_seconds",
    help: "Time of the shadow of an experiment, of answers",
    labelNames: ["model"],
    buckets: SECONDS_BUCKETS,
    registers,
  });
  const recent = new RecentArms((model, arm) => {
    for (const each of [requests, instances, durations]) each.remove(model, arm);
  });
  models.registerMetric(recent);
  return {
    shadow: ({ model, outcome, reason, elapsedMs }) => {
      shadows.add(1, model, outcome, reason);
      if (!COMPARED.has(outcome)) return;
      shadowDurations.observe(elapsedMs / 1000, model);
    },
    arm: ({ model, arm, code, instances: count, elapsedMs }) => {
      recent.note(model, arm);
      requests.add(1, model, arm, code);
      if (code !== "OK") return;
      instances.add(count, model, arm);
      durations.observe(elapsedMs / 1000, model, arm);
    },
  };
}

/** What a server holds for its clients. */
interface DoorMemory {
  readonly door: Door;
  readonly held: () => readonly HeldMemory[];
}

const DOOR_GAUGES: readonly ReadMetric<readonly DoorMemory[]>[] = [
  doorGauge("winnow_held_bytes", "Bytes held for clients", ({ bytes }) => bytes),
  doorGauge(
    "winnow_held_bytes_max",
    "Bytes that may be held for clients",
    ({ bytesMax }) => bytesMax,
  ),
];

function doorGauge(
  name: string,
  help: string,
  valueOf: (held: HeldMemory) => number,
): ReadMetric<readonly DoorMemory[]> {
  return {
    name,
    help,
    labelNames: ["door", "kind"],
    read: (doors) =>
      doors.flatMap(({ door, held }) =>
        held().map((each) => ({ labels: { door, kind: each.kind }, value: valueOf(each) })),
      ),
  };
}

function keyObserver(registry: Registry): KeyObserver {
  const requests = new TalliedCounter({
    name: "winnow_key_requests_total",
    help: "Requests by their key, and whether they were let in",
    labelNames: ["key", "outcome"],
    registers: [registry],
  });
  return (key, outcome) => requests.add(1, key, outcome);
}

function givenUpCounter(registry: Registry): Counter {
  return new Counter({
    name: "winnow_given_up_total",
    help: "Requests not read to their end, and answers not written to theirs",
    labelNames: ["door", "reason"],
    registers: [registry],
  });
}
