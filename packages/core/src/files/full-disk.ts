// What is said of a write that failed. The system says "ENOSPC" or "EDQUOT"; whoever runs the process must know how much
// room the write needed, how much there is, and where.

import { rmSync, statfsSync } from "node:fs";

/** What was to be written. */
export interface FailedWrite {
  /** An existing folder on the disk that was written to. */
  readonly folder: string;
  /** Bytes that the write needed, where that is known. */
  readonly neededBytes?: number;
}

/** Whether a write failed because there is no room for it: neither the disk's nor the user's share of it. */
export function isOutOfRoom(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Why a write failed: the room that it needed and the room that there is, or the system's own words. */
export function writeFailureText(error: unknown, { folder, neededBytes }: FailedWrite): string {
  if (!isOutOfRoom(error)) return error instanceof Error ? error.message : String(error);
  const { code } = error as NodeJS.ErrnoException;
  const what = code === "EDQUOT" ? "the quota of this user" : "the disk";
  const needed = neededBytes === undefined ? "" : `${neededBytes} bytes are needed, `;
  return `${what} is full in ${folder}: ${needed}${roomText(folder)}`;
}

function roomText(folder: string): string {
  try {
    const { bavail, bsize, files, ffree } = statfsSync(folder);
    // Some file systems count no files: both are 0 there.
    return files > 0 && ffree === 0
      ? "no further file can be made"
      : `${bavail * bsize} bytes are free`;
  } catch {
    return "how much is free is not known";
  }
}

/** Removes what a failed write has left, so that a full disk has its room back; it does not say whether that succeeded. */
export function removeRemains(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // A folder that is read-only, or something else of this name.
  }
}
