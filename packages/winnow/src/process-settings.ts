// What a role takes from the process it runs in: environment variables and chance. Everything behind
// this file is given them as arguments.

import { type Environment, type Logger, systemClock } from "@winnow/core";

/** The environment variables of this process. */
export const processVariables: Readonly<Record<string, string | undefined>> = process.env;

/** Time, chance and log of this process. */
export function processEnvironment(log: Logger): Environment {
  return { clock: systemClock, random: Math.random, log };
}

/** The time of day, for people: nothing is decided by it. */
export const wallClock = (): string => new Date().toISOString();

/** Keeps this process alive, which the clock's timers do not, until the end that it returns. */
export function holdProcess(): () => void {
  const timer = setInterval(() => undefined, 1000);
  return () => clearInterval(timer);
}
