// Tables, and the contents of small tables, within an encoded program.

import { ATTRIBUTE_TYPES } from "../../attributes/attribute-column.ts";
import type { AttributeSpec } from "../../attributes/attribute-column.ts";
import type { KeyedPartition } from "../../partition/keyed-partition.ts";
import type { EvenCut } from "../../partition/partition.ts";
import type { MissingKey, TableKeys, TableSource, TableSpec } from "../program.ts";
import {
  count,
  count32,
  flag,
  listOf,
  oneOf,
  optional,
  positionIn,
  property,
  read,
  refuse,
  text,
} from "../header-reader.ts";
import type { HeaderReader, HeaderValue } from "../header-reader.ts";
import type { BlobReader, BlobWriter } from "../program-blobs.ts";
import { blobOf, encodeTensor, tensorReader } from "./tensor-codec.ts";

/** A small keyed table that travels with the program: its one partition holds every row. */
export interface InlineTable {
  readonly partition: KeyedPartition;
  /** `[rows, dim]`, local row order. */
  readonly values: Float32Array;
}

/** A table's part of the header. */
export function encodeTable(table: TableSpec, blobs: BlobWriter): unknown {
  if (table.kind === "candidate" || table.keys.kind === "row") return table;
  const { keys, rows } = table.keys.fixed;
  return { ...table, keys: { ...table.keys, fixed: { keys: encodeTensor(keys, blobs), rows } } };
}

const source: HeaderReader<TableSource> = (from) => ({
  tensor: read(from, "tensor", text),
  file: read(from, "file", text),
  checksum: read(from, "checksum", optional(count32)),
});

/** Reads what an attribute is. */
export const attribute: HeaderReader<AttributeSpec> = (from) => ({
  name: read(from, "name", text),
  type: read(from, "type", oneOf(...ATTRIBUTE_TYPES)),
  isList: read(from, "isList", flag),
});

/** Reads a table. */
export function tableReader(blobs: BlobReader): HeaderReader<TableSpec> {
  return (from) => {
    const shape = {
      name: read(from, "name", text),
      rows: read(from, "rows", count32),
      dim: read(from, "dim", count32),
      partitions: read(from, "partitions", count32),
      sources: read(from, "sources", listOf(source)),
    };
    if (shape.partitions < 1) throw refuse(property(from, "partitions"), "at least 1");
    if (read(from, "kind", oneOf("candidate", "keyed")) === "keyed") {
      return { kind: "keyed", ...shape, keys: keysOf(property(from, "keys"), blobs, shape.rows) };
    }
    const idDtype = read(from, "idDtype", optional(oneOf("string", "int32", "int64")));
    const attributes = read(from, "attributes", optional(listOf(attribute)));
    const masks = read(from, "masks", optional(listOf(attribute)));
    const added = read(from, "added", optional(count32)) ?? 0;
    if (added >= shape.dim) throw refuse(property(from, "added"), `below ${shape.dim}`);
    const original = read(from, "original", optional(originalOf(shape)));
    const columns = { ...(attributes && { attributes }), ...(masks && { masks }) };
    const cut = { ...(original && { original }), ...(added > 0 && { added }) };
    return { kind: "candidate", ...shape, idDtype, ...cut, ...columns };
  };
}

/** Reads how a table was cut before items were added: each of both parts has rows in all its partitions. */
function originalOf(whole: EvenCut): HeaderReader<EvenCut> {
  return (from) => {
    const rows = read(from, "rows", count32);
    const partitions = read(from, "partitions", count32);
    const isPart =
      partitions >= 1 &&
      partitions <= rows &&
      partitions < whole.partitions &&
      whole.partitions - partitions <= whole.rows - rows;
    if (!isPart)
      throw refuse(from, `a part of ${whole.rows} rows in ${whole.partitions} partitions`);
    return { rows, partitions };
  };
}

function keysOf(from: HeaderValue, blobs: BlobReader, rows: number): TableKeys {
  if (read(from, "kind", oneOf("row", "vocabulary")) === "row") return { kind: "row" };
  const keyDtype = read(from, "keyDtype", oneOf("string", "int64"));
  const fixed = property(from, "fixed");
  const keys = read(fixed, "keys", tensorReader(blobs));
  const fixedRows = read(fixed, "rows", listOf(positionIn(rows)));
  if (keys.dtype !== keyDtype || keys.data.length !== fixedRows.length) {
    throw refuse(fixed, `${keyDtype} keys with one row each`);
  }
  const missing = missingOf(property(from, "missing"), rows);
  return { kind: "vocabulary", keyDtype, missing, fixed: { keys, rows: fixedRows } };
}

function missingOf(from: HeaderValue, rows: number): MissingKey {
  switch (read(from, "kind", oneOf("row", "hash", "refuse"))) {
    case "row":
      return { kind: "row", row: read(from, "row", positionIn(rows)) };
    case "hash": {
      const firstRow = read(from, "firstRow", count);
      const buckets = read(from, "buckets", count);
      if (buckets < 1 || firstRow + buckets > rows) throw refuse(from, `within ${rows} rows`);
      return { kind: "hash", firstRow, buckets };
    }
    case "refuse":
      return { kind: "refuse" };
  }
}

/** An inline table's part of the header. */
export function encodeInlineTable(
  [table, { partition, values }]: readonly [number, InlineTable],
  blobs: BlobWriter,
): unknown {
  const { globalRows, keys, keyRows } = partition;
  return {
    table,
    globalRows: blobs.add(globalRows),
    keys: keys === undefined ? undefined : encodeTensor(keys, blobs),
    keyRows: blobs.add(keyRows),
    values: blobs.add(values),
  };
}

/** Reads an inline table: all rows of a keyed table, in order. */
export function inlineTableReader(
  blobs: BlobReader,
  tables: readonly TableSpec[],
): HeaderReader<readonly [number, InlineTable]> {
  return (from) => {
    const table = read(from, "table", positionIn(tables.length));
    const spec = tables[table]!;
    if (spec.kind !== "keyed") throw refuse(property(from, "table"), "a keyed table");
    const { rows, dim } = spec;
    const globalRows = new Uint32Array(blobOf(from, "globalRows", { blobs, bytes: rows * 4 }));
    if (globalRows.some((row, at) => row !== at)) {
      throw refuse(property(from, "globalRows"), "every row of the table in order");
    }
    const partition = { globalRows, ...keysAndRows(from, spec.keys, { blobs, rows }) };
    const values = new Float32Array(blobOf(from, "values", { blobs, bytes: rows * dim * 4 }));
    return [table, { partition, values }];
  };
}

function keysAndRows(
  from: HeaderValue,
  asked: TableKeys,
  { blobs, rows }: { readonly blobs: BlobReader; readonly rows: number },
): Pick<KeyedPartition, "keys" | "keyRows"> {
  const keys = read(from, "keys", optional(tensorReader(blobs)));
  const expected = asked.kind === "row" ? undefined : asked.keyDtype;
  if (keys?.dtype !== expected) throw refuse(property(from, "keys"), `${expected ?? "no"} keys`);
  const bytes = (keys?.data.length ?? 0) * 4;
  const keyRows = new Uint32Array(blobOf(from, "keyRows", { blobs, bytes }));
  if (keyRows.some((row) => row >= rows)) throw refuse(property(from, "keyRows"), `below ${rows}`);
  return { keys, keyRows };
}
