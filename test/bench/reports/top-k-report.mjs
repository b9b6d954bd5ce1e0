// The report of the search benchmark in Markdown.

const number = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const percent = (value) => `${Math.round(100 * value)} %`;

/** The fastest rival of a cell. */
export function fastestRival(cell) {
  const timed = cell.rivals.filter(({ ms }) => ms !== undefined);
  return timed.reduce((best, rival) => (rival.ms < best.ms ? rival : best));
}

/** How many times faster than that rival ours was. */
export const ratioOf = (cell) => fastestRival(cell).ms / cell.oursMs;

function cellLine(cell) {
  const best = fastestRival(cell);
  const others = cell.rivals.map(({ ms }) => (ms === undefined ? "–" : number(ms))).join(" | ");
  return `| ${cell.kind} | ${cell.dim} | ${cell.k} | ${cell.batch} | **${number(cell.oursMs)}** | ${others} | **${ratioOf(cell).toFixed(1)} ×** | ${best.name} | ${cell.foreign.toFixed(2)} |`;
}

function limitsLine({ kind, dim, rows, cells, limits, loadMs, residentBytes }) {
  const msOf = (batch) => cells.find((cell) => cell.batch === batch && cell.k === 100).oursMs;
  const readRate = (rows * dim) / (msOf(1) / 1000) / 1e9;
  const operations = (batch) => (2 * rows * dim * batch) / (msOf(batch) / 1000) / 1e9;
  const { readGigabytes, vectorGigaops, amxGigaops } = limits;
  const sharesOf = (peak) =>
    peak === undefined
      ? "–"
      : [64, 256].map((batch) => percent(operations(batch) / peak)).join(", ");
  const columns = [
    kind,
    dim,
    `${readGigabytes.toFixed(1)} GB/s`,
    percent(readRate / readGigabytes),
    `${vectorGigaops.toFixed(0)} GOPS`,
    sharesOf(vectorGigaops),
    amxGigaops === undefined ? "–" : `${amxGigaops.toFixed(0)} GOPS`,
    sharesOf(amxGigaops),
    `${((rows * dim * 4) / (loadMs / 1000) / 1e6).toFixed(0)} MB/s`,
    `${(residentBytes / (rows * dim * 4)).toFixed(2)} ×`,
  ];
  return `| ${columns.join(" | ")} |`;
}

/** The least and largest ratio for each kind of data, k = 100. */
function shortAnswer(cells) {
  const kinds = [...new Set(cells.map(({ kind }) => kind))];
  const rangeOf = (kind) => {
    const ratios = cells.filter((cell) => cell.kind === kind && cell.k === 100).map(ratioOf);
    return `${Math.min(...ratios).toFixed(1)} to ${Math.max(...ratios).toFixed(1)} times as fast on ${kind} data`;
  };
  return kinds.map(rangeOf).join(", ");
}

/** The report in Markdown. */
export function toMarkdown(report) {
  const { machine, absent, tables, small, date, rounds, threads, jsMs } = report;
  const cells = tables.flatMap((table) => table.cells);
  const rivalNames = cells[0].rivals.map((rival) => rival.name);
  const head = [
    "data",
    "dim",
    "k",
    "batch",
    "Winnow",
    ...rivalNames,
    "ratio",
    "fastest rival",
    "others",
  ];
  const lines = [
    "# How much faster is the filtered scan than the fastest exact rival?",
    "",
    `**In short**, for k = 100: ${shortAnswer(cells)}.`,
    "[top-k-limits.md](top-k-limits.md) has the goals, what limits the scan, and figures of an AMD processor.",
    "",
    `${date}, ${machine}, ${threads} threads for everybody, Node ${process.versions.node}. Tables of`,
    `${tables[0].rows.toLocaleString("en")} float32 rows in 16 partitions; milliseconds per batch of queries, the median of`,
    `${rounds} rounds in which all contenders take turns on the same data. One answer of each per round is`,
    "checked against a plain loop: all are exact, only Winnow's are the same bits on every machine. `–`:",
    "not asked, as it answers such a batch query by query. `others`: how many of the processors other",
    "programs kept busy meanwhile. Only rows below 0.3 are fit to be quoted: on a busy machine the",
    "longer search loses more, which flatters the faster one. Made by `npm run bench:top-k`.",
    ...absent.map((why) => `Absent: ${why}.`),
    "",
    "![Winnow against the fastest exact rival](top-k.svg)",
    "",
    `| ${head.join(" | ")} |`,
    `|${head.map(() => " --- ").join("|")}|`,
    ...cells.map((cell) => cellLine(cell)),
    "",
    "`normal`: independent normal values, the hard case, as nothing but the precision of the filter",
    "helps. `skewed`: 2000 clusters of Zipf sizes, a spectrum that falls as 1/j, log-normal norms and",
    "queries near clusters, as trained embeddings have; most rows are never looked at.",
    "",
    "## How near is it to what the machine can do?",
    "",
    "Measured before and after the rounds: bytes read from memory per second, and operations on bytes",
    "per second (a multiply-add is two) with the vector instructions (AVX-512 VNNI, else AVX2) and with",
    "AMX. The share at batch 1 is codes read per second; over 100 % means that caches helped or rows",
    "were skipped. The other shares are of batches of 64 and 256. `load` is from float32 rows in memory",
    "to a table that answers; [load.md](load.md) has it from a file.",
    "",
    "| data | dim | memory | share at batch 1 | VNNI peak | shares at 64, 256 | AMX peak | shares at 64, 256 | load | memory per row ÷ float32 |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ...tables.map((table) => limitsLine(table)),
    "",
    "## Smaller tables, other k",
    "",
    `A table of ${small.rows.toLocaleString("en")} rows, dim ${small.dim}, normal, k = 100: ${small.cells
      .map(
        (cell) => `batch ${cell.batch} ${number(cell.oursMs)} ms (${ratioOf(cell).toFixed(1)} ×)`,
      )
      .join(", ")}.`,
    ...tables.map((table) => kSentence(table)),
    jsMs === undefined
      ? ""
      : `\nThe obvious loop and heap in JavaScript takes ${number(jsMs)} ms for one query of the first table.`,
    "",
  ];
  return lines.join("\n");
}

function kSentence({ kind, dim, cells }) {
  const msOf = (k) => cells.find((cell) => cell.batch === 1 && cell.k === k)?.oursMs;
  const ratio = msOf(1000) / msOf(100);
  return `\nBatch 1, ${kind}, dim ${dim}: k = 10 ${number(msOf(10))} ms, k = 100 ${number(msOf(100))} ms, k = 1000 ${number(msOf(1000))} ms (${ratio.toFixed(2)} × of k = 100).`;
}
