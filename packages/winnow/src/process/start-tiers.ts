// Limits V8's optimizing compilers during a start. A worker's start runs many loops for a few milliseconds
// each: ids, attributes, checksums. TurboFan compiles each of them in that time, which takes longer than the rest
// of the loop: a sixth of the processor time of a start. So while a worker starts, a function must run several times
// longer before it is compiled; a loop over millions of rows still is, some milliseconds later. From V8 12 on V8 has a
// mode for that, in which it uses fewer threads as well.

import { setFlagsFromString } from "node:v8";

import type { Clock } from "@winnow/core";

interface StartFlags {
  readonly v8: RegExp;
  readonly start: string;
  /** As V8 has it by default. */
  readonly end: string;
}

// scripts/bundle-loader.cjs has the same.
const FLAGS: readonly StartFlags[] = [
  // Bytes of bytecode that a function runs before V8 considers compiling it: eight times the default.
  { v8: /^11\.3\./, start: "--interrupt-budget=540672", end: "--interrupt-budget=67584" },
  { v8: /^1[234]\./, start: "--efficiency-mode", end: "--no-efficiency-mode" },
];

/** Models that load for minutes are no reason to run everything else slowly. */
const START_MS_MAX = 30_000;

/** Makes V8 compile less until the returned function is called, or for half a minute. */
export function startsInLowerTiers(clock: Clock): () => void {
  const flags = FLAGS.find(({ v8 }) => v8.test(process.versions.v8));
  if (flags === undefined) return () => undefined;
  setFlagsFromString(flags.start);
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    clock.clearTimer(latest);
    setFlagsFromString(flags.end);
  };
  const latest = clock.setTimer(START_MS_MAX, end);
  return end;
}
