// A pause in long work on one thread: lets arrived messages and aborts be seen.

/** Resolves after the event loop has handled what is waiting. */
export function nextLoopTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
