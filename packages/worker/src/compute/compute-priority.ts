// How much of a busy processor the compute thread gets. A scan takes all the processors there are for some
// milliseconds; event loops (the worker's own, and the router's on the same machine) need one for a moment, and
// whoever waits for an answer waits for them. So scans yield to them. Helper threads of the scan and the reader
// thread are started by the compute thread, and have its priority.

import os from "node:os";

/** Added to the niceness that the process was started with: about a third of the weight of a thread without it. */
const MORE_NICE = 5;
const NICEST = 19;

/** What is asked of the operating system. */
export interface PrioritySystem {
  readonly platform: NodeJS.Platform;
  /** The niceness of the calling thread on Linux; of its process elsewhere. */
  getPriority(): number;
  /** Sets it. */
  setPriority(niceness: number): void;
}

const thisSystem: PrioritySystem = {
  platform: process.platform,
  getPriority: () => os.getPriority(),
  setPriority: (niceness) => os.setPriority(niceness),
};

/**
 * Makes the calling thread, and threads that it will start, yield to others. Only Linux gives threads priorities of their
 * own: elsewhere nothing is done. Where the system refuses, searches are as quick, but others wait longer for them.
 */
export function yieldToEventLoops(system: PrioritySystem = thisSystem): void {
  if (system.platform !== "linux") return;
  try {
    system.setPriority(Math.min(NICEST, system.getPriority() + MORE_NICE));
  } catch {
    // No answer depends on it.
  }
}
