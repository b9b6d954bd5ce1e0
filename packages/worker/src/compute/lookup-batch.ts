// One batch of Lookup asks inside the compute thread: each key goes to its partition's index, the rows of all
// asks are gathered with one call per partition, and land in the order of the keys. A bad key fails only the
// ask that it belongs to.

import type { Accelerator } from "@winnow/accelerator";
import {
  WinnowError,
  excerpt,
  partitionOfInteger,
  partitionOfString,
  toWinnowError,
} from "@winnow/core";
import type { KeyIndex, KeyedTable, TableSpec, Tensor } from "@winnow/core";

import type { GatherAsk, LookupBatch, GatherAnswer } from "./compute.ts";
import { unpackKeys } from "./packed-keys.ts";
import type { ResidentTable } from "./resident-table.ts";

/** A table whose keys can be found. */
export interface LookupTable {
  readonly spec: Pick<TableSpec, "name" | "dim" | "partitions"> &
    (Pick<KeyedTable, "kind" | "keys"> | { readonly kind: "candidate" });
  /** A held partition. @throws WinnowError FAILED_PRECONDITION for one that is not held */
  at(partition: number): { readonly keyIndex: KeyIndex | undefined };
}

/** Rows of one partition that one ask wants: row `localRows[i]` of the partition is row `positions[i]` of the answer. */
interface Placement {
  readonly into: Float32Array;
  readonly positions: readonly number[];
  readonly localRows: Uint32Array;
}

type Placements = Map<number, Placement[]>;

/** Answers whose rows are still to be gathered. */
interface LocatedLookups {
  readonly answers: GatherAnswer[];
  /** Rows to be gathered, by partition. */
  readonly placements: ReadonlyMap<number, readonly Placement[]>;
}

/** Answers every ask of a batch. */
export async function answerLookups(
  parts: { readonly accelerator: Accelerator; readonly table: ResidentTable },
  batch: LookupBatch,
): Promise<GatherAnswer[]> {
  const { table, accelerator } = parts;
  const { answers, placements } = locateLookups(table, batch.asks);
  await Promise.all(
    [...placements].map(async ([partition, wanted]) => {
      const values = await accelerator.gather(table.at(partition).resident, rowsOfAll(wanted));
      scatter(values, wanted, table.spec.dim);
    }),
  );
  return answers;
}

/** Finds the rows of every ask. A bad key fails only the ask that it belongs to. */
export function locateLookups(table: LookupTable, asks: readonly GatherAsk[]): LocatedLookups {
  const placements: Placements = new Map();
  return { answers: asks.map((ask) => locate(table, ask, placements)), placements };
}

/** Finds the rows that one ask wants. Its answer is filled later, when the rows are gathered. */
function locate(table: LookupTable, ask: GatherAsk, placements: Placements): GatherAnswer {
  try {
    const keys = unpackKeys(ask.keys);
    if (ask.knownOnly) return { known: knownKeys(table, keys, ask.partitions) };
    const asked = new Set(ask.partitions);
    const into = new Float32Array(keys.data.length * table.spec.dim);
    const own = new Map<number, Placement>();
    for (const [partition, positions] of positionsByPartition(table, keys)) {
      if (!asked.has(partition)) throw notAsked(keys, positions[0] ?? 0);
      const { keyIndex } = table.at(partition);
      // All keys in one partition are in their order.
      const isWhole = positions.length === keys.data.length;
      const localRows = keyIndex?.localRows(isWhole ? keys : takeKeys(keys, positions));
      own.set(partition, { into, positions, localRows: localRows ?? new Uint32Array() });
    }
    for (const [partition, placed] of own) {
      const known = placements.get(partition);
      if (known === undefined) placements.set(partition, [placed]);
      else known.push(placed);
    }
    return { vectors: into };
  } catch (error) {
    const { code, message } = toWinnowError(error);
    return { problem: { code, message } };
  }
}

/** For each key 1, or 0 where its partition does not know it. */
function knownKeys(table: LookupTable, keys: Tensor, partitions: Uint16Array): Uint8Array {
  const asked = new Set(partitions);
  const answer = new Uint8Array(keys.data.length);
  for (const [partition, positions] of positionsByPartition(table, keys)) {
    if (!asked.has(partition)) throw notAsked(keys, positions[0] ?? 0);
    const known = table.at(partition).keyIndex?.known(takeKeys(keys, positions));
    for (const [index, position] of positions.entries()) answer[position] = known?.[index] ?? 0;
  }
  return answer;
}

/** @throws WinnowError INVALID_ARGUMENT for keys of another dtype than the table's */
function positionsByPartition(table: LookupTable, keys: Tensor): Map<number, number[]> {
  const { spec } = table;
  const wanted =
    spec.kind === "keyed" && spec.keys.kind === "vocabulary" ? spec.keys.keyDtype : "int64";
  if (spec.kind !== "keyed" || keys.dtype !== wanted) {
    const message = `Table "${spec.name}" (${spec.kind}) cannot be looked up with ${keys.dtype} keys`;
    throw new WinnowError("INVALID_ARGUMENT", message);
  }
  const positions = new Map<number, number[]>();
  for (let position = 0; position < keys.data.length; position += 1) {
    const partition = partitionOfKey(keys, position, spec.partitions);
    const known = positions.get(partition);
    if (known === undefined) positions.set(partition, [position]);
    else known.push(position);
  }
  return positions;
}

function partitionOfKey(keys: Tensor, position: number, partitions: number): number {
  return keys.dtype === "string"
    ? partitionOfString(keys.data, position, partitions)
    : partitionOfInteger((keys.data as BigInt64Array)[position]!, partitions);
}

function takeKeys(keys: Tensor, positions: readonly number[]): Tensor {
  const shape = [positions.length];
  if (keys.dtype === "string") return { dtype: "string", shape, data: keys.data.take(positions) };
  const values = keys.data as BigInt64Array;
  return { dtype: "int64", shape, data: BigInt64Array.from(positions, (at) => values[at]!) };
}

function notAsked(keys: Tensor, position: number): WinnowError {
  const key = keys.dtype === "string" ? keys.data.textAt(position) : String(keys.data.at(position));
  const message = `Key "${excerpt(key)}" lies in none of the partitions that were asked`;
  return new WinnowError("INVALID_ARGUMENT", message);
}

/** Rows of one partition that all asks want. */
export function rowsOfAll(wanted: readonly Placement[]): Uint32Array {
  const [only] = wanted;
  if (only !== undefined && wanted.length === 1) return only.localRows;
  const rows = new Uint32Array(wanted.reduce((sum, { localRows }) => sum + localRows.length, 0));
  let at = 0;
  for (const { localRows } of wanted) {
    rows.set(localRows, at);
    at += localRows.length;
  }
  return rows;
}

/** Puts gathered rows where they belong. */
export function scatter(values: Float32Array, wanted: readonly Placement[], dim: number): void {
  let from = 0;
  for (const { into, positions } of wanted) {
    if (positions.length * dim === into.length) {
      into.set(values.subarray(from, from + into.length));
      from += into.length;
      continue;
    }
    for (const position of positions) {
      into.set(values.subarray(from, from + dim), position * dim);
      from += dim;
    }
  }
}
