// Waiting for what other processes, sockets and real timers do.

import { vi } from "vitest";

/** Below the limit of a test, so that a wait in vain says what it waited for; far above a busy machine's lag. */
const WAIT_MS = 50_000;
const LOOK_MS = 20;

/** Waits until an assertion holds; fails with its last failure. */
export async function eventually(assertion: () => unknown): Promise<void> {
  await vi.waitFor(assertion, { timeout: WAIT_MS, interval: LOOK_MS });
}
