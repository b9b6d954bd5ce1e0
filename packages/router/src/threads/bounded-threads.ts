// Threads that do long work, one job each at a time, so that the event loop never stands still for one. They are
// started with the first job, and end after a while without work.
//
//   job ─▶ waiting in order ─▶ prepared ─▶ thread ─▶ answer
//             │    └── a giant is skipped while another is under way: one thread is left to smaller jobs
//             └── its request ends: leaves ─▶
//
// When a request is over while a thread does its job, the thread gets a moment to finish; then it is ended, so
// that no job can occupy a thread. If a thread ends unasked, the request of its job fails, and the next job
// starts another thread.

import type { Worker } from "node:worker_threads";
import { Outstanding, ThreadLink, WinnowError } from "@winnow/core";
import type { Clock, Signal, Timer } from "@winnow/core";

/** What the threads need. */
export interface BoundedThreadsParts {
  readonly clock: Clock;
  readonly threadsMax: number;
  /** Jobs that wait. */
  readonly queueMax: number;
  readonly start: () => Worker;
  /** The error of a job for which there is no place. */
  readonly full: () => WinnowError;
  /** What a thread does, for its error: "parses large bodies". */
  readonly does: string;
}

/** Some work, and what is sent to the thread that does it. */
export interface ThreadJob<Request> {
  /** Aborted when the request is over. */
  readonly signal: Signal;
  readonly isGiant: boolean;
  /** Bytes that the work is expected to take while it is under way. */
  readonly bytes: number;
  /** Called when a thread is free; `transfer` is memory that goes along. */
  readonly prepare: () => MaybeLater<{
    readonly request: Request;
    readonly transfer: readonly ArrayBuffer[];
  }>;
}

type MaybeLater<Value> = Value | Promise<Value>;

const IDLE_MS = 10_000;
/** A job whose request is over may be worked on for this long; then its thread is ended, because others need it. */
const OVERRUN_MS = 2000;

interface Waiting<Request> {
  readonly job: ThreadJob<Request>;
  readonly start: () => void;
  readonly refuse: (error: unknown) => void;
}

/** The threads, and the jobs that wait for one. */
export class BoundedThreads<Request, Answer> {
  readonly #parts: BoundedThreadsParts;
  readonly #waiting: Waiting<Request>[] = [];
  readonly #running = new Outstanding<ThreadJob<Request>>();
  readonly #threads = new Set<ThreadLink<Request>>();
  readonly #idle: ThreadLink<Request>[] = [];
  #rest: Timer | undefined;
  #isClosed = false;

  constructor(parts: BoundedThreadsParts) {
    this.#parts = parts;
  }

  /** Bytes that the jobs under way take. */
  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.#running) sum += bytes;
    return sum;
  }

  /** Jobs that wait for a thread. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Threads that are there. */
  get threads(): number {
    return this.#threads.size;
  }

  /** Giants that may be under way at once: where there is more than one thread, one is left to others. */
  get giantsMax(): number {
    return Math.max(1, this.#parts.threadsMax - 1);
  }

  /**
   * Has a thread do a job. @throws as the thread does; what `full` gives if too many wait; the signal's reason when
   * it is aborted while the job waits
   */
  run(job: ThreadJob<Request>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { signal } = job;
      signal.throwIfAborted();
      if (this.#isClosed) throw closing();
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(signal.reason);
      };
      const waiting: Waiting<Request> = {
        job,
        start: () => {
          signal.removeEventListener("abort", leave);
          this.#run(job).then(resolve, reject);
        },
        refuse: (error) => {
          signal.removeEventListener("abort", leave);
          reject(error);
        },
      };
      if (this.#mayRun(job)) return waiting.start();
      if (this.#waiting.length >= this.#parts.queueMax) throw this.#parts.full();
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiting);
    });
  }

  /** Ends all threads; jobs under way are lost. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(closing());
    await this.#endIdle();
    await Promise.all([...this.#threads].map((thread) => thread.close()));
  }

  #mayRun({ isGiant }: ThreadJob<Request>): boolean {
    if (this.#running.size >= this.#parts.threadsMax) return false;
    if (!isGiant) return true;
    const giants = [...this.#running].filter((running) => running.isGiant).length;
    return giants < this.giantsMax;
  }

  /** Starts waiting jobs in order, but lets others pass giants. */
  #runNext(): void {
    for (;;) {
      const next = this.#waiting.findIndex(({ job }) => this.#mayRun(job));
      if (next < 0) return;
      this.#waiting.splice(next, 1)[0]!.start();
    }
  }

  async #run(job: ThreadJob<Request>): Promise<Answer> {
    const id = this.#running.add(job);
    try {
      const { request, transfer } = await job.prepare();
      if (this.#isClosed) throw closing();
      const thread = this.#idle.pop() ?? this.#startThread();
      return await this.#ask(thread, { request, transfer, signal: job.signal });
    } finally {
      this.#running.delete(id);
      this.#runNext();
    }
  }

  /** Has a thread answer a request; the thread is idle afterwards. */
  async #ask(
    thread: ThreadLink<Request>,
    {
      request,
      transfer,
      signal,
    }: {
      readonly request: Request;
      readonly transfer: readonly ArrayBuffer[];
      readonly signal: Signal;
    },
  ): Promise<Answer> {
    const { clock } = this.#parts;
    let overrun: Timer | undefined;
    const limit = (): void => {
      overrun = clock.setTimer(OVERRUN_MS, () => void thread.close());
    };
    signal.addEventListener("abort", limit, { once: true });
    if (signal.aborted) limit();
    try {
      return await thread.call<Answer>(request, { transfer });
    } finally {
      signal.removeEventListener("abort", limit);
      if (overrun !== undefined) clock.clearTimer(overrun);
      if (!thread.isEnded) this.#keepIdle(thread);
    }
  }

  #startThread(): ThreadLink<Request> {
    const { start, does } = this.#parts;
    const onEnd = (): void => {
      this.#threads.delete(thread);
      const at = this.#idle.indexOf(thread);
      if (at >= 0) this.#idle.splice(at, 1);
    };
    const ended = (cause?: unknown): Error => new Error(`The thread that ${does} ended`, { cause });
    const thread = new ThreadLink<Request>(start(), { ended, onEnd });
    this.#threads.add(thread);
    return thread;
  }

  #keepIdle(thread: ThreadLink<Request>): void {
    const { clock } = this.#parts;
    this.#idle.push(thread);
    if (this.#rest !== undefined) clock.clearTimer(this.#rest);
    this.#rest = clock.setTimer(IDLE_MS, () => void this.#endIdle());
  }

  async #endIdle(): Promise<void> {
    if (this.#rest !== undefined) this.#parts.clock.clearTimer(this.#rest);
    this.#rest = undefined;
    await Promise.all(this.#idle.splice(0).map((thread) => thread.close()));
  }
}

function closing(): WinnowError {
  return new WinnowError("UNAVAILABLE", "The router is closing");
}
