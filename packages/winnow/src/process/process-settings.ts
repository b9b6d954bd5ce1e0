// What a role takes from the process it runs in: environment variables, time and chance. All other
// code gets them as arguments.

import { type Environment, type Logger, systemClock } from "@winnow/core";

/** The environment variables of this process. */
export const processVariables: Readonly<Record<string, string | undefined>> = process.env;

/** Time, chance and log of this process. */
export function processEnvironment(log: Logger): Environment {
  return { clock: systemClock, random: Math.random, log };
}

/** The time of day in ms since 1970, for certificates alone. */
export const wallMs = (): number => Date.now();

/** The time of day, for people: nothing is decided by it. */
export const wallClock = (): string => new Date(Date.now()).toISOString();

/** The time of day, in ms since 1970. */
export const wallClockMs = (): number => Date.now();

/** The time that a date in a text means, in ms since 1970; `undefined` for other texts. */
export function timeMsOf(text: string): number | undefined {
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

/** Keeps this process alive, unlike the clock's timers, until the returned function is called. */
export function holdProcess(): () => void {
  const timer = setInterval(() => undefined, 1000);
  return () => clearInterval(timer);
}
