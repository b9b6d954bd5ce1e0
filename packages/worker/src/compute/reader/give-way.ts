// The reader thread gives way to searches: what it does, an index of a million ids or a file of attributes, may take seconds
// of a processor, while nobody waits for it.

import os from "node:os";

/** With both at work, a thread that gives way has a quarter of what another thread has. */
const NICER_BY = 5;
const NICE_MAX = 19;

/**
 * Lets other threads go before the one that calls, for good. Linux alone has a priority for each thread; where it is not
 * allowed, nothing changes.
 */
export function giveWay(): void {
  if (process.platform !== "linux") return;
  const thisThread = 0;
  try {
    os.setPriority(thisThread, Math.min(NICE_MAX, os.getPriority(thisThread) + NICER_BY));
  } catch {
    // A sandbox forbids it.
  }
}
