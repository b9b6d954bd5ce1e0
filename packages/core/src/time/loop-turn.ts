// Pauses in long work on one thread.

/** Resolves after the event loop has handled pending events: messages, aborts, requests. */
export function nextLoopTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Turns that one task may have before others. It is best ended early: others that take as long would all end later. */
const TURNS_IN_ROW = 32;

/** Those that wait for a turn for long work, in order, and whether the next of them is about to have one. */
const waiting: (() => void)[] = [];
let isTurnComing = false;
/** Whether whoever had the last turn has not asked for another, and how many it has had in a row. */
let hasResumed = false;
let turnsInRow = 0;

/**
 * A pause in long work of which there may be much at once, such as writing large answers. Resolves in a later turn of the
 * event loop, in which nobody else resumes who waits here: a turn has one piece of long work, however many are under way,
 * so what is short waits for no more than that. Whoever asks at once after its turn goes on before others, up to 32 times.
 */
export function nextWorkTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (hasResumed && turnsInRow < TURNS_IN_ROW) waiting.unshift(resolve);
    else waiting.push(resolve);
    if (hasResumed && turnsInRow >= TURNS_IN_ROW) turnsInRow = 0;
    hasResumed = false;
    if (!isTurnComing) setImmediate(resumeFirst);
    isTurnComing = true;
  });
}

function resumeFirst(): void {
  const resume = waiting.shift();
  isTurnComing = waiting.length > 0;
  if (isTurnComing) setImmediate(resumeFirst);
  if (hasResumed) turnsInRow = 0;
  turnsInRow += 1;
  hasResumed = true;
  resume?.();
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
