// What control code may know of the world: time, chance and a log. Network and membership arrive as
// further arguments of those who need them. Nothing else may be imported for these purposes.

import type { Clock } from "./clock.ts";

/** Named values with units in their names, for a log line: `{ worker, elapsedMs }`. */
export type Fields = Readonly<Record<string, unknown>>;

/** A structured log: a constant event and fields. `core` and `accelerator` never log. */
export interface Logger {
  debug(event: string, fields?: Fields): void;
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
}

/** Time, chance and log of one process; a simulator supplies seeded ones. */
export interface Environment {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
}

/** A log that says nothing, for tests and tools. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
