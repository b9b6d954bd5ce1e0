// Scripts that are run by hand: what they say of an option that does not exist, and of themselves.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { describe, expect, test } from "vitest";

const packages = path.resolve(import.meta.dirname, "../packages");
const SCRIPTS = [
  "winnow/scripts/npm-package.mjs",
  "accelerator/scripts/build-native.mjs",
  "accelerator/scripts/gpu-bench.mjs",
  "accelerator/scripts/gpu-doctor.mjs",
  "accelerator/scripts/gpu-exactness.mjs",
  "accelerator/scripts/pack-for-gpu.mjs",
];

function run(script: string, option: string): { status: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [path.join(packages, script), option],
    { encoding: "utf8" },
  );
  return { status, out: stdout, err: stderr };
}

describe.each(SCRIPTS)("%s", (script) => {
  test("names an option that does not exist, and ends with status 2", () => {
    const { status, out, err } = run(script, "--wrong");

    expect(err).toMatch(/^Unknown option '--wrong'[^\n]*\nTry --help\n$/);
    expect([status, out]).toEqual([2, ""]);
  });

  test("says with --help what it is for and which options it has", () => {
    const { status, out, err } = run(script, "--help");

    expect(out).toMatch(/^\w.*\n(.*\n)+.*--\w/);
    expect([status, err]).toEqual([0, ""]);
  });
});
