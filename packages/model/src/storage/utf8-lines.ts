// That a file of lines is UTF-8: read leniently, two ids with different damaged bytes would be one, and bytes that are
// passed on as they are would make answers that are no JSON.

import { isUtf8 } from "node:buffer";
import { WinnowError } from "@winnow/core";

const NEWLINE = 0x0a;

/** `line`: the number of the first one, from 1. @throws WinnowError INVALID_ARGUMENT naming the line */
export function checkUtf8(file: { readonly name: string }, bytes: Uint8Array, line: number): void {
  if (isUtf8(bytes)) return;
  let [from, at] = [0, line];
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
    if (!isUtf8(bytes.subarray(from, end))) break;
    [from, at] = [end + 1, at + 1];
  }
  const text = `line ${at} is not UTF-8; write the file in UTF-8`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file.name}: ${text}`);
}
