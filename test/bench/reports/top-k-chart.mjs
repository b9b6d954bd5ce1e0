// The chart of the search benchmark in SVG: one bar per table and batch, on a logarithmic axis.

import { ratioOf } from "./top-k-report.mjs";

const ROW_HEIGHT = 22;
const LEFT = 190;
const WIDTH = 720;

/** The chart of a report, k = 100. */
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
