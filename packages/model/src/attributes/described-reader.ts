// A partition with columns beside its rows.

import type { AttributeColumn } from "@winnow/core";
import type { PartitionReader } from "../model-version.ts";

/** A reader of the same rows with these columns. The one given is the source of rows and shares. */
export function withColumns(
  reader: PartitionReader,
  attributes: readonly AttributeColumn[],
): PartitionReader {
  const { rows, dim, firstRow, ids, keyed } = reader;
  return {
    rows,
    dim,
    firstRow,
    ids,
    keyed,
    attributes,
    chunks: () => reader.chunks(),
    checksumShares: () => reader.checksumShares(),
  };
}
