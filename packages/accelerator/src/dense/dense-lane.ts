// One process of ONNX Runtime at a time, and the runs that wait for it. Models take turns (FairQueue). The
// process gets its next run before the last one has ended only if both are short: so it does not wait for
// this event loop, and long runs stay in the queue, where they can still be ordered.
//
//   none ──work──▶ starting ──"ready"──▶ running ──▶ ended ──▶ none      at once after a run ended it,
//    ▲                │                                                  else after a pause that doubles
//    └── paused ◀─────┴ did not start: waiting runs fail
//
// Answers come in the order of requests, so the first request without an answer is the one on which a process
// ended. The requests after it are sent again, because a run has no effect except its answer. A process loads
// a model before its first run, and other models while nothing waits.

import { WinnowError } from "@winnow/core";
import type { Clock, Timer } from "@winnow/core";
import { fillUp, frameStart } from "./dense-frames.ts";
import type { DenseAnswer, DenseRequest, DenseShapes, Frame } from "./dense-frames.ts";
import { FairQueue } from "./fair-queue.ts";
import type { FairQueueLimits } from "./fair-queue.ts";
import type { DenseProcess, StartDenseProcess } from "./process-start.ts";

/** A model as lanes know it. */
export interface LaneModel {
  /** Its number, the same in all processes. */
  readonly number: number;
  /** Models of one name share a turn. */
  readonly name: string;
  readonly onnx: Uint8Array;
}

/** A run that waits or is under way. */
export interface DenseRun {
  readonly model: LaneModel;
  /** The request as it is sent. */
  readonly frame: Uint8Array;
  readonly bytes: number;
  readonly resolve: (answer: Frame<DenseAnswer>) => void;
  readonly reject: (error: Error) => void;
  /** How many processes have ended on another request while this run was sent to them. */
  bystood: number;
  /** Whether the caller no longer waits for it. */
  isLeft: boolean;
}

interface Load {
  readonly model: LaneModel;
  /** Settle the caller's promise. Absent for a model that is loaded again: only runs wait for it. */
  readonly resolve?: (shapes: DenseShapes | undefined) => void;
  readonly reject?: (error: Error) => void;
}

type Sent = { readonly sinceMs: number } & (
  | { readonly kind: "run"; readonly run: DenseRun; readonly chargedMs: number }
  | { readonly kind: "load"; readonly load: Load }
  | { readonly kind: "release" }
);

interface Running {
  readonly process: DenseProcess;
  isReady: boolean;
  hasAnswered: boolean;
  /** Requests without an answer, in order. */
  readonly sent: Sent[];
  /** Ms that these runs are expected to take, by the last runs of their models. */
  sentMs: number;
  readonly loaded: Set<number>;
  /** Models that could not be loaded again: why, and until when their runs are refused. */
  readonly broken: Map<number, { readonly text: string; readonly untilMs: number }>;
}

/** The request on which a process ended. */
export type FatalRequest = {
  readonly model: LaneModel;
  /** Rejects the caller's promise. */
  readonly reject?: (error: Error) => void;
} & ({ readonly kind: "run"; readonly run: DenseRun } | { readonly kind: "load" });

/** The texts and settings of a lane. */
export interface DenseLaneParts {
  readonly clock: Clock;
  readonly start: StartDenseProcess;
  readonly threads: number;
  readonly limits: FairQueueLimits;
  /** Called when a run has ended after `ms`, with success or not. */
  readonly onRun: (model: LaneModel, ms: number) => void;
  /** Called when a process has ended, on a request or without one. */
  readonly onEnd: (how: string, fatal: FatalRequest | undefined) => void;
}

/** Ms of runs that a process is sent in advance. */
const AHEAD_MS = 2;
const AHEAD_RUNS_MAX = 16;
const BYSTOOD_MAX = 3;
/** Ms after which a model that could not be loaded again is tried once more. */
const BROKEN_MS = 5000;
const PAUSE_MS = 100;
const PAUSE_MS_MAX = 10_000;
/** Ms for one request, after which the process is killed. */
const REQUEST_MS_MAX = 600_000;

/** Runs and loads, in one process at a time. */
export class DenseLane {
  readonly #parts: DenseLaneParts;
  readonly #queue: FairQueue<DenseRun>;
  readonly #models = new Map<number, LaneModel>();
  readonly #loads: Load[] = [];
  #lastWasLoad = false;
  #releases: number[] = [];
  #running: Running | undefined;
  /** Processes in a row that ended before they had answered anything. */
  #failures = 0;
  #pause: Timer | undefined;
  #watch: Timer | undefined;
  #isClosed = false;

  constructor(parts: DenseLaneParts) {
    this.#parts = parts;
    this.#queue = new FairQueue(parts.limits);
  }

  /**
   * Loads a model, and tells what is known of its shapes. @throws WinnowError as the process says; UNAVAILABLE
   * where none can be started
   */
  load(model: LaneModel): Promise<DenseShapes | undefined> {
    this.#models.set(model.number, model);
    return new Promise((resolve, reject) => {
      this.#loads.push({ model, resolve, reject });
      this.#pump();
    });
  }

  /** Adds a model that is loaded with its first run. */
  adopt(model: LaneModel): void {
    this.#models.set(model.number, model);
    this.#running?.broken.delete(model.number);
  }

  /** Removes a model, and gives its waiting runs. */
  release(model: LaneModel): DenseRun[] {
    this.#models.delete(model.number);
    if (this.#running?.loaded.delete(model.number) === true) this.#releases.push(model.number);
    const waiting = this.#queue.removeAll((run) => run.model === model);
    this.#pump();
    return waiting;
  }

  /** Adds a run. @throws WinnowError RESOURCE_EXHAUSTED where too many wait */
  run(run: DenseRun): void {
    const refusal = this.#queue.refusalOf(run.model.name, run);
    if (refusal !== undefined) throw new WinnowError("RESOURCE_EXHAUSTED", refusal);
    this.#queue.push(run.model.name, run);
    this.#pump();
  }

  /** Removes a run, unless it was sent to a process. */
  remove(run: DenseRun): boolean {
    const isRemoved = this.#queue.remove(run.model.name, run);
    this.#holdWhileBusy();
    return isRemoved;
  }

  /** Ends the process; runs that wait or are under way fail with `reason`. */
  async close(reason: Error): Promise<void> {
    this.#isClosed = true;
    this.#clearTimers();
    const running = this.#running;
    this.#running = undefined;
    for (const sent of running?.sent ?? []) rejectSent(sent, reason);
    this.#failWaiting(reason);
    await running?.process.kill();
  }

  #pump(): void {
    if (this.#isClosed || this.#pause !== undefined) return this.#holdWhileBusy();
    if (this.#running === undefined) {
      if (this.#loads.length + this.#queue.length > 0) this.#start();
    } else if (this.#running.isReady) {
      this.#sendReleases(this.#running);
      while (this.#sendNext(this.#running));
    }
    this.#holdWhileBusy();
  }

  /** Sends one more request, if the process should have it by now. */
  #sendNext(running: Running): boolean {
    const next = this.#queue.peek();
    // Runs and awaited loads alternate, so that neither delays the other for long.
    if (this.#loads.length > 0 && (next === undefined || !this.#lastWasLoad)) {
      if (running.sent.length > 0) return false;
      this.#lastWasLoad = true;
      this.#sendLoad(running, this.#loads.shift()!);
      return true;
    }
    if (next === undefined) return this.#loadAnother(running);
    const { model } = next.item;
    if (this.#refuseBroken(running, next.item)) return true;
    const isLoaded = running.loaded.has(model.number);
    const expectedMs = isLoaded ? this.#queue.meanMsOf(next.model) : undefined;
    if (running.sent.length > 0 && !mayBeAhead(running, expectedMs)) return false;
    if (isLoaded) this.#sendRun(running, next.item);
    else this.#sendLoad(running, { model });
    return true;
  }

  /** Refuses a run whose model could not be loaded again a moment ago. */
  #refuseBroken(running: Running, run: DenseRun): boolean {
    const broken = running.broken.get(run.model.number);
    if (broken !== undefined && this.#parts.clock.nowMs() < broken.untilMs) {
      this.#queue.remove(run.model.name, run);
      run.reject(new WinnowError("UNAVAILABLE", broken.text));
      return true;
    }
    running.broken.delete(run.model.number);
    return false;
  }

  #loadAnother(running: Running): boolean {
    if (running.sent.length > 0) return false;
    for (const model of this.#models.values()) {
      if (running.loaded.has(model.number) || running.broken.has(model.number)) continue;
      this.#sendLoad(running, { model });
      return true;
    }
    return false;
  }

  #sendRun(running: Running, run: DenseRun): void {
    const chargedMs = this.#queue.take();
    this.#lastWasLoad = false;
    running.sentMs += chargedMs;
    running.process.send(run.frame);
    this.#keep(running, { kind: "run", run, chargedMs, sinceMs: this.#parts.clock.nowMs() });
  }

  #sendLoad(running: Running, load: Load): void {
    const { number: model, onnx } = load.model;
    const header: DenseRequest = { kind: "load", model, bytes: onnx.length };
    running.process.send(frameStart(header, onnx.length), onnx, fillUp(onnx.length));
    running.sentMs = Infinity; // Nothing is sent to wait behind a load.
    this.#keep(running, { kind: "load", load, sinceMs: this.#parts.clock.nowMs() });
  }

  #sendReleases(running: Running): void {
    for (const model of this.#releases.splice(0)) {
      running.process.send(frameStart({ kind: "release", model }, 0));
      this.#keep(running, { kind: "release", sinceMs: this.#parts.clock.nowMs() });
    }
  }

  #keep({ sent }: Running, request: Sent): void {
    sent.push(request);
    this.#watch ??= this.#watchFrom(REQUEST_MS_MAX);
  }

  /** Kills a process that has worked on one request for too long. */
  #watchFrom(delayMs: number): Timer {
    return this.#parts.clock.setTimer(delayMs, () => {
      this.#watch = undefined;
      const first = this.#running?.sent[0];
      if (first === undefined) return;
      const leftMs = first.sinceMs + REQUEST_MS_MAX - this.#parts.clock.nowMs();
      if (leftMs <= 0) void this.#running?.process.kill();
      else this.#watch = this.#watchFrom(leftMs);
    });
  }

  #start(): void {
    const { start, threads } = this.#parts;
    const running: Running = {
      process: start(threads, {
        onAnswer: (answer) => this.#take(running, answer),
        onEnd: (how) => this.#end(running, how),
      }),
      isReady: false,
      hasAnswered: false,
      sent: [],
      sentMs: 0,
      loaded: new Set(),
      broken: new Map(),
    };
    this.#running = running;
    this.#releases = [];
  }

  #take(running: Running, answer: Frame<DenseAnswer>): void {
    if (this.#running !== running) return;
    const { header, ms } = answer;
    if (header.kind === "ready") {
      running.isReady = true;
      return this.#pump();
    }
    running.hasAnswered = true;
    this.#failures = 0;
    const sent = running.sent.shift();
    if (running.sent.length === 0) running.sentMs = 0;
    if (sent?.kind === "run") {
      const { run, chargedMs } = sent;
      if (running.sent.length > 0) running.sentMs -= chargedMs;
      this.#queue.settle(run.model.name, chargedMs, ms);
      run.resolve(answer);
      this.#parts.onRun(run.model, ms);
    } else if (sent?.kind === "load") this.#takeLoad(running, sent.load, header);
    this.#pump();
  }

  #takeLoad(running: Running, load: Load, answer: Exclude<DenseAnswer, { kind: "ready" }>): void {
    const { number } = load.model;
    if (answer.kind === "failed") {
      const isKnown = load.reject === undefined;
      const text = `Cannot load a dense part of ${load.model.onnx.length} bytes`;
      const remedy = NO_KERNEL.test(answer.message) ? `; ${NO_KERNEL_REMEDY}` : "";
      const told = `${text}: ${answer.message}${remedy}`;
      const error = new WinnowError(loadFault(answer.message), told);
      const untilMs = this.#parts.clock.nowMs() + BROKEN_MS;
      if (isKnown) running.broken.set(number, { text: `${error.message}; try again`, untilMs });
      else this.#models.delete(number);
      load.reject?.(error);
      return;
    }
    // The model may have been released while it was being loaded.
    if (this.#models.has(number)) running.loaded.add(number);
    else this.#releases.push(number);
    load.resolve?.(answer.shapes);
  }

  #end(running: Running, how: string): void {
    if (this.#running !== running) return;
    this.#running = undefined;
    const { isReady, hasAnswered, sent } = running;
    const [first, ...others] = sent;
    this.#failures = hasAnswered ? 0 : this.#failures + 1;
    const ended = (): WinnowError => unavailable(how);
    for (const each of others.toReversed()) {
      if (each.kind === "run") this.#askAgain(each.run, ended);
      else if (each.kind === "load") this.#loads.unshift(each.load);
    }
    const fatal = fatalOf(first);
    if (!isReady) {
      this.#pauseFor(Math.min(PAUSE_MS * 2 ** Math.min(this.#failures, 16), PAUSE_MS_MAX));
      this.#failWaiting(ended());
    } else if (fatal === undefined && this.#failures > 0) {
      this.#pauseFor(Math.min(PAUSE_MS * 2 ** Math.min(this.#failures, 16), PAUSE_MS_MAX));
    }
    if (fatal?.kind === "load" && fatal.reject !== undefined)
      this.#models.delete(fatal.model.number);
    this.#parts.onEnd(how, fatal);
    this.#pump();
  }

  /** Repeats a run whose process ended on another run. */
  #askAgain(run: DenseRun, ended: () => WinnowError): void {
    run.bystood += 1;
    if (run.isLeft) return;
    if (run.bystood > BYSTOOD_MAX || !this.#models.has(run.model.number)) run.reject(ended());
    else this.#queue.push(run.model.name, run, { isFirst: true });
  }

  #pauseFor(delayMs: number): void {
    this.#pause = this.#parts.clock.setTimer(delayMs, () => {
      this.#pause = undefined;
      this.#pump();
    });
  }

  #failWaiting(reason: Error): void {
    for (const { model, reject } of this.#loads.splice(0)) {
      this.#models.delete(model.number);
      reject?.(reason);
    }
    for (const run of this.#queue.removeAll()) run.reject(reason);
  }

  /** The socket keeps this process alive while a caller waits for an answer. */
  #holdWhileBusy(): void {
    const isBusy = this.#loads.length + this.#queue.length > 0;
    this.#running?.process.hold(isBusy || this.#running.sent.length > 0);
  }

  #clearTimers(): void {
    for (const timer of [this.#pause, this.#watch]) {
      if (timer !== undefined) this.#parts.clock.clearTimer(timer);
    }
    this.#pause = undefined;
    this.#watch = undefined;
  }
}

/** Whether a busy process is sent another run of this expected time; `undefined`: the time is unknown. */
function mayBeAhead({ sent, sentMs }: Running, expectedMs: number | undefined): boolean {
  return sent.length < AHEAD_RUNS_MAX && sentMs + (expectedMs ?? Infinity) <= AHEAD_MS;
}

function fatalOf(sent: Sent | undefined): FatalRequest | undefined {
  if (sent?.kind === "run") {
    const { run } = sent;
    return { kind: "run", model: run.model, reject: run.reject, run };
  }
  return sent?.kind === "load" ? { kind: "load", ...sent.load } : undefined;
}

function rejectSent(sent: Sent, reason: Error): void {
  if (sent.kind === "run") sent.run.reject(reason);
  else if (sent.kind === "load") sent.load.reject?.(reason);
}

function unavailable(how: string): WinnowError {
  return new WinnowError("UNAVAILABLE", `The process that runs dense parts ${how}`);
}

/** What ONNX Runtime says of an operation that it has, but not for these types. */
const NO_KERNEL = /^Could not find an implementation for/u;
const NO_KERNEL_REMEDY =
  "ONNX Runtime lacks it for the types of its inputs, as it lacks most in bfloat16; export the model with them cast to float32";

/** There may be memory at another time; any other error is the model's fault. */
function loadFault(message: string): "RESOURCE_EXHAUSTED" | "INVALID_ARGUMENT" {
  return isMemoryFault(message) ? "RESOURCE_EXHAUSTED" : "INVALID_ARGUMENT";
}

/** Whether an error of ONNX Runtime says that there was not enough memory. */
export function isMemoryFault(message: string): boolean {
  return /bad_alloc|failed to allocate|out of memory|cannot allocate memory/i.test(message);
}
