// Breaks a running cluster in every way of a long list while every answer is checked: processes, links,
// versions, Redis, clocks, and hostile clients. Starts its own processes and ends only those.
//
//   npm run chaos -- --minutes 2                    as many scenarios as fit, the brief ones first
//   npm run chaos -- --minutes 90 --rate 300        all of them, longer: what docs/reliability.md shows
//   npm run chaos -- --only redis --minutes 3       those with "redis" in their name
//   npm run chaos -- --only burst --checkout ../before   the same with the processes of another checkout
//   npm run chaos -- --list                         names, and what each does
//
// Exit code 1 if any scenario failed. The folder of the run holds report.json, report.md and the logs;
// --resume goes on with a run that was broken off there.

import { mkdtempSync } from "node:fs";
import { register } from "node:module";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";

const options = scriptOptions({
  minutes: { type: "string", default: "10" },
  only: { type: "string", default: "" },
  seed: { type: "string", default: "1" },
  rate: { type: "string", default: "150" },
  out: { type: "string" },
  /** Another built checkout, whose processes are run instead of this one's. */
  checkout: { type: "string" },
  resume: { type: "boolean", default: false },
  list: { type: "boolean", default: false },
});

const positive = (name) => {
  const value = Number(options[name]);
  if (Number.isFinite(value) && value > 0) return value;
  process.stderr.write(`--${name} is a positive number, not ${options[name]}\nTry --help\n`);
  process.exit(2);
};
const print = (line) => process.stdout.write(`${line}\n`);
register("./processes/typescript-hooks.mjs", import.meta.url);
const { runCampaign, scenarioLines } = await import("./chaos-campaign.ts");
if (options.list) {
  for (const line of scenarioLines()) print(line);
} else {
  const folder = options.out ?? mkdtempSync(path.join(os.tmpdir(), "winnow-chaos-"));
  const { failed, reportFile, results } = await runCampaign({
    minutes: positive("minutes"),
    seed: Number(options.seed),
    perSecond: positive("rate"),
    only: options.only.split(",").filter((part) => part !== ""),
    folder: path.resolve(folder),
    checkout: path.resolve(options.checkout ?? path.join(import.meta.dirname, "../..")),
    resumes: options.resume,
    print,
  });
  const passed = results.length === 0 ? "none has such a name: see --list" : "all passed";
  const verdict = failed.length === 0 ? passed : `failed: ${failed.join(", ")}`;
  print(`${results.length} scenarios, ${verdict}\n${reportFile}`);
  process.exitCode = failed.length === 0 && results.length > 0 ? 0 : 1;
}
