// Queries as bytes and back. A received query is checked for all that can be checked without
// knowing the table: lengths, counts, order, bounds.
//
//   Query      { id 1; remaining_ms 2; model 3: string; version 4; fingerprint 5: string; table 6;
//                partitions 7: bytes; oneof: top_k 8: TopKAsk; lookup 9: LookupAsk; trace 10: bytes }
//   TopKAsk    { k 1; queries 2; vectors 3: bytes; excluded 4: Keys, repeated; rows_only 5;
//                filters 6: string, repeated; included 7: Keys, repeated; attributes 8: string, repeated; vector_bytes 9;
//                own_vectors 10; item_rows 11: KeyedRows }
//   KeyedRows  { model 1: string; version 2; fingerprint 3: string; table 4 }
//   LookupAsk  { keys 1: Keys; known_only 2 }

import { WIRE, fingerprint, tensor, traceContextBytes, traceContextOf } from "@winnow/core";
import type { Tensor, TraceContext } from "@winnow/core";
import type { KeyedRows, LookupAsk, TopKAsk, WorkerAsk, WorkerQuery } from "./frames.ts";
import { POSITIONS_MAX } from "./frame-limits.ts";
import { NO_FLOATS, NO_SHORTS } from "./frame-reader.ts";
import { keyBytes, readKeys, writeKeys } from "./key-codec.ts";
import { malformed } from "./malformed-frame.ts";
import type { FrameReader } from "./frame-reader.ts";
import type { FrameWriter } from "./frame-writer.ts";

const { varint: VARINT, bytes: LENGTH_DELIMITED } = WIRE;
/** By how many bytes `queryBytes` usually exceeds the size of a query. */
const SPARE_BYTES = 64;
/** About the bytes of a top-k ask beside its vectors and exclusions. */
const TOP_K_FIELDS_BYTES = 10;
const TOP_K = 8;
const LOOKUP = 9;
const TRACE = 10;
const EXCLUDED = 4;
const FILTERS = 6;
const INCLUDED = 7;
const ATTRIBUTES = 8;
const VECTOR_BYTES = 9;
const OWN_VECTORS = 10;
const ITEM_ROWS = 11;
const ITEM_ROWS_LATER = 12;
const VECTORS_LATER = 13;
/** About the bytes of the name of a table beside its texts. */
const KEYED_ROWS_BYTES = 32;
/** Filters, or names of attributes, of one query at most. Routers send no more. */
const TEXTS_MAX = 4096;
const KEYS = 1;
const KNOWN_ONLY = 2;
/** About the bytes of a look-up beside its keys. */
const LOOKUP_FIELDS_BYTES = 2;
const UINT32_MAX = 2 ** 32 - 1;
/** Placeholder until the ask is read. */
const NOTHING: WorkerAsk = { kind: "lookup", keys: tensor("int64", [0], new BigInt64Array(0)) };

/** Writes a query as the `Query` message of a field. */
export function writeQuery(writer: FrameWriter, field: number, query: WorkerQuery): void {
  const { ask, version } = query;
  writer.begin(field, queryBytes(query) - SPARE_BYTES);
  writer.int(1, query.id);
  writer.int(2, Math.min(UINT32_MAX, Math.max(0, Math.floor(query.remainingMs))));
  writer.text(3, version.model);
  writer.int(4, version.version);
  writer.text(5, version.fingerprint);
  writer.int(6, query.table);
  writer.bytes(7, query.partitions);
  if (ask.kind === "topK") writeTopK(writer, ask);
  else writeLookup(writer, ask);
  if (query.trace !== undefined) writer.bytes(TRACE, traceContextBytes(query.trace));
  writer.end();
}

/** A `Query` message. @throws WinnowError INVALID_ARGUMENT */
export function readQuery(reader: FrameReader): WorkerQuery {
  return reader.nested(readQueryFields);
}

function readQueryFields(reader: FrameReader): WorkerQuery {
  const version = { model: "", version: 0, fingerprint: fingerprint("") };
  const query = { id: 0, remainingMs: 0, version, table: 0, partitions: NO_SHORTS, ask: NOTHING };
  let trace: TraceContext | undefined;
  while (reader.next()) {
    switch (reader.tag) {
      case 1 * 8 + VARINT:
        query.id = reader.number("id");
        break;
      case 2 * 8 + VARINT:
        query.remainingMs = reader.uint32("remaining_ms");
        break;
      case 3 * 8 + LENGTH_DELIMITED:
        version.model = reader.text();
        break;
      case 4 * 8 + VARINT:
        version.version = reader.number("version");
        break;
      case 5 * 8 + LENGTH_DELIMITED:
        version.fingerprint = fingerprint(reader.text());
        break;
      case 6 * 8 + VARINT:
        query.table = reader.uint32("table");
        break;
      case 7 * 8 + LENGTH_DELIMITED:
        query.partitions = readPartitions(reader);
        break;
      default:
        query.ask = readAsk(reader) ?? query.ask;
        trace = readTrace(reader) ?? trace;
    }
  }
  return asked(query, trace);
}

type SizedQuery = Pick<WorkerQuery, "ask" | "partitions" | "version">;

/** About how many bytes a query takes on the wire. */
export function queryBytes({ ask, partitions, version }: SizedQuery): number {
  return 160 + version.model.length + partitions.byteLength + askBytes(ask);
}

function askBytes(ask: WorkerAsk): number {
  if (ask.kind === "lookup") return keyBytes(ask.keys);
  const { vectors, excluded, filters = [], included = [], attributes = [] } = ask;
  let bytes = vectors.byteLength;
  for (const ids of excluded) bytes += keyBytes(ids);
  for (const ids of included) bytes += keyBytes(ids);
  for (const text of filters) bytes += text.length;
  for (const text of attributes) bytes += text.length;
  return ask.itemRows === undefined ? bytes : bytes + keyedRowsBytes(ask.itemRows);
}

function keyedRowsBytes({ version }: KeyedRows): number {
  return KEYED_ROWS_BYTES + version.model.length + version.fingerprint.length;
}

function writeTopK(writer: FrameWriter, ask: TopKAsk): void {
  writer.begin(TOP_K, TOP_K_FIELDS_BYTES + askBytes(ask));
  writer.int(1, ask.k);
  writer.int(2, ask.queries);
  writer.bytes(3, ask.vectors);
  for (const ids of ask.excluded) writeKeys(writer, EXCLUDED, ids);
  writer.bool(5, ask.rowsOnly);
  for (const text of ask.filters ?? []) writer.text(FILTERS, text);
  for (const ids of ask.included ?? []) writeKeys(writer, INCLUDED, ids);
  for (const name of ask.attributes ?? []) writer.text(ATTRIBUTES, name);
  if (ask.vectorBytes) writer.bool(VECTOR_BYTES, true);
  if (ask.ownVectors) writer.bool(OWN_VECTORS, true);
  writeItemRows(writer, ask);
  writer.end();
}

function writeItemRows(writer: FrameWriter, ask: TopKAsk): void {
  if (ask.itemRows !== undefined) writeKeyedRows(writer, ask.itemRows);
  if (ask.itemRowsLater) writer.bool(ITEM_ROWS_LATER, true);
  if (ask.vectorsLater) writer.bool(VECTORS_LATER, true);
}

function writeKeyedRows(writer: FrameWriter, rows: KeyedRows): void {
  const { version, table } = rows;
  writer.begin(ITEM_ROWS, keyedRowsBytes(rows));
  writer.text(1, version.model);
  writer.int(2, version.version);
  writer.text(3, version.fingerprint);
  writer.int(4, table);
  writer.end();
}

function writeLookup(writer: FrameWriter, { keys, knownOnly }: LookupAsk): void {
  writer.begin(LOOKUP, LOOKUP_FIELDS_BYTES + keyBytes(keys));
  writeKeys(writer, KEYS, keys);
  if (knownOnly) writer.bool(KNOWN_ONLY, true);
  writer.end();
}

function readPartitions(reader: FrameReader): Uint16Array<ArrayBuffer> {
  const partitions = reader.uint16Array("partitions");
  for (let index = 1; index < partitions.length; index += 1) {
    if (partitions[index]! <= partitions[index - 1]!) {
      throw malformed("partitions", "are not ascending");
    }
  }
  return partitions;
}

function asked(query: WorkerQuery, trace: TraceContext | undefined): WorkerQuery {
  if (query.ask === NOTHING) throw malformed("query", "asks nothing");
  return trace === undefined ? query : { ...query, trace };
}

/** The span that asks, if this field is one. */
function readTrace(reader: FrameReader): TraceContext | undefined {
  if (reader.tag !== TRACE * 8 + LENGTH_DELIMITED) return undefined;
  return traceContextOf(reader.byteArray());
}

/** The ask, if this field is one. */
function readAsk(reader: FrameReader): WorkerAsk | undefined {
  if (reader.tag === TOP_K * 8 + LENGTH_DELIMITED) return reader.nested(readTopK);
  if (reader.tag === LOOKUP * 8 + LENGTH_DELIMITED) return reader.nested(readLookup);
  return undefined;
}

function readLookup(reader: FrameReader): WorkerAsk {
  let keys: Tensor | undefined;
  let knownOnly = false;
  while (reader.next()) {
    if (reader.tag === KEYS * 8 + LENGTH_DELIMITED) keys = readKeys(reader, "lookup.keys");
    else if (reader.tag === KNOWN_ONLY * 8 + VARINT) knownOnly = reader.flag();
  }
  if (keys === undefined) throw malformed("lookup.keys", "has no keys");
  return { kind: "lookup", keys, ...(knownOnly && { knownOnly }) };
}

function readTopK(reader: FrameReader): TopKAsk {
  const excluded: Tensor[] = [];
  const more: FurtherFields = {};
  const kind = "topK" as const;
  const ask = { kind, k: 0, queries: 0, vectors: NO_FLOATS, excluded, rowsOnly: false };
  while (reader.next()) {
    switch (reader.tag) {
      case 1 * 8 + VARINT:
        ask.k = reader.uint32("top_k.k");
        break;
      case 2 * 8 + VARINT:
        ask.queries = reader.uint32("top_k.queries");
        break;
      case 3 * 8 + LENGTH_DELIMITED:
        ask.vectors = reader.float32Array("top_k.vectors");
        break;
      case EXCLUDED * 8 + LENGTH_DELIMITED:
        excluded.push(readKeys(reader, "top_k.excluded"));
        break;
      case 5 * 8 + VARINT:
        ask.rowsOnly = reader.flag();
        break;
      default:
        readFurther(reader, more);
    }
  }
  return checked({ ...ask, ...more });
}

/** Fields of a search that most searches leave empty. */
interface FurtherFields {
  filters?: string[];
  included?: Tensor[];
  attributes?: string[];
  vectorBytes?: true | undefined;
  ownVectors?: true | undefined;
  itemRows?: KeyedRows;
  itemRowsLater?: true | undefined;
  vectorsLater?: true | undefined;
}

function readFurther(reader: FrameReader, more: FurtherFields): void {
  switch (reader.tag) {
    case FILTERS * 8 + LENGTH_DELIMITED:
      return addText((more.filters ??= []), reader.text(), "top_k.filters");
    case INCLUDED * 8 + LENGTH_DELIMITED:
      (more.included ??= []).push(readKeys(reader, "top_k.included"));
      return;
    case ATTRIBUTES * 8 + LENGTH_DELIMITED:
      return addText((more.attributes ??= []), reader.text(), "top_k.attributes");
    case ITEM_ROWS * 8 + LENGTH_DELIMITED:
      more.itemRows = reader.nested(readKeyedRows);
      return;
    default:
      readFlag(reader, more);
  }
}

function readFlag(reader: FrameReader, more: FurtherFields): void {
  switch (reader.tag) {
    case VECTOR_BYTES * 8 + VARINT:
      more.vectorBytes = reader.flag() || undefined;
      return;
    case OWN_VECTORS * 8 + VARINT:
      more.ownVectors = reader.flag() || undefined;
      return;
    case ITEM_ROWS_LATER * 8 + VARINT:
      more.itemRowsLater = reader.flag() || undefined;
      return;
    case VECTORS_LATER * 8 + VARINT:
      more.vectorsLater = reader.flag() || undefined;
      return;
  }
}

function readKeyedRows(reader: FrameReader): KeyedRows {
  const version = { model: "", version: 0, fingerprint: fingerprint("") };
  let table = 0;
  while (reader.next()) {
    if (reader.tag === 1 * 8 + LENGTH_DELIMITED) version.model = reader.text();
    else if (reader.tag === 2 * 8 + VARINT) version.version = reader.number("item_rows.version");
    else if (reader.tag === 3 * 8 + LENGTH_DELIMITED)
      version.fingerprint = fingerprint(reader.text());
    else if (reader.tag === 4 * 8 + VARINT) table = reader.uint32("item_rows.table");
  }
  return { version, table };
}

function addText(texts: string[], text: string, field: string): void {
  if (texts.length >= TEXTS_MAX) throw malformed(field, `are more than ${TEXTS_MAX}`);
  texts.push(text);
}

function checked(ask: TopKAsk): TopKAsk {
  const { k, queries, vectors } = ask;
  if (k < 1 || queries < 1 || k * queries > POSITIONS_MAX) {
    throw malformed("top_k", `${queries} queries × k ${k}; 1 to ${POSITIONS_MAX} candidates fit`);
  }
  if (vectors.length === 0 || vectors.length % queries !== 0) {
    throw malformed("top_k.vectors", `${vectors.length} values for ${queries} queries`);
  }
  const { excluded, included = [], filters = [] } = ask;
  for (const [name, lists] of Object.entries({ excluded, included, filters })) {
    if (lists.length <= 1 || lists.length === queries) continue;
    throw malformed(`top_k.${name}`, `${lists.length} lists for ${queries} queries`);
  }
  return ask;
}
