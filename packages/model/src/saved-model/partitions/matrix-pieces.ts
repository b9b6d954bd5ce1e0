// Which pieces hold which rows of a matrix. TensorFlow's sharding policy fills each data file to the
// last byte, so a slice may end in the middle of a row, and what follows is cut by rows or by columns
// again:
//
//   ┌─────────────┐  band 0: one piece, all columns
//   ├───┬─────────┤  band 1: two pieces
//   │   ├─────────┤  band 2: the first of them goes on, another one begins
//   └───┴─────────┘
//
// A band is as many rows as lie in the same pieces.

import { WinnowError } from "@winnow/core";
import type { Region } from "../../storage/region.ts";
import { type StoredRegion, notTiled } from "./stored-region.ts";

/** Pieces of all bands together, at most: bands times columns may be many more than pieces. */
const BAND_PIECES_MAX = 2 ** 20;

/** Rows that lie in the same pieces. */
export interface RowBand {
  readonly firstRow: number;
  readonly endRow: number;
  /** Ascending by column; together they have every column once. */
  readonly pieces: readonly MatrixPiece[];
}

/** A box of a matrix, row-major in a region of its own. */
export interface MatrixPiece {
  readonly region: Region;
  /** Where its bytes begin among those of all pieces. */
  readonly offset: number;
  readonly firstRow: number;
  readonly endRow: number;
  readonly firstColumn: number;
  readonly columns: number;
}

/** The bands of a stored `[rows, dim]`. @throws WinnowError DATA_LOSS, RESOURCE_EXHAUSTED */
export function bandsOf(stored: StoredRegion): readonly RowBand[] {
  const [rows = 0, dim = 0] = stored.shape;
  const pieces = stored.pieces
    .map((piece): MatrixPiece => {
      const { region, offset } = piece;
      const [firstRow = 0, firstColumn = 0] = piece.start;
      const [count = 0, columns = 0] = piece.shape;
      return { region, offset, firstRow, endRow: firstRow + count, firstColumn, columns };
    })
    .filter(({ firstRow, endRow, columns }) => endRow > firstRow && columns > 0);
  const bands: RowBand[] = [];
  let open: readonly MatrixPiece[] = [];
  let next = 0;
  let total = 0;
  for (let row = 0; row < rows;) {
    const begun: MatrixPiece[] = [];
    for (; pieces[next]?.firstRow === row; next += 1) begun.push(pieces[next]!);
    open = [...open.filter(({ endRow }) => endRow > row), ...begun].toSorted(
      (a, b) => a.firstColumn - b.firstColumn,
    );
    checkColumns(open, { name: stored.name, row, dim });
    total += open.length;
    if (total > BAND_PIECES_MAX) throw tooManyPieces(stored.name, pieces.length);
    let endRow = pieces[next]?.firstRow ?? rows;
    for (const piece of open) endRow = Math.min(endRow, piece.endRow);
    bands.push({ firstRow: row, endRow, pieces: open });
    row = endRow;
  }
  if (next < pieces.length) throw notTiled(stored.name, pieces[next]!.firstRow);
  return bands;
}

/** Position of the band that holds a row. */
export function bandAt(bands: readonly RowBand[], row: number): number {
  let low = 0;
  let high = bands.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (bands[middle]!.endRow > row) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Refuses pieces of one row that overlap or leave columns out. */
function checkColumns(
  pieces: readonly MatrixPiece[],
  { name, row, dim }: { readonly name: string; readonly row: number; readonly dim: number },
): void {
  let column = 0;
  for (const { firstColumn, columns } of pieces) {
    if (firstColumn !== column) throw notTiled(name, row);
    column += columns;
  }
  if (column !== dim) throw notTiled(name, row);
}

function tooManyPieces(name: string, pieces: number): WinnowError {
  const text = `Cannot read ${name}: its ${pieces} slices cut too many rows into too many columns`;
  return new WinnowError("RESOURCE_EXHAUSTED", `${text}; store it in slices of whole rows`);
}
