// What every codec says of a frame that cannot be what its sender meant, and how long it may say it.

import { WinnowError } from "@winnow/core";

/** The error for a message that cannot be what its sender meant. */
export function malformed(field: string, reason: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Malformed frame: ${field}: ${reason}`);
}

/** Text cut so that its UTF-8 form stays below 1 KB: long status details wedge gRPC connections. */
export function cutDetails(text: string): string {
  return text.length <= DETAIL_CHARACTERS_MAX ? text : `${text.slice(0, DETAIL_CHARACTERS_MAX)}…`;
}

/** A UTF-16 code unit takes at most three bytes of UTF-8. */
const DETAIL_CHARACTERS_MAX = 340;
