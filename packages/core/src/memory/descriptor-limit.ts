// How many files and connections this process may have open, and defaults that follow from it. Where the kernel has no
// descriptor left, it takes no new connection and says nothing: a server must make room before.

import { readFileSync } from "node:fs";

/**
 * How many descriptors this process may have open: what Linux says, which Node has raised to the hard limit when it
 * started; unknown elsewhere, which is `Infinity`.
 */
export function descriptorLimit(): number {
  try {
    return descriptorsIn(readFileSync("/proc/self/limits", "utf8"));
  } catch {
    return Infinity;
  }
}

/**
 * The limit in the text of `/proc/self/limits`.
 *
 * @internal tests call it
 */
export function descriptorsIn(limits: string): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return soft === undefined ? Infinity : Number(soft);
}

/** Descriptors of a process that has no clients: libraries, threads, models, connections to workers, files that are read. */
const OWN_DESCRIPTORS = 64;

/** So many connections are let in however few descriptors there are: a worker's routers take several each. */
const CONNECTIONS_MIN = 8;

/**
 * The default of a bound of connections: `most`, or `ratio` of the descriptors for clients where that is less; at
 * least 8.
 */
export function fittingConnections(most: number, ratio: number, descriptors: number): number {
  const fitting = Math.floor(ratio * (descriptors - OWN_DESCRIPTORS));
  return Math.max(CONNECTIONS_MIN, Math.min(most, fitting));
}
