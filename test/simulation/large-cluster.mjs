// How much do the members of a large cluster say to each other? Runs one on virtual time, from the
// sources: while it starts, at rest, when one worker ends and when one joins (in Redis), and prints what
// went over the network, by kind, in all and per virtual second. Every answer meanwhile must be exact.
//
//   npm run simulate:large                                        256 workers, six to ten minutes
//   … -- --workers 64 --membership list                           another cluster

import path from "node:path";
import process from "node:process";
import { loadSources } from "./source-loading.mjs";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";

const options = scriptOptions({
  workers: { type: "string", default: "256" },
  partitions: { type: "string", default: "1024" },
  membership: { type: "string", default: "redis" },
  rest: { type: "string", default: "5" },
});
if (!["redis", "list"].includes(options.membership))
  throw new RangeError("--membership redis|list");

const sources = await loadSources(path.join(import.meta.dirname, "large-cluster-run.ts"));
try {
  const violations = await sources.module.runLargeCluster({
    workers: Number(options.workers),
    partitions: Number(options.partitions),
    membership: options.membership,
    restSeconds: Number(options.rest),
    print: (line) => process.stdout.write(`${line}\n`),
    cpuMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
  });
  for (const violation of violations) process.stdout.write(`${violation}\n`);
  process.exitCode = violations.length > 0 ? 1 : 0;
} finally {
  await sources.close();
}
