// The report of the search benchmark: a table in Markdown and a chart in SVG.

const number = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const percent = (value) => `${Math.round(100 * value)} %`;

/** The fastest rival of a cell. */
export function fastestRival(cell) {
  const timed = cell.rivals.filter(({ ms }) => ms !== undefined);
  return timed.reduce((best, rival) => (rival.ms < best.ms ? rival : best));
}

const ratioOf = (cell) => fastestRival(cell).ms / cell.oursMs;

function cellLine(cell) {
  const best = fastestRival(cell);
  const others = cell.rivals.map(({ ms }) => (ms === undefined ? "–" : number(ms))).join(" | ");
  return `| ${cell.kind} | ${cell.dim} | ${cell.k} | ${cell.batch} | **${number(cell.oursMs)}** | ${others} | **${ratioOf(cell).toFixed(1)} ×** | ${best.name} | ${cell.foreign.toFixed(2)} |`;
}

function limitsLine(table) {
  const { kind, dim, rows, limits } = table;
  const first = table.cells.find((cell) => cell.batch === 1 && cell.k === 100);
  const full = table.cells.find((cell) => cell.batch === 64 && cell.k === 100);
  const readRate = (rows * dim) / (first.oursMs / 1000) / 1e9;
  const operations = (2 * rows * dim * 64) / (full.oursMs / 1000) / 1e9;
  const size = (table.residentBytes / (rows * dim * 4)).toFixed(2);
  const loadRate = ((rows * dim * 4) / (table.loadMs / 1000) / 1e6).toFixed(0);
  return `| ${kind} | ${dim} | ${limits.readGigabytes.toFixed(1)} GB/s | ${percent(readRate / limits.readGigabytes)} | ${limits.int8Gigaops.toFixed(0)} GOPS | ${percent(operations / limits.int8Gigaops)} | ${loadRate} MB/s | ${size} × |`;
}

/** The report in Markdown. */
export function toMarkdown({ machine, tables, small, date, rounds, threads, jsMs }) {
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
    `${date}, ${machine}, ${threads} threads for everybody, Node ${process.versions.node}. Tables of`,
    `${tables[0].rows.toLocaleString("en")} float32 rows in 16 partitions; milliseconds per batch of queries, the median of`,
    `${rounds} rounds in which all contenders take turns on the same data. All answers are exact; only`,
    "Winnow's are the same bits on every machine. `others`: how many of the processors other",
    "programs kept busy meanwhile. Only rows below 0.3 are fit to be quoted: on a busy machine the",
    "longer search loses more, which flatters the faster one. Made by `npm run bench:top-k`.",
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
    "Measured between the rounds: bytes read from memory per second, and multiply-adds of bytes per",
    "second with the vector instructions (AVX-512 VNNI, else AVX2; AMX, where it exists, can exceed",
    "it). The share at batch 1 is codes read per second; over 100 % means that caches helped or rows",
    "were skipped.",
    "",
    "| data | dim | memory | share at batch 1 | int8 peak | share at batch 64 | load | memory per row ÷ float32 |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
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

const ROW_HEIGHT = 22;
const LEFT = 190;
const WIDTH = 720;

/** The chart: one bar per table and batch, on a logarithmic axis. */
export function toSvg({ tables, machine, date }) {
  const cells = tables.flatMap((table) => table.cells).filter((cell) => cell.k === 100);
  const greatest = Math.max(10, ...cells.map((cell) => ratioOf(cell)));
  const scale = (ratio) =>
    (Math.log(Math.max(ratio, 1)) / Math.log(greatest)) * (WIDTH - LEFT - 70);
  const height = 64 + cells.length * ROW_HEIGHT + 30;
  const bars = cells.map((cell, place) => {
    const y = 56 + place * ROW_HEIGHT;
    const ratio = ratioOf(cell);
    const color = cell.kind === "normal" ? "#4c78a8" : "#59a14f";
    return [
      `<text x="${LEFT - 8}" y="${y + 14}" text-anchor="end">${cell.kind}, dim ${cell.dim}, batch ${cell.batch}</text>`,
      `<rect x="${LEFT}" y="${y + 2}" width="${scale(ratio).toFixed(1)}" height="${ROW_HEIGHT - 6}" fill="${color}"/>`,
      `<text x="${(LEFT + scale(ratio) + 6).toFixed(1)}" y="${y + 14}">${ratio.toFixed(1)} ×</text>`,
    ].join("\n  ");
  });
  const ticks = [1, 2, 5, 10, 20, 50, 100].filter((tick) => tick <= greatest);
  const lines = ticks.map((tick) => {
    const x = (LEFT + scale(tick)).toFixed(1);
    return `<path d="M${x} 50V${height - 28}" stroke="#ccc"/><text x="${x}" y="${height - 12}" text-anchor="middle">${tick} ×</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">
  <rect width="${WIDTH}" height="${height}" fill="white"/>
  <text x="16" y="22" font-size="15" font-weight="bold">Exact top-100 of a million rows: times faster than the fastest exact rival</text>
  <text x="16" y="40" fill="#555">${machine}, ${date}; logarithmic axis</text>
  ${lines.join("\n  ")}
  ${bars.join("\n  ")}
</svg>
`;
}
