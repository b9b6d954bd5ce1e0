// Tables of small integers (whose scores are exact in any order of summation) and a compute side that
// holds them, for the tests of this folder.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { afterEach } from "vitest";

import { computeInProcess } from "./compute-in-process.cases.ts";
import { MemoryModel } from "./memory-model.cases.ts";
import type { MemoryTable } from "./memory-model.cases.ts";
import type { ComputeClient } from "./compute-client.ts";
import type { ContentHandle, VersionDirectory } from "./compute.ts";

/** Where the one version of these tests lies. */
export const DIRECTORY: VersionDirectory = { model: "m", version: 1, directory: "memory" };
/** What it is called once it is open: a compute side's first handle. */
export const NAME: { readonly handle: ContentHandle } = { handle: 1 as ContentHandle };
/** Values per row. */
export const DIM = 3;

const clients: ComputeClient[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.shutdown()));
});

/** String keys or ids. */
export function strings(texts: readonly string[]): Tensor {
  const data = StringColumn.fromText(texts);
  return { dtype: "string", shape: [data.length], data };
}

/** int64 keys or ids. */
export function integers(values: readonly number[]): Tensor {
  const data = BigInt64Array.from(values, BigInt);
  return { dtype: "int64", shape: [data.length], data };
}

/** Rows of small integers. */
export function valuesOf(rows: number, seed = 1): Float32Array {
  return Float32Array.from({ length: rows * DIM }, (_, index) => ((index * 7 + seed) % 11) - 5);
}

/** A candidate table of such rows. */
export function candidates(rows: number, ids: Tensor | undefined): MemoryTable {
  return { kind: "candidate", rows, dim: DIM, values: valuesOf(rows), ids };
}

/** Every partition of a table. */
export function everyPartition(partitions: number): Uint16Array {
  return Uint16Array.from({ length: partitions }, (_, partition) => partition);
}

/** A compute side that opens this model, ended after the test. */
export function computeOf(model: MemoryModel): ComputeClient {
  const client = computeInProcess({ openModel: () => model });
  clients.push(client);
  return client;
}

/** A compute side that has opened these tables and loaded all of their partitions. */
export async function loaded(...tables: readonly MemoryTable[]): Promise<ComputeClient> {
  const client = computeOf(new MemoryModel(tables));
  const opened = await client.open(DIRECTORY, []);
  for (const [table, { partitions }] of opened.tables.entries()) {
    for (let partition = 0; partition < partitions; partition += 1) {
      await client.load({ ...NAME, table, partition });
    }
  }
  return client;
}
