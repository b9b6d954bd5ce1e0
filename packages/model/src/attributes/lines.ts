// The lines of a text file, read piece by piece.

import { WinnowError } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";

const PIECE_BYTES = 2 ** 20;
/** Bytes of a line, or of a record of several lines, at most. */
export const LINE_BYTES_MAX: number = 2 ** 20;
const NEWLINE = 10;

/**
 * The lines of a file, without their ends. @throws WinnowError INVALID_ARGUMENT, with the remedy, for a line
 * that is too long
 */
export function* linesOf(file: RegionFile, remedy: string): Generator<Buffer> {
  for (const bytes of blocksOf(file, remedy)) {
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      yield bytes.subarray(from, end);
      from = end + 1;
    }
    if (from < bytes.length) yield bytes.subarray(from);
  }
}

/**
 * Whole lines with their ends, many at a time, `from` a byte on; the last line of a file may have none. @throws WinnowError
 * INVALID_ARGUMENT, with the remedy, for a line that is too long
 */
export function* blocksOf(
  file: Pick<RegionFile, "name" | "size" | "read">,
  remedy: string,
  from = 0,
): Generator<Buffer> {
  let rest = Buffer.alloc(0);
  for (let at = from; at < file.size; at += PIECE_BYTES) {
    const bytes = Buffer.allocUnsafeSlow(rest.length + Math.min(PIECE_BYTES, file.size - at));
    rest.copy(bytes);
    file.read(at, bytes.subarray(rest.length));
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (end > 0) yield bytes.subarray(0, end);
    rest = bytes.subarray(end);
    if (rest.length > LINE_BYTES_MAX) {
      const text = `a line of more than ${LINE_BYTES_MAX} bytes; ${remedy}`;
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file.name}: ${text}`);
    }
  }
  if (rest.length > 0) yield rest;
}
