// A file of requests may be a pipe that nobody writes to, which must not keep a run waiting for ever.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { readRequestsFile } from "./question-sources.ts";

test("a pipe to which nobody writes is refused", () => {
  const file = path.join(temporaryDirectory(), "requests");
  expect(spawnSync("mkfifo", [file]).status).toBe(0);

  expect(() => readRequestsFile(file)).toThrow(
    `Cannot read ${file}: it is a pipe to which nobody writes`,
  );
});
