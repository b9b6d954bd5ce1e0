// Finds a short list of faults that still breaks something: delta debugging (Zeller and Hildebrandt
// 2002) with a bound on the runs it may take.

import type { PlannedFault } from "./scenario.ts";

/** A shorter list, as short as `runsMax` tries make it. */
export async function reducedFaults(
  faults: readonly PlannedFault[],
  fails: (faults: readonly PlannedFault[]) => Promise<boolean>,
  runsMax: number,
): Promise<readonly PlannedFault[]> {
  let kept = faults;
  let runs = 0;
  for (let parts = 2; kept.length > 0 && runs < runsMax;) {
    const size = Math.ceil(kept.length / parts);
    let isReduced = false;
    for (let from = 0; from < kept.length && runs < runsMax; from += size) {
      const rest = [...kept.slice(0, from), ...kept.slice(from + size)];
      runs += 1;
      if (!(await fails(rest))) continue;
      kept = rest;
      parts = Math.max(2, parts - 1);
      isReduced = true;
      break;
    }
    if (isReduced) continue;
    if (size === 1) break;
    parts = Math.min(kept.length, parts * 2);
  }
  return kept;
}
