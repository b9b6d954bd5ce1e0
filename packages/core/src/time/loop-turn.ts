// A pause in long work on one thread.

/** Resolves after the event loop has handled pending events: messages, aborts, requests. */
export function nextLoopTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
