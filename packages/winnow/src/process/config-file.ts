// A configuration file that is read at the start and, if wished, polled for changes. At the start a
// faulty file is an error; later a fault is logged once, and the old configuration stays in force. A change counts
// once two readings in a row give the same text: a file that is being written may be whole up to a line, and would
// mean that the rest of its lines are gone.

import { readFile, stat } from "node:fs/promises";
import { WinnowError, readFailureText, toWinnowError } from "@winnow/core";
import type { Clock, Logger, Timer } from "@winnow/core";

/** How a file is read and how often. */
export interface ConfigFileSettings<Config> {
  readonly file: string;
  /** The flag that names the file, for errors. */
  readonly flag: string;
  /** Parses the text; `source` names the file in errors. */
  readonly read: (text: string, source: string) => Config;
  /** Ms between two readings; 0: the file is read once. */
  readonly pollMs: number;
}

/** What reading the file needs. */
export interface ConfigFileParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Reads a file. Default: from the file system. */
  readonly readText?: (file: string, flag: string) => Promise<string>;
}

const CONFIG_BYTES_MAX = 4 * 2 ** 20;
/** Ms between two readings of a file that has changed. */
const STILL_MS = 200;

/**
 * Opens and reads a file.
 * @throws WinnowError NOT_FOUND if it cannot be read, or what `read` throws
 */
export async function openConfigFile<Config>(
  settings: ConfigFileSettings<Config>,
  parts: ConfigFileParts,
): Promise<ConfigFile<Config>> {
  const text = await (parts.readText ?? readText)(settings.file, settings.flag);
  return new ConfigFile(settings, parts, text);
}

/** A configuration file; `follow` calls back on changes. */
export class ConfigFile<Config> {
  /** The configuration when the file was opened. */
  readonly initial: Config;
  readonly #settings: ConfigFileSettings<Config>;
  readonly #parts: ConfigFileParts;
  /** The text that was last read, or why it could not be read. */
  #seen: string;
  #apply: ((config: Config) => void) | undefined;
  #timer: Timer | undefined;

  constructor(settings: ConfigFileSettings<Config>, parts: ConfigFileParts, text: string) {
    this.#settings = settings;
    this.#parts = parts;
    this.initial = settings.read(text, settings.file);
    this.#seen = text;
  }

  /** Calls `apply` with every new valid configuration, until closed. */
  follow(apply: (config: Config) => void): void {
    this.#apply = apply;
    this.#wait();
  }

  close(): void {
    this.#apply = undefined;
    if (this.#timer !== undefined) this.#parts.clock.clearTimer(this.#timer);
  }

  #wait(): void {
    if (this.#settings.pollMs === 0 || this.#apply === undefined) return;
    this.#timer = this.#parts.clock.setTimer(this.#settings.pollMs, () => {
      void this.#look().then(() => this.#wait()); // Never rejects: faults are logged.
    });
  }

  /** Whether the file still has this text after a moment. */
  async #isStill(text: string): Promise<boolean> {
    await new Promise<void>((resolve) => {
      this.#timer = this.#parts.clock.setTimer(Math.min(STILL_MS, this.#settings.pollMs), resolve);
    });
    const { file, flag } = this.#settings;
    const again = (this.#parts.readText ?? readText)(file, flag);
    return text === (await again.catch(() => undefined)); // Gone: the next look says so, if it stays gone.
  }

  async #look(): Promise<void> {
    const { file, flag, read } = this.#settings;
    const { log } = this.#parts;
    let isRead = false;
    try {
      const text = await (this.#parts.readText ?? readText)(file, flag);
      isRead = true;
      if (text === this.#seen || !(await this.#isStill(text))) return;
      this.#seen = text;
      const config = read(text, file);
      this.#apply?.(config);
      log.info("configuration changed", { file });
    } catch (error) {
      const { code, message } = toWinnowError(error);
      if (!isRead && this.#seen === message) return;
      if (!isRead) this.#seen = message;
      log.error("configuration refused, the old one stays", { file, code, message });
    }
  }
}

async function readText(file: string, flag: string): Promise<string> {
  let reason = `it has more than ${CONFIG_BYTES_MAX} bytes`;
  try {
    const found = await stat(file);
    // A pipe or a device might never end.
    if (!found.isFile()) reason = "it is no file";
    else if (found.size <= CONFIG_BYTES_MAX) return withoutMark(await readFile(file, "utf8"));
  } catch (error) {
    const why = readFailureText(error);
    throw new WinnowError("NOT_FOUND", `Cannot read ${file} (${flag}): ${why}`, { cause: error });
  }
  throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file} (${flag}): ${reason}`);
}

/** Editors on Windows begin a file with a byte order mark, which would be part of a password. */
const withoutMark = (text: string): string => (text.startsWith("\uFEFF") ? text.slice(1) : text);
