// Long work (on many candidates, or the values of a large message) divided over turns of the event loop, so that other
// requests run in between.

import { StringColumn, nextLoopTurn } from "@winnow/core";
import type { Signal } from "@winnow/core";

/** Work in one turn of the event loop, in multiplications or steps of similar cost: a few ms. */
export const WORK_PER_TURN: number = 2 ** 18;
/** Bytes that are copied at the cost of one unit of `turnMeter`. */
export const BYTES_OF_WORK = 4;

/** Work that yields at the end of each turn. */
export type Steps<Outcome> = Generator<undefined, Outcome>;

/**
 * Does the work; gives the outcome of work that never yields at once.
 * @throws the signal's reason, between two turns
 */
export function inTurns<Outcome>(
  steps: Steps<Outcome>,
  signal: Signal,
): Outcome | Promise<Outcome> {
  const step = steps.next();
  return step.done === true ? step.value : inLaterTurns(steps, signal);
}

async function inLaterTurns<Outcome>(steps: Steps<Outcome>, signal: Signal): Promise<Outcome> {
  for (;;) {
    await nextTurn(signal);
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Does the work without a pause. */
export function atOnce<Outcome>(steps: Steps<Outcome>): Outcome {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** Resolves when other requests have run. @throws the signal's reason */
export async function nextTurn(signal: Signal): Promise<void> {
  await nextLoopTurn();
  signal.throwIfAborted();
}

/** Counts work, and is `true` once for each `WORK_PER_TURN`. */
export type TurnMeter = (work: number) => boolean;

/** Gives a meter that nothing was counted on. */
export function turnMeter(): TurnMeter {
  let since = 0;
  return (work) => {
    since += work;
    if (since < WORK_PER_TURN) return false;
    since = 0;
    return true;
  };
}

/** One column behind the other, as a copy. */
export function* joinedColumns(columns: readonly StringColumn[]): Steps<StringColumn> {
  const isTurnOver = turnMeter();
  const joining = StringColumn.joining(columns);
  let step = joining.next();
  for (; step.done !== true; step = joining.next())
    if (isTurnOver(step.value / BYTES_OF_WORK)) yield;
  return step.value;
}
