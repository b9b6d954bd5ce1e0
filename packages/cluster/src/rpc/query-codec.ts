// Queries as messages and back. What arrives is checked for everything that can be checked without
// knowing the table: lengths, counts, order, bounds.

import { fingerprint } from "@winnow/core";
import type { Query, Query__Output } from "./generated/winnow/shard/v1/Query.ts";
import type { TopKAsk__Output } from "./generated/winnow/shard/v1/TopKAsk.ts";
import type { TopKAsk, WorkerAsk, WorkerQuery } from "./frames.ts";
import { decodeKeys, encodeKeys } from "./key-codec.ts";
import { bytesOf, malformed, unpackFloats, unpackUint16 } from "./packed-bytes.ts";

/** Candidates one answer has room for, over all its queries: 32 MiB of scores and rows. */
export const POSITIONS_MAX: number = 4_194_304;

/** Packs a query; its arrays must not change any more. */
export function encodeQuery(query: WorkerQuery): Query {
  const { ask, version } = query;
  return {
    id: query.id,
    remaining_ms: Math.max(0, Math.floor(query.remainingMs)),
    model: version.model,
    version: version.version,
    fingerprint: version.fingerprint,
    table: query.table,
    partitions: bytesOf(query.partitions),
    ...(ask.kind === "topK"
      ? { top_k: encodeTopK(ask) }
      : { lookup: { keys: encodeKeys(ask.keys) } }),
  };
}

/** @throws WinnowError INVALID_ARGUMENT */
export function decodeQuery(message: Query__Output): WorkerQuery {
  if (!Number.isSafeInteger(message.id)) throw malformed("id", "is not below 2^53");
  if (!Number.isSafeInteger(message.version)) throw malformed("version", "is not below 2^53");
  const partitions = unpackUint16(message.partitions, "partitions");
  for (let index = 1; index < partitions.length; index += 1) {
    if (partitions[index]! <= partitions[index - 1]!) {
      throw malformed("partitions", "are not ascending");
    }
  }
  return {
    id: message.id,
    remainingMs: message.remaining_ms,
    version: {
      model: message.model,
      version: message.version,
      fingerprint: fingerprint(message.fingerprint),
    },
    table: message.table,
    partitions,
    ask: decodeAsk(message),
  };
}

type SizedQuery = Pick<WorkerQuery, "ask" | "partitions" | "version">;

/** About how many bytes a query takes on the wire. */
export function queryBytes({ ask, partitions, version }: SizedQuery): number {
  const fixed = 160 + version.model.length + partitions.byteLength;
  if (ask.kind === "lookup") return fixed + keyBytes(ask.keys);
  return fixed + ask.vectors.byteLength + ask.excluded.reduce((sum, ids) => sum + keyBytes(ids), 0);
}

/** About how many bytes keys or ids take on the wire. */
export function keyBytes({ dtype, data }: WorkerKeys): number {
  return dtype === "string" ? data.byteLength + 4 * data.length : 8 * data.length;
}

type WorkerKeys = Extract<WorkerAsk, { kind: "lookup" }>["keys"];

function encodeTopK(ask: TopKAsk): NonNullable<Query["top_k"]> {
  return {
    k: ask.k,
    queries: ask.queries,
    vectors: bytesOf(ask.vectors),
    excluded: ask.excluded.map(encodeKeys),
    rows_only: ask.rowsOnly,
  };
}

function decodeAsk(message: Query__Output): WorkerAsk {
  if (message.top_k) return decodeTopK(message.top_k);
  if (message.lookup) {
    return { kind: "lookup", keys: decodeKeys(message.lookup.keys, "lookup.keys") };
  }
  throw malformed("query", "asks nothing");
}

function decodeTopK(message: TopKAsk__Output): TopKAsk {
  const { k, queries } = message;
  if (k < 1 || queries < 1 || k * queries > POSITIONS_MAX) {
    throw malformed("top_k", `${queries} queries × k ${k}; 1 to ${POSITIONS_MAX} candidates fit`);
  }
  const vectors = unpackFloats(message.vectors, "top_k.vectors");
  if (vectors.length === 0 || vectors.length % queries !== 0) {
    throw malformed("top_k.vectors", `${vectors.length} values for ${queries} queries`);
  }
  const lists = message.excluded.length;
  if (lists > 1 && lists !== queries) {
    throw malformed("top_k.excluded", `${lists} lists for ${queries} queries`);
  }
  return {
    kind: "topK",
    k,
    queries,
    vectors,
    excluded: message.excluded.map((keys) => decodeKeys(keys, "top_k.excluded")),
    rowsOnly: message.rows_only,
  };
}
