// Cuts the block of one scan into the answers of the asks that shared it. Asks that differ only in their
// vectors cross between the threads as one ask, because each object that crosses costs both threads
// microseconds. The block crosses whole; the answer to an ask with the block's k is a view of it, without a
// copy.

import type { TopKBlock } from "@winnow/core";

import type { PackedKeys, PackedStrings, ScanAsk, ScanAnswer, TopKScan } from "../compute.ts";

/** How many candidates of one query of a block an ask with this `k` takes. */
export function countOf(block: TopKBlock, query: number, k: number): number {
  return Math.min(k, block.counts[query]!);
}

/** Whether an ask has one filter at most and no lists of ids. */
export function isPlain({ excluded, filters = [], included = [] }: ScanAsk): boolean {
  return filters.length <= 1 && excluded.length + included.length === 0;
}

/** Whether an ask is plain and wants no attributes. */
function isBare(ask: ScanAsk): boolean {
  return isPlain(ask) && (ask.attributes ?? []).length === 0;
}

/** The rows whose ids are wanted: for each ask that wants ids, query after query, at most its k. */
export function wantedRows(block: TopKBlock, asks: readonly ScanAsk[]): Uint32Array {
  const rows = new Uint32Array(block.rows.length);
  let wanted = 0;
  let query = 0;
  for (const { queries, k, rowsOnly } of asks) {
    for (const end = query + queries; query < end; query += 1) {
      const count = rowsOnly ? 0 : countOf(block, query, k);
      rows.set(block.rows.subarray(query * block.k, query * block.k + count), wanted);
      wanted += count;
    }
  }
  return rows.subarray(0, wanted);
}

/** Joins neighbouring bare asks of equal k and filter into one, for fewer objects between the threads. */
export function joinAsks(asks: readonly ScanAsk[]): ScanAsk[] {
  const joined: { -readonly [Field in keyof ScanAsk]: ScanAsk[Field] }[] = [];
  for (const ask of asks) {
    const { queries, k, rowsOnly, filters } = ask;
    const last = joined.at(-1);
    const isAlike =
      last?.k === k && last.rowsOnly === rowsOnly && last.filters?.[0] === filters?.[0];
    if (isAlike && isBare(last) && isBare(ask)) last.queries += queries;
    else joined.push({ ...ask });
  }
  return joined;
}

/** The answer to each ask, in their order. */
export function answersOf(
  scan: Pick<TopKScan, "block" | "ids" | "attributes">,
  asks: readonly ScanAsk[],
): ScanAnswer[] {
  let firstQuery = 0;
  let firstId = 0;
  let firstText = 0;
  return asks.map((ask) => {
    const block = cutBlock(scan.block, { firstQuery, queries: ask.queries, k: ask.k });
    firstQuery += ask.queries;
    const wantsIds = !ask.rowsOnly && scan.ids !== undefined;
    const wantsTexts = (ask.attributes ?? []).length > 0 && scan.attributes !== undefined;
    if (!wantsIds && !wantsTexts) return { block, ids: undefined, attributes: undefined };
    const count = block.counts.reduce((sum, each) => sum + each, 0);
    const ids = wantsIds ? cutKeys(scan.ids, firstId, firstId + count) : undefined;
    const attributes = wantsTexts
      ? cutStrings(scan.attributes, firstText, firstText + count)
      : undefined;
    if (wantsIds) firstId += count;
    if (wantsTexts) firstText += count;
    return { block, ids, attributes };
  });
}

/** Some queries of a block, each with at most `k` candidates. */
function cutBlock(
  block: TopKBlock,
  cut: { readonly firstQuery: number; readonly queries: number; readonly k: number },
): TopKBlock {
  const { firstQuery, queries, k } = cut;
  const from = firstQuery * block.k;
  const end = (firstQuery + queries) * block.k;
  const counts = block.counts.subarray(firstQuery, firstQuery + queries);
  const scores = block.scores.subarray(from, end);
  const rows = block.rows.subarray(from, end);
  const whole = { queries, k: block.k, counts, scores, rows };
  return block.k <= k ? whole : narrowed(whole, k);
}

/** A copy of a block with room for `k` candidates per query. */
function narrowed(block: TopKBlock, k: number): TopKBlock {
  const { queries } = block;
  const counts = Uint32Array.from(block.counts, (_, query) => countOf(block, query, k));
  const scores = new Float32Array(queries * k);
  const rows = new Uint32Array(queries * k);
  for (let query = 0; query < queries; query += 1) {
    const from = query * block.k;
    scores.set(block.scores.subarray(from, from + counts[query]!), query * k);
    rows.set(block.rows.subarray(from, from + counts[query]!), query * k);
  }
  return { queries, k, counts, scores, rows };
}

function cutStrings({ offsets, bytes }: PackedStrings, from: number, end: number): PackedStrings {
  return { offsets: offsets.subarray(from, end + 1), bytes };
}

function cutKeys(keys: PackedKeys, from: number, end: number): PackedKeys {
  switch (keys.dtype) {
    case "string":
      return { dtype: "string", strings: cutStrings(keys.strings, from, end) };
    case "int32":
      return { dtype: "int32", values: keys.values.subarray(from, end) };
    case "int64":
      return { dtype: "int64", values: keys.values.subarray(from, end) };
  }
}
