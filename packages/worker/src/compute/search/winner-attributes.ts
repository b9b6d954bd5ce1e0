// Attributes of the winners of a scan, each as the text of a JSON object. The text is written where the
// values are, travels as it is, and is put into the response without being parsed.

import type { Accelerator } from "@winnow/accelerator";
import { StringColumn, VECTOR_ATTRIBUTE, WinnowError, cellOf, memberTexts } from "@winnow/core";

import type { PackedStrings } from "../compute.ts";
import type { ResidentPartition, ResidentTable } from "../resident-table.ts";

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
  const isVectorAlone = fields.length === 0 && vectors !== undefined && vectorBytes;
  for (const [rank, row] of rows.entries()) {
    if (isVectorAlone) {
      yield cellOf(NO_MEMBERS, bytesOfVector(vectors, rank, rows.length));
      continue;
    }
    const at = placeOf(row, ascending);
    const local = row - ascending[at]!.resident.firstRow;
    const texts = membersIn[at]!(local);
    const vector = vectors && bytesOfVector(vectors, rank, rows.length);
    if (vector !== undefined && !vectorBytes) texts.push(vectorText(vector));
    const object = Buffer.from(`{${texts.join(",")}}`);
    yield vector !== undefined && vectorBytes ? cellOf(object, vector) : object;
  }
}

const NO_MEMBERS = Buffer.from("{}");

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
  const ranksAt = ascending.map((): number[] => []);
  for (const [rank, row] of rows.entries()) ranksAt[placeOf(row, ascending)]!.push(rank);
  for (const [at, ranks] of ranksAt.entries()) {
    if (ranks.length === 0) continue;
    const held = ascending[at]!;
    if (!table.holds(held)) {
      const message = `Partition ${held.partition} of table "${name}" is not held here any more`;
      throw new WinnowError("FAILED_PRECONDITION", message);
    }
    const local = Uint32Array.from(ranks, (rank) => rows[rank]! - held.resident.firstRow);
    const gathered = await accelerator.gather(held.resident, local);
    for (const [index, rank] of ranks.entries()) {
      vectors.set(gathered.subarray(index * dim, index * dim + length), rank * length);
    }
  }
  return vectors;
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

/** Texts in arrays that can be transferred. */
export function packTexts(texts: readonly Uint8Array[]): PackedStrings {
  const { offsets, bytes } = StringColumn.fromBytes(texts);
  return { offsets, bytes };
}
