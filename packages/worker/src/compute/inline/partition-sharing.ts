// The compute thread's end of partitions that the event loop reads itself: what is needed beside the rows lies in
// memory that all threads share, so that nothing of it is held twice.

import { vectorDimOf } from "@winnow/core";
import type { KeyedPartition, TableSpec } from "@winnow/core";

import { packKeys, sharedKeys, sharedRows, viewOfKeys } from "../packed-keys.ts";
import type { PartitionSource } from "../reader/model-reader.ts";
import type { ResidentPartition } from "../resident-table.ts";
import type { SharedKeyedTable, SharedRows } from "./shared-rows.ts";

type RowKeys = Pick<PartitionSource, "ids" | "keyed">;

/** Ids and keys, copied into memory that all threads can read. */
export function inSharedMemory({ ids, keyed }: RowKeys): RowKeys {
  return {
    ids: ids && sharedKeys(ids),
    keyed: keyed && {
      globalRows: sharedRows(keyed.globalRows),
      keyRows: sharedRows(keyed.keyRows),
      keys: keyed.keys && sharedKeys(keyed.keys),
    },
  };
}

/** What the event loop is told of a partition that was added; nothing of one without a number. */
export function sharedOf(
  { resident, ids, keyIndex }: ResidentPartition,
  {
    share,
    spec,
    keyed,
  }: {
    readonly share: number | undefined;
    readonly spec: TableSpec;
    readonly keyed: KeyedPartition | undefined;
  },
): SharedRows {
  if (share === undefined) return {};
  if (spec.kind === "candidate") {
    const { rows, dim, firstRow } = resident;
    const vectorDim = vectorDimOf(spec);
    return { shared: { share, rows, dim, vectorDim, firstRow, ids: ids && viewOfKeys(ids) } };
  }
  if (keyed === undefined || keyIndex === undefined) return {};
  const { globalRows, keyRows, keys } = keyed;
  const { slots } = keyIndex;
  const rows = { globalRows, keyRows, keys: keys && viewOfKeys(keys), slots };
  return { sharedKeyed: { share, table: sharedTable(spec), ...rows } };
}

function sharedTable(spec: TableSpec & { readonly kind: "keyed" }): SharedKeyedTable {
  const { name, rows, dim, partitions, keys } = spec;
  const shape = { name, rows, dim, partitions };
  if (keys.kind === "row") return { ...shape, keys };
  const fixed = { keys: packKeys(keys.fixed.keys), rows: keys.fixed.rows };
  return { ...shape, keys: { ...keys, fixed } };
}
