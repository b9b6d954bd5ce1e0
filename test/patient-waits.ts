// What a test waits for may take long on a machine that has other work. `vi.waitFor` and `vi.waitUntil` would give up
// after a second by themselves, and `expect.poll` too (its time is in `vitest.config.ts`).

import { vi } from "vitest";

const TIMEOUT_MS = 60_000;
/** Tests of one process share `vi`, but each file runs this. */
const PATIENT = Symbol.for("winnow.patientWaits");

type Wait = typeof vi.waitFor | typeof vi.waitUntil;

function patient<Waits extends Wait>(wait: Waits): Waits {
  const waits = (condition: () => unknown, options: number | object = {}): unknown =>
    wait(
      condition as never,
      typeof options === "number" ? options : { timeout: TIMEOUT_MS, ...options },
    );
  return waits as Waits;
}

if (!(PATIENT in vi)) {
  Object.assign(vi, {
    [PATIENT]: true,
    waitFor: patient(vi.waitFor),
    waitUntil: patient(vi.waitUntil),
  });
}
