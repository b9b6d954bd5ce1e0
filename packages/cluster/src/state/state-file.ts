// A text that one process keeps across its restarts: the models order in force, the workers that a
// router knew last. A reader finds the whole text that was written last, or none: a new text is
// written beside the old one, flushed to the disk, and renamed over it in one step. A header with
// length and checksum reveals a file that a disk or an editor damaged.
//
//   winnow-state <bytes> <crc32c as 8 hex digits>\n
//   <text>

import { open, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { WinnowError, crc32c, makeDirectory, writeFailureText } from "@winnow/core";

/** One kept text: a file in production, a simulated one in the simulator. */
export interface StateFile {
  /**
   * The text written last; `undefined` where there is none yet.
   * @throws WinnowError DATA_LOSS for a damaged file, UNAVAILABLE for one that cannot be read
   */
  read(): Promise<string | undefined>;
  /**
   * Replaces the text; resolves when it would survive a power cut. Of several texts passed during
   * one write only the last is written. @throws WinnowError UNAVAILABLE; RESOURCE_EXHAUSTED if too
   * large
   */
  write(text: string): Promise<void>;
}

/**
 * Largest kept text: a larger file is not read, and a larger text is not written.
 *
 * @internal tests read it
 */
export const STATE_BYTES_MAX: number = 16 * 1024 * 1024;

const HEADER = /^winnow-state (\d{1,9}) ([0-9a-f]{8})\n/;
const HEADER_BYTES_MAX = 64;
const STATE_REMEDY = "--state-dir must name a folder in which this process may write";

/**
 * A state file in a directory; the first write creates the directory. The name should identify the
 * process: processes that share a directory must not share a file.
 * @throws WinnowError INVALID_ARGUMENT for a name that leads out of the directory
 */
export function openStateFile(directory: string, name: string): StateFile {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$/.test(name)) {
    throw new WinnowError("INVALID_ARGUMENT", `Cannot keep state under the name "${name}"`);
  }
  return new DiskFile(directory, path.join(directory, name));
}

/**
 * Why no state file could be written under this name in the directory, which is made if it is missing; `undefined`:
 * one can. The first text may be written only after days, and should not find out then.
 */
export async function stateFault(
  directory: string,
  name: string,
): Promise<WinnowError | undefined> {
  const probe = new DiskFile(directory, path.join(directory, `${name}.probe`));
  try {
    await probe.write("");
    await probe.remove();
    return undefined;
  } catch (error) {
    return error as WinnowError;
  }
}

/** The name of a state file for a process known by `id`, which may hold any characters. */
export function stateFileName(kind: string, id: string): string {
  const readable = id.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 100);
  const digest = crc32c(Buffer.from(id)).toString(16).padStart(8, "0");
  return readable === id ? `${kind}-${id}` : `${kind}-${readable}-${digest}`;
}

interface Waiting {
  readonly text: string;
  readonly written: Promise<void>;
}

class DiskFile implements StateFile {
  readonly #directory: string;
  readonly #file: string;
  /** Resolves when all writes so far have ended; never rejects. */
  #idle: Promise<void> = Promise.resolve();
  #waiting: Waiting | undefined;

  constructor(directory: string, file: string) {
    this.#directory = directory;
    this.#file = file;
  }

  async read(): Promise<string | undefined> {
    let bytes: Buffer;
    try {
      const { size } = await stat(this.#file);
      if (size > STATE_BYTES_MAX + HEADER_BYTES_MAX) throw this.#damaged("it is too large");
      const handle = await open(this.#file, "r");
      try {
        bytes = await handle.readFile();
      } finally {
        await handle.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw this.#failure("read", error);
    }
    const [header, length, checksum] = HEADER.exec(bytes.toString("latin1", 0, 64)) ?? [];
    if (header === undefined) throw this.#damaged("it has no header");
    const text = bytes.subarray(header.length);
    const isWhole =
      text.length === Number(length) && crc32c(text) === Number.parseInt(checksum!, 16);
    if (!isWhole) throw this.#damaged("its checksum does not match");
    return text.toString("utf8");
  }

  write(text: string): Promise<void> {
    if (Buffer.byteLength(text) > STATE_BYTES_MAX) {
      const message = `Cannot keep ${text.length} characters in ${this.#file}: it is too much`;
      return Promise.reject(new WinnowError("RESOURCE_EXHAUSTED", message));
    }
    if (this.#waiting === undefined) {
      const written = this.#idle.then(() => this.#replace());
      this.#idle = written.catch(() => undefined);
      this.#waiting = { text, written };
    } else {
      this.#waiting = { text, written: this.#waiting.written };
    }
    return this.#waiting.written;
  }

  async remove(): Promise<void> {
    await rm(this.#file, { force: true }).catch(() => undefined);
  }

  async #replace(): Promise<void> {
    const { text } = this.#waiting!;
    this.#waiting = undefined;
    const bytes = Buffer.from(text, "utf8");
    const checksum = crc32c(bytes).toString(16).padStart(8, "0");
    const unfinished = `${this.#file}.new`;
    try {
      await makeDirectory(this.#directory);
      await writeFlushed(unfinished, [
        Buffer.from(`winnow-state ${bytes.length} ${checksum}\n`),
        bytes,
      ]);
      await rename(unfinished, this.#file);
      await flushDirectory(this.#directory);
    } catch (error) {
      await rm(unfinished, { force: true }).catch(() => undefined);
      throw this.#failure("write", error, bytes.length + HEADER_BYTES_MAX);
    }
  }

  #damaged(why: string): WinnowError {
    return new WinnowError("DATA_LOSS", `The state file ${this.#file} is damaged: ${why}`);
  }

  #failure(doing: "read" | "write", cause: unknown, neededBytes?: number): WinnowError {
    if (cause instanceof WinnowError) return cause;
    const write = { folder: this.#directory, ...(neededBytes !== undefined && { neededBytes }) };
    const reason = writeFailureText(cause, write);
    const { code } = cause as NodeJS.ErrnoException;
    const remedy = ["EACCES", "EPERM", "EROFS"].includes(code ?? "") ? `; ${STATE_REMEDY}` : "";
    const message = `Cannot ${doing} the state file ${this.#file}: ${reason}${remedy}`;
    return new WinnowError("UNAVAILABLE", message, { cause });
  }
}

async function writeFlushed(file: string, parts: readonly Uint8Array[]): Promise<void> {
  const handle = await open(file, "w", 0o600);
  try {
    for (const part of parts) await handle.writeFile(part);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Flushes the new name to the disk, on file systems that can flush a directory. */
async function flushDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync().catch(() => undefined);
  } finally {
    await handle.close();
  }
}
