// Makes a directory and those above it. `mkdir` of Node.js with `recursive` tries for ever where the directory
// above exists and the system says ENOENT, as below /proc, and tells ENOENT for a file system that is
// read-only.

import { mkdir, stat } from "node:fs/promises";
import path from "node:path";

/** Makes what is missing of `directory`. @throws the error of the system call that failed */
export async function makeDirectory(directory: string, mode = 0o777): Promise<void> {
  if ((await kindOf(directory)) === "directory") return;
  const above = path.dirname(directory);
  if ((await kindOf(above)) === "none") await makeDirectory(above, mode);
  try {
    await mkdir(directory, { mode });
  } catch (error) {
    // Another process may have made it since.
    if ((await kindOf(directory)) !== "directory") throw error;
  }
}

/** What is there; "none" also where the system does not tell. */
async function kindOf(place: string): Promise<"directory" | "other" | "none"> {
  return stat(place).then(
    (found) => (found.isDirectory() ? "directory" : "other"),
    () => "none",
  );
}
