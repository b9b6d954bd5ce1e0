// How long does a ranking model's client wait while others ask a model whose runs take a second? Starts a
// router and a worker of this checkout on a demo ranking model and a recorded model of loops, asks the
// first from 8 connections, at first alone and then while so many connections ask the loop that is stopped
// after 100,000 turns. The load generator runs on the same cores.
//
//   npm run bench:dense
//   npm run bench:dense -- --against ../other --rounds 3            two checkouts in turn: a change

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { load, percentile, postBytes } from "./http-client.mjs";
import { startProcesses } from "./local-processes.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  loopers: { type: "string", default: "0,1,8" },
  seconds: { type: "string", default: "15" },
  rounds: { type: "string", default: "1" },
  against: { type: "string" },
});
const CONNECTIONS = 8;
const checkouts = [root, ...(options.against === undefined ? [] : [path.resolve(options.against)])];
const folder = mkdtempSync(path.join(os.tmpdir(), "winnow-dense-"));
const models = path.join(folder, "models");
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const post = ({ host, port }, model, body) => [
  postBytes({ host, port, path: `/v1/models/${model}:predict`, body: JSON.stringify(body) }),
];

async function measure(cluster, loopers) {
  const { host, port } = cluster;
  const instance = { user_id: "42", movie_title: "The Silent Harbor (1954)" };
  const ranking = post(cluster, "movies-ranking", { instances: [instance] });
  const endless = post(cluster, "loops", { signature_name: "endless", inputs: { x: [1] } });
  const seconds = Number(options.seconds);
  const [asked, looped] = await Promise.all([
    load({ host, port, requests: ranking, connections: CONNECTIONS, seconds }),
    load({ host, port, requests: endless, connections: loopers, seconds }),
  ]);
  const times = asked.times.toSorted((a, b) => a - b);
  const most = times.at(-1) ?? Number.NaN;
  const loops = looped.failures / seconds;
  return [asked.perSecond, percentile(times, 0.5), percentile(times, 0.99), most, loops];
}

async function runRound(checkout, note) {
  const names = ["movies-ranking", "loops"];
  const cluster = await startProcesses({ checkout, models, names, workers: 1 });
  try {
    await measure(cluster, 0);
    for (const loopers of options.loopers.split(",")) {
      note(loopers, await measure(cluster, Number(loopers)));
    }
  } finally {
    await cluster.stop();
  }
}

const winnow = path.join(root, "packages/winnow/bin/winnow.js");
const written = spawnSync(process.execPath, [winnow, "demo", models], { stdio: "ignore" });
if (written.status !== 0) throw new Error("The demo models cannot be written; is it built?");
cpSync(path.join(root, "test/data/operations/loops/1"), path.join(models, "loops/1"), {
  recursive: true,
});
const results = new Map(checkouts.map((checkout) => [checkout, new Map()]));
try {
  for (let round = 0; round < Number(options.rounds); round += 1) {
    for (const checkout of checkouts) {
      const found = results.get(checkout);
      await runRound(checkout, (key, row) => found.set(key, [...(found.get(key) ?? []), row]));
    }
  }
  for (const [checkout, found] of results) {
    process.stdout.write(`\n${checkout}\n| asking the loop | answers/s | p50 ms | p99 ms | `);
    process.stdout.write("longest ms | loops/s |\n| --: | --: | --: | --: | --: | --: |\n");
    for (const [loopers, rows] of found) {
      const cells = rows[0].map((_, at) => median(rows.map((row) => row[at])).toFixed(1));
      process.stdout.write(`| ${[loopers, ...cells].join(" | ")} |\n`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
