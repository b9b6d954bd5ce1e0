// Directories are made with those above them, and what cannot be made is an error of the system's own words.

import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { makeDirectory, makeDirectorySync } from "./make-directory.ts";

const root = mkdtempSync(path.join(tmpdir(), "winnow-directories-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe.each([
  ["while others go on", makeDirectory],
  [
    "while the caller waits",
    async (directory: string, mode?: number): Promise<void> => {
      makeDirectorySync(directory, mode);
    },
  ],
] as const)("%s", (name, make) => {
  const place = (...below: readonly string[]): string => path.join(root, name, ...below);

  test("makes what is missing, all with the mode, and leaves what is there", async () => {
    await make(place("a"));
    writeFileSync(place("a", "kept"), "");

    await make(place("a", "b", "c"), 0o700);

    expect(statSync(place("a", "b")).mode & 0o777).toBe(0o700);
    expect(statSync(place("a", "b", "c")).mode & 0o777).toBe(0o700);
    await make(place("a"));
    expect(existsSync(place("a", "kept"))).toBe(true);
  });

  test("a file in the way is an error", async () => {
    await make(place("a"));
    writeFileSync(place("a", "file"), "");

    await expect(make(place("a", "file"))).rejects.toThrow(/EEXIST/u);
    await expect(make(place("a", "file", "below"))).rejects.toThrow(/ENOTDIR/u);
  });

  // Node.js tries for ever to make these with those above them.
  test.skipIf(process.platform !== "linux")("a directory below /proc is an error", async () => {
    await expect(make("/proc/winnow/state")).rejects.toThrow(/ENOENT/u);
  });
});
