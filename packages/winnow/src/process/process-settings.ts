// What a role takes from its process: environment variables, time and randomness. All other code gets these
// as arguments.

import { type Environment, type Logger, systemClock } from "@winnow/core";

/** The environment variables of this process. */
export const processVariables: Readonly<Record<string, string | undefined>> = process.env;

/** Clock, randomness and log of this process. */
export function processEnvironment(log: Logger): Environment {
  return { clock: systemClock, random: Math.random, log };
}

/** A number from 0 to below 1, by chance. */
export const randomShare = (): number => Math.random();

/** The time of day in ms since 1970; only for certificates. */
export const wallMs = (): number => Date.now();

/** The time of day as text; for people only. */
export const wallClock = (): string => new Date(Date.now()).toISOString();

/** The time of day, in ms since 1970. */
export const wallClockMs = (): number => Date.now();

/** A date in a text, in ms since 1970; `undefined` for other texts. */
export function timeMsOf(text: string): number | undefined {
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

/** Keeps this process alive until the returned function is called; the clock's timers do not. */
export function holdProcess(): () => void {
  const timer = setInterval(() => undefined, 1000);
  return () => clearInterval(timer);
}
