// Runs the work on a device one piece at a time, in the order of the calls. A piece that is aborted
// while it waits is never run; a piece that runs has to observe its signal itself.

/** Runs pieces of work one after the other. */
export class WorkQueue {
  #last: Promise<unknown> = Promise.resolve();
  #unfinished = 0;

  /** Whether all work added so far has ended. */
  get isIdle(): boolean {
    return this.#unfinished === 0;
  }

  /** Runs `work` once all earlier work has ended. Rejects with the signal's reason. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    this.#unfinished += 1;
    const done = this.#last.then(async () => {
      try {
        signal?.throwIfAborted();
        return await work();
      } finally {
        this.#unfinished -= 1;
      }
    });
    this.#last = done.catch(() => undefined);
    return signal === undefined ? done : orAborted(done, signal);
  }

  /** Resolves when all work added so far has ended, with or without success. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/** The result of `work`, or the signal's reason as soon as the signal is aborted. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const settled = new AbortController();
  const aborted = new Promise<never>((_resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", stop, { once: true, signal: settled.signal });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    settled.abort();
  }
}
