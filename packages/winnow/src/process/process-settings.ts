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

/** Keeps this process alive, unlike the clock's timers, until the returned function is called. */
export function holdProcess(): () => void {
  const timer = setInterval(() => undefined, 1000);
  return () => clearInterval(timer);
}
