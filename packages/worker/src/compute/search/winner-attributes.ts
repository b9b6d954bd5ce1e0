// Attributes of the winners of a scan, each as the text of a JSON object. The text is written where the
// values are, travels as it is, and is put into the response without being parsed.

import type { Accelerator } from "@winnow/accelerator";
import { VECTOR_ATTRIBUTE, WinnowError, cellOf, memberTexts } from "@winnow/core";

import type { ResidentPartition, ResidentTable } from "../resident-table.ts";
import { placesOf } from "./winner-ids.ts";

/** Where the vectors of winners are gathered from. */
export interface VectorSource {
  readonly accelerator: Pick<Accelerator, "gather">;
  readonly table: Pick<ResidentTable, "holds" | "spec">;
  /** Whether to leave out what was added to the rows for the search. */
  readonly ownVectors?: boolean | undefined;
}

/**
 * The attributes of global rows, in their order, written one by one. `vectors` holds the vectors of the rows,
 * if the names ask for them; they are written as text, or as bytes behind each object.
 * @throws WinnowError INVALID_ARGUMENT for an unknown name
 */
export function* attributesOfRows(
  rows: Uint32Array,
  names: readonly string[],
  {
    partitions,
    vectors,
    vectorBytes = false,
  }: {
    readonly partitions: readonly ResidentPartition[];
    readonly vectors: Float32Array | undefined;
    readonly vectorBytes?: boolean | undefined;
  },
): Generator<Uint8Array> {
  const ascending = byFirstRow(partitions);
  const fields = names.filter((name) => name !== VECTOR_ATTRIBUTE);
  const membersIn = ascending.map(({ attributes }) => memberTexts(attributes, fields));
  for (const [rank, row] of rows.entries()) {
    const at = placeOf(row, ascending);
    const local = row - ascending[at]!.resident.firstRow;
    const texts = membersIn[at]!(local);
    const vector = vectors && bytesOfVector(vectors, rank, rows.length);
    if (vector !== undefined && !vectorBytes) texts.push(vectorText(vector));
    const object = Buffer.from(`{${texts.join(",")}}`);
    yield vector !== undefined && vectorBytes ? cellOf(object, vector) : object;
  }
}

/**
 * The vectors of global rows, `[rows, values]`.
 * @throws WinnowError FAILED_PRECONDITION if a partition is released in the meantime
 */
export async function vectorsOfRows(
  rows: Uint32Array,
  partitions: readonly ResidentPartition[],
  { accelerator, table, ownVectors = false }: VectorSource,
): Promise<Float32Array> {
  const { spec } = table;
  const { dim, name } = spec;
  const isCut = ownVectors && spec.kind === "candidate";
  const length = dim - (isCut ? (spec.added ?? 0) : 0);
  const vectors = new Float32Array(rows.length * length);
  const ascending = byFirstRow(partitions);
  const { partitions: placed, localRows } = placesOf(rows, ascending);
  const ranksAt = ascending.map((): number[] => []);
  for (let rank = 0; rank < rows.length; rank += 1) ranksAt[placed[rank]!]!.push(rank);
  for (const [at, ranks] of ranksAt.entries()) {
    if (ranks.length === 0) continue;
    const held = ascending[at]!;
    if (!table.holds(held)) {
      const message = `Partition ${held.partition} of table "${name}" is not held here any more`;
      throw new WinnowError("FAILED_PRECONDITION", message);
    }
    const local = new Uint32Array(ranks.length);
    for (let index = 0; index < ranks.length; index += 1) local[index] = localRows[ranks[index]!]!;
    const gathered = await accelerator.gather(held.resident, local);
    for (let index = 0; index < ranks.length; index += 1) {
      copyValues(gathered, index * dim, { to: vectors, at: ranks[index]! * length, length });
    }
  }
  return vectors;
}

/** Vectors up to this length are copied value by value: that takes less than a view of them. */
const SHORT_VALUES = 128;

function copyValues(
  values: Float32Array,
  from: number,
  { to, at, length }: { readonly to: Float32Array; readonly at: number; readonly length: number },
): void {
  if (length > SHORT_VALUES) to.set(values.subarray(from, from + length), at);
  else for (let index = 0; index < length; index += 1) to[at + index] = values[from + index]!;
}

const byFirstRow = (partitions: readonly ResidentPartition[]): readonly ResidentPartition[] =>
  partitions.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);

/** The position of the last partition that begins at or before a row. */
const placeOf = (row: number, ascending: readonly ResidentPartition[]): number =>
  ascending.findLastIndex(({ resident }) => resident.firstRow <= row);

/** The values of one of the rows. */
function bytesOfVector(vectors: Float32Array, rank: number, rows: number): Buffer {
  const dim = vectors.length / rows;
  return Buffer.from(vectors.buffer, vectors.byteOffset + 4 * rank * dim, 4 * dim);
}

/** The member of a JSON object that is the vector of a row; it comes last. */
function vectorText(values: Buffer): string {
  return `"${VECTOR_ATTRIBUTE}":"${values.toString("base64")}"`;
}
