// What a batch of the event loop searches: whole partitions, partitions with the masks of a filter, or copies of the
// rows that a filter admits. Copies and masks are opened for one batch, as the compute thread may give them up at any time.

import type { InlineFilter, InlineSearch, InlineTable } from "@winnow/accelerator";

import type { ScanAsk } from "../compute.ts";
import type { IdSource } from "../search/winner-ids.ts";
import { InlineCopy } from "./inline-copy.ts";
import type { SearchedRows } from "./inline-copy.ts";
import { InlineMask } from "./inline-mask.ts";
import { isLargeShape } from "./shared-rows.ts";

/** Rows that are searched. */
interface InlineRows extends IdSource {
  readonly resident: SearchedRows;
  /** `undefined` where there are no rows. */
  readonly table: InlineTable | undefined;
}

/** A partition. */
export interface WholeRows extends InlineRows {
  readonly table: InlineTable;
}

/** What is held of a partition. */
export interface HeldPartition {
  /** The whole partition, if it is shared. */
  readonly whole: WholeRows | undefined;
  /** The rows that filters admit, by the texts of the filters. */
  readonly admitted: Map<string, InlineCopy | InlineMask>;
}

/** What can be searched here for one run of asks. */
export interface FoundRows {
  readonly tables: readonly InlineTable[];
  /** A mask for each table; `undefined` where all their rows are admitted. */
  readonly filters: readonly InlineFilter[] | undefined;
  readonly rows: number;
  /** Rows of the whole partitions. */
  readonly partitionRows: number;
  readonly dim: number;
  readonly vectorDim: number;
  /** Whether a partition is large, so that helper threads share the scan. */
  readonly isLarge: boolean;
  /** Where ids and vectors of what is found are. */
  readonly sources: readonly InlineRows[];
  /** By ascending first row; `undefined`: whole partitions are searched. */
  readonly copies: readonly InlineCopy[] | undefined;
  /** Whether `sources` are these copies, instead of whole partitions. */
  readonly isOfCopies: boolean;
  /** Copies and masks, which are to be told of their search. */
  readonly admitted: readonly (InlineCopy | InlineMask)[];
}

/** A search that can be run here. */
export interface InlineScan extends FoundRows {
  readonly asks: readonly ScanAsk[];
  readonly queries: number;
  /** Candidates of each query, for which there is room in the answer. */
  readonly k: number;
}

/** The copies and masks that one batch has opened. */
export class Opening {
  readonly #search: InlineSearch;
  readonly #tables: InlineTable[] = [];
  readonly #filters: InlineFilter[] = [];

  constructor(search: InlineSearch) {
    this.#search = search;
  }

  /** The rows of a copy; `undefined` if the copy is gone. */
  copy(copy: InlineCopy): InlineTable | undefined {
    const table = copy.open(this.#search);
    if (table !== undefined) this.#tables.push(table);
    return table;
  }

  /** The mask of a filter; `undefined` if the filter is gone. */
  mask(mask: InlineMask): InlineFilter | undefined {
    const filter = mask.open(this.#search);
    if (filter !== undefined) this.#filters.push(filter);
    return filter;
  }

  /** Releases all of them. */
  close(): void {
    for (const table of this.#tables) this.#search.release(table);
    for (const filter of this.#filters) this.#search.releaseFilter(filter);
  }
}

/** The searches of all asks, neighbours of one filter together; `undefined` unless each of them can be run here. */
export function scansOf(
  asks: readonly ScanAsk[],
  partitions: readonly HeldPartition[],
  opening: Opening,
): InlineScan[] | undefined {
  const scans: InlineScan[] = [];
  for (const { text, asks: ofText } of runsOf(asks)) {
    const found = text === undefined ? wholeOf(partitions) : admittedOf(text, partitions, opening);
    if (found === undefined) return undefined;
    let [queries, k] = [0, 0];
    for (const ask of ofText) {
      queries += ask.queries;
      k = Math.max(k, ask.k);
    }
    k = Math.min(k, found.partitionRows);
    if (queries === 0 || k === 0) return undefined;
    scans.push({ ...found, asks: ofText, queries, k });
  }
  return scans;
}

/** Neighbouring asks of one filter, or of none. */
interface AskRun {
  readonly text: string | undefined;
  readonly asks: ScanAsk[];
}

function runsOf(asks: readonly ScanAsk[]): AskRun[] {
  const runs: AskRun[] = [];
  for (const ask of asks) {
    const text = ask.filters?.[0];
    const last = runs.at(-1);
    if (last !== undefined && last.text === text) last.asks.push(ask);
    else runs.push({ text, asks: [ask] });
  }
  return runs;
}

/** All rows of these partitions; `undefined` unless all of them are shared. */
function wholeOf(partitions: readonly HeldPartition[]): FoundRows | undefined {
  const sources: WholeRows[] = [];
  const tables: InlineTable[] = [];
  let rows = 0;
  let isLarge = false;
  for (const { whole } of partitions) {
    if (whole === undefined) return undefined;
    const { resident, table } = whole;
    sources.push(whole);
    tables.push(table);
    rows += resident.rows;
    isLarge ||= isLargeShape(resident);
  }
  const { dim, vectorDim } = sources[0]!.resident;
  const shape = { rows, partitionRows: rows, dim, vectorDim, isLarge };
  const found = { tables, filters: undefined, sources, copies: undefined, isOfCopies: false };
  return { ...shape, ...found, admitted: [] };
}

/**
 * What the compute thread scans for an ask: all rows where it has no filter, or one that has not been copied; else the
 * copies. `undefined` where that is not known here.
 */
export function scannedOf(
  partitions: readonly HeldPartition[],
  { filters }: ScanAsk,
): Pick<FoundRows, "rows" | "dim" | "isLarge"> | undefined {
  const text = filters?.[0];
  const admitted = partitions.map((held) => text && held.admitted.get(text));
  if (text === undefined || admitted.every((each) => each instanceof InlineMask)) {
    return wholeOf(partitions);
  }
  let scanned = { rows: 0, dim: 0, isLarge: false };
  for (const copy of admitted) {
    if (!(copy instanceof InlineCopy)) return undefined;
    const { rows, dim } = copy.resident;
    const isLarge = scanned.isLarge || isLargeShape(copy.resident);
    scanned = { rows: scanned.rows + rows, dim, isLarge };
  }
  return scanned;
}

function admittedOf(
  text: string,
  partitions: readonly HeldPartition[],
  opening: Opening,
): FoundRows | undefined {
  const copies: InlineCopy[] = [];
  const masks: InlineMask[] = [];
  const masked: HeldPartition[] = [];
  let isCopied = true;
  for (const partition of partitions) {
    const admitted = partition.admitted.get(text);
    if (admitted === undefined) return undefined;
    if (admitted instanceof InlineCopy) {
      copies.push(admitted);
      continue;
    }
    isCopied = false;
    masks.push(admitted);
    masked.push(partition);
  }
  if (isCopied) {
    const found = copiedOf(copies, opening);
    return found?.isLarge === true ? ofWhole(found, partitions) : found;
  }
  // Copies of some partitions and masks of others are two searches: the compute thread has the masks of all.
  if (copies.some(({ resident }) => resident.rows > 0)) return undefined;
  const whole = maskedOf(masks, masked, opening);
  return (
    whole && {
      ...whole,
      partitionRows: rowsOf(copies) + whole.rows,
      admitted: [...masks, ...copies],
    }
  );
}

const rowsOf = (copies: readonly InlineCopy[]): number =>
  copies.reduce((sum, { partitionRows }) => sum + partitionRows, 0);

/** Whole partitions, each with its mask, or with none where all masks admit all rows. */
function maskedOf(
  masks: readonly InlineMask[],
  partitions: readonly HeldPartition[],
  opening: Opening,
): FoundRows | undefined {
  const whole = wholeOf(partitions);
  if (whole === undefined || masks.every(({ admitsAll }) => admitsAll)) return whole;
  const filters: InlineFilter[] = [];
  for (const mask of masks) {
    const filter = opening.mask(mask);
    if (filter === undefined) return undefined;
    filters.push(filter);
  }
  return { ...whole, filters };
}

function copiedOf(copies: readonly InlineCopy[], opening: Opening): FoundRows | undefined {
  const tables: InlineTable[] = [];
  const sources: InlineRows[] = [];
  let rows = 0;
  let isLarge = false;
  for (const copy of copies) {
    const { resident, ids } = copy;
    rows += resident.rows;
    isLarge ||= isLargeShape(resident);
    const table = resident.rows === 0 ? undefined : opening.copy(copy);
    sources.push({ resident, ids, table });
    if (resident.rows === 0) continue;
    if (table === undefined) return undefined;
    tables.push(table);
  }
  const ascending = copies.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);
  const { dim, vectorDim } = copies[0]!.resident;
  const shape = { rows, partitionRows: rowsOf(copies), dim, vectorDim, isLarge };
  const found = { tables, filters: undefined, sources, copies: ascending, isOfCopies: true };
  return { ...shape, ...found, admitted: copies };
}

/** Large copies, whose ids and vectors are looked up in the partitions; `undefined` unless all of these are shared. */
function ofWhole(found: FoundRows, partitions: readonly HeldPartition[]): FoundRows | undefined {
  const sources = wholeOf(partitions)?.sources;
  return sources && { ...found, sources, isOfCopies: false };
}
