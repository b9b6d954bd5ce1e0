// The identifiers of a candidate table, read by partition: strings or integers, in one piece or in
// several, of which a partition reads those that hold its rows.

import {
  type CandidateTable,
  StringColumn,
  type Tensor,
  WinnowError,
  checksumShare,
  rowRangeOf,
  shiftRegister,
} from "@winnow/core";
import { elementBytes, tensorOver } from "../bundle/data-type.ts";
import {
  type StringLayout,
  layOutStrings,
  lengthChecksumShare,
  readStringRange,
} from "../bundle/string-region.ts";
import { constantShare } from "./row-reading.ts";
import { type RowPiece, type StoredRegion, rowPiecesOf } from "./stored-region.ts";

/** Reads the identifiers of one partition. */
export interface IdReading {
  bytesOf(partition: number): number;
  /** The identifiers, and their share of the checksum of the tensor. */
  read(partition: number): { readonly ids: Tensor; readonly share: number };
}

/** Prepares the identifiers of a table. @throws WinnowError DATA_LOSS when they do not fit it */
export function idReading(table: CandidateTable, stored: StoredRegion): IdReading {
  const dtype = table.idDtype;
  expectShape(stored, { dtypes: ["string", "int32", "int64"], shape: [table.rows] });
  if (dtype === undefined || dtype !== stored.dtype) {
    const text = `identifiers of type ${stored.dtype} where ${dtype} belongs`;
    throw new WinnowError("DATA_LOSS", `Cannot read ${stored.name}: ${text}`);
  }
  const pieces = rowPiecesOf(stored);
  return dtype === "string"
    ? stringIds(table, stored.size, pieces)
    : numericIds(table, stored.size, { pieces, dtype });
}

/**
 * Strings of all pieces. The checksum of a piece runs over more bytes than are stored (lengths take
 * four bytes each), so what follows a piece counts with its stored bytes, in shares as in the sum.
 */
function stringIds(table: CandidateTable, size: number, pieces: readonly RowPiece[]): IdReading {
  const readings = pieces.map((piece) => stringPiece(table, piece, size));
  const within = (partition: number): readonly StringPiece[] => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return readings.filter(
      ({ piece }) => piece.firstRow < endRow && piece.firstRow + piece.count > firstRow,
    );
  };
  return {
    bytesOf: (partition) =>
      within(partition).reduce((sum, reading) => sum + reading.bytesOf(partition), 4),
    read(partition) {
      const parts = within(partition).map((reading) => reading.read(partition));
      let share = 0;
      for (const part of parts) share ^= part.share;
      const data = joinedColumns(parts.map(({ strings }) => strings));
      const ids: Tensor = { dtype: "string", shape: [data.length], data };
      return { ids, share: share >>> 0 };
    },
  };
}

interface StringPiece {
  readonly piece: RowPiece;
  bytesOf(partition: number): number;
  read(partition: number): { readonly strings: StringColumn; readonly share: number };
}

function stringPiece(table: CandidateTable, piece: RowPiece, size: number): StringPiece {
  const { region, firstRow, count, offset } = piece;
  const borders = bordersOf(table).map((row) => Math.min(Math.max(row - firstRow, 0), count));
  let made: StringLayout | undefined;
  const layout = (): StringLayout => (made ??= layOutStrings(region, borders));
  return {
    piece,
    bytesOf(partition) {
      const { dataOffsets } = layout();
      const strings = borders[partition + 1]! - borders[partition]!;
      return dataOffsets[partition + 1]! - dataOffsets[partition]! + strings * 4;
    },
    read(partition) {
      const { strings, share } = readStringRange(region, layout(), {
        from: partition,
        to: partition + 1,
      });
      // The partition with the first string adds what belongs to no string.
      const isFirst = borders[partition] === 0 && borders[partition + 1]! > 0;
      const shared = isFirst ? lengthChecksumShare(region, layout()) : 0;
      const constant = isFirst ? constantShare(0, layout().checksumBytes) : 0;
      const after = size - offset - region.size;
      return { strings, share: shiftRegister(share ^ shared ^ constant, after) };
    },
  };
}

/** Strings one after the other; a single column is not copied. */
function joinedColumns(columns: readonly StringColumn[]): StringColumn {
  if (columns.length === 1) return columns[0]!;
  return StringColumn.fromBytes(
    columns.flatMap((column) => Array.from({ length: column.length }, (_, at) => column.at(at))),
  );
}

function numericIds(
  table: CandidateTable,
  size: number,
  { pieces, dtype }: { readonly pieces: readonly RowPiece[]; readonly dtype: "int32" | "int64" },
): IdReading {
  const idBytes = elementBytes(dtype);
  const rangeOf = (partition: number): { readonly offset: number; readonly size: number } => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return { offset: firstRow * idBytes, size: (endRow - firstRow) * idBytes };
  };
  return {
    bytesOf: (partition) => rangeOf(partition).size,
    read(partition) {
      const range = rangeOf(partition);
      const buffer = new ArrayBuffer(range.size);
      for (const { region, offset } of pieces) {
        const from = Math.max(offset, range.offset);
        const to = Math.min(offset + region.size, range.offset + range.size);
        if (from < to)
          region.read(from - offset, new Uint8Array(buffer, from - range.offset, to - from));
      }
      const share = checksumShare(new Uint8Array(buffer), size - range.offset - range.size);
      const ids = tensorOver(dtype, [range.size / idBytes], buffer);
      return { ids, share: (share ^ constantShare(partition, size)) >>> 0 };
    },
  };
}

function bordersOf(table: CandidateTable): number[] {
  const first = Array.from(
    { length: table.partitions },
    (_, partition) => rowRangeOf(partition, table).firstRow,
  );
  return [...first, table.rows];
}

/** Refuses a stored tensor that is not what its table needs. @throws WinnowError DATA_LOSS */
export function expectShape(
  stored: StoredRegion,
  expected: { readonly dtypes: readonly string[]; readonly shape: readonly number[] },
): void {
  const fits = expected.shape.join() === stored.shape.join();
  if (fits && expected.dtypes.includes(stored.dtype ?? "")) return;
  const wanted = `${expected.dtypes.join(" or ")} [${expected.shape.join(",")}]`;
  const found = `${stored.dtype} [${stored.shape.join(",")}]`;
  throw new WinnowError(
    "DATA_LOSS",
    `Cannot read ${stored.name}: it is ${found} where ${wanted} belongs`,
  );
}
