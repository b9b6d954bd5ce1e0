// Tables and queries drawn by chance for gpu-exactness.mjs.

import { queryVectors, randomMask } from "./rows.mjs";

/** What is drawn for a table and its searches. Sizes are even on a logarithmic scale. */
export function randomShape(random, { isSmall }) {
  const pick = (list) => list[Math.floor(random() * list.length)];
  const log = (least, most) => Math.floor(least * (most / least) ** random());
  const dim = pick([1, 3, 16, 31, 32, 64, 64, 100, 128, 128, 255, 512, 1024]);
  const valuesMax = isSmall ? 2 ** 18 : 2 ** 27;
  const rows = log(1, Math.max(2, Math.min(isSmall ? 20_000 : 3e6, valuesMax / dim)));
  const batch = log(1, isSmall ? 12 : 300);
  // The reference takes about a nanosecond per product.
  const compared = Math.max(1, Math.min(batch, Math.floor(5e8 / (rows * dim))));
  return {
    rows,
    dim,
    batch,
    compared,
    family: pick(["normal", "ties", "near ties", "norms", "duplicates"]),
    k: pick([1, 10, 100, 100, 500, 2000]),
    parts: Math.min(rows, log(1, 9)),
    share: pick([undefined, undefined, 0.11, 0.5]),
    excluded: pick([0, 0, 5, 1000]),
    batches: pick([1, 2, 4]),
    slabBytesMax: log(2 ** 17, 2 ** 30),
  };
}

const FAMILIES = {
  normal: (value) => value,
  ties: (value) => Math.max(-1, Math.min(1, Math.round(value))),
  "near ties": (value, j) => Math.fround(Math.sin(j + 1)) * (1 + Math.sign(value) * 2 ** -23),
  norms: (value, j, row) => value * 2 ** ((row % 41) - 20),
  duplicates: (value, j, row) => Math.sin((row % 100) * 1000 + j),
};

/** A table `[rows, dim]` and its batches. */
export function randomSearch(shape, random) {
  const { rows, dim, batch, k, share, excluded, family } = shape;
  const valueOf = FAMILIES[family];
  const table = queryVectors(rows, dim, 1 + Math.floor(random() * 2 ** 30));
  for (let at = 0; at < table.length; at += 1) {
    table[at] = valueOf(table[at], at % dim, Math.floor(at / dim));
  }
  const admittedRows = share === undefined ? undefined : randomMask(rows, share);
  const list = () =>
    Uint32Array.from({ length: excluded }, () => Math.floor(random() * rows)).toSorted();
  const batches = Array.from({ length: shape.batches }, () => ({
    vectors: queryVectors(batch, dim, 1 + Math.floor(random() * 2 ** 30)),
    k,
    admittedRows,
    excludedRows: excluded === 0 ? undefined : Array.from({ length: batch }, list),
  }));
  return { table, batches };
}

/** A filter of each resident, shared by all queries, for a bitmap of global rows. */
export function filtersOf(accelerator, residents, { admittedRows, vectors }) {
  if (admittedRows === undefined) return undefined;
  const filters = residents.map((resident) => {
    const { rows, firstRow } = resident;
    const local = new Uint8Array(Math.ceil(rows / 8));
    for (let row = 0; row < rows; row += 1) {
      const global = firstRow + row;
      if ((admittedRows[global >> 3] & (1 << (global & 7))) !== 0)
        local[row >> 3] |= 1 << (row & 7);
    }
    return accelerator.filter(resident, local);
  });
  return Array.from({ length: vectors.length / residents[0].dim }, () => filters);
}

/** The first difference between an answer and the reference's to its first queries, in words. */
export function blockDifference(block, expected) {
  for (let query = 0; query < expected.queries; query += 1) {
    const count = expected.counts[query];
    if (block.counts[query] !== count) {
      return `query ${query}: ${block.counts[query]} rows instead of ${count}`;
    }
    for (let place = 0; place < count; place += 1) {
      const [at, wanted] = [query * block.k + place, query * expected.k + place];
      const isSame =
        block.rows[at] === expected.rows[wanted] &&
        Object.is(block.scores[at], expected.scores[wanted]);
      if (isSame) continue;
      return (
        `query ${query}, place ${place}: row ${block.rows[at]} (${block.scores[at]}) is not ` +
        `row ${expected.rows[wanted]} (${expected.scores[wanted]})`
      );
    }
  }
  return undefined;
}
