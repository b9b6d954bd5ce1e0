// The cost of a request, in rows: one row per query vector, and more where a large k or long vectors leave
// room for fewer vectors in a slice. A full slice costs `sliceQueriesMax` rows, whatever fills it. Excluded
// ids and long keys travel with a slice and cost further rows, by their bytes.
//
//   4096 queries, one list of 512 KiB for all:  16 slices of 256 queries, each with the list
//                                               16 × (256 + 128) rows

import { keyBytes } from "@winnow/cluster";
import {
  bindFilter,
  conditionsOf,
  filterText,
  isSoftmax,
  searchesOf,
  testsInRule,
} from "@winnow/core";
import type {
  AttributeSpec,
  Filter,
  RowRange,
  SignatureProgram,
  Step,
  TableSpec,
  Tensor,
  TopKStep,
} from "@winnow/core";
import type { RouterSettings } from "../router-settings.ts";

const VALUE_BYTES = 4;

/**
 * The bounds of one slice. A worker scans once for each different filter in it and keeps a bit per row for
 * each, so a slice has no more different filters than a request may bring: a mask of the model makes one for
 * each instance.
 */
export type SliceLimits = Pick<
  RouterSettings,
  "sliceQueriesMax" | "sliceCandidatesMax" | "sliceBytesMax" | "filtersMax"
>;

/** What the cost of a search depends on. */
interface SearchSize {
  readonly queries: number;
  readonly dim: number;
  readonly k: number;
  /** Bytes of listed ids and filters: no lists, one list for all queries, or one list per query. */
  readonly listBytes: readonly number[];
  /** Filters: none, one for all queries, or one per query. */
  readonly filters?: readonly Pick<BoundFilter, "text">[];
  /** Queries of a slice, at most, where the limits allow more (`slice-sizes.ts`). It costs no more rows. */
  readonly sliceQueries?: number;
}

/** Some of a search's queries, which travel together. */
export interface SearchSlice extends RowRange {
  /** The cost of the slice, in rows. */
  readonly rows: number;
  /** Bytes of the ids and filters that travel with the slice. */
  readonly idBytes: number;
}

/** Query vectors per slice, bounded by their number, by the candidates that come back and by the bytes that go out. */
function sliceQueriesOf({ dim, k }: Pick<SearchSize, "dim" | "k">, limits: SliceLimits): number {
  const byCandidates = Math.floor(limits.sliceCandidatesMax / k);
  const byBytes = Math.floor(limits.sliceBytesMax / (dim * VALUE_BYTES));
  return Math.max(1, Math.min(limits.sliceQueriesMax, byCandidates, byBytes));
}

/** Rows, with fractions, that bytes cost. */
export function rowsOfBytes(bytes: number, limits: SliceLimits): number {
  return (bytes * limits.sliceQueriesMax) / limits.sliceBytesMax;
}

/**
 * Cuts a search into slices. Lists of single queries fill a slice as their vectors do, and so do different
 * filters; a list for all queries travels with each slice.
 */
export function cutSearch(search: SearchSize, limits: SliceLimits): SearchSlice[] {
  const { queries, listBytes } = search;
  const queriesMax = sliceQueriesOf(search, limits);
  const own = listBytes.length > 1 ? listBytes : [];
  const shared = listBytes.length === 1 ? listBytes[0]! : 0;
  const step = Math.min(queriesMax, search.sliceQueries ?? queriesMax);
  // A list for all queries is not sent more often if it is longer than their vectors.
  const isLong = shared > step * search.dim * VALUE_BYTES;
  const slices: SearchSlice[] = [];
  for (let firstRow = 0; firstRow < queries;) {
    const endRow = endOfSlice(search, limits, {
      firstRow,
      endRowMax: firstRow + (isLong ? queriesMax : step),
    });
    const lists = own.slice(firstRow, endRow).reduce((sum, bytes) => sum + bytes, shared);
    const ofQueries = Math.ceil(((endRow - firstRow) * limits.sliceQueriesMax) / queriesMax);
    const rows = ofQueries + Math.ceil(rowsOfBytes(lists, limits));
    slices.push({ firstRow, endRow, rows, idBytes: lists });
    firstRow = endRow;
  }
  return slices;
}

/** The end of a slice: as many queries as bytes and filters leave room for, at least one. */
function endOfSlice(
  { queries, dim, listBytes, filters = [] }: SearchSize,
  { sliceBytesMax, filtersMax }: SliceLimits,
  { firstRow, endRowMax }: { readonly firstRow: number; readonly endRowMax: number },
): number {
  const own = listBytes.length > 1 ? listBytes : [];
  const texts = new Set<string | undefined>();
  let bytes = 0;
  let endRow = firstRow;
  for (; endRow < Math.min(queries, endRowMax); endRow += 1) {
    bytes += dim * VALUE_BYTES + (own[endRow] ?? 0);
    texts.add(filters[endRow]?.text);
    if (endRow > firstRow && (bytes > sliceBytesMax || texts.size > filtersMax)) break;
  }
  return endRow;
}

/** A filter as workers know it. */
export interface BoundFilter {
  /** The filter as text (`filterText`). */
  readonly text: string;
  /** Number of conditions, each tested for each row. */
  readonly conditions: number;
}

/** A filter as workers know it. @throws WinnowError INVALID_ARGUMENT where it does not fit the attributes */
export function boundFilter(filter: Filter, attributes: readonly AttributeSpec[]): BoundFilter {
  const canonical = bindFilter(filter, attributes);
  return { text: filterText(canonical), conditions: conditionsOf(canonical) };
}

/** Number of conditions in the different filters: a worker that does not know a condition tests it on all its rows. */
export function distinctConditions(filters: readonly BoundFilter[]): number {
  if (filters.length === 0) return 0;
  const byText = new Map(filters.map(({ text, conditions }) => [text, conditions]));
  return [...byText.values()].reduce((sum, each) => sum + each, 0);
}

/**
 * The conditions of a request on the items that its searches return, in the form that workers read. There are
 * no lists (or filters), one for all queries, or one per query.
 */
export interface SearchConditions {
  /** Ids never to be returned. */
  readonly exclude: readonly Tensor[];
  /** The only ids that may be returned. */
  readonly include: readonly Tensor[];
  readonly filters: readonly BoundFilter[];
  /** Names of the attributes that are wanted of each item. */
  readonly attributes: readonly string[];
  /** Whether a vector among them is wanted as bytes. */
  readonly vectorBytes?: true | undefined;
}

/** No conditions, and no attributes. */
export const NO_CONDITIONS: SearchConditions = {
  exclude: [],
  include: [],
  filters: [],
  attributes: [],
};

/** The bytes of all lists, as `SearchSize` has them. */
export function listBytesOf(lists: SearchConditions, queries: number): readonly number[] {
  if (lists.exclude.length + lists.include.length + lists.filters.length === 0) return [];
  const sizes = [
    lists.exclude.map(keyBytes),
    lists.include.map(keyBytes),
    lists.filters.map(({ text }) => text.length),
  ].filter((each) => each.length > 0);
  if (sizes.every((each) => each.length === 1)) {
    return sizes.length === 0 ? [] : [sizes.reduce((sum, [bytes]) => sum + bytes!, 0)];
  }
  return Array.from({ length: queries }, (_, query) =>
    sizes.reduce((sum, each) => sum + (each[each.length === 1 ? 0 : query] ?? 0), 0),
  );
}

/** Cost, in rows, of a query for which a worker computes the scores of all rows. */
export const SUMMED_ROWS = 8;

/** Rows that all searches and look-ups of a signature cost for this many instances. */
export function requestCost(
  asked: {
    readonly signature: SignatureProgram;
    readonly tables: readonly TableSpec[];
    readonly instances: number;
    /** The k of each search. */
    readonly depths: ReadonlyMap<Step, number>;
    readonly listBytes: readonly number[];
    /** Bytes of the string inputs, from which keys are made. */
    readonly textBytes: number;
  },
  limits: SliceLimits,
): number {
  const { instances } = asked;
  let cost = 0;
  for (const step of asked.signature.steps) {
    // Keys of usual length cost less than a row.
    if (step.kind === "lookup") cost += Math.floor(rowsOfBytes(asked.textBytes, limits));
    if (step.kind !== "topK") continue;
    const { dim } = asked.tables[step.table]!;
    const { vectors = 1 } = step;
    const queries = instances * vectors;
    // The lists of an instance travel with each of its vectors.
    const listBytes =
      vectors === 1 || asked.listBytes.length <= 1
        ? asked.listBytes
        : asked.listBytes.flatMap((bytes) => Array.from({ length: vectors }, () => bytes));
    const k = Math.max(1, asked.depths.get(step) ?? 1);
    const slices = cutSearch({ queries, dim, k, listBytes }, limits);
    const rows = slices.reduce((sum, each) => sum + each.rows, 0);
    // A mask is one filter for each query, and may need further searches.
    const tests = (step.masks ?? []).reduce((sum, { keeps }) => sum + testsInRule(keeps), 0);
    cost += searchesOf(step.masks ?? []) * (rows + queries * tests);
    cost += queries * sumsOf(step) * SUMMED_ROWS;
  }
  return cost;
}

/** How often the scores of all rows, or of some, are summed for each query. */
function sumsOf({ functions = [], masks = [] }: TopKStep): number {
  const softmaxAt = functions.findIndex(isSoftmax);
  if (softmaxAt < 0) return 0;
  return searchesOf(masks.filter(({ functionsBefore }) => functionsBefore <= softmaxAt));
}
