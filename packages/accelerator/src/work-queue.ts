// Work on a device is done one piece at a time, in the order in which it was asked for. A piece
// that is aborted while it waits leaves the queue at once; one that runs is told by its signal.

/** Runs pieces of work one after the other. */
export class WorkQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` when all that was added before has ended. Rejects with the signal's reason. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    const turn = this.#last.then(async () => {
      signal?.throwIfAborted();
      return work();
    });
    this.#last = turn.catch(() => undefined);
    return signal === undefined ? turn : orAborted(turn, signal);
  }

  /** Resolves when everything added so far has ended, well or not. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/** What `work` gives, or the signal's reason as soon as it is aborted. */
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
