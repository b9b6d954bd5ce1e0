// A pause in long work of a thread.

/** Lets messages that have arrived (scans, lookups) be handled first. */
export function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
