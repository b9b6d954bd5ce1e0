// Errors of the local disk while parts of an object store are written to it.

import { WinnowError, excerpt } from "@winnow/core";

/** A failed system call as a WinnowError; other errors unchanged. */
export function diskError(what: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof WinnowError || code === undefined) return error;
  const text = code === "ENOSPC" ? "the disk for temporary files is full (TMPDIR)" : code;
  const status = code === "ENOSPC" ? "RESOURCE_EXHAUSTED" : "UNAVAILABLE";
  return new WinnowError(status, `Cannot copy ${excerpt(what)} here: ${text}`, { cause: error });
}
