// A model's tables in one process: all rows and keys, uncut. The reader of model files reads the rows; the
// checksum over all of them proves that they are the file's.

import type { AttributeColumn, CandidateTable, KeyedTable, Tensor } from "@winnow/core";
import { WITHDRAWN, WinnowError, excerpt, hashBucketFast } from "@winnow/core";
import type { ModelVersion, PartitionReader } from "@winnow/model";
import { type RowPiece, type RowPieces, rowPiece } from "./brute-force.ts";
import { type FilterValue, valuesInColumn } from "./plain-filter.ts";

/** Items by row, with their ids and attributes. */
export interface DescribedItems {
  readonly spec: Pick<CandidateTable, "idDtype" | "attributes">;
  readonly rows: number;
  /** Ids by row; `undefined`: the row number is the id. */
  readonly ids: readonly Tensor[] | undefined;
  /** The row after the last of each tensor of `ids`. */
  readonly idEnds: readonly number[];
  /** Attributes of each partition's rows, and the row after its last; empty if the version has none. */
  readonly attributes: readonly AttributePart[];
}

/** A table that is searched. */
export interface WholeCandidates extends RowPieces, DescribedItems {
  readonly spec: CandidateTable;
  readonly rows: number;
}

/** Items, and the rows of an id. */
export interface ItemsById<Items extends DescribedItems = DescribedItems> {
  readonly table: Items;
  readonly rowsOf: (id: string | bigint) => readonly number[];
}

interface AttributePart {
  readonly firstRow: number;
  readonly endRow: number;
  readonly columns: readonly AttributeColumn[];
}

/** A table for look-ups. */
export interface WholeKeyed {
  readonly spec: KeyedTable;
  /** Keys of the rows, tensor by tensor; empty if rows are looked up by number. */
  readonly keys: readonly Tensor[];
  /** Row-major, by global row. */
  readonly values: Float32Array;
  /** The row of a key: bytes in latin1, or an integer. @throws WinnowError INVALID_ARGUMENT */
  rowOf(key: string | bigint): number;
  /** Whether there is a row for this key, not one for keys that there are not. */
  has(key: string | bigint): boolean;
}

/** Most values of a keyed table: the limit of one array. */
const VALUES_MAX = 2 ** 32 - 1;

/** Reads a table that is searched. @throws WinnowError DATA_LOSS if its checksum does not add up */
export function readCandidates(version: ModelVersion, table: number): WholeCandidates {
  const spec = version.program.tables[table];
  if (spec?.kind !== "candidate") throw new RangeError(`table ${table} is not searched`);
  const pieces: RowPiece[] = [];
  const ids: Tensor[] = [];
  const idEnds: number[] = [];
  const attributes: AttributePart[] = [];
  eachPartition(version, table, (reader) => {
    for (const chunk of reader.chunks()) pieces.push(rowPiece(chunk, spec.dim));
    const { firstRow, attributes: columns } = reader;
    if (columns !== undefined) {
      attributes.push({ firstRow, endRow: firstRow + reader.rows, columns });
    }
    if (reader.ids === undefined) return;
    ids.push(reader.ids);
    idEnds.push((idEnds.at(-1) ?? 0) + reader.rows);
  });
  const { rows, dim } = spec;
  return { spec, rows, dim, pieces, ids: ids.length === 0 ? undefined : ids, idEnds, attributes };
}

/** Values of a row's attribute; `undefined` if it has none. */
export function valuesOfRow(
  { attributes }: DescribedItems,
  row: number,
  attribute: string,
): readonly FilterValue[] | undefined {
  const part = attributes.find(({ endRow }) => row < endRow);
  const column = part?.columns.find(({ spec }) => spec.name === attribute);
  return column && valuesInColumn(column, row - part!.firstRow);
}

/** The id of a row. */
export function idOfRow({ ids, idEnds }: DescribedItems, row: number): string | bigint {
  if (ids === undefined) return BigInt(row);
  const part = idEnds.findIndex((end) => row < end);
  return keyAt(ids[part]!, row - (idEnds[part - 1] ?? 0));
}

/**
 * Finds the rows of an id, without those that are withdrawn. The maps, one per tensor of ids (a map holds at most 2²⁴ entries), are made at
 * first use.
 */
export function rowsById(table: DescribedItems): (id: string | bigint) => readonly number[] {
  const { ids, rows } = table;
  if (ids === undefined) return (id) => (Number(id) >= 0 && Number(id) < rows ? [Number(id)] : []);
  let maps: readonly ReadonlyMap<string | bigint, readonly number[]>[] | undefined;
  return (id) => {
    maps ??= ids.map((tensor, part) => rowMap(tensor, table.idEnds[part - 1] ?? 0));
    const rows = maps.flatMap((map) => map.get(id) ?? []);
    return rows.filter((row) => !isWithdrawn(table, row));
  };
}

function isWithdrawn(table: DescribedItems, row: number): boolean {
  return valuesOfRow(table, row, WITHDRAWN.name) !== undefined;
}

function rowMap(ids: Tensor, firstRow: number): ReadonlyMap<string | bigint, readonly number[]> {
  const map = new Map<string | bigint, number[]>();
  for (let at = 0; at < ids.data.length; at += 1) {
    const id = keyAt(ids, at);
    const known = map.get(id);
    if (known === undefined) map.set(id, [firstRow + at]);
    else known.push(firstRow + at);
  }
  return map;
}

/** Reads a table for look-ups. @throws WinnowError as `readCandidates` */
export function readKeyed(version: ModelVersion, table: number): WholeKeyed {
  const spec = version.program.tables[table];
  if (spec?.kind !== "keyed") throw new RangeError(`table ${table} is searched`);
  const { rows, dim, name } = spec;
  if (rows * dim > VALUES_MAX) {
    const text = `Table ${excerpt(name)} has ${rows} rows of ${dim} values; this machine checks at most ${VALUES_MAX} values`;
    throw new WinnowError("RESOURCE_EXHAUSTED", text);
  }
  const values = new Float32Array(rows * dim);
  const keys: Tensor[] = [];
  const maps: Map<string | bigint, number>[] = [];
  eachPartition(version, table, (reader) => {
    const { keyed } = reader;
    if (keyed === undefined) throw new RangeError("a keyed partition without keys");
    let local = 0;
    for (const chunk of reader.chunks()) {
      for (let at = 0; at < chunk.length; at += dim, local += 1) {
        values.set(chunk.subarray(at, at + dim), keyed.globalRows[local]! * dim);
      }
    }
    if (keyed.keys === undefined) return;
    const own = keyed.keys;
    keys.push(own);
    maps.push(new Map(Array.from(keyed.keyRows, (row, at) => [keyAt(own, at), row] as const)));
  });
  return { spec, keys, values, ...rowFinder(spec, maps) };
}

function rowFinder(
  { keys, rows }: KeyedTable,
  maps: readonly ReadonlyMap<string | bigint, number>[],
): Pick<WholeKeyed, "rowOf" | "has"> {
  if (keys.kind === "row") {
    const isRow = (key: string | bigint): boolean => Number(key) >= 0 && Number(key) < rows;
    return {
      rowOf: (key) => {
        if (isRow(key)) return Number(key);
        throw new WinnowError("INVALID_ARGUMENT", `${key} is not in [0, ${rows})`);
      },
      has: isRow,
    };
  }
  const { missing, fixed } = keys;
  const fixedRows = new Map(fixed.rows.map((row, at) => [keyAt(fixed.keys, at), row] as const));
  const known = (key: string | bigint): number | undefined =>
    fixedRows.get(key) ?? firstOf(maps, key);
  return {
    rowOf: (key) => {
      const row = known(key);
      if (row !== undefined) return row;
      if (missing.kind === "row") return missing.row;
      if (missing.kind === "hash") return missing.firstRow + bucketOf(key, missing.buckets);
      throw new WinnowError("INVALID_ARGUMENT", `${excerpt(String(key))} is not in the vocabulary`);
    },
    has: (key) => known(key) !== undefined,
  };
}

function firstOf(
  maps: readonly ReadonlyMap<string | bigint, number>[],
  key: string | bigint,
): number | undefined {
  for (const map of maps) {
    const row = map.get(key);
    if (row !== undefined) return row;
  }
  return undefined;
}

function bucketOf(key: string | bigint, buckets: number): number {
  if (typeof key === "string") return hashBucketFast(Buffer.from(key, "latin1"), buckets);
  const rest = key % BigInt(buckets);
  return Number(rest < 0n ? rest + BigInt(buckets) : rest);
}

/** One value of a tensor of strings or integers: bytes in latin1, or an integer. */
export function keyAt({ dtype, data }: Tensor, at: number): string | bigint {
  if (dtype !== "string") return BigInt(data[at] as number | bigint);
  const bytes = data.at(at);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}

/** Visits all partitions of a table, then checks that the rows add up to the checksum of the file. */
function eachPartition(
  version: ModelVersion,
  table: number,
  visit: (reader: PartitionReader) => void,
): void {
  const { partitions, sources, name } = version.program.tables[table]!;
  const sums = new Uint32Array(sources.length);
  for (let partition = 0; partition < partitions; partition += 1) {
    const reader = version.openPartition(table, partition);
    visit(reader);
    for (const [source, share] of reader.checksumShares().entries()) sums[source]! ^= share;
  }
  for (const [at, { checksum, file }] of sources.entries()) {
    if (checksum === undefined || sums[at] === checksum >>> 0) continue;
    const text = `Table ${excerpt(name)}: the rows in ${file} do not match the checksum stored with them`;
    throw new WinnowError("DATA_LOSS", text);
  }
}
