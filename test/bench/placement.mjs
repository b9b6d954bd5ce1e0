// What does a large cluster look like on paper? Lays one table over 16 … 1,024 workers with the real
// placement, codecs, routing table and query plan, without a process or a row, and prints what each worker
// would hold, say and be asked, what one join or leave moves, and how long deciding it takes.
//
//   npm run bench:placement                               1 billion rows × 64, half a minute
//   … -- --rows 1e8 --workers 8,64                        another table

import os from "node:os";
import process from "node:process";
import { buildRoutingTable, partitionName, place } from "../../packages/cluster/dist/index.js";
import { announcementToJson } from "../../packages/cluster/dist/announcement/announcement-codec.js";
import { encodeWorkerFrame } from "../../packages/cluster/dist/rpc/frames/frame-codec.js";
import {
  PARTITION_BYTES,
  fingerprint,
  incarnation,
  partitionCountOf,
  workerId,
} from "../../packages/core/dist/index.js";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";

const options = scriptOptions({
  rows: { type: "string", default: "1e9" },
  dim: { type: "string", default: "64" },
  replication: { type: "string", default: "2" },
  workers: { type: "string", default: "16,64,256,1024" },
  /** Bytes of one id. */
  id: { type: "string", default: "12" },
  partition: { type: "string", default: String(PARTITION_BYTES) },
  rounds: { type: "string", default: "5" },
});
const table = { rows: Number(options.rows), dim: Number(options.dim) };
const replication = Number(options.replication);
const rounds = Number(options.rounds);
/** What a row of values takes on a CPU ÷ its float32 values: docs/benchmarks/top-k.md. */
const ROW_OVERHEAD = 1.28;
const PRINT = fingerprint("0".repeat(64));
/** Shares of rows and of ids. */
const SOURCES = 2;
const partitions = partitionCountOf(table, Number(options.partition));
const names = Array.from({ length: partitions }, (_, at) =>
  partitionName("movies", "candidates", at),
);
const partitionBytes =
  (table.rows / partitions) * (table.dim * 4 * ROW_OVERHEAD + Number(options.id));

const workersNamed = (count) => Array.from({ length: count }, (_, index) => workerId(`w${index}`));

/** CPU ms of the cheapest of some runs, and what the last one gave. */
function timed(run) {
  let ms = Infinity;
  let value;
  for (let round = 0; round < rounds; round += 1) {
    const before = process.cpuUsage();
    value = run();
    const { user, system } = process.cpuUsage(before);
    ms = Math.min(ms, (user + system) / 1000);
  }
  return { ms, value };
}

/** What a worker says that holds these partitions, ready. */
function announcementOf(id, held, memoryUsedBytes) {
  const shares = Array.from({ length: SOURCES }, (_, source) => 0xfedcba90 + source);
  return {
    workerId: id,
    incarnation: incarnation(1_763_000_000_000),
    address: `${id}.winnow-shard.winnow.svc.cluster.local:7600`,
    state: "ready",
    accelerator: "cpu",
    device: "Intel(R) Xeon(R) Processor, 32 threads, amx",
    memoryUsedBytes,
    memoryCapacityBytes: 2 ** 36,
    versions: [
      {
        model: "movies",
        version: 1,
        fingerprint: PRINT,
        state: "ready",
        error: undefined,
        serving: true,
        tables: [{ table: 0, partitions, held: held.map((partition) => ({ partition, shares })) }],
      },
    ],
  };
}

function announcementsOf(owners, workers) {
  const held = new Map(workers.map((id) => [id, []]));
  for (const [partition, of] of owners.entries()) for (const id of of) held.get(id).push(partition);
  return workers.map((id) => {
    const own = held.get(id);
    return announcementOf(id, own, Math.round(own.length * partitionBytes));
  });
}

/** Replicas that somebody has to load who did not hold them. */
function moved(before, after) {
  return after.reduce(
    (sum, owners, partition) =>
      sum + owners.filter((owner) => !before[partition].includes(owner)).length,
    0,
  );
}

function figuresOf(count) {
  const workers = workersNamed(count);
  const spread = (of) => place(names, of, { replication });
  const placed = timed(() => spread(workers));
  const owners = placed.value;
  const announcements = announcementsOf(owners, workers);
  const loads = announcements.map((each) => each.versions[0].tables[0].held.length);
  const spec = {
    kind: /** @type {const} */ ("candidate"),
    name: "candidates",
    ...table,
    partitions,
    idDtype: /** @type {const} */ ("string"),
    sources: Array.from({ length: SOURCES }, (_, source) => ({
      tensor: `source ${source}`,
      file: "variables.data",
      checksum: undefined,
    })),
  };
  const context = { tables: new Map([[PRINT, [spec]]]), replication };
  const built = timed(() => buildRoutingTable(announcements, context));
  const { plans } = built.value.models.get("movies").contents[0].tables[0];
  // One worker is gone, the others say what they said: the table as a router builds it anew.
  const rest = announcements.slice(1);
  const rebuilt = timed(() => buildRoutingTable(rest, context, built.value));
  const joined = moved(owners, spread([...workers, workerId(`w${count}`)]));
  const left = moved(owners, spread(workers.slice(1)));
  const frames = announcements.map(
    (announcement) => encodeWorkerFrame({ kind: "state", announcement }).length,
  );
  const texts = announcements.map((announcement) => announcementToJson(announcement).length);
  const replicas = loads.reduce((sum, load) => sum + load, 0);
  return {
    count,
    mean: replicas / count,
    most: Math.max(...loads),
    plans: plans.length,
    asked: Math.max(...plans.map((plan) => new Set(plan).size)),
    scannedMost: Math.max(...plans.flatMap((plan) => [...countsOf(plan).values()])),
    busiest: (Math.max(...countsOf(plans.flat()).values()) * count) / (plans.length * partitions),
    frameBytes: Math.max(...frames),
    textBytes: Math.max(...texts),
    placeMs: placed.ms,
    buildMs: built.ms,
    rebuildMs: rebuilt.ms,
    joined,
    joinedIdeal: replicas / (count + 1),
    left,
    leftIdeal: loads[0],
  };
}

function countsOf(plan) {
  const counts = new Map();
  for (const worker of plan) counts.set(worker, (counts.get(worker) ?? 0) + 1);
  return counts;
}

const gigabytes = (replicas) => `${((replicas * partitionBytes) / 1e9).toFixed(1)} GB`;

function tableOf(title, head, lines) {
  const rule = head.map(() => "--:");
  return [
    `**${title}**`,
    "",
    ...[head, rule, ...lines].map((line) => `| ${line.join(" | ")} |`),
    "",
  ];
}

const all = options.workers
  .split(",")
  .map(Number)
  .map((count) => figuresOf(count));
process.stdout.write(
  [
    `${table.rows.toLocaleString("en")} × ${table.dim} rows with ids of ${options.id} bytes, replication ${replication}: ${partitions} partitions of`,
    `${(partitionBytes / 1e6).toFixed(0)} MB in memory. ${os.cpus()[0].model.trim()}, Node ${process.versions.node}; times are CPU, the least of ${rounds} runs.`,
    "",
    ...tableOf(
      "What each worker holds and is asked",
      [
        "workers",
        "partitions, mean",
        "most",
        "memory, mean",
        "most",
        "asked by one query",
        "partitions scanned, most",
        "plans",
        "busiest ÷ mean over all plans",
      ],
      all.map((of) => [
        of.count,
        of.mean.toFixed(1),
        of.most,
        gigabytes(of.mean),
        gigabytes(of.most),
        of.asked,
        of.scannedMost,
        of.plans,
        of.busiest.toFixed(2),
      ]),
    ),
    ...tableOf(
      "What it says of itself, and what deciding costs",
      [
        "workers",
        "announcement, frame",
        "as JSON",
        "place()",
        "routing table",
        "the same after a leave",
      ],
      all.map((of) => [
        of.count,
        `${of.frameBytes} B`,
        `${of.textBytes} B`,
        `${of.placeMs.toFixed(1)} ms`,
        `${of.buildMs.toFixed(1)} ms`,
        `${of.rebuildMs.toFixed(1)} ms`,
      ]),
    ),
    ...tableOf(
      "What one worker more, or less, makes others load",
      ["workers", "join: replicas", "bytes", "÷ ideal", "leave: replicas", "bytes", "÷ ideal"],
      all.map((of) => [
        of.count,
        of.joined,
        gigabytes(of.joined),
        (of.joined / of.joinedIdeal).toFixed(2),
        of.left,
        gigabytes(of.left),
        (of.left / of.leftIdeal).toFixed(2),
      ]),
    ),
    ...tableOf(
      "The slowest of the workers asked: its p99 is this percentile of one worker",
      ["asked", "percentile", "with a hedge after the usual p95"],
      [...new Set(all.map(({ asked }) => asked))].map((asked) => {
        const one = 1 - 0.99 ** (1 / asked);
        // A hedged question is late when both replicas are; the first has passed its p95 already.
        return [
          asked,
          `${(100 - 100 * one).toFixed(3)} %`,
          `${(100 - 100 * Math.sqrt(one)).toFixed(2)} %`,
        ];
      }),
    ),
  ].join("\n"),
);
