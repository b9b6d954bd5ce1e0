// The process's log on stderr: JSON lines through pino, or readable lines on a terminal. Both begin with the
// time of day (ISO 8601, UTC) and name the level. Results go to stdout; what is reported about the work goes
// here.

import type { Fields, Logger } from "@winnow/core";
import { pino } from "pino";
import picocolors from "picocolors";
import { wallClock } from "./process-settings.ts";

/** The least level that is logged, or nothing. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** The form of log lines. */
export interface ProcessLogOptions {
  readonly level: LogLevel;
  /** The role and id of this process: `router`, `worker w1`. */
  readonly process: string;
  /** Default: text on a terminal, else JSON. */
  readonly format: LogFormat | undefined;
}

/** How log lines look. */
export type LogFormat = "text" | "json";

/** The log of this process. */
export function processLog(options: ProcessLogOptions): Logger {
  process.stderr.on("error", () => undefined); // What else is written there gets lost as log lines do.
  const format = options.format ?? (process.stderr.isTTY ? "text" : "json");
  return format === "text" ? textLog(options) : jsonLog(options);
}

function jsonLog(options: ProcessLogOptions): Logger {
  // Lines that cannot be written are kept for later, up to this size.
  const destination = pino.destination({ dest: 2, sync: true, maxLength: 2 ** 20 });
  // If the disk is full or the reader is gone, log lines are lost, but the process goes on.
  destination.on("error", () => undefined);
  const log = pino(
    {
      level: options.level,
      base: { process: options.process },
      timestamp: () => `,"time":"${wallClock()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  );
  return {
    debug: (event, fields) => log.debug(printable(fields), event),
    info: (event, fields) => log.info(printable(fields), event),
    warn: (event, fields) => log.warn(printable(fields), event),
    error: (event, fields) => log.error(printable(fields), event),
  };
}

const RANK: Readonly<Record<LogLevel, number>> = {
  debug: 0,
  info: 1,
  warn: 2,
  error: 3,
  silent: 4,
};

/** Length of the longest name of a level. */
const LEVEL_WIDTH = "debug".length;

function textLog(options: ProcessLogOptions): Logger {
  const say = (level: LogLevel, paint: (text: string) => string) => {
    return (event: string, fields?: Fields): void => {
      if (RANK[level] < RANK[options.level]) return;
      const details = Object.entries(printable(fields)).map(
        ([name, value]) => `${name}=${show(value)}`,
      );
      const line = [
        picocolors.dim(wallClock()),
        paint(level.padEnd(LEVEL_WIDTH)),
        picocolors.dim(options.process),
        paint(event),
        picocolors.dim(details.join(" ")),
      ];
      process.stderr.write(`${line.join("  ")}\n`);
    };
  };
  return {
    debug: say("debug", picocolors.dim),
    info: say("info", (text) => text),
    warn: say("warn", picocolors.yellow),
    error: say("error", picocolors.red),
  };
}

/** Errors are logged as their message and code: a stack does not help an operator. */
function printable(fields: Fields | undefined): Record<string, unknown> {
  const entries = Object.entries(fields ?? {}).map(([name, value]) => [
    name,
    value instanceof Error ? describeError(value) : value,
  ]);
  return Object.fromEntries(entries) as Record<string, unknown>;
}

function describeError(error: Error): string {
  const code = (error as { code?: unknown }).code;
  const isTold = typeof code !== "string" || error.message.startsWith(`${code}: `);
  return isTold ? error.message : `${code}: ${error.message}`;
}

/**
 * A value in a line of text. Values may come from clients (a model's name in a URL), so they are quoted, and
 * characters that end a line or move a terminal's cursor are escaped: no value can look like a line of the
 * log.
 */
function show(value: unknown): string {
  if (typeof value === "string" && /^[^\s"\p{C}]+$/u.test(value)) return value;
  return (JSON.stringify(value) ?? "-").replaceAll(/[\p{C}\u2028\u2029]/gu, escaped);
}

function escaped(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}
