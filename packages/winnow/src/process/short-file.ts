// Reads a file that a person names and that is short by its nature: settings, a key, certificates.

import { closeSync, openSync, readSync } from "node:fs";

/**
 * The text of a file, without a byte order mark. @throws Error of the system, RangeError for a longer file, TypeError
 * for one that is not in UTF-8
 */
export function readShortFile(file: string, bytesMax: number): string {
  const bytes = bytesOf(file, bytesMax);
  if (bytes.length > bytesMax) throw new RangeError(`it has more than ${bytesMax} bytes`);
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

/** At most one byte more than a file may have: a pipe (`--config <(…)`) tells no length, and a device never ends. */
function bytesOf(file: string, bytesMax: number): Uint8Array {
  const bytes = new Uint8Array(bytesMax + 1);
  const opened = openSync(file, "r");
  try {
    let end = 0;
    for (let read = -1; read !== 0; end += read) {
      read = readSync(opened, bytes, end, bytes.length - end, null);
    }
    return bytes.subarray(0, end);
  } finally {
    closeSync(opened);
  }
}
