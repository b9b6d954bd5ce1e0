// The best k rows of a candidate table for some query vectors, from one replica of every partition. Many
// queries, or a large k, are cut into slices of bounded size, each of which passes through the concurrency
// limiter.

import type {
  BoundFunction,
  CandidateTable,
  GraceTimer,
  Signal,
  SoftmaxSums,
  Tensor,
  TopKStep,
  TraceSpan,
} from "@winnow/core";
import {
  VECTOR_ATTRIBUTE,
  setGraceTimer,
  sumsAttribute,
  vectorDimOf,
  vectorsOfCells,
} from "@winnow/core";
import type { TopKAsk } from "@winnow/cluster";
import { checkQueries } from "../../limits/request-limits.ts";
import { runBounded } from "../bounded-run.ts";
import type { ItemRows } from "../../item-rows.ts";
import type { DescribedTopK, GatheredTopK } from "./gather.ts";
import { gatherTopK, itemsOf, joinItemRows, joinSums, joinTopK, spreadRows } from "./gather.ts";
import {
  NO_CONDITIONS,
  SUMMED_ROWS,
  cutSearch,
  distinctConditions,
  listBytesOf,
} from "../../admission/search-cost.ts";
import type { BoundFilter, SearchConditions, SearchSlice } from "../../admission/search-cost.ts";
import { cellsOfTexts } from "../item-vectors.ts";
import { listedIds } from "../listed-ids.ts";
import type { ListedOn } from "../listed-ids.ts";
import { inTurns } from "../../turns/turns.ts";
import { itemRowsFault, laterFault, topKFault } from "./top-k-fault.ts";
import type { PartialAnswer } from "../../scatter/slot.ts";
import type { RequestScope, TableQuestion } from "../../scatter/scatter-question.ts";
import type { TableQueryParts } from "../../scatter/table-query.ts";
import { queryTable } from "../../scatter/table-query.ts";

/**
 * A search in one candidate table, with all queries of one step. It is cut into slices, and each slice
 * becomes a `TopKAsk`.
 */
export interface Search {
  readonly step: TopKStep;
  readonly table: CandidateTable;
  /** `[queries, dim]`. */
  readonly vectors: Float32Array;
  /** At most the number of rows of the table. */
  readonly k: number;
  readonly conditions: SearchConditions;
  /** Where sums over rows are wanted, beside one item: the functions of the scores that are summed. */
  readonly summed?: readonly BoundFunction[] | undefined;
  /** Rows of another table that are wanted of the items found. */
  readonly itemRows?: ItemRows | undefined;
  readonly signal: Signal;
  /** The span of the step; `undefined` where nothing is recorded. */
  readonly span?: TraceSpan | undefined;
}

/**
 * The best `k` rows for each query; fewer only if the query's conditions or lost partitions leave fewer.
 * @throws WinnowError as `queryTable`; INVALID_ARGUMENT for lists that are neither one for all queries nor
 * one for each
 */
export async function queryTopK(
  parts: TableQueryParts,
  asked: Search,
  scope: RequestScope,
): Promise<DescribedTopK> {
  const { step, table, vectors, k, itemRows, signal, span } = asked;
  const queries = vectors.length / table.dim;
  checkQueries(queries, parts.settings);
  const conditions = conditionsFor(asked.conditions, { table, queries });
  const search = { step, table, vectors, k, conditions, itemRows, signal, span };
  const shape = {
    table,
    k,
    wantsRows: step.rows !== undefined,
    wantsIds: step.ids !== undefined,
    wantsAttributes: asked.conditions.attributes.length > 0,
  };
  if (k === 0) return inTurns(joinTopK([gatherNothing(queries)], shape), signal);
  const { clock } = parts.environment;
  const listBytes = listBytesOf(conditions, queries);
  const { filters } = conditions;
  const sliceQueries = parts.sliceSizes.queriesMax(table, queries);
  const size = { queries, dim: table.dim, k, listBytes, filters, sliceQueries };
  const slices = cutSearch(size, parts.settings);
  const gathered: GatheredTopK[] = [];
  await askSlices(parts, search, { slices, scope, gathered });
  const startMs = clock.nowMs();
  const areVectorsLater = gathered.some(({ replies }) => replies.some(hasLaterVectors));
  const wantsAttributes = shape.wantsAttributes && !areVectorsLater;
  const joined = inTurns(joinTopK(gathered, { ...shape, wantsAttributes }), signal);
  const answer = joined instanceof Promise ? await joined : joined;
  keepItemRows(parts, { itemRows, ids: answer.ids, gathered });
  if (areVectorsLater)
    itemRows?.keepVectors(laterVectors(parts, gathered[0]!, { ...shape, ids: answer.ids }));
  const endMs = clock.nowMs();
  scope.noteStage?.("merge", endMs - startMs);
  span?.child("merge", startMs).end(endMs);
  parts.observer.stage?.("merge", endMs - startMs, scope.version.model);
  return answer;
}

/** Keeps the rows that came with the items, or are to come, if they come with all of them. */
function keepItemRows(
  parts: TableQueryParts,
  {
    itemRows,
    ids,
    gathered,
  }: {
    readonly itemRows: ItemRows | undefined;
    readonly ids: Tensor | undefined;
    readonly gathered: readonly GatheredTopK[];
  },
): void {
  if (itemRows === undefined || ids === undefined) return;
  const [slice, other] = gathered;
  if (slice === undefined || other !== undefined) return;
  // Where queries have different numbers of items, ids have gaps.
  if (itemsOf({ block: slice.merged }) !== ids.data.length) return;
  const { replies } = slice;
  const brought = replies.flatMap((reply) => reply.itemRows ?? []);
  if (brought.length === replies.length) {
    itemRows.keep(ids, joinItemRows(slice, brought, itemRows.dim));
  } else if (replies.every((reply) => (reply.itemRows ?? reply.laterItemRows) !== undefined)) {
    itemRows.keep(ids, laterItemRows(parts, slice, itemRows.dim));
  }
}

/** The rows of all replies once the last ones have come; `undefined` if some do not come in the time of an attempt. */
async function laterItemRows(
  parts: TableQueryParts,
  slice: GatheredTopK,
  dim: number,
): Promise<Float32Array | undefined> {
  const later = slice.replies.map(async (reply) => reply.laterItemRows ?? reply.itemRows);
  const brought = await inTimeOfAttempt(parts, later);
  const whole = brought.flatMap((rows, at) => {
    return rows?.length === itemsOf(slice.replies[at]!) * dim ? [rows] : [];
  });
  return whole.length < slice.replies.length ? undefined : joinItemRows(slice, whole, dim);
}

const hasLaterVectors = (reply: GatheredTopK["replies"][number]): boolean =>
  reply.laterVectors !== undefined;

/** The vectors of the items of all replies, once the last ones have come, `[queries, width, dim]`; or `undefined`, as above. */
async function laterVectors(
  parts: TableQueryParts,
  slice: GatheredTopK,
  { table, ids }: { readonly table: CandidateTable; readonly ids: Tensor | undefined },
): Promise<Float32Array | undefined> {
  const { replies, merged } = slice;
  const later = replies.map(async ({ laterVectors: vectors, attributes }) => {
    return vectors ?? (attributes && vectorsOfCells(attributes));
  });
  const brought = await inTimeOfAttempt(parts, later).catch(() => []);
  const dim = vectorDimOf(table);
  const whole = brought.flatMap((vectors, at) =>
    vectors?.length === itemsOf(replies[at]!) * dim ? [vectors] : [],
  );
  if (whole.length < replies.length) return undefined;
  return spreadRows(joinItemRows(slice, whole, dim), { merged, width: ids?.shape[1] ?? 0, dim });
}

/** What has come once the last one has, or nothing of all after the time of an attempt. */
async function inTimeOfAttempt(
  { environment, settings }: TableQueryParts,
  later: readonly Promise<Float32Array | undefined>[],
): Promise<readonly (Float32Array | undefined)[]> {
  const { attemptTimeoutMs: delayMs, ownLagMs } = settings;
  let timer: GraceTimer | undefined;
  const late = new Promise<readonly undefined[]>((resolve) => {
    timer = setGraceTimer(environment.clock, { delayMs, ownLagMs }, () => resolve([]));
  });
  try {
    return await Promise.race([Promise.all(later), late]);
  } finally {
    timer?.clear();
  }
}

/** Asks for some slices, each of which is asked when the concurrency limiter lets it in; `gathered` gets the answers. */
function askSlices(
  parts: TableQueryParts,
  search: Search,
  {
    slices,
    scope,
    gathered,
  }: {
    readonly slices: readonly SearchSlice[];
    readonly scope: RequestScope;
    readonly gathered: GatheredTopK[];
  },
): Promise<void> {
  const numbered = slices.map((slice, number) => ({ slice, number }));
  return runBounded(numbered, parts.settings.slicesAtOnce, async ({ slice, number }) => {
    const { limiter } = parts;
    const { clock } = parts.environment;
    const { rows } = slice;
    const cameMs = clock.nowMs();
    const conditions = conditionsIn(slice, search.conditions.filters);
    const entrant = { rows: rows + conditions, dueMs: scope.dueMs };
    const entered = limiter.enter(entrant, search.signal);
    const leave = entered instanceof Promise ? await entered : entered;
    const startMs = clock.nowMs();
    parts.observer.waited?.(startMs - cameMs);
    scope.noteStage?.("queue", startMs - cameMs);
    search.span?.child("queue", cameMs).end(startMs);
    try {
      const ask = askOf(search, slice);
      const noteCompute = (ms: number): void =>
        parts.sliceSizes.note(search.table, ask.queries, ms);
      const question = questionOf(search, ask, { slice, scope, noteCompute });
      const { partials } = await queryTable(parts, question, scope);
      const replies = ask.vectorBytes ? partials.map(withVectorBytes) : partials;
      gathered[number] = gatherTopK(replies, search.k);
    } finally {
      scope.noteStage?.("scatter", clock.nowMs() - startMs);
      leave();
      scope.answered(rows);
    }
  });
}

/** Queries for which a worker computes the scores of all rows at a time. */
const SUMMED_QUERIES_MAX = 8;

/** A question for sums: of all queries of one step. */
export interface SumsSearch extends Pick<Search, "step" | "table" | "vectors" | "signal" | "span"> {
  /** Which rows count: one filter for all queries, or one for each; none: all do. */
  readonly filters: readonly BoundFilter[];
  /** What is done to scores before their powers are summed. */
  readonly functions: readonly BoundFunction[];
}

/**
 * The best value of each query over the rows that count, and the sum of the powers of their values.
 * @throws WinnowError as `queryTable`
 */
export async function querySums(
  parts: TableQueryParts,
  asked: SumsSearch,
  scope: RequestScope,
): Promise<SoftmaxSums> {
  const { table, vectors, filters, functions } = asked;
  const queries = vectors.length / table.dim;
  checkQueries(queries, parts.settings);
  const conditions = { ...NO_CONDITIONS, filters };
  const listBytes = listBytesOf(conditions, queries);
  const size = { queries, dim: table.dim, k: 1, listBytes, filters };
  const limits = {
    ...parts.settings,
    sliceQueriesMax: Math.min(SUMMED_QUERIES_MAX, parts.settings.sliceQueriesMax),
  };
  const slices = cutSearch(size, limits).map((slice) =>
    Object.assign({}, slice, { rows: slice.rows * SUMMED_ROWS }),
  );
  const search = { ...asked, k: 1, conditions, summed: functions };
  const gathered: GatheredTopK[] = [];
  await askSlices(parts, search, { slices, scope, gathered });
  return joinSums(gathered, queries);
}

/** Conditions that workers may have to evaluate for a slice. */
function conditionsIn({ firstRow, endRow }: SearchSlice, filters: readonly BoundFilter[]): number {
  return distinctConditions(filters.length > 1 ? filters.slice(firstRow, endRow) : filters);
}

function askOf(search: Search, slice: SearchSlice): TopKAsk {
  const { table, step, k, conditions, summed } = search;
  const { exclude, include, filters } = conditions;
  const attributes =
    summed === undefined
      ? conditions.attributes
      : [sumsAttribute(summed, slice, filters.length === 0)];
  const { firstRow: first, endRow: end } = slice;
  const vectors = search.vectors.subarray(first * table.dim, end * table.dim);
  const ofSlice = <Item>(lists: readonly Item[]): readonly Item[] =>
    lists.length > 1 ? lists.slice(first, end) : lists;
  const rowsOnly = step.ids === undefined || table.idDtype === undefined || summed !== undefined;
  return {
    kind: "topK",
    k,
    queries: end - first,
    vectors,
    excluded: ofSlice(exclude),
    rowsOnly,
    ...(include.length > 0 && { included: ofSlice(include) }),
    ...(filters.length > 0 && { filters: ofSlice(filters).map(({ text }) => text) }),
    ...(attributes.length > 0 && { attributes }),
    ...(conditions.vectorBytes && { vectorBytes: true }),
    ...(attributes.includes(VECTOR_ATTRIBUTE) && { ownVectors: true }),
  };
}

function questionOf(
  { step, table, vectors, itemRows, signal, span }: Search,
  ask: TopKAsk,
  {
    slice,
    scope,
    noteCompute,
  }: {
    readonly slice: SearchSlice;
    readonly scope: RequestScope;
    readonly noteCompute: (ms: number) => void;
  },
): TableQuestion {
  // Rows of a part of the queries help nobody, and without ids there are none.
  const isWhole = ask.vectors.length === vectors.length && !ask.rowsOnly;
  const brought = isWhole ? itemRows : undefined;
  const later = { itemRowsLater: true, vectorsLater: mayVectorsFollow(ask, brought) } as const;
  const wanting = brought && { ...ask, itemRows: brought.wanted, ...later };
  return {
    tableNumber: step.table,
    partitions: allPartitions(table.partitions),
    planned: true,
    idBytes: slice.idBytes,
    countsCoverage: true,
    askFor: (partitions, worker, attempt) => {
      if (wanting === undefined) return ask;
      return brought?.isGivenBy(worker, partitions, attempt) === true ? wanting : ask;
    },
    faultOf: (given, partitions, asked) =>
      topKFault(given, asked === wanting ? wanting : ask, { table, partitions }) ??
      itemRowsFault(given, asked === wanting ? itemRows?.dim : undefined),
    laterFaultOf: (given) =>
      brought !== undefined && given.kind === "topK" && given.laterItemRows !== undefined
        ? laterFault(given, table, brought.dim)
        : undefined,
    noteCompute,
    allowPartial: scope.allowPartial,
    signal,
    span,
  };
}

/** Whether vectors may come behind the rows: as bytes, and with no other attribute. */
function mayVectorsFollow(
  { attributes = [], vectorBytes }: TopKAsk,
  brought: ItemRows | undefined,
): true | undefined {
  const isAlone = vectorBytes === true && attributes.length === 1;
  return (isAlone && brought?.vectorsMayFollow === true) || undefined;
}

/** An answer of a worker that wrote vectors as texts, with their bytes instead. */
function withVectorBytes(partial: PartialAnswer): PartialAnswer {
  const { answer } = partial;
  if (answer.kind !== "topK" || answer.vectorBytes || answer.attributes === undefined)
    return partial;
  const attributes = cellsOfTexts(answer.attributes);
  return { ...partial, answer: { ...answer, attributes, vectorBytes: true } };
}

const partitionLists = new Map<number, readonly number[]>();

/** The numbers 0 … partitions − 1, made once per count (there are at most 1024 different counts). */
function allPartitions(partitions: number): readonly number[] {
  let list = partitionLists.get(partitions);
  if (list === undefined) {
    list = Array.from({ length: partitions }, (_, partition) => partition);
    partitionLists.set(partitions, list);
  }
  return list;
}

function gatherNothing(queries: number): GatheredTopK {
  const none = new Uint32Array();
  const block = { queries, k: 0, counts: new Uint32Array(queries), scores: new Float32Array() };
  const merged = { ...block, rows: none, blocks: new Uint16Array(), positions: none };
  return { merged, replies: [] };
}

/** Conditions, with ids in the types of the stream. @throws WinnowError INVALID_ARGUMENT */
function conditionsFor(conditions: SearchConditions, on: ListedOn): SearchConditions {
  const { exclude, include } = conditions;
  if (exclude.length + include.length === 0) return conditions;
  return {
    ...conditions,
    exclude: listedIds("exclude", exclude, on),
    include: listedIds("include", include, on),
  };
}
