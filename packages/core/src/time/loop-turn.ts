// A pause in long work on one thread.

/** Resolves after the event loop has handled what was pending: messages that arrived, aborts, requests. */
export function nextLoopTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
