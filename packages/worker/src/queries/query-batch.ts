// Joins the queries of several routers into one request to the compute side, and cuts its answer into their
// replies.

import type { LookupAsk, TopKAsk, WorkerAnswer, WorkerQuery } from "@winnow/cluster";
import { StringColumn, VECTOR_ATTRIBUTE } from "@winnow/core";

import type {
  Compute,
  ContentHandle,
  GatherAnswer,
  ScanAsk,
  ScanAnswer,
} from "../compute/compute.ts";
import { packKeys, unpackKeys } from "../compute/packed-keys.ts";
import { QueryRefusal } from "./query-check.ts";
import type { LaneQuery } from "./query-lane.ts";

/** A router's query on a lane. */
export interface BatchedQuery extends LaneQuery<BatchedAnswer> {
  readonly query: WorkerQuery;
  /** The content that the query was checked against. No other content may answer it. */
  readonly handle: ContentHandle;
}

/** The answer to one query, with how long its batch waited at the device, and how long it ran there. */
export interface BatchedAnswer {
  readonly answer: WorkerAnswer;
  readonly waitUs: number;
  readonly computeUs: number;
  readonly batch: BatchSize;
}

/** Query vectors, or keys, of a whole batch, and the number of its queries. */
interface BatchSize {
  readonly rows: number;
  readonly queries: number;
}

/** One scan for queries of one group: same version, table and partitions. */
export async function runTopK(
  compute: Compute,
  batch: readonly BatchedQuery[],
  signal: AbortSignal,
): Promise<BatchedAnswer[]> {
  const asks = batch.map(({ query }) => query.ask).filter(isTopK);
  const [first] = batch;
  if (first === undefined || asks.length !== batch.length) throw new RangeError("not a scan batch");
  const { table, partitions } = first.query;
  const answer = await compute.topK(
    {
      target: { handle: first.handle, table, partitions: partitions.slice() },
      asks: asks.map(scanAskOf),
      vectors: joinVectors(asks),
    },
    signal,
  );
  const size = sizeOf(batch);
  return answer.answers.map((each, at) => ({
    answer: topKAnswer(each, asks[at]!),
    waitUs: answer.waitUs,
    computeUs: answer.computeUs,
    batch: size,
  }));
}

/** One gather for lookups of one group: same version and table. */
export async function runLookups(
  compute: Compute,
  batch: readonly BatchedQuery[],
): Promise<BatchedAnswer[]> {
  const [first] = batch;
  if (first === undefined) return [];
  const asks = batch.map(({ query }) => {
    if (!isLookup(query.ask)) throw new RangeError("not a lookup batch");
    const { keys, knownOnly } = query.ask;
    const ask = { partitions: query.partitions.slice(), keys: packKeys(keys) };
    return knownOnly ? { ...ask, knownOnly } : ask;
  });
  const answer = await compute.lookup({ handle: first.handle, table: first.query.table, asks });
  const size = sizeOf(batch);
  return answer.answers.map((each) => ({
    answer: lookupAnswer(each),
    waitUs: 0,
    computeUs: answer.computeUs,
    batch: size,
  }));
}

function sizeOf(batch: readonly BatchedQuery[]): BatchSize {
  return { rows: batch.reduce((sum, { rows }) => sum + rows, 0), queries: batch.length };
}

function scanAskOf(ask: TopKAsk): ScanAsk {
  const { queries, k, excluded, rowsOnly, filters, included, attributes } = ask;
  const plain = { queries, k, rowsOnly, excluded: excluded.map(packKeys) };
  if (filters === undefined && included === undefined && attributes === undefined) return plain;
  const { vectorBytes, ownVectors } = ask;
  const vectors = { vectorBytes, ownVectors };
  return { ...plain, filters, included: included?.map(packKeys), attributes, ...vectors };
}

function joinVectors(asks: readonly TopKAsk[]): Float32Array {
  const length = asks.reduce((sum, { vectors }) => sum + vectors.length, 0);
  const joined = new Float32Array(length);
  let at = 0;
  for (const { vectors } of asks) {
    joined.set(vectors, at);
    at += vectors.length;
  }
  return joined;
}

function topKAnswer({ block, ids, attributes }: ScanAnswer, ask: TopKAsk): WorkerAnswer {
  const answer = { kind: "topK", block, ids: ids && unpackKeys(ids) } as const;
  if (attributes === undefined) return answer;
  const texts = new StringColumn(attributes.offsets, attributes.bytes);
  const hasVectors = ask.vectorBytes && ask.attributes?.includes(VECTOR_ATTRIBUTE);
  return { ...answer, attributes: texts, ...(hasVectors && { vectorBytes: true }) };
}

const NO_ROWS = new Float32Array(0);

function lookupAnswer(part: GatherAnswer): WorkerAnswer {
  if ("vectors" in part) return { kind: "lookup", vectors: part.vectors };
  if ("known" in part) return { kind: "lookup", vectors: NO_ROWS, known: part.known };
  const { code } = part.problem;
  const reason = code === "INVALID_ARGUMENT" ? "INVALID_KEY" : "INTERNAL";
  return { kind: "failure", reason, error: new QueryRefusal(reason, part.problem) };
}

const isTopK = (ask: WorkerQuery["ask"]): ask is TopKAsk => ask.kind === "topK";
const isLookup = (ask: WorkerQuery["ask"]): ask is LookupAsk => ask.kind === "lookup";
