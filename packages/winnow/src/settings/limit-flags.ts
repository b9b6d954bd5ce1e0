// The flags of limits and times: their ranges, their declaration on a command line, and their values as
// options of a role. They are left out of `--help`, because there are too many of them.
//
//   router.kMax            --k-max                    WINNOW_K_MAX
//   http.bodyBytesMax      --http-body-bytes-max      WINNOW_HTTP_BODY_BYTES_MAX
//   worker.queueRowsMax    --worker-queue-rows-max    WINNOW_WORKER_QUEUE_ROWS_MAX

import { fittingMemory, memoryLimitBytes, nearestName } from "@winnow/core";
import { type Command, InvalidArgumentError, type Option } from "commander";
import { booleanValue, option, wholeNumber } from "../command-options.ts";
import { type LimitOrTime, type SettingOwner, limitsAndTimes } from "./limits-and-times.ts";

/** Given flags of limits and times, by commander's names. */
type LimitFlags = Readonly<Record<string, number | boolean | undefined>>;

/** Owners whose settings a router reads. */
export const ROUTER_OWNERS: readonly SettingOwner[] = ["router", "http", "grpc"];

const DAY_MS = 86_400_000;
const BYTES_MAX = 2 ** 40;
const COUNT_MAX = 2 ** 31 - 1;

/** Settings for which 0 is a choice: no wait, no reserve, nobody may. */
const MAY_BE_NOTHING: ReadonlySet<string> = new Set([
  "router.describedValuesMax",
  "router.excludedBytesMax",
  "router.excludedIdsMax",
  "router.filterConditionsMax",
  "router.filtersMax",
  "router.hedgeDelayMinMs",
  "router.programKeepMs",
  "router.replansMax",
  "router.replanWaitMs",
  "router.resendBytesMax",
  "router.saveDelayMs",
  "router.secondAttemptsPerSecond",
  "router.shadowsWaitingMax",
  "router.tableDelayMs",
  "router.warmUpMsMax",
  "http.bodyReserveBytes",
  "http.discardMs",
  "http.drainIdleMs",
  "http.drainTimeoutMs",
  "http.retryAfterSeconds",
  "grpc.bodyReserveBytes",
  "grpc.drainIdleMs",
  "grpc.drainTimeoutMs",
  "grpc.watchesMax",
  "worker.companyMsMax",
  "worker.drainAbsentMs",
  "worker.drainGraceMs",
  "worker.drainHoldMsMax",
  "worker.drainSettleMs",
  "worker.excludedIdsMax",
  "worker.exclusionBytesMax",
  "worker.fileStillMs",
  "worker.filterBytesMax",
  "worker.inlineScanValuesMax",
  "worker.placementQuietMs",
  "worker.rollbackWindowMs",
  "worker.uncutBytesMax",
]);

/** Upper bounds that follow from a frame or a thread pool. */
const UPPER_BOUNDS: Readonly<Record<string, number>> = {
  "http.parserThreadsMax": 64,
  "router.textThreadsMax": 64,
  "http.retryAfterSeconds": 86_400,
  // The number of candidates that the answers of one frame have room for.
  "worker.answerRowsMax": 4_194_304,
};

/**
 * Smallest and largest value of a setting that is a number.
 *
 * @internal tests call it
 */
export function rangeOf({ owner, field }: LimitOrTime): readonly [min: number, max: number] {
  const name = `${owner}.${field}`;
  const min = MAY_BE_NOTHING.has(name) ? 0 : 1;
  const usual = /Ms(Max)?$/.test(field) ? DAY_MS : field.includes("Bytes") ? BYTES_MAX : COUNT_MAX;
  return [min, UPPER_BOUNDS[name] ?? usual];
}

/** The flag without its dashes, which is its key in a configuration file too. */
export function flagNameOf({ owner, field }: LimitOrTime): string {
  const name = field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return owner === "router" ? name : `${owner}-${name}`;
}

/** Declares the limits and times of these owners. */
export function addLimitOptions(command: Command, owners: readonly SettingOwner[]): Command {
  for (const limit of limitsAndTimes) {
    if (owners.includes(limit.owner)) command.addOption(limitOption(limit));
  }
  command.configureOutput({ outputError: (text, write) => write(withNearest(text, command)) });
  return command.addHelpText(
    "after",
    "\nEvery limit and time has a flag as well, which is not listed here: see\nwinnow config list, docs/settings.md",
  );
}

/** commander's error for an unknown flag, with the nearest flag that `--help` leaves out. */
function withNearest(text: string, command: Command): string {
  const unknown = /^error: unknown option '--([^'=]+)/.exec(text)?.[1];
  if (unknown === undefined || text.includes("Did you mean")) return text;
  const nearest = nearestName(
    unknown,
    command.options.flatMap(({ long }) => long?.slice(2) ?? []),
  );
  return nearest === undefined ? text : `${text.trimEnd()}\n(Did you mean --${nearest}?)\n`;
}

function limitOption(limit: LimitOrTime): Option {
  const name = flagNameOf(limit);
  const variable = `WINNOW_${name.replaceAll("-", "_").toUpperCase()}`;
  return option(`--${name} <${valueWordOf(limit)}>`, limit.description, variable)
    .argParser(parserOf(limit))
    .hideHelp();
}

function valueWordOf({ field, fallback }: LimitOrTime): string {
  if (typeof fallback === "boolean") return "yes";
  if (/Ms(Max)?$/.test(field)) return "ms";
  return field.includes("Bytes") ? "bytes" : "n";
}

function parserOf(limit: LimitOrTime): (text: string) => number | boolean {
  if (typeof limit.fallback === "boolean") return booleanValue;
  return isFraction(limit) ? fraction : wholeNumber(...rangeOf(limit));
}

/**
 * Fractions are the only settings that are not whole numbers.
 * @internal tests call it
 */
export function isFraction({ fallback }: LimitOrTime): boolean {
  return typeof fallback === "number" && !Number.isInteger(fallback);
}

function fraction(text: string): number {
  const value = Number(text);
  if (/^\d*\.?\d+$/.test(text) && value <= 1) return value;
  throw new InvalidArgumentError("It must be a number from 0 to 1.");
}

/** The name that commander gives a flag's value: `httpBodyBytesMax`. */
export function limitAttributeOf({ owner, field }: LimitOrTime): string {
  return owner === "router" ? field : `${owner}${field[0]!.toUpperCase()}${field.slice(1)}`;
}

/** The options of an owner from the given flags, variables and files. */
export function limitsOf(
  flags: object,
  owner: SettingOwner,
): Readonly<Record<string, number | boolean>> {
  const given = flags as LimitFlags;
  const entries = limitsAndTimes
    .filter((limit) => limit.owner === owner)
    .map((limit) => [limit.field, given[limitAttributeOf(limit)]] as const)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Record<string, number | boolean>;
}

/** The same as arguments for processes that a command starts. */
export function limitArguments(flags: object, owners: readonly SettingOwner[]): string[] {
  const given = flags as LimitFlags;
  return limitsAndTimes.flatMap((limit) => {
    const value = given[limitAttributeOf(limit)];
    if (value === undefined || !owners.includes(limit.owner)) return [];
    return [`--${flagNameOf(limit)}=${String(value)}`];
  });
}

/** The default where a process may use so much memory. */
export function defaultOf(
  { fallback, memoryRatio }: LimitOrTime,
  memoryBytes?: number,
): number | boolean {
  if (typeof fallback === "boolean" || memoryRatio === undefined) return fallback;
  return fittingMemory(fallback, memoryRatio, memoryBytes ?? memoryLimitBytes());
}

/** Arguments for a process that has only so much of the memory: its defaults where they are lower then. */
export function lowerDefaultArguments(
  flags: object,
  owners: readonly SettingOwner[],
  memoryBytes: number,
): string[] {
  const given = flags as LimitFlags;
  return limitsAndTimes.flatMap((limit) => {
    const lower = defaultOf(limit, memoryBytes);
    if (given[limitAttributeOf(limit)] !== undefined || !owners.includes(limit.owner)) return [];
    return lower === defaultOf(limit) ? [] : [`--${flagNameOf(limit)}=${String(lower)}`];
  });
}
