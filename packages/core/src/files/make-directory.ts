// Makes a directory and those above it. `mkdir` of Node.js with `recursive` tries for ever where the directory
// above exists and the system says ENOENT, as below /proc, and tells ENOENT for a file system that is
// read-only.

import { mkdirSync, statSync } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import path from "node:path";

/** Makes what is missing of `directory`. @throws the error of the system call that failed */
export async function makeDirectory(directory: string, mode = 0o777): Promise<void> {
  if ((await kindOf(directory)) === "directory") return;
  const above = path.dirname(directory);
  if (above !== directory && (await kindOf(above)) === "none") await makeDirectory(above, mode);
  try {
    await mkdir(directory, { mode });
  } catch (error) {
    // Another process may have made it since.
    if ((await kindOf(directory)) !== "directory") throw error;
  }
}

/** `makeDirectory` while the caller waits. */
export function makeDirectorySync(directory: string, mode = 0o777): void {
  if (kindOfSync(directory) === "directory") return;
  const above = path.dirname(directory);
  if (above !== directory && kindOfSync(above) === "none") makeDirectorySync(above, mode);
  try {
    mkdirSync(directory, { mode });
  } catch (error) {
    if (kindOfSync(directory) !== "directory") throw error;
  }
}

/** What is there; "none" also where the system does not tell. */
type Kind = "directory" | "other" | "none";

async function kindOf(place: string): Promise<Kind> {
  return stat(place).then(
    (found) => (found.isDirectory() ? "directory" : "other"),
    () => "none",
  );
}

function kindOfSync(place: string): Kind {
  try {
    return statSync(place).isDirectory() ? "directory" : "other";
  } catch {
    return "none";
  }
}
