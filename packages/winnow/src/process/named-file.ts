// Reads a file that a person names: settings, a key, certificates, requests. It may be a pipe that nobody writes to, or a
// device that never ends.

import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

/** Ms for which nobody may have opened a pipe to write to it: a script may begin reader and writer together. */
const WRITER_MS_MAX = 2000;
/** Ms for which a writer may write nothing: a program that decrypts settings may ask a person first. */
const SILENCE_MS_MAX = 60_000;
/** Ms between two readings of a pipe. */
const AGAIN_MS = 10;
/** Room that is made first for a file that tells no length. */
const FIRST_BYTES = 64 * 1024;

/**
 * The text of a file, without a byte order mark. @throws Error of the system, or of a pipe to which nobody writes;
 * RangeError for a longer file, TypeError for one that is not in UTF-8
 */
export function readShortFile(file: string, bytesMax: number): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(readNamedFile(file, bytesMax));
}

/**
 * The bytes of a file, which may be long. @throws Error of the system, or of a pipe to which nobody writes; RangeError for
 * a longer file
 */
export function readNamedFile(file: string, bytesMax: number): Buffer {
  const bytes = bytesOf(file, bytesMax);
  if (bytes.length > bytesMax) throw new RangeError(`it has more than ${bytesMax} bytes`);
  return bytes;
}

/** At most one byte more than a file may have: a pipe (`--config <(…)`) tells no length, and a device never ends. */
function bytesOf(file: string, bytesMax: number): Buffer {
  // Without this flag, opening a pipe that has no writer waits for one for ever.
  const opened = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const most = bytesMax + 1;
    let bytes = Buffer.alloc(Math.min(most, Math.max(FIRST_BYTES, fstatSync(opened).size + 1)));
    let end = readFirst(opened, bytes);
    for (let read = end; read !== 0 && end < most; end += read) {
      if (end === bytes.length) bytes = Buffer.concat([bytes], Math.min(most, 2 * end));
      read = readSome(opened, bytes.subarray(end));
    }
    return bytes.subarray(0, end);
  } finally {
    closeSync(opened);
  }
}

/** The first bytes: with nothing to read a file ends, but a pipe may only wait for its writer. */
function readFirst(opened: number, into: Uint8Array): number {
  const isPipe = fstatSync(opened).isFIFO();
  for (let waitedMs = 0; ; waitedMs += AGAIN_MS) {
    const read = readSome(opened, into);
    if (read > 0 || !isPipe) return read;
    if (waitedMs >= WRITER_MS_MAX) throw new Error("it is a pipe to which nobody writes");
    pause();
  }
}

/** The next bytes, as soon as there are any: their number, 0 at the end. */
function readSome(opened: number, into: Uint8Array): number {
  for (let waitedMs = 0; waitedMs < SILENCE_MS_MAX; waitedMs += AGAIN_MS) {
    try {
      return readSync(opened, into, 0, into.length, null);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
    pause();
  }
  throw new Error(`nothing was written to it for ${SILENCE_MS_MAX / 1000} s`);
}

function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, AGAIN_MS);
}
