// Work on many candidates in steps, between which other requests run.

import { nextLoopTurn } from "@winnow/core";

/** Work between two pauses, in multiplications or steps of similar cost: a few ms. */
const WORK_AT_ONCE = 2 ** 18;

/** Work that yields where other requests may run. */
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

/** Resolves when other requests have run. @throws the signal's reason */
export async function nextTurn(signal: AbortSignal): Promise<void> {
  await nextLoopTurn();
  signal.throwIfAborted();
}

/** Gives a function that counts work, and is `true` once for each `WORK_AT_ONCE`. */
export function pauses(): (work: number) => boolean {
  let since = 0;
  return (work) => {
    since += work;
    if (since < WORK_AT_ONCE) return false;
    since = 0;
    return true;
  };
}
