// The end of a request that is still running: its client leaves, its deadline passes, or the router
// closes. Whichever comes first ends the work, and is what the caller hears (L2).

import type { Clock } from "@winnow/core";
import { WinnowError } from "@winnow/core";

/** What bounds a request. */
export interface RequestBounds {
  readonly client: AbortSignal;
  readonly deadlineMs: number;
  /** Requests under way; whoever aborts one of these ends it. */
  readonly running: Set<AbortController>;
}

/** Runs `work` until one of its ends comes. @throws WinnowError CANCELLED, DEADLINE_EXCEEDED, or the work's own */
export async function runWithin<Result>(
  clock: Clock,
  { client, deadlineMs, running }: RequestBounds,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const abort = new AbortController();
  const leave = (): void =>
    abort.abort(new WinnowError("CANCELLED", "The client has left", { cause: client.reason }));
  const timer = clock.setTimer(deadlineMs - clock.nowMs(), () =>
    abort.abort(new WinnowError("DEADLINE_EXCEEDED", "The deadline passed before the answer")),
  );
  client.addEventListener("abort", leave, { once: true });
  running.add(abort);
  try {
    if (client.aborted) leave();
    abort.signal.throwIfAborted();
    return await work(abort.signal);
  } catch (error) {
    throw abort.signal.aborted ? abort.signal.reason : error;
  } finally {
    clock.clearTimer(timer);
    client.removeEventListener("abort", leave);
    running.delete(abort);
  }
}
