// Mutants are texts of the sources: one that no longer stands there is tried by nobody, and its campaign takes an hour to
// say so.

import { spawnSync } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { expect, test } from "vitest";

test.each(["test/simulation/mutants.mjs", "packages/accelerator/scripts/test-mutants.mjs"])(
  "every mutant of %s fits the sources",
  (script) => {
    const file = path.join(import.meta.dirname, "..", script);
    const { stdout, stderr } = spawnSync(process.execPath, [file, "--texts"], { encoding: "utf8" });

    expect(stdout + stderr).toBe("");
  },
);
