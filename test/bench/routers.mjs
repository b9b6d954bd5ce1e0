// What do several routers on one port bring? Two local clusters of this checkout on the demo models, one with one router
// and one with several, are asked over HTTP by turns. Load generator, routers and workers share the processors: where all
// of these are busy with one router, another brings little. One connection is answered by one router in both.
//
//   npm run bench:routers                                          two routers, four minutes
//   npm run bench:routers -- --routers 4 --connections 64,512      on more processors
//   npm run bench:routers -- --items 1000000 --dim 64 --asks retrieval

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { load, percentile, postBytes } from "./http-client.mjs";
import { freePorts } from "./local-processes.mjs";
import { watchForeignLoad } from "./machine/foreign-load.mjs";

const options = scriptOptions({
  routers: { type: "string", default: "2" },
  workers: { type: "string", default: "1" },
  connections: { type: "string", default: "1,8,64,256" },
  asks: { type: "string", default: "retrieval,ranking" },
  seconds: { type: "string", default: "2" },
  turns: { type: "string", default: "5" },
  items: { type: "string", default: "10000" },
  dim: { type: "string", default: "32" },
});
const root = path.resolve(import.meta.dirname, "..", "..");
const script = path.join(root, "packages/winnow/bin/winnow.js");
const USERS = 1000;
const WARM_SECONDS = 3;
const READY_WITHIN_MS = 120_000;
const folder = mkdtempSync(path.join(os.tmpdir(), "winnow-routers-"));
const ASKS = {
  retrieval: { model: "movies", instance: (user) => `${user}` },
  ranking: {
    model: "movies-ranking",
    instance: (user) => ({ user_id: `${user}`, movie_title: "The Silent Harbor (1954)" }),
  },
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Starts `winnow up` and waits until it says that it is up, which it does once each router answers. */
async function startCluster(routers) {
  const [port] = await freePorts(1);
  const place = ["--models", folder, "--port", String(port), "--workers", options.workers];
  const args = [script, "up", ...place, "--routers", String(routers)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  let told = "";
  child.stderr.on("data", (data) => (told += data));
  const endMs = performance.now() + READY_WITHIN_MS;
  while (!told.includes("up after")) {
    if (child.exitCode !== null || performance.now() > endMs) throw new Error(told);
    await pause(100);
  }
  return { routers, host: "127.0.0.1", port, child };
}

/** A cluster's processes: that which started it, and all below. */
function processesOf({ child }) {
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const [, parent] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
      parents.set(Number(pid), Number(parent));
    } catch {
      // It ended meanwhile.
    }
  }
  const isBelow = (pid) => pid === child.pid || (parents.has(pid) && isBelow(parents.get(pid)));
  return [...parents.keys()].filter(isBelow);
}

function asker({ host, port }, { model, instance }) {
  const requests = Array.from({ length: 97 }, (_, number) => {
    const body = JSON.stringify({ instances: [instance((number * 31) % USERS)] });
    return postBytes({ host, port, path: `/v1/models/${model}:predict`, body });
  });
  return (connections, seconds) => load({ host, port, requests, connections, seconds });
}

async function measure(ask, connections, pids) {
  const foreign = watchForeignLoad(pids);
  const { times, failures, perSecond } = await ask(connections, Number(options.seconds));
  const sorted = times.toSorted((a, b) => a - b);
  const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)];
  return { perSecond, p50, p99, failures, others: foreign() };
}

const size = ["--items", options.items, "--dim", options.dim, "--users", String(USERS)];
const written = spawnSync(process.execPath, [script, "demo", folder, ...size], { stdio: "ignore" });
if (written.status !== 0) throw new Error("The demo models cannot be written; is it built?");
const clusters = [];
try {
  for (const routers of [1, Number(options.routers)]) clusters.push(await startCluster(routers));
  const pids = clusters.flatMap((cluster) => processesOf(cluster));
  const say = (text) => process.stdout.write(`${text}\n`);
  say(
    `${os.cpus()[0].model}, ${os.availableParallelism()} processors, Node ${process.versions.node}`,
  );
  say("\n| ask | connections | routers | answers/s | ratio | p50 ms | p99 ms | failed | others |");
  say("| --- | --: | --: | --: | --: | --: | --: | --: | --: |");
  for (const name of options.asks.split(",")) {
    const askers = clusters.map((cluster) => asker(cluster, ASKS[name]));
    for (const connections of options.connections.split(",").map(Number)) {
      for (const ask of askers) await ask(connections, WARM_SECONDS);
      const turns = [];
      for (let turn = 0; turn < Number(options.turns); turn += 1) {
        const each = [];
        for (const ask of askers) each.push(await measure(ask, connections, pids));
        turns.push(each);
      }
      for (const [at, { routers }] of clusters.entries()) {
        const of = (field) => median(turns.map((each) => each[at][field]));
        const ratio = median(turns.map((each) => each[at].perSecond / each[0].perSecond));
        const times = [of("p50"), of("p99"), of("failures"), of("others")];
        const shown = times.map((value, index) => value.toFixed(index === 2 ? 0 : 2));
        const cells = [name, connections, routers, of("perSecond").toFixed(0), ratio.toFixed(2)];
        say(`| ${[...cells, ...shown].join(" | ")} |`);
      }
    }
  }
} finally {
  for (const { child } of clusters) child.kill("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
}
