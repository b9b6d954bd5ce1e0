// The keys of one lookup by partition, each distinct key once. A batch often repeats a key (one user, many
// items); asking once keeps frames small and answers equal.

import {
  partitionOfBytes,
  partitionOfInteger,
  StringColumn,
  tensor,
  WinnowError,
} from "@winnow/core";
import type { KeyedTable, Tensor, TensorOf } from "@winnow/core";

/** The distinct keys, and where each came from. */
export interface KeyGroups {
  /** string or int64 `[distinct]`, in order of first occurrence. */
  readonly distinct: TensorOf<"string"> | TensorOf<"int64">;
  /** For each key of the request, its position in `distinct`. */
  readonly positions: Uint32Array;
  /** Positions in `distinct`, ascending, by partition. */
  readonly byPartition: ReadonlyMap<number, readonly number[]>;
}

/** Groups the keys of a tensor of any shape. @throws WinnowError INTERNAL for another dtype */
export function groupKeys(table: KeyedTable, keys: Tensor): KeyGroups {
  if (keys.dtype === "string") return groupStrings(table, keys.data);
  if (keys.dtype === "int64") return groupIntegers(table, keys.data);
  if (keys.dtype === "int32") {
    return groupIntegers(
      table,
      BigInt64Array.from(keys.data, (value) => BigInt(value)),
    );
  }
  throw new WinnowError("INTERNAL", `Keys of table ${table.name} cannot be ${keys.dtype}`);
}

/** The keys at these positions of `distinct`. */
export function takeKeys(
  { distinct }: KeyGroups,
  positions: readonly number[],
): TensorOf<"string"> | TensorOf<"int64"> {
  if (distinct.dtype === "string") {
    return tensor("string", [positions.length], distinct.data.take(positions));
  }
  const taken = BigInt64Array.from(positions, (position) => distinct.data[position]!);
  return tensor("int64", [positions.length], taken);
}

function groupStrings(table: KeyedTable, keys: StringColumn): KeyGroups {
  const known = new Map<string, number>();
  const distinct: Uint8Array[] = [];
  const byPartition = new Map<number, number[]>();
  const positions = new Uint32Array(keys.length);
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys.at(index);
    // One character per byte, so texts are equal exactly when the bytes are.
    const text = Buffer.from(key.buffer, key.byteOffset, key.length).toString("latin1");
    let position = known.get(text);
    if (position === undefined) {
      position = distinct.push(key) - 1;
      known.set(text, position);
      place(byPartition, partitionOfBytes(key, table.partitions), position);
    }
    positions[index] = position;
  }
  const column = StringColumn.fromBytes(distinct);
  return { distinct: tensor("string", [column.length], column), positions, byPartition };
}

function groupIntegers(table: KeyedTable, keys: BigInt64Array): KeyGroups {
  const known = new Map<bigint, number>();
  const distinct: bigint[] = [];
  const byPartition = new Map<number, number[]>();
  const positions = new Uint32Array(keys.length);
  for (const [index, key] of keys.entries()) {
    let position = known.get(key);
    if (position === undefined) {
      position = distinct.push(key) - 1;
      known.set(key, position);
      place(byPartition, partitionOfInteger(key, table.partitions), position);
    }
    positions[index] = position;
  }
  const values = BigInt64Array.from(distinct);
  return { distinct: tensor("int64", [values.length], values), positions, byPartition };
}

function place(byPartition: Map<number, number[]>, partition: number, position: number): void {
  const group = byPartition.get(partition);
  if (group === undefined) byPartition.set(partition, [position]);
  else group.push(position);
}
