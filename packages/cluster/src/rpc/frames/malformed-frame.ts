// The error of all codecs for a malformed frame, and the limit on the length of error texts.

import { WinnowError } from "@winnow/core";

/** The error for a malformed message. */
export function malformed(field: string, reason: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Malformed frame: ${field}: ${reason}`);
}

/** Text cut below 1 KB of UTF-8: long status details block gRPC connections. */
export function cutDetails(text: string): string {
  return text.length <= DETAIL_CHARACTERS_MAX ? text : `${text.slice(0, DETAIL_CHARACTERS_MAX)}…`;
}

/** A UTF-16 code unit takes at most three bytes of UTF-8. */
const DETAIL_CHARACTERS_MAX = 340;
