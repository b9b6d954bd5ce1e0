// How many files and connections this process may have open, and defaults that follow from it. Where the kernel has no
// descriptor left, it takes no new connection and says nothing: a server must make room before.

import { readFileSync } from "node:fs";
import { WinnowError } from "../errors/errors.ts";

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

/**
 * Refuses to begin with fewer descriptors than a process of a cluster needs for itself: threads, processes and reads of
 * models would fail one after the other, each in its own words. @throws WinnowError FAILED_PRECONDITION
 */
export function assertDescriptors(limit: number = descriptorLimit()): void {
  if (limit >= OWN_DESCRIPTORS) return;
  const text = `Cannot serve: this process may have ${limit} files and connections open (ulimit -n), and needs ${OWN_DESCRIPTORS} for itself and one for each connection; raise the limit to 1024 or more`;
  const where =
    "ulimit -n in a shell, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container";
  throw new WinnowError("FAILED_PRECONDITION", `${text}: ${where}`);
}

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
