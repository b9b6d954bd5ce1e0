// What a start spends on V8's optimizing compiler. A worker's start runs many loops for a few milliseconds each:
// ids, attributes, checksums. On Node 20 each of them is compiled by TurboFan in that time, which takes longer
// than what is left of the loop: a sixth of the processor time of a start. So while a worker starts, a function has
// to run eight times longer before it is compiled; a loop over millions of rows still is, some milliseconds later.
// Newer versions of V8 have a cheaper compiler between, which leaves little to save.

import { setFlagsFromString } from "node:v8";

/** The bytes of bytecode that a function runs before V8 looks whether to compile it: V8 11's own figure. */
const BUDGET_BYTES = 67_584;
const START_FACTOR = 8;
/** The V8 of Node 20. */
const V8_OF_NODE_20 = /^11\.3\./;

/** Has V8 compile less until the returned function is called. */
export function startsInLowerTiers(): () => void {
  if (!V8_OF_NODE_20.test(process.versions.v8)) return () => undefined;
  setBudget(BUDGET_BYTES * START_FACTOR);
  return () => setBudget(BUDGET_BYTES);
}

function setBudget(bytes: number): void {
  setFlagsFromString(`--interrupt-budget=${bytes}`);
}
