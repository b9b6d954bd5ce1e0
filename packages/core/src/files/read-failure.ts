// What is said of a file that cannot be read. Who runs the process must know as which user it runs where access is denied:
// in a container that is seldom the one who wrote the file.

import process from "node:process";

/** "access denied", with the user of this process where the system has users by number. */
export function accessDeniedText(): string {
  const user = process.geteuid?.();
  return user === undefined ? "access denied" : `access denied to user ${user}`;
}

/** Why a file could not be read: the system's own words, but for access that is denied. */
export function readFailureText(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return accessDeniedText();
  return error instanceof Error ? error.message : String(error);
}
