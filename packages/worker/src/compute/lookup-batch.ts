// One batch of Lookup asks inside the compute thread: each key goes to its partition's index, the rows of all
// asks are gathered with one call per partition, and land in the order of the keys. A bad key fails only the
// ask that it belongs to.

import type { Accelerator } from "@winnow/accelerator";
import {
  WinnowError,
  excerpt,
  partitionOfBytes,
  partitionOfInteger,
  toWinnowError,
} from "@winnow/core";
import type { Tensor } from "@winnow/core";

import type { GatherAsk, LookupBatch, GatherAnswer } from "./compute.ts";
import { unpackKeys } from "./packed-keys.ts";
import type { ResidentTable } from "./resident-table.ts";

/** Where one row of an answer is gathered from. */
interface Placement {
  readonly into: Float32Array;
  /** Row within the answer. */
  readonly position: number;
  readonly localRow: number;
}

type Placements = Map<number, Placement[]>;

/** Answers every ask of a batch. */
export async function answerLookups(
  parts: { readonly accelerator: Accelerator; readonly table: ResidentTable },
  batch: LookupBatch,
): Promise<GatherAnswer[]> {
  const { table, accelerator } = parts;
  const placements: Placements = new Map();
  const answers = batch.asks.map((ask) => locate(table, ask, placements));
  await Promise.all(
    [...placements].map(async ([partition, wanted]) => {
      const localRows = Uint32Array.from(wanted, ({ localRow }) => localRow);
      const values = await accelerator.gather(table.at(partition).resident, localRows);
      scatter(values, wanted, table.spec.dim);
    }),
  );
  return answers;
}

/** Finds the rows that one ask wants. Its answer is filled later, when the rows are gathered. */
function locate(table: ResidentTable, ask: GatherAsk, placements: Placements): GatherAnswer {
  try {
    const keys = unpackKeys(ask.keys);
    if (ask.knownOnly) return { known: knownKeys(table, keys, ask.partitions) };
    const asked = new Set(ask.partitions);
    const into = new Float32Array(keys.data.length * table.spec.dim);
    const own: Placements = new Map();
    for (const [partition, positions] of positionsByPartition(table, keys)) {
      if (!asked.has(partition)) throw notAsked(keys, positions[0] ?? 0);
      const { keyIndex } = table.at(partition);
      const localRows = keyIndex?.localRows(takeKeys(keys, positions)) ?? new Uint32Array();
      const placed = positions.map((position, index) => ({
        into,
        position,
        localRow: localRows[index]!,
      }));
      own.set(partition, placed);
    }
    for (const [partition, placed] of own) {
      const known = placements.get(partition);
      if (known === undefined) placements.set(partition, placed);
      else for (const each of placed) known.push(each);
    }
    return { vectors: into };
  } catch (error) {
    const { code, message } = toWinnowError(error);
    return { problem: { code, message } };
  }
}

/** For each key 1, or 0 where its partition does not know it. */
function knownKeys(table: ResidentTable, keys: Tensor, partitions: Uint16Array): Uint8Array {
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
function positionsByPartition(table: ResidentTable, keys: Tensor): Map<number, number[]> {
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
    ? partitionOfBytes(keys.data.at(position), partitions)
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

function scatter(values: Float32Array, wanted: readonly Placement[], dim: number): void {
  for (const [index, { into, position }] of wanted.entries()) {
    into.set(values.subarray(index * dim, (index + 1) * dim), position * dim);
  }
}
