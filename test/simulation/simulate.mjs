// Runs simulated clusters from the sources: many seeds, or one with all it logs.
//
//   npm run simulate -- --seeds 2000 --from 1 --mode liveness
//   npm run simulate -- --seed 17 --mode safety --verbose
//   npm run simulate -- --mode liveness --faults "cut link,publish version" --longest 15000

import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { loadSources } from "./source-loading.mjs";

const values = scriptOptions({
  mode: { type: "string", default: "safety" },
  seed: { type: "string" },
  seeds: { type: "string", default: "200" },
  from: { type: "string", default: "1" },
  failures: { type: "string", default: "5" },
  faults: { type: "string" },
  longest: { type: "string" },
  reductions: { type: "string", default: "40" },
  verbose: { type: "boolean", default: false },
});
if (!["safety", "liveness"].includes(values.mode)) throw new RangeError("--mode safety|liveness");

const sources = await loadSources(path.join(import.meta.dirname, "simulation-campaign.ts"));
try {
  const result = await sources.module.runCampaign({
    mode: values.mode,
    from: Number(values.seed ?? values.from),
    longestMs: values.longest === undefined ? undefined : Number(values.longest),
    faults: values.faults?.split(",").map((kind) => kind.trim()),
    seeds: values.seed === undefined ? Number(values.seeds) : 1,
    failuresMax: Number(values.failures),
    reductionsMax: Number(values.reductions),
    isVerbose: values.verbose,
    print: (line) => process.stdout.write(`${line}\n`),
    nowMs: () => performance.now(),
  });
  const { seeds, failed, requests, exact, virtualMs, events, elapsedMs } = result;
  const seconds = elapsedMs / 1000;
  process.stdout.write(
    `${values.mode}: ${seeds} seeds, ${failed.length} failed` +
      `${failed.length > 0 ? ` (${failed.join(" ")})` : ""}; ${requests} requests, ${exact} exact; ` +
      `${(virtualMs / 1000).toFixed(0)} s simulated in ${seconds.toFixed(1)} s ` +
      `(${(virtualMs / elapsedMs).toFixed(0)}× real time, ${(events / seconds).toFixed(0)} events/s)\n`,
  );
  process.exitCode = failed.length > 0 ? 1 : 0;
} finally {
  await sources.close();
}
