// A thread and the calls to it, from its start to its end. Who holds the link starts another one
// when this one has ended.
//
//   open ──(error, exit, close)──▶ ended

import type { Worker } from "node:worker_threads";
import { ThreadCaller } from "./thread-calls.ts";
import type { CallOptions } from "./thread-calls.ts";

/** How a link reports the end of its thread. */
export interface ThreadLinkParts {
  /** The error of calls without an answer when the thread ends, and of later ones. */
  readonly ended: (cause?: unknown) => Error;
  /** Called once, when the thread ends. */
  readonly onEnd?: () => void;
}

/** A running thread. It keeps the process alive only while an answer is pending. */
export class ThreadLink<Request> {
  readonly #thread: Worker;
  readonly #parts: ThreadLinkParts;
  readonly #calls: ThreadCaller<Request>;
  #isEnded = false;

  constructor(thread: Worker, parts: ThreadLinkParts) {
    this.#thread = thread;
    this.#parts = parts;
    this.#calls = new ThreadCaller(thread);
    thread.on("error", (error) => this.#end(error));
    // An answer that cannot be read: whose it is will never be known.
    thread.on("messageerror", (error) => {
      this.#end(error);
      void thread.terminate();
    });
    thread.on("exit", () => this.#end());
    thread.unref();
  }

  /** Whether the thread has ended, so that calls fail. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Calls without an answer yet. */
  get pending(): number {
    return this.#calls.pending;
  }

  /** @throws as `ThreadCaller.call`; what `ended` gives if the thread ends before it has answered */
  async call<Value>(request: Request, options?: CallOptions): Promise<Value> {
    this.#thread.ref();
    try {
      return await this.#calls.call<Value>(request, options);
    } finally {
      if (this.#calls.pending === 0) this.#thread.unref();
    }
  }

  /** Ends the thread at once; pending calls fail. */
  async close(): Promise<void> {
    this.#end();
    await this.#thread.terminate();
  }

  #end(cause?: unknown): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#calls.end(this.#parts.ended(cause));
    this.#parts.onEnd?.();
  }
}
