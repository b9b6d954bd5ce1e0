// What becomes of a process whose log cannot be written, and how a log tells of errors.

import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const COMPILED = path.resolve(import.meta.dirname, "../../dist/process/process-log.js");

test.skipIf(!existsSync("/dev/full")).each(["json", "text"])(
  "a full disk takes the lines of a %s log, and the process goes on",
  (format) => {
    const program = `
      const { processLog } = await import(${JSON.stringify(COMPILED)});
      const log = processLog({ level: "info", process: "router", format: "${format}" });
      for (let line = 0; line < 3; line += 1) log.warn("a line", { line });
      process.stderr.write("another\\n");
      await new Promise((resolve) => setTimeout(resolve, 50));
      process.stdout.write("alive");`;
    const full = openSync("/dev/full", "w");
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", full],
    });
    closeSync(full);

    expect(String(stdout)).toBe("alive");
  },
);

test("an error is told with its code, once", () => {
  const program = `
    const { processLog } = await import(${JSON.stringify(COMPILED)});
    const log = processLog({ level: "info", process: "worker w0", format: "json" });
    const error = (message) => Object.assign(new Error(message), { code: "ENOENT" });
    for (const message of ["ENOENT: no such file", "no such file"]) log.warn("a line", { error: error(message) });`;
  const { stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    encoding: "utf8",
  });

  const errors = stderr
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { error: string }).error);
  expect(errors).toEqual(["ENOENT: no such file", "ENOENT: no such file"]);
});
