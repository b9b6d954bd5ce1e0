// A build beside processes that run: they keep bytecode in the bundle's folder while it is replaced.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

import { expect, onTestFinished, test } from "vitest";

const script = path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundler.mjs");
const { bundleInto } = (await import(pathToFileURL(script).href)) as {
  bundleInto: (folder: string, loss: string, make: MakeBundle) => Promise<void>;
};
type MakeBundle = (rolldown: unknown, draft: string) => Promise<void>;

/** Writes files into a folder's `cache`, again and again, as long as the folder is there. */
const WRITER = `
  const { mkdirSync, writeFileSync } = require("node:fs");
  const cache = process.argv[1] + "/cache";
  for (let at = 0; ; at += 1) {
    try {
      mkdirSync(cache);
    } catch {}
    try {
      writeFileSync(cache + "/" + (at % 500), "bytecode");
    } catch {}
    if (at === 0) console.log("writes");
  }`;

test("a bundle takes the place of one into which others write", async () => {
  const parent = mkdtempSync(path.join(tmpdir(), "winnow-bundler-"));
  const folder = path.join(parent, "bundle");
  mkdirSync(folder);
  const writer = spawn(process.execPath, ["-e", WRITER, folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => {
    writer.kill("SIGKILL");
    rmSync(parent, { recursive: true, force: true, maxRetries: 10 });
  });
  await new Promise((resolve) => writer.stdout.once("data", resolve));

  for (let turn = 0; turn < 30; turn += 1) {
    await bundleInto(folder, "Not bundled", async (_, draft) => {
      mkdirSync(draft);
      writeFileSync(path.join(draft, "winnow.js"), String(turn));
    });
    expect(readFileSync(path.join(folder, "winnow.js"), "utf8")).toBe(String(turn));
  }

  expect(readdirSync(parent)).toEqual(["bundle"]);
});
