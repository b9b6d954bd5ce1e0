// Errors of the local disk while parts of an object store are written to it.

import { WinnowError, excerpt, isOutOfRoom, writeFailureText } from "@winnow/core";
import type { FailedWrite } from "@winnow/core";

/** A failed system call as a WinnowError; other errors unchanged. */
export function diskError(what: string, error: unknown, write: FailedWrite): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof WinnowError || code === undefined) return error;
  const why = writeFailureText(error, write);
  const text = `Cannot copy ${excerpt(what)} here: ${why}`;
  return isOutOfRoom(error)
    ? new WinnowError("RESOURCE_EXHAUSTED", `${text}; name a folder with more room in TMPDIR`)
    : new WinnowError("UNAVAILABLE", text, { cause: error });
}
