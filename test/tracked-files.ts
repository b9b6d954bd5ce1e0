// The files of the repository, for the tests that check it as a whole.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");

/** Paths from the root of all files that git tracks or would, and that exist. */
export const trackedFiles: readonly string[] = execFileSync(
  "git",
  ["ls-files", "--cached", "--others", "--exclude-standard"],
  { cwd: root, encoding: "utf8" },
)
  .split("\n")
  .filter((file) => file !== "" && existsSync(path.join(root, file)));

/** The text of a file, by its path from the root. */
export function readTracked(file: string): string {
  return readFileSync(path.join(root, file), "utf8");
}
