// Values of a client's message that are copied or changed in several turns of the event loop: a message of 64 MiB has tens
// of millions of them, which would hold it for up to half a second.

import { BYTES_OF_WORK, WORK_PER_TURN } from "./turns.ts";
import type { Steps, TurnMeter } from "./turns.ts";

/** Values that are read or changed without asking whether the turn is over. */
export const VALUES_PER_PIECE: number = 2 ** 16;
/** What a string costs beside its bytes, as `turnMeter` counts. */
export const STRING_WORK = 4;

/** Copies bytes to `target` from `at` on; gives where they end. */
export function* copyingBytes(
  target: Uint8Array,
  at: number,
  { source, isTurnOver }: { readonly source: Uint8Array; readonly isTurnOver: TurnMeter },
): Steps<number> {
  const piece = WORK_PER_TURN * BYTES_OF_WORK;
  for (let from = 0; from < source.length; from += piece) {
    const part = source.subarray(from, from + piece);
    target.set(part, at + from);
    if (isTurnOver(part.length / BYTES_OF_WORK)) yield;
  }
  return at + source.length;
}

/** Makes every byte 0 or 1. */
export function* makingFlags(values: Uint8Array, isTurnOver: TurnMeter): Steps<void> {
  for (let from = 0; from < values.length; from += VALUES_PER_PIECE) {
    const to = Math.min(values.length, from + VALUES_PER_PIECE);
    for (let at = from; at < to; at++) values[at] = values[at] === 0 ? 0 : 1;
    if (isTurnOver(to - from)) yield;
  }
}
