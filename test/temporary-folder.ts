// The system's temporary folder as tests see it: one of the run's own, which is removed at its end. A file whose
// tests are all skipped runs no hook, a process that a test kills removes nothing, and neither may fill the machine.
// vitest calls `setup` and `teardown` for the run and for each of its projects.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";

const MARK = "TEST_FOLDER_NAME";

/** Makes the folder, unless another project of this run has. */
export function setup(): void {
  if (path.basename(tmpdir()) === process.env[MARK]) return;
  const folder = mkdtempSync(path.join(tmpdir(), "winnow-run-"));
  process.env[MARK] = path.basename(folder);
  process.env["TMPDIR"] = folder;
}

/** Removes the folder with what tests have left in it. */
export function teardown(): void {
  const folder = tmpdir();
  if (path.basename(folder) === process.env[MARK]) rmSync(folder, { recursive: true, force: true });
}
