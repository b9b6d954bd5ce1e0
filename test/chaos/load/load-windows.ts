// What became of the load, window by window (warm-up, before, during and after a fault), and how long service
// was disturbed after each injection. A request belongs to the window in which it was due, and its
// latency counts from then: a stall is seen by every request that should have been sent in it.

import type { AnswerClass, Verdict } from "../answers/answer-check.ts";
import type { QuestionKind } from "./load-questions.ts";

/** A request that is over. */
export interface FinishedRequest extends Verdict {
  readonly kind: QuestionKind;
  readonly window: LoadWindow;
  readonly dueMs: number;
  readonly endMs: number;
  /** Sent a second time to another router, because the first one broke the connection. */
  readonly isResent: boolean;
}

/** Figures of one window. */
export interface WindowFigures {
  readonly name: string;
  readonly seconds: number;
  readonly requests: number;
  readonly counts: Readonly<Record<AnswerClass, number>>;
  readonly resent: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** What was seen of a class other than `exact`, some of it. */
export interface SeenAnswer {
  readonly atMs: number;
  readonly window: string;
  readonly kind: QuestionKind;
  readonly class: AnswerClass;
  readonly text: string;
}

/** When a fault was injected, and until when some bucket of requests was disturbed by it. */
export interface Disturbance {
  readonly name: string;
  readonly atMs: number;
  readonly recoveryMs: number;
}

/** Everything a load showed. */
export interface LoadFigures {
  readonly windows: readonly WindowFigures[];
  readonly disturbances: readonly Disturbance[];
  readonly seen: readonly SeenAnswer[];
  /** Answers by kind of request and class. */
  readonly kinds: Readonly<Record<string, Readonly<Partial<Record<AnswerClass, number>>>>>;
  /** How late the generator itself was to send, and of how many requests. */
  readonly lateness: { readonly p99Ms: number; readonly maxMs: number; readonly late: number };
}

const SEEN_MAX = 60;
/** Of a class in one window: the first of them say enough, and others must find room. */
const SEEN_PER_CLASS_MAX = 12;
const BUCKET_MS = 200;
/** A bucket of requests is disturbed if the tenth of them that took longest took longer than this. */
const disturbedAboveMs = (p99BeforeMs: number): number => 2 * p99BeforeMs + 25;
/** A request that was sent so much after it was due says that the generator was slow. */
const LATE_MS = 20;

/** One window while it fills. */
export interface LoadWindow {
  readonly name: string;
  readonly startMs: number;
  endMs: number;
  readonly counts: Record<AnswerClass, number>;
  readonly latenciesMs: number[];
  resent: number;
}

interface Bucket {
  readonly latenciesMs: number[];
  isFaulty: boolean;
}

/** Takes requests as they end. */
export class LoadWindows {
  readonly #windows: LoadWindow[] = [];
  readonly #buckets = new Map<number, Bucket>();
  readonly #injections: { readonly name: string; readonly atMs: number }[] = [];
  readonly #seen: SeenAnswer[] = [];
  readonly #kinds: Record<string, Partial<Record<AnswerClass, number>>> = {};
  readonly #latenessMs: number[] = [];

  /** The window in which requests are due now. */
  get current(): LoadWindow | undefined {
    return this.#windows.at(-1);
  }

  /** Opens the next window and ends the one before it. */
  open(name: string, nowMs: number): void {
    this.close(nowMs);
    const counts = { exact: 0, partial: 0, gone: 0, refused: 0, failed: 0, wrong: 0 };
    const window = { name, startMs: nowMs, endMs: nowMs, counts, latenciesMs: [], resent: 0 };
    this.#windows.push(window);
  }

  /** Ends the last window. */
  close(nowMs: number): void {
    const last = this.#windows.at(-1);
    if (last !== undefined) last.endMs = nowMs;
  }

  /** A fault begins, or ends in a way that could disturb as well. */
  inject(name: string, nowMs: number): void {
    this.#injections.push({ name, atMs: nowMs });
  }

  /** The generator sent a request that was due then. */
  sent(dueMs: number, nowMs: number): void {
    this.#latenessMs.push(nowMs - dueMs);
  }

  /** A request has ended. */
  finish(request: FinishedRequest): void {
    const { window, dueMs, endMs, kind } = request;
    const latencyMs = endMs - dueMs;
    window.counts[request.class] += 1;
    window.latenciesMs.push(latencyMs);
    if (request.isResent) window.resent += 1;
    const ofKind = (this.#kinds[kind] ??= {});
    ofKind[request.class] = (ofKind[request.class] ?? 0) + 1;
    const isRight = request.class === "exact" || request.class === "gone";
    const bucket = this.#bucket(dueMs);
    bucket.latenciesMs.push(latencyMs);
    if (isRight) return;
    if (request.class !== "partial") bucket.isFaulty = true;
    const like = this.#seen.filter(
      (each) => each.class === request.class && each.window === window.name,
    );
    if (this.#seen.length >= SEEN_MAX || like.length >= SEEN_PER_CLASS_MAX) return;
    const text = `${request.text ?? ""} (${latencyMs.toFixed(0)} ms)`;
    this.#seen.push({ atMs: dueMs, window: window.name, kind, class: request.class, text });
  }

  /** What it all showed. */
  figures(): LoadFigures {
    const lateness = sorted(this.#latenessMs);
    return {
      windows: this.#windows.map(figuresOf),
      disturbances: this.#disturbances(),
      seen: this.#seen,
      kinds: this.#kinds,
      lateness: {
        p99Ms: quantile(lateness, 0.99),
        maxMs: lateness.at(-1) ?? 0,
        late: lateness.filter((ms) => ms > LATE_MS).length,
      },
    };
  }

  #bucket(dueMs: number): Bucket {
    const number = Math.floor(dueMs / BUCKET_MS);
    let bucket = this.#buckets.get(number);
    if (bucket === undefined) {
      bucket = { latenciesMs: [], isFaulty: false };
      this.#buckets.set(number, bucket);
    }
    return bucket;
  }

  #disturbances(): Disturbance[] {
    const before = this.#windows.find(({ name }) => name === "before");
    if (before === undefined) return [];
    const aboveMs = disturbedAboveMs(quantile(sorted(before.latenciesMs), 0.99));
    const endMs = this.#windows.at(-1)!.endMs;
    return this.#injections.map(({ name, atMs }, index) => {
      const untilMs = this.#injections[index + 1]?.atMs ?? endMs;
      let recoveryMs = 0;
      for (let at = Math.floor(atMs / BUCKET_MS); at * BUCKET_MS < untilMs; at += 1) {
        const bucket = this.#buckets.get(at);
        if (bucket === undefined) continue;
        const slowMs = quantile(sorted(bucket.latenciesMs), 0.9);
        if (!bucket.isFaulty && slowMs <= aboveMs) continue;
        recoveryMs = (at + 1) * BUCKET_MS - atMs;
      }
      return { name, atMs, recoveryMs };
    });
  }
}

function figuresOf({
  name,
  startMs,
  endMs,
  counts,
  latenciesMs,
  resent,
}: LoadWindow): WindowFigures {
  const times = sorted(latenciesMs);
  return {
    name,
    seconds: (endMs - startMs) / 1000,
    requests: times.length,
    counts,
    resent,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    maxMs: times.at(-1) ?? 0,
  };
}

const sorted = (values: readonly number[]): Float64Array => Float64Array.from(values).toSorted();

/** A share of ascending values; 0 where there are none. */
function quantile(ascending: Float64Array, share: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? 0;
}
