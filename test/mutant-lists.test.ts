// Mutants are texts of the sources: one that no longer stands there is tried by nobody, and its campaign takes an hour to
// say so.

import { spawnSync } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { expect, test } from "vitest";

const SIMULATED = "test/simulation/mutants.mjs";
const NATIVE = "packages/accelerator/scripts/test-mutants.mjs";

test.each([SIMULATED, NATIVE])("every mutant of %s fits the sources", (script) => {
  expect(outcome(script, "--texts").output).toBe("");
});

// Else a misspelt name passes: nothing was tried, and nothing was amiss.
test.each([
  [SIMULATED, "survivors:\nnone has grayce in its name\n"],
  [NATIVE, "mutants: none has grayce in its name\n"],
  [
    "packages/accelerator/scripts/test-native.mjs",
    'self-test: no "grayce": there are plain, address, thread\n',
  ],
])("%s fails for a name that nothing has", (script, output) => {
  expect(outcome(script, "grayce")).toEqual({ status: 1, output });
});

function outcome(script: string, word: string): { status: number | null; output: string } {
  const file = path.join(import.meta.dirname, "..", script);
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, word], {
    encoding: "utf8",
  });
  return { status, output: stdout + stderr };
}
