// Arrays that a thread no longer holds. V8 collects when objects fill its heap, and counts arrays outside of it only
// roughly. The threads that load make few objects and large arrays (keys, ids, vocabularies), so that what a version
// leaves behind would stay for many versions: some 50 MB of each that has 1.5 million items and is replaced.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes of arrays, held or not, for which a collection is worth its milliseconds. */
const BYTES_MIN = 32 * 2 ** 20;

let collect: (() => void) | undefined;

/** Frees arrays of this thread that nothing holds, if there are many bytes of arrays. Takes some 10 ms. */
export function freeUnheldArrays(): void {
  if (process.memoryUsage().arrayBuffers < BYTES_MIN) return;
  collect ??= collector();
  collect();
}

function collector(): () => void {
  // The flag gives new contexts, as the one that is made here, the function. It must not stay: V8 takes kept bytecode only
  // under the flags under which it was made.
  setFlagsFromString("--expose-gc");
  const found = runInNewContext("gc") as () => void;
  setFlagsFromString("--no-expose-gc");
  return found;
}
