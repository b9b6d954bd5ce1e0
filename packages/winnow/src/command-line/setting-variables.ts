// Environment variables whose names begin with WINNOW_. A process that serves does not start with one that no
// flag or device reads: otherwise a setting with a typo would silently keep its default.

import { WinnowError } from "@winnow/core";
import type { Command } from "commander";
import { nearestName } from "@winnow/core";

const PREFIX = "WINNOW_";

/** Variables that are read although no flag has them. */
export const VARIABLES_WITHOUT_FLAG: readonly string[] = [
  "WINNOW_DEBUG",
  "WINNOW_GPU_ADAPTER",
  "WINNOW_GPU_ALLOW_SOFTWARE",
  "WINNOW_REDIS_PASSWORD",
  "WINNOW_API_KEY",
];

/**
 * The flag may be empty, which is its default in TensorFlow Serving: no file. An empty variable is that of a script whose
 * own is not set, and clients would be asked for no certificate.
 */
const NEVER_EMPTY = "WINNOW_SSL_CONFIG_FILE";

/** Whether a variable's value must not be shown. */
export function isSecretVariable(name: string): boolean {
  return /PASSWORD$|_KEY$|_HEADERS$/.test(name);
}

/** Variables of the benchmarks, which start such processes. */
const BENCHMARKS = "WINNOW_BENCH_";

/**
 * Variables that Kubernetes sets in a container for each service, named after it: WINNOW_ROUTER_SERVICE_HOST,
 * WINNOW_ROUTER_PORT_8501_TCP_ADDR.
 */
const SERVICE_LINK = /_SERVICE_(HOST|PORT(_.+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$/;

/** The value of the one such variable whose name is that of a setting: WINNOW_ROUTER_PORT. */
const SERVICE_ADDRESS = /^(tcp|udp|sctp):\/\//;

/** All variables that a command line and its subcommands read. */
export function variablesOf(command: Command): string[] {
  const own = command.options.flatMap(({ envVar }) => envVar ?? []);
  return [...new Set([...own, ...command.commands.flatMap(variablesOf)])];
}

/** The prefix, which all have, makes no name near: WINNOW_FOO is not WINNOW_PORT. */
function nearestByRest(name: string, known: readonly string[]): string | undefined {
  const rests = known.map((each) => each.slice(PREFIX.length));
  const nearest = nearestName(name.slice(PREFIX.length), rests);
  return nearest === undefined ? undefined : `${PREFIX}${nearest}`;
}

/** WINNOW_REDIS_URL for WINNOW_REDIS, although WINNOW_REDIS_KEY has the smaller edit distance. */
function nearestVariable(name: string, known: readonly string[]): string | undefined {
  const nearest = nearestByRest(name, known);
  const [, base = "", initial] = /^(.+)_(.)[^_]*$/.exec(name) ?? [];
  if (!known.includes(base)) return nearest;
  return nearest?.startsWith(`${base}_${initial}`) === true ? nearest : base;
}

/**
 * Refuses variables that nothing reads, and an empty one that is to name a file; `ofFlags` is asked only where there are
 * variables of Winnow.
 * @throws WinnowError INVALID_ARGUMENT naming all of them
 */
export function checkVariables(
  variables: Readonly<Record<string, string | undefined>>,
  ofFlags: () => readonly string[],
): void {
  const ours = Object.entries(variables).filter(
    ([name]) => name.startsWith(PREFIX) && !name.startsWith(BENCHMARKS),
  );
  if (ours.length === 0) return;
  if (variables[NEVER_EMPTY]?.trim() === "") {
    const text = `${NEVER_EMPTY} is empty: it must name a file; unset it to have none`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const known = [...ofFlags(), ...VARIABLES_WITHOUT_FLAG].filter((name) => name.startsWith(PREFIX));
  const unknown = ours.flatMap(([name, value = ""]) => {
    if (known.includes(name)) return [];
    return SERVICE_LINK.test(name) || SERVICE_ADDRESS.test(value) ? [] : [name];
  });
  if (unknown.length === 0) return;
  const described = unknown.toSorted().map((name) => {
    const nearest = nearestVariable(name, known);
    return nearest === undefined ? name : `${name} (did you mean ${nearest}?)`;
  });
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `Nothing reads ${described.join(", ")}: unset it, or see --help for the variables of each flag`,
  );
}
