// What control code gets from outside: time, randomness and a log. Network and membership are
// separate arguments of the code that needs them. Control code imports nothing else for these
// purposes.

import type { Clock } from "./time/clock.ts";
import type { Tracer } from "./trace.ts";

/** Named values with units in their names, for a log line: `{ worker, elapsedMs }`. */
export type Fields = Readonly<Record<string, unknown>>;

/** A structured log: a constant event and fields. `core` and `accelerator` never log. */
export interface Logger {
  debug(event: string, fields?: Fields): void;
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
}

/** Time, randomness and log of one process; a simulator supplies seeded ones. */
export interface Environment {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  /** Records traces. Default: none are. */
  readonly tracer?: Tracer | undefined;
}

/** A log that discards everything, for tests and tools. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
