// Attributes of the winners of a scan, each as the text of a JSON object. The text is written where the
// values are, travels as it is, and is put into the response without being parsed.

import { VECTOR_ATTRIBUTE, cellOf, memberTexts } from "@winnow/core";

import type { ResidentPartition } from "../resident-table.ts";

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
