// Limits V8's optimizing compiler during a start. A worker's start runs many loops for a few milliseconds
// each: ids, attributes, checksums. On Node 20, TurboFan compiles each of them in that time, which takes
// longer than the rest of the loop: a sixth of the processor time of a start. So while a worker starts, a
// function must run eight times longer before it is compiled; a loop over millions of rows still is, some
// milliseconds later. Newer versions of V8 have a cheaper compiler in between, and little can be saved.

import { setFlagsFromString } from "node:v8";

/** Bytes of bytecode that a function runs before V8 considers compiling it: the default of V8 11. */
const BUDGET_BYTES = 67_584;
const START_FACTOR = 8;
/** The V8 of Node 20. */
const V8_OF_NODE_20 = /^11\.3\./;

/** Makes V8 compile less until the returned function is called. */
export function startsInLowerTiers(): () => void {
  if (!V8_OF_NODE_20.test(process.versions.v8)) return () => undefined;
  setBudget(BUDGET_BYTES * START_FACTOR);
  return () => setBudget(BUDGET_BYTES);
}

function setBudget(bytes: number): void {
  setFlagsFromString(`--interrupt-budget=${bytes}`);
}
