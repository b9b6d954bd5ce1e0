// A directory of a test's own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll } from "vitest";

/** An empty directory that is removed after the file's tests. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), "winnow-model-"));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
