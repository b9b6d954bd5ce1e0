// A short run of the chaos suite (`npm run chaos`). Whatever the machine does meanwhile: no answer is wrong,
// no process ends by itself, and the cluster becomes whole after each fault. How many requests had no
// answer says as much about a busy machine as about Winnow; the other files here hold that, one fault each.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { afterAll, expect, test } from "vitest";
import type { ScenarioResult } from "../chaos/scenario-run.ts";

const MINUTES = 0.8;
/** A part of what `npm run chaos` sends: the faults are as many, and a request begins every 50 ms. */
const PER_SECOND = 20;
const folder = mkdtempSync(path.join(tmpdir(), "winnow-chaos-"));
const script = path.join(import.meta.dirname, "../chaos/chaos.mjs");

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs brief scenarios of both kinds of membership, and gives what it printed. */
function runChaos(): Promise<string> {
  const words = ["--minutes", String(MINUTES), "--rate", String(PER_SECOND), "--out", folder];
  const child = spawn(process.execPath, [script, ...words], { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  }
  return new Promise((resolve) => {
    child.once("close", () => resolve(printed));
  });
}

test("brief chaos: nothing wrong, nobody gone, whole again after each fault", async () => {
  const printed = await runChaos();

  const file = path.join(folder, "report.json");
  if (!existsSync(file)) throw new Error(`chaos came to no result:\n${printed}`);
  const { results, ended } = JSON.parse(readFileSync(file, "utf8")) as {
    readonly results: readonly ScenarioResult[];
    readonly ended?: string;
  };
  expect(
    results.flatMap(({ name, findings }) => findings.map((text) => `${name}: ${text}`)),
  ).toEqual([]);
  if (ended === undefined) throw new Error(`chaos did not come to its end:\n${printed}`);
  const answered = results.flatMap(({ figures }) =>
    figures.windows.map(({ counts }) => counts.exact),
  );
  expect(results.length).toBeGreaterThan(2);
  expect(answered.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(100);
}, 900_000);
