// The figures of the stream benchmark in Markdown.

import process from "node:process";

const HEAD = [
  "data",
  "scan threads",
  "outstanding",
  "stream, queries/s",
  "bare, queries/s",
  "share",
  "scan of a batch",
  "bare scan of 64",
  "answer",
  "scan",
  "compute",
  "loop",
  "client",
  "others",
];
const percent = (value) => `${Math.round(100 * value)} %`;
const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });

function loadLine({ kind, threads }, load) {
  const { outstanding, queries, rate, bare, ratio } = load;
  const columns = [
    kind,
    threads,
    `${outstanding} × ${queries}`,
    number(rate),
    number(bare),
    `**${percent(ratio)}**`,
    `${load.computeMs.toFixed(1)} ms`,
    `${((1000 * 64) / bare).toFixed(1)} ms`,
    `${load.latencyMs.toFixed(1)} ms`,
    load.others.toFixed(2),
    load.compute.toFixed(2),
    load.eventLoop.toFixed(2),
    load.client.toFixed(2),
    load.foreign.toFixed(2),
  ];
  return `| ${columns.join(" | ")} |`;
}

/** The machine, the shape, the table. */
export function toMarkdown({ workers, rows, dim, k, rounds, date, processors }) {
  const device = workers[0].device.replace(/, \d+ threads?/, "");
  return [
    `${date}, ${device}, ${processors} processors, Node ${process.versions.node}. A table of ${number(rows)} × ${dim}`,
    `float32 rows in 16 partitions with string ids, k = ${k}; medians of ${rounds} rounds in which the stream`,
    "and the bare scan take turns. Made by `npm run bench:worker`.",
    "",
    `| ${HEAD.join(" | ")} |`,
    `|${HEAD.map(() => " --- ").join("|")}|`,
    ...workers.flatMap((worker) => worker.loads.map((load) => loadLine(worker, load))),
  ].join("\n");
}
