// V8's flags of the processes that serve. They are set once a process has loaded its code and begun the threads that
// it needs at once: Node keeps bytecode of its own modules, and V8 takes that only under the flags of Node's build.
// Compiled anew, they would take 20 ms of the processor time of a start, and in each thread 25 ms.

import { setFlagsFromString } from "node:v8";

import type { Clock } from "@winnow/core";

// V8 allocates what a line of code makes in the old generation if most of what it made before lived long.
// While a router starts or is slow its requests do, and from then on those of a fast one would stay until a
// full collection, and keep younger ones that they point to: twice the time of all minor collections.
const NO_PRETENURING = "--no-allocation-site-pretenuring";

// V8 counts arrays outside of its heap when it decides about a full collection. Beside a small heap that is
// soon: a pipeline's candidates and their vectors are a megabyte or two, and of a router with 20 MB of live objects
// every seventh such request waited for one. A heap may grow to four times what was alive, which V8 itself
// allows at most to whoever allocates much.
const FEW_FULL_COLLECTIONS = "--heap-growing-percent=300";

/** Sets the flags under which a process serves. */
export function setServingFlags(): void {
  setFlagsFromString(NO_PRETENURING);
  setFlagsFromString(FEW_FULL_COLLECTIONS);
}

interface StartFlags {
  readonly v8: RegExp;
  readonly start: string;
  /** As V8 has it by default. */
  readonly end: string;
}

// A worker's start runs many loops for a few milliseconds each: ids, attributes, checksums. TurboFan compiles each of
// them in that time, which takes longer than the rest of the loop: a sixth of the processor time of a start. So while
// a worker starts, a function must run several times longer before it is compiled; a loop over millions of rows still is,
// some milliseconds later. From V8 12 on V8 has a mode for that, in which it uses fewer threads as well.
const START_FLAGS: readonly StartFlags[] = [
  // Bytes of bytecode that a function runs before V8 considers compiling it: eight times the default.
  { v8: /^11\.3\./, start: "--interrupt-budget=540672", end: "--interrupt-budget=67584" },
  { v8: /^1[234]\./, start: "--efficiency-mode", end: "--no-efficiency-mode" },
];

/** Models that load for minutes are no reason to run everything else slowly. */
const START_MS_MAX = 30_000;

/** Makes V8 compile less until the returned function is called, or for half a minute. */
export function startsInLowerTiers(clock: Clock): () => void {
  const flags = START_FLAGS.find(({ v8 }) => v8.test(process.versions.v8));
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
