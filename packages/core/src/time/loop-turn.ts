// A pause in long work on one thread.

/** Resolves after the event loop has handled pending events: messages, aborts, requests. */
export function nextLoopTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/**
 * Resolves after the first turn in which a count did not grow: of connections, of which Node accepts one in a turn, once
 * none is waiting. When `isOver` says so, it resolves in any case.
 */
export async function quietTurn(count: () => number, isOver: () => boolean): Promise<void> {
  await nextLoopTurn();
  let before: number;
  do {
    before = count();
    await nextLoopTurn();
  } while (count() > before && !isOver());
}
