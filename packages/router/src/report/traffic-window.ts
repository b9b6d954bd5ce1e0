// The predict requests of the recent past: how many there were per second, how long they took, how many
// failed, and which were the slowest. Each request costs a few additions; everything else is computed when
// the report is read. Memory is bounded: a ring of seconds, a ring of times, a short list of the slowest.

import type { Clock } from "@winnow/core";
import type { SlowRequestReport, TrafficReport } from "./report-document.ts";

/** A request that has been answered. */
export interface SeenRequest {
  /** A model that this router knows, because names invented by clients must not be kept. */
  readonly model: string;
  readonly version?: string | undefined;
  readonly code: string;
  readonly instances: number;
  readonly requestId?: string | undefined;
  readonly elapsedMs: number;
  readonly stages?: ReadonlyMap<string, number> | undefined;
}

/** Seconds that are counted separately. */
const SECONDS = 60;
/** Seconds over which means are taken. */
const LATELY_SECONDS = 10;
/** Answer times kept for percentiles, at most, and ms for which they count. */
const SAMPLES_MAX = 2048;
const SAMPLE_MS_MAX = 10_000;
const SLOWEST_MAX = 32;
const SLOWEST_MS_MAX = 300_000;

interface Second {
  /** Number of the second, by the clock. */
  readonly at: number;
  requests: number;
  instances: number;
  readonly failures: Map<string, number>;
  readonly refusals: Map<string, number>;
  /** Ms of all requests by stage. */
  readonly stages: Map<string, number>;
}

interface SlowRequest {
  readonly request: SeenRequest;
  readonly atMs: number;
}

/** Records requests. */
export class TrafficWindow {
  readonly #clock: Clock;
  readonly #startMs: number;
  /** The whole seconds, and the current one. */
  readonly #seconds: (Second | undefined)[] = Array.from({ length: SECONDS + 1 });
  readonly #elapsedMs = new Float64Array(SAMPLES_MAX);
  readonly #atMs = new Float64Array(SAMPLES_MAX).fill(Number.NEGATIVE_INFINITY);
  #next = 0;
  /** The slowest requests, the slowest first. */
  #slowest: readonly SlowRequest[] = [];
  #oldestSlowMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.nowMs();
  }

  /** Records a predict request that has been answered. */
  note(request: SeenRequest): void {
    const nowMs = this.#clock.nowMs();
    const second = this.#second(nowMs);
    second.requests += 1;
    second.instances += request.instances;
    for (const [stage, ms] of request.stages ?? []) add(second.stages, stage, ms);
    if (request.code !== "OK") add(second.failures, request.code, 1);
    this.#elapsedMs[this.#next] = request.elapsedMs;
    this.#atMs[this.#next] = nowMs;
    this.#next = (this.#next + 1) % SAMPLES_MAX;
    this.#noteSlow({ request, atMs: nowMs });
  }

  /** Records a refused request. */
  refused(reason: string): void {
    add(this.#second(this.#clock.nowMs()).refusals, reason, 1);
  }

  /** The traffic for the document. */
  report(): TrafficReport {
    const nowMs = this.#clock.nowMs();
    const now = Math.floor(nowMs / 1000);
    const kept = this.#seconds.filter((each) => each !== undefined && each.at >= now - SECONDS);
    const seconds = kept.filter((each) => each !== undefined);
    const requestsAt = new Map(seconds.map(({ at, requests }) => [at, requests]));
    // The current second is not complete.
    const perSecond = Array.from(
      { length: SECONDS },
      (_, at) => requestsAt.get(now - SECONDS + at) ?? 0,
    );
    const lived = Math.max(1, Math.min(10, Math.floor((nowMs - this.#startMs) / 1000)));
    const lately = perSecond.slice(-lived).reduce((sum, requests) => sum + requests, 0);
    const latency = this.#latency(nowMs);
    const recent = meansOf(seconds.filter((each) => each.at >= now - LATELY_SECONDS));
    return {
      requestsPerSecond: lately / lived,
      ...(latency !== undefined && { latency }),
      ...(recent !== undefined && { recent }),
      perSecond,
      requests: seconds.reduce((sum, { requests }) => sum + requests, 0),
      failures: added(seconds.map(({ failures }) => failures)),
      refusals: added(seconds.map(({ refusals }) => refusals)),
    };
  }

  /** The slowest requests of the last five minutes, the slowest first. */
  slowest(): readonly SlowRequestReport[] {
    const nowMs = this.#clock.nowMs();
    const young = this.#slowest.filter(({ atMs }) => nowMs - atMs <= SLOWEST_MS_MAX);
    return young.map((slow) => slowReport(slow, nowMs));
  }

  #second(nowMs: number): Second {
    const at = Math.floor(nowMs / 1000);
    const slot = at % (SECONDS + 1);
    const known = this.#seconds[slot];
    if (known?.at === at) return known;
    const second = {
      at,
      requests: 0,
      instances: 0,
      failures: new Map<string, number>(),
      refusals: new Map<string, number>(),
      stages: new Map<string, number>(),
    };
    this.#seconds[slot] = second;
    return second;
  }

  #latency(nowMs: number): { p50Ms: number; p99Ms: number } | undefined {
    const recent = this.#elapsedMs
      .filter((_, at) => nowMs - this.#atMs[at]! <= SAMPLE_MS_MAX)
      .toSorted();
    if (recent.length === 0) return undefined;
    const at = (fraction: number): number =>
      rounded(recent[Math.floor((recent.length - 1) * fraction)]!);
    return { p50Ms: at(0.5), p99Ms: at(0.99) };
  }

  #noteSlow(slow: SlowRequest): void {
    const isFull = this.#slowest.length >= SLOWEST_MAX;
    const fastest = this.#slowest.at(-1);
    const isOutdated = slow.atMs - this.#oldestSlowMs > SLOWEST_MS_MAX;
    if (isFull && !isOutdated && slow.request.elapsedMs <= fastest!.request.elapsedMs) return;
    this.#slowest = [...this.#slowest, slow]
      .filter(({ atMs }) => slow.atMs - atMs <= SLOWEST_MS_MAX)
      .toSorted((a, b) => b.request.elapsedMs - a.request.elapsedMs)
      .slice(0, SLOWEST_MAX);
    this.#oldestSlowMs = Math.min(...this.#slowest.map(({ atMs }) => atMs));
  }
}

/** What the requests of some seconds were like; `undefined` where there were none. */
function meansOf(seconds: readonly Second[]): TrafficReport["recent"] {
  const requests = seconds.reduce((sum, each) => sum + each.requests, 0);
  if (requests === 0) return undefined;
  const instances = seconds.reduce((sum, each) => sum + each.instances, 0);
  const stages = Object.entries(added(seconds.map((each) => each.stages)));
  return {
    instances: rounded(instances / requests),
    stages: Object.fromEntries(stages.map(([stage, ms]) => [stage, rounded(ms / requests)])),
  };
}

function slowReport({ request, atMs }: SlowRequest, nowMs: number): SlowRequestReport {
  const { model, version, code, instances, requestId, stages } = request;
  return {
    agoMs: Math.round(nowMs - atMs),
    elapsedMs: rounded(request.elapsedMs),
    model,
    ...(version !== undefined && { version }),
    code,
    instances,
    ...(requestId !== undefined && { requestId }),
    stages: Object.fromEntries(Array.from(stages ?? [], ([stage, ms]) => [stage, rounded(ms)])),
  };
}

function add(sums: Map<string, number>, name: string, more: number): void {
  sums.set(name, (sums.get(name) ?? 0) + more);
}

function added(all: readonly ReadonlyMap<string, number>[]): Record<string, number> {
  const sums = new Map<string, number>();
  for (const counts of all) {
    for (const [name, more] of counts) add(sums, name, more);
  }
  return Object.fromEntries(sums);
}

/** Rounds to microseconds. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
