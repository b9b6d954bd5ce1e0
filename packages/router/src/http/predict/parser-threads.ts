// Threads that parse large bodies, so that the event loop never stands still for one. They are started with
// the first such body, and end after a while without work.
//
//   body ─▶ waiting in order ─▶ gathered in slices ─▶ thread ─▶ columns
//              │    └── a giant is skipped while another is parsed: one thread is left to smaller bodies
//              └── its request ends: leaves ─▶
//
// When a request is over while its body is being parsed, the thread gets a moment to finish; then it is
// ended, so that no body can occupy a thread. If a thread ends unasked, the request of its body fails, and
// the next body starts another thread. Waiting bodies count against the memory of all bodies, through their
// `RequestBody`.

import { Worker } from "node:worker_threads";
import { Outstanding, ThreadLink, WinnowError, entryBeside } from "@winnow/core";
import type { Clock, Signal, Timer } from "@winnow/core";
import type { BodyContent, BodyLimits, BodyQuestion } from "./body-reading.ts";
import { unpackContent } from "./parser-messages.ts";
import type { ParserAnswer, ParserRequest, ParserSettings } from "./parser-messages.ts";
import { gatherBytes } from "../body/request-body.ts";
import type { RequestBody } from "../body/request-body.ts";

/** Limits of the parser threads. */
export interface ParserThreadLimits extends BodyLimits {
  readonly parserThreadsMax: number;
  readonly parserQueueMax: number;
  readonly bodyBytesMax: number;
}

/** What the parser threads need. */
export interface ParserThreadParts {
  readonly clock: Clock;
  readonly limits: ParserThreadLimits;
  /** Called when a body was refused because too many wait. */
  readonly onQueueFull: () => void;
  /** Starts a thread. Default: `startParserThread`. */
  readonly start?: StartParserThread | undefined;
}

/** Starts one thread. */
export type StartParserThread = (settings: ParserSettings) => Worker;

/** A body of at least this size is a giant; one thread is left to smaller bodies. */
const GIANT_BYTES = 4 * 1024 * 1024;
/** Bytes per value while a body is read: its entry in `JsonReader`, and its place in a tensor. */
const VALUE_BYTES = 32;
/** Characters of the shortest value with its separator: `,1`. */
const VALUE_CHARACTERS_MIN = 2;
const IDLE_MS = 10_000;
/** A body whose request is over may be parsed for this long; then its thread is ended, because others need it. */
const OVERRUN_MS = 2000;

interface Job {
  readonly body: RequestBody;
  readonly question: BodyQuestion;
  /** Aborted when the request is over. */
  readonly signal: Signal;
  readonly isGiant: boolean;
  /** Bytes that parsing the body is expected to take. */
  readonly parsingBytes: number;
  readonly start: () => void;
  readonly refuse: (error: unknown) => void;
}

type ParserThread = ThreadLink<ParserRequest>;

/** The threads, and the bodies that wait for one. */
export class ParserThreads {
  readonly #parts: ParserThreadParts;
  readonly #limits: ParserThreadLimits;
  readonly #waiting: Job[] = [];
  readonly #running = new Outstanding<Job>();
  readonly #threads = new Set<ParserThread>();
  readonly #idle: ParserThread[] = [];
  #rest: Timer | undefined;
  #isClosed = false;

  constructor(parts: ParserThreadParts) {
    this.#parts = parts;
    this.#limits = parts.limits;
  }

  /** Bytes that parsing takes at present, in addition to the bodies. */
  get bytes(): number {
    let bytes = 0;
    for (const { parsingBytes } of this.#running) bytes += parsingBytes;
    return bytes;
  }

  /** Bytes that parsing may take; at least one thread is left to bodies that are not giants. */
  get bytesMax(): number {
    const { bodyBytesMax } = this.#limits;
    const giants = this.#giantsMax * this.#parsingBytes(bodyBytesMax);
    const others = this.#limits.parserThreadsMax - this.#giantsMax;
    return giants + others * this.#parsingBytes(Math.min(GIANT_BYTES, bodyBytesMax));
  }

  /** Bodies that wait for a thread. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Threads that are there. */
  get threads(): number {
    return this.#threads.size;
  }

  /**
   * Reads a body, whose bytes are given up. @throws as `readContent`; WinnowError UNAVAILABLE if too many
   * wait; the signal's reason when it is aborted while the body waits
   */
  read(body: RequestBody, question: BodyQuestion, signal: Signal): Promise<BodyContent> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#isClosed) throw closing();
      const { parserQueueMax } = this.#limits;
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(job), 1);
        reject(signal.reason);
      };
      const job: Job = {
        body,
        question,
        signal,
        isGiant: body.bytes > GIANT_BYTES,
        parsingBytes: this.#parsingBytes(body.bytes),
        start: () => {
          signal.removeEventListener("abort", leave);
          this.#run(job).then(resolve, reject);
        },
        refuse: (error) => {
          signal.removeEventListener("abort", leave);
          reject(error);
        },
      };
      if (this.#mayRun(job)) return job.start();
      if (this.#waiting.length >= parserQueueMax) {
        this.#parts.onQueueFull();
        throw new WinnowError(
          "UNAVAILABLE",
          `${parserQueueMax} large bodies wait to be read already; try again`,
        );
      }
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(job);
    });
  }

  /** Ends all threads; bodies being parsed are lost. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#waiting.splice(0)) job.refuse(closing());
    await this.#endIdle();
    await Promise.all([...this.#threads].map((thread) => thread.close()));
  }

  get #giantsMax(): number {
    return Math.max(1, this.#limits.parserThreadsMax - 1);
  }

  #parsingBytes(bodyBytes: number): number {
    const values = Math.ceil(bodyBytes / VALUE_CHARACTERS_MIN);
    return Math.min(values, this.#limits.jsonValuesMax) * VALUE_BYTES;
  }

  #mayRun({ isGiant }: Job): boolean {
    if (this.#running.size >= this.#limits.parserThreadsMax) return false;
    if (!isGiant) return true;
    const giants = [...this.#running].filter((running) => running.isGiant).length;
    return giants < this.#giantsMax;
  }

  /** Starts waiting bodies in order, but lets others pass giants. */
  #runNext(): void {
    for (;;) {
      const next = this.#waiting.findIndex((job) => this.#mayRun(job));
      if (next < 0) return;
      this.#waiting.splice(next, 1)[0]!.start();
    }
  }

  async #run(job: Job): Promise<BodyContent> {
    const id = this.#running.add(job);
    try {
      const bytes = await gatherBytes(job.body);
      if (this.#isClosed) throw closing();
      const thread = this.#idle.pop() ?? this.#startThread();
      const request = { question: job.question, bytes };
      return contentOf(await this.#ask(thread, request, job.signal));
    } finally {
      this.#running.delete(id);
      this.#runNext();
    }
  }

  /** Has a thread parse a body; the thread is idle afterwards. */
  async #ask(thread: ParserThread, request: ParserRequest, signal: Signal): Promise<ParserAnswer> {
    const { clock } = this.#parts;
    let overrun: Timer | undefined;
    const limit = (): void => {
      overrun = clock.setTimer(OVERRUN_MS, () => void thread.close());
    };
    signal.addEventListener("abort", limit, { once: true });
    if (signal.aborted) limit();
    try {
      return await thread.call(request, { transfer: [request.bytes.buffer] });
    } finally {
      signal.removeEventListener("abort", limit);
      if (overrun !== undefined) clock.clearTimer(overrun);
      if (!thread.isEnded) this.#keepIdle(thread);
    }
  }

  #startThread(): ParserThread {
    const { start = startParserThread } = this.#parts;
    const worker = start({ limits: bodyLimitsOf(this.#limits) });
    const onEnd = (): void => {
      this.#threads.delete(thread);
      const at = this.#idle.indexOf(thread);
      if (at >= 0) this.#idle.splice(at, 1);
    };
    const thread: ParserThread = new ThreadLink(worker, { ended: threadEnded, onEnd });
    this.#threads.add(thread);
    return thread;
  }

  #keepIdle(thread: ParserThread): void {
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

/** @internal tests call it */
export function startParserThread(settings: ParserSettings): Worker {
  return new Worker(entryBeside(import.meta.url, "parser-thread"), {
    name: "winnow-parser",
    workerData: settings,
    execArgv: [],
  });
}

function contentOf(answer: ParserAnswer): BodyContent {
  if (answer.kind === "content") return unpackContent(answer.content);
  throw new Error(`The parser failed: ${answer.message}`);
}

function threadEnded(cause?: unknown): Error {
  return new Error("The thread that parses large bodies ended", { cause });
}

function bodyLimitsOf(limits: BodyLimits): BodyLimits {
  const { jsonValuesMax, instancesMax, kMax, excludedIdsMax } = limits;
  return { jsonValuesMax, instancesMax, kMax, excludedIdsMax };
}

function closing(): WinnowError {
  return new WinnowError("UNAVAILABLE", "The router is closing");
}
