// A directory of a test's own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { TestRunner, afterAll, onTestFinished } from "vitest";

/** An empty directory that is removed after the test that asks for it, or else after the file's tests. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), "winnow-model-"));
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  if (TestRunner.getCurrentTest() === undefined) afterAll(remove);
  else onTestFinished(remove);
  return directory;
}
