// What a role takes from the process it runs in: environment variables and chance. Everything behind
// this file is given them as arguments.

import { type Environment, type Logger, systemClock } from "@winnow/core";

/** The environment variables of this process. */
export const processVariables: Readonly<Record<string, string | undefined>> = process.env;

/** Time, chance and log of this process. */
export function processEnvironment(log: Logger): Environment {
  return { clock: systemClock, random: Math.random, log };
}
