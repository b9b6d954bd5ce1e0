// The results as Markdown, for people; the JSON beside it holds everything.

const line = (cells) => `| ${cells.join(" | ")} |`;

/** A table whose columns are [heading, cell of an entry]. */
function table(entries, columns) {
  if (entries.length === 0) return "none\n";
  const body = entries.map((entry) => line(columns.map(([, cell]) => String(cell(entry) ?? ""))));
  return `${[line(columns.map(([name]) => name)), line(columns.map(() => "---")), ...body].join("\n")}\n`;
}

const count = (value) => (value === undefined ? "" : value.toLocaleString("en"));
const failure = ({ wrong, error, skipped }) =>
  wrong !== undefined ? `WRONG: ${wrong}` : (error ?? skipped);

const SEARCH = [
  ["rows", ({ rows }) => count(rows)],
  ["dim", ({ dim }) => dim],
  ["k", ({ k }) => k],
  ["batch", ({ batch }) => batch],
  ["wall ms", ({ wallMs }) => wallMs],
  ["wall ms, two at once", ({ wallMsOfTwoAtOnce }) => wallMsOfTwoAtOnce],
  ["queries/s", ({ queriesPerSecond }) => count(queriesPerSecond)],
  ["device ms", ({ deviceMs }) => deviceMs],
  ["scan ms", ({ stageMs }) => stageMs?.scan],
  ["scan by", ({ matrixUnits }) => (matrixUnits ? "matrix units" : "dot products")],
  [
    "read / product floor ms",
    ({ floor }) => floor?.readMs && `${floor.readMs} / ${floor.productMs}`,
  ],
  ["scan ÷ floor", ({ scanOverFloor }) => scanOverFloor],
  ["equal to reference", (cell) => failure(cell) ?? `${cell.exactQueries} queries`],
];

const RIVAL = [
  ["rows", ({ rows }) => count(rows)],
  ["dim", ({ dim }) => dim],
  ["k", ({ k }) => k],
  ["batch", ({ batch }) => batch],
  ["type", ({ dtype }) => dtype],
  ["wall ms", ({ wallMs }) => wallMs?.toFixed(3)],
  ["device ms", ({ deviceMs }) => deviceMs?.toFixed(3)],
  ["note", (cell) => failure(cell) ?? (cell.pieces > 1 ? `${cell.pieces} pieces` : "")],
];

function gpuLines({ gpus }) {
  return gpus.map(
    ({ name, isSoftware, vendor, architecture, driver, features, limits }) =>
      `- ${name}${isSoftware ? " (software)" : ""}: ${vendor} ${architecture}, ${driver}\n` +
      `  - features: ${features.join(", ")}\n` +
      `  - limits: ${Object.entries(limits)
        .map(([limit, value]) => `${limit} ${value}`)
        .join(", ")}`,
  );
}

function ceilingLines({ ceilings, ceilingFault }) {
  if (ceilings === undefined) return [ceilingFault ?? "not measured"];
  return [
    `reading ${count(ceilings.bytesRead)} bytes: ${ceilings.readGbPerS} GB/s`,
    `integer dot products of bytes (dot4I8Packed, 8 operations each): ${ceilings.dp4aTops} T/s`,
    `float32 multiply-adds (2 operations each): ${ceilings.fmaTflops} T/s`,
    `sending to the device: ${ceilings.uploadGbPerS} GB/s`,
    `hearing back (copy 16 bytes, map): ${ceilings.readbackMs} ms`,
    `timed by the ${ceilings.timedBy}`,
  ].map((line) => `- ${line}`);
}

/** The whole report. */
export function markdownOf(results) {
  const { about, survey, tables, cells, masked, rivals, toggles, experiments } = results;
  const sections = [
    [
      "Machine",
      `${gpuLines(survey).join("\n")}\n\nWinnow opened: ${about.device}. Node ${about.node}.\n`,
    ],
    ["Ceilings, measured in this run", `${ceilingLines(results).join("\n")}\n`],
    [
      "Tables",
      table(tables, [
        ["rows", ({ rows }) => count(rows)],
        ["dim", ({ dim }) => dim],
        ["bytes on the device", ({ bytes }) => count(bytes)],
        ["load s", (entry) => failure(entry) ?? entry.loadSeconds],
        ["generated and checked on the host, s", ({ generateSeconds }) => generateSeconds],
      ]),
    ],
    ["Searches", table(cells, SEARCH)],
    [
      "A mask that admits some rows",
      table(masked, [...SEARCH, ["admitted", ({ share }) => share]]),
    ],
    [`PyTorch (${rivals.about})`, table(rivals.cells, RIVAL)],
    ["Switches of the device", table(toggles, [["switches", ({ name }) => name], ...SEARCH])],
    [
      "What experimental switches show",
      `${experiments.map((line) => `- ${line}`).join("\n") || "not asked for"}\n`,
    ],
  ];
  const head =
    `# Search on ${about.device}, ${about.date}\n\nMade by \`${about.command}\` in ` +
    `${about.minutes} minutes. Wall and device times are medians; two at once: for one of two batches that ` +
    `are under way together; the floor is the codes read once ` +
    "and all products of the batch, at the ceilings below; device times are by the device's own clock.\n";
  return [head, ...sections.map(([title, body]) => `## ${title}\n\n${body}`)].join("\n");
}
