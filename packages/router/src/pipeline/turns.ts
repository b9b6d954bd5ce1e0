// Work on many candidates in steps, between which other requests have their turn of the router's thread.
//
//   function* work() { for (…) { …; if (isPauseDue(cost)) yield; } return outcome }
//   await inTurns(work(), signal)

import { nextLoopTurn } from "@winnow/core";

/** Work until others have their turn, in multiplications or what takes as long: some ms, of each request there is. */
const WORK_AT_ONCE = 2 ** 18;

/** Work that yields where others may have their turn. */
export type Steps<Outcome> = Generator<undefined, Outcome>;

/** Does the work; work that never yields is done at once. @throws the signal's reason, between two steps */
export async function inTurns<Outcome>(
  steps: Steps<Outcome>,
  signal: AbortSignal,
): Promise<Outcome> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await nextTurn(signal);
  }
}

/** Resolves when others have had their turn. @throws the signal's reason */
export async function nextTurn(signal: AbortSignal): Promise<void> {
  await nextLoopTurn();
  signal.throwIfAborted();
}

/** Counts work; true once in so much of it. */
export function pauses(): (work: number) => boolean {
  let since = 0;
  return (work) => {
    since += work;
    if (since < WORK_AT_ONCE) return false;
    since = 0;
    return true;
  };
}
