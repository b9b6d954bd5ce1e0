// The scale benchmark's figures as Markdown: a table for each subject, a line for each cluster.

const digits = (value, places = 0) => (Number.isFinite(value) ? value.toFixed(places) : "–");

function tableOf(title, head, lines) {
  if (lines.length === 0) return [];
  const rule = head.map((_, column) => (column < 2 ? "---" : "--:"));
  return [
    `**${title}**`,
    "",
    ...[head, rule, ...lines].map((line) => `| ${line.join(" | ")} |`),
    "",
  ];
}

/** What a cluster at rest costs in the time of one answer, in µs. */
const restUs = ({ router, workers }, { perSecond }) => ((router + workers) * 1e4) / perSecond;

function loadLines(cells) {
  return cells.flatMap(({ table, label, workers, idle, loads = [] }) =>
    loads.map((load) => [
      table,
      label,
      workers,
      load.connections,
      digits(load.routerUs),
      digits(load.workersUs),
      idle === undefined ? "–" : digits(restUs(idle, load)),
      digits(load.touched, 1),
      digits(load.batch, 1),
      digits(load.perSecond),
      digits(load.p50, 1),
      digits(load.p99, 1),
      digits(load.failures),
      digits(load.others, 2),
    ]),
  );
}

const startLine = ({ table, label, membership, workers, start }) => [
  table,
  label,
  membership,
  workers,
  digits(start.wallSeconds, 1),
  digits(start.routerSeconds, 2),
  digits(start.workerSeconds, 2),
  digits(start.others, 2),
];

const idleLine = ({ table, label, membership, workers, idle }) => [
  table,
  label,
  membership,
  workers,
  digits(idle.router, 1),
  digits(idle.workers / workers, 1),
  digits(idle.router + idle.workers, 1),
  membership === "redis" ? digits(idle.redis, 1) : "–",
];

const memoryLine = ({ table, label, membership, workers, memory, trouble }) => [
  table,
  label,
  membership,
  workers,
  digits(memory.held, 1),
  digits(memory.heldMost, 1),
  digits(memory.workerResident),
  digits(memory.routerResident),
  trouble.hedges,
  trouble.retries,
  trouble.suspicions,
  trouble.ejections,
];

/** All cells, in order. */
export function toMarkdown(cells) {
  const idle = cells.filter((cell) => cell.idle !== undefined);
  const shared = ["table", "code", "members by", "workers"];
  return [
    ...tableOf(
      "One instance per request: CPU of each, workers asked per query, answers",
      ["table", "code", "workers", "connections", "router µs", "workers µs"].concat(
        "of both at rest",
        "asked",
        "batch",
        "answers/s",
        "p50 ms",
        "p99 ms",
        "failed",
        "others",
      ),
      loadLines(cells),
    ),
    ...tableOf(
      "Until every model answers and every worker is ready",
      [...shared, "seconds", "router CPU s", "a worker CPU s", "others"],
      cells.map(startLine),
    ),
    ...tableOf(
      "While nobody asks, % of a core",
      [...shared, "router", "a worker", "the cluster", "Redis"],
      idle.map(idleLine),
    ),
    ...tableOf(
      "Memory in MiB, and what a cluster without a fault should not do",
      [...shared, "held by a worker", "by the fullest", "worker process", "router process"].concat(
        "hedges",
        "retries",
        "suspicions",
        "ejections",
      ),
      cells.map(memoryLine),
    ),
  ].join("\n");
}
