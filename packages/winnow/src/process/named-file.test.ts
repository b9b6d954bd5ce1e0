// A file that a person names may be a pipe: what a shell gives for `--config <(…)`, and one that nobody ever writes to, which must not
// keep a process waiting for ever.

import { spawn, spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { readNamedFile, readShortFile } from "./named-file.ts";

const folder = temporaryDirectory();

function namedPipe(name: string): string {
  const file = path.join(folder, name);
  expect(spawnSync("mkfifo", [file]).status).toBe(0);
  return file;
}

test("a named pipe to which nobody writes is refused", () => {
  const file = namedPipe("silent");

  expect(() => readShortFile(file, 100)).toThrow("it is a pipe to which nobody writes");
});

test("a named pipe is read to its end, though its writer comes late and pauses", () => {
  const file = namedPipe("late");
  const script = 'sleep 0.3; { echo one; sleep 0.3; echo two; } > "$0"';
  spawn("sh", ["-c", script, file], { stdio: "ignore" });

  expect(readShortFile(file, 100)).toBe("one\ntwo\n");
});

test("more than may be read of a pipe is refused", () => {
  const file = namedPipe("long");
  spawn("sh", ["-c", 'cat /dev/zero > "$0"', file], { stdio: "ignore" });

  expect(() => readShortFile(file, 100)).toThrow("it has more than 100 bytes");
});

test("a device that never ends is read no further than a file may be long", () => {
  expect(() => readNamedFile("/dev/zero", 2 ** 20)).toThrow("it has more than 1048576 bytes");
});

test("a pipe gives as much as its writer writes, beyond what was first made room for", () => {
  const file = namedPipe("large");
  spawn("sh", ["-c", 'head -c 300000 /dev/zero > "$0"', file], { stdio: "ignore" });

  expect(readNamedFile(file, 2 ** 20)).toHaveLength(300_000);
});
