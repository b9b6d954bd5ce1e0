// Sends load and counts what comes back, on one thread.
//
//   closed loop   each connection sends its next request as soon as the last one is answered
//   open loop     requests start at a rate; one that finds no free connection waits, and its latency counts
//
//   schedule ─▶ waiting (bounded) ─▶ a free connection ─▶ answered ─▶ histogram, samples
//
// The event loop's utilisation says whether the generator itself was the limit.

import { type EventLoopUtilization, performance } from "node:perf_hooks";
import { type Clock, type Timer, settledWithin } from "@winnow/core";
import type { Random } from "../questions/seeded-random.ts";
import type { LoadAnswer, LoadConnection } from "./load-connection.ts";
import { type Latencies, type LatencyBar, LatencyRecord } from "./latency-record.ts";
import { type Arrivals, type OpenSchedule, countedFromMs, openSchedule } from "./open-schedule.ts";

/** A request that was made in advance. */
export interface PreparedRequest {
  readonly bytes: Buffer;
  readonly model: string;
  readonly instances: number;
  /** Its number among the requests to the model, for checks. */
  readonly number: number;
}

/** What to send, and how. */
export interface LoadPlan {
  /** Makes a connection; so many are made as there are to be. */
  readonly connect: () => LoadConnection;
  readonly connections: number;
  readonly durationMs: number;
  /** Requests per second of an open loop; `undefined`: a closed loop. */
  readonly perSecond: number | undefined;
  readonly arrivals: Arrivals;
  readonly timeoutMs: number;
  /** Fraction of the answers that are kept for a check. */
  readonly checkFraction: number;
  /** Gives the next request. */
  readonly next: (random: Random) => PreparedRequest;
}

/** What a load run needs. */
export interface LoadEnvironment {
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
}

/** An answer that is kept for a check. */
export interface KeptAnswer {
  readonly request: PreparedRequest;
  readonly answer: LoadAnswer;
}

/** The results of a run. */
export interface LoadResult {
  readonly seconds: number;
  readonly requests: number;
  readonly instances: number;
  readonly perSecond: number;
  readonly instancesPerSecond: number;
  /** Latencies of all answers with status 200, or `OK` of gRPC. */
  readonly latencies: Latencies;
  readonly bars: readonly LatencyBar[];
  readonly models: Readonly<Record<string, Latencies>>;
  /** Number of requests by status, `200`, or `OK` of gRPC; `0`: no answer. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Messages of the first failures. */
  readonly faults: readonly string[];
  /** Requests of an open loop that were due but not sent, because too many were waiting. */
  readonly unsent: number;
  /** Answers in each second. */
  readonly everySecond: readonly number[];
  /** Fraction of the time in which the generator was busy; above 0.9 it may be the limit. */
  readonly generatorBusy: number;
  readonly kept: readonly KeptAnswer[];
}

/** Requests that wait for a connection, at most, so that memory is bounded while a server hangs. */
const WAITING_MAX = 100_000;
/** Ms between two checks for timeouts. */
const WATCH_MS = 100;
const RETRY_MS = 100;
const FAULTS_MAX = 5;
const KEPT_MAX = 1000;
/** Ms for which the answers to the last requests are waited for. */
const LAST_ANSWERS_MS = 5000;

/** Sends load until the time is over, or the signal aborts. */
export function runLoad(plan: LoadPlan, environment: LoadEnvironment): Promise<LoadResult> {
  return new LoadRun(plan, environment).run();
}

interface Lane {
  readonly connection: LoadConnection;
  /** When the request under way was sent. */
  sentMs: number | undefined;
}

class LoadRun {
  readonly #plan: LoadPlan;
  readonly #environment: LoadEnvironment;
  readonly #free: Lane[] = [];
  readonly #lanes: Lane[];
  /** Intended starts of requests that are due, oldest first, from `#waitingFrom` on. */
  #waiting: number[] = [];
  #waitingFrom = 0;
  readonly #all = new LatencyRecord();
  readonly #byModel = new Map<string, LatencyRecord>();
  readonly #statuses: Record<string, number> = {};
  readonly #faults = new Set<string>();
  readonly #everySecond: number[] = [];
  readonly #kept: KeptAnswer[] = [];
  #requests = 0;
  #instances = 0;
  /** Answers and their instances within the time of the run. */
  #answeredInTime = 0;
  #instancesInTime = 0;
  #unsent = 0;
  #startMs = 0;
  #endMs = 0;
  #isOver = false;
  #underWay = 0;
  #drained: () => void = () => undefined;
  #watchTimer: Timer | undefined;

  constructor(plan: LoadPlan, environment: LoadEnvironment) {
    this.#plan = plan;
    this.#environment = environment;
    this.#lanes = Array.from({ length: plan.connections }, () => {
      return { connection: plan.connect(), sentMs: undefined };
    });
  }

  async run(): Promise<LoadResult> {
    const { clock, signal, random } = this.#environment;
    const { perSecond, arrivals, durationMs } = this.#plan;
    const before = performance.eventLoopUtilization();
    this.#startMs = clock.nowMs();
    this.#endMs = this.#startMs + durationMs;
    this.#watch();
    await new Promise<void>((resolve) => {
      // A ramp is many runs with one signal.
      const stop = (): void => {
        signal.removeEventListener("abort", stop);
        resolve();
      };
      signal.addEventListener("abort", stop);
      if (signal.aborted) return stop();
      clock.setTimer(durationMs, stop);
      if (perSecond === undefined) for (const lane of this.#lanes) this.#sendNow(lane);
      else {
        this.#free.push(...this.#lanes);
        this.#pump(openSchedule(perSecond, arrivals, random));
      }
    });
    this.#isOver = true;
    const busy = performance.eventLoopUtilization(before);
    const seconds = (Math.min(clock.nowMs(), this.#endMs) - this.#startMs) / 1000;
    const drained = new Promise<void>((resolve) => (this.#drained = resolve));
    if (this.#underWay > 0 && !signal.aborted) {
      await settledWithin(clock, LAST_ANSWERS_MS, drained);
    }
    if (this.#watchTimer !== undefined) clock.clearTimer(this.#watchTimer);
    for (const { connection } of this.#lanes) connection.end("the run is over");
    return this.#result(seconds, busy);
  }

  /** Sends the requests that are due, and sets a timer for the next ones. */
  #pump(schedule: OpenSchedule): void {
    if (this.#isOver) return;
    const { clock } = this.#environment;
    const nowMs = clock.nowMs();
    while (this.#startMs + schedule.nextMs <= Math.min(nowMs, this.#endMs)) {
      const intendedMs = this.#startMs + schedule.take();
      const lane = this.#waitingFrom < this.#waiting.length ? undefined : this.#free.pop();
      if (lane !== undefined) this.#send(lane, { intendedMs, hasWaited: false });
      else if (this.#waiting.length - this.#waitingFrom < WAITING_MAX)
        this.#waiting.push(intendedMs);
      else this.#unsent += 1;
    }
    const dueMs = this.#startMs + schedule.nextMs;
    if (dueMs > this.#endMs) return;
    clock.setTimer(Math.max(0, dueMs - clock.nowMs()), () => this.#pump(schedule));
  }

  #sendNow(lane: Lane): void {
    const nowMs = this.#environment.clock.nowMs();
    if (!this.#isOver && nowMs < this.#endMs) {
      this.#send(lane, { intendedMs: nowMs, hasWaited: false });
    }
  }

  #send(lane: Lane, start: { readonly intendedMs: number; readonly hasWaited: boolean }): void {
    const { clock, random } = this.#environment;
    const request = this.#plan.next(random);
    const sentMs = clock.nowMs();
    const fromMs = countedFromMs({ ...start, sentMs });
    lane.sentMs = sentMs;
    this.#underWay += 1;
    lane.connection.send(request.bytes, (answer) => {
      lane.sentMs = undefined;
      this.#underWay -= 1;
      this.#take(request, answer, clock.nowMs() - fromMs);
      if (this.#isOver && this.#underWay === 0) this.#drained();
      // If a server is away, connections are not retried as fast as they are refused.
      if (answer.status === 0) clock.setTimer(RETRY_MS, () => this.#release(lane));
      else this.#release(lane);
    });
  }

  /** Sends the next request on a connection. */
  #release(lane: Lane): void {
    if (this.#plan.perSecond === undefined) return this.#sendNow(lane);
    const intendedMs = this.#waiting[this.#waitingFrom];
    if (intendedMs === undefined || this.#isOver) {
      this.#free.push(lane);
      return;
    }
    this.#waitingFrom += 1;
    if (this.#waitingFrom > WAITING_MAX) {
      this.#waiting = this.#waiting.slice(this.#waitingFrom);
      this.#waitingFrom = 0;
    }
    this.#send(lane, { intendedMs, hasWaited: true });
  }

  #take(request: PreparedRequest, answer: LoadAnswer, latencyMs: number): void {
    const { signal, random } = this.#environment;
    if (answer.status === 0 && (this.#isOver || signal.aborted)) return;
    const { status } = answer;
    this.#requests += 1;
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    if (!answer.isOk) {
      if (this.#faults.size < FAULTS_MAX) this.#faults.add(answer.fault());
      return;
    }
    this.#instances += request.instances;
    this.#all.add(latencyMs);
    let record = this.#byModel.get(request.model);
    if (record === undefined) {
      record = new LatencyRecord();
      this.#byModel.set(request.model, record);
    }
    record.add(latencyMs);
    this.#countInTime(request);
    const { checkFraction } = this.#plan;
    if (checkFraction > 0 && this.#kept.length < KEPT_MAX && random() < checkFraction) {
      this.#kept.push({ request, answer });
    }
  }

  #countInTime({ instances }: PreparedRequest): void {
    const nowMs = this.#environment.clock.nowMs();
    if (nowMs > this.#endMs || this.#isOver) return;
    this.#answeredInTime += 1;
    this.#instancesInTime += instances;
    const second = Math.floor((nowMs - this.#startMs) / 1000);
    while (this.#everySecond.length <= second) this.#everySecond.push(0);
    this.#everySecond[second]! += 1;
  }

  /** Ends connections on which an answer takes too long. */
  #watch(): void {
    const { clock } = this.#environment;
    const oldestMs = clock.nowMs() - this.#plan.timeoutMs;
    for (const { connection, sentMs } of this.#lanes) {
      if (sentMs !== undefined && sentMs < oldestMs) {
        connection.end(`no answer within ${this.#plan.timeoutMs} ms`);
      }
    }
    this.#watchTimer = clock.setTimer(WATCH_MS, () => this.#watch());
  }

  #result(seconds: number, { utilization }: EventLoopUtilization): LoadResult {
    const rateOf = (count: number): number => (seconds === 0 ? 0 : count / seconds);
    return {
      seconds,
      requests: this.#requests,
      instances: this.#instances,
      perSecond: rateOf(this.#answeredInTime),
      instancesPerSecond: rateOf(this.#instancesInTime),
      latencies: this.#all.latencies(),
      bars: this.#all.bars(),
      models: Object.fromEntries(
        Array.from(this.#byModel, ([model, record]) => [model, record.latencies()]),
      ),
      statuses: this.#statuses,
      faults: [...this.#faults],
      unsent: this.#unsent + (this.#waiting.length - this.#waitingFrom),
      everySecond: this.#everySecond,
      generatorBusy: utilization,
      kept: this.#kept,
    };
  }
}
