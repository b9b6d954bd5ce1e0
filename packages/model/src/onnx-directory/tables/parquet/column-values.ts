// The values of a Parquet column by number, read page by page: of pages that are not asked for, only the
// headers are read. Every row must have the same number of values and none may be missing, so value v belongs
// to row ⌊v / width⌋, and a list begins at each multiple of the width; levels are checked against that.

import { WinnowError, excerpt } from "@winnow/core";
import type { RegionFile } from "../../../storage/region.ts";
import { ColumnPages } from "./column-pages.ts";
import type { OpenChunk, Page, Values } from "./column-pages.ts";
import type { PageTexts } from "./page-texts.ts";
import type { ParquetColumn } from "./parquet-file.ts";

/** Reads values of a column. */
export class ColumnValues {
  readonly #file: RegionFile;
  readonly #column: ParquetColumn;
  readonly #pages: ColumnPages;
  /** Values per row. */
  readonly #width: number;
  /** Number of the first value of each chunk, and the number of all values. */
  readonly #starts: readonly number[];
  #open: OpenChunk | undefined;
  #decoded: { readonly page: Page; readonly values: Values } | undefined;

  constructor(file: RegionFile, column: ParquetColumn, width: number) {
    this.#file = file;
    this.#column = column;
    this.#pages = new ColumnPages(file, column);
    this.#width = width;
    const starts = [0];
    for (const { values } of column.chunks) starts.push(starts.at(-1)! + values);
    this.#starts = starts;
  }

  /** Fixed-size values `from` (included) to `to` (excluded) in pieces, as they would lie in memory. */
  *bytes(from: number, to: number): Generator<Uint8Array> {
    const size = this.#column.valueBytes!;
    for (const { values, first, end } of this.#pieces(from, to)) {
      yield (values as Uint8Array).subarray(first * size, end * size);
    }
  }

  /** Texts `from` (included) to `to` (excluded). */
  *texts(from: number, to: number): Generator<Uint8Array> {
    for (const { values, first, end } of this.#pieces(from, to)) {
      for (let at = first; at < end; at += 1) yield (values as PageTexts).at(at);
    }
  }

  *#pieces(
    from: number,
    to: number,
  ): Generator<{ readonly values: Values; readonly first: number; readonly end: number }> {
    for (const [number, chunk] of this.#column.chunks.entries()) {
      const start = this.#starts[number]!;
      if (start + chunk.values <= from || start >= to) continue;
      const open = this.#openChunk(number);
      for (const page of open.pages) {
        const first = Math.max(0, from - start - page.firstValue);
        const end = Math.min(page.values, to - start - page.firstValue);
        if (first < end) yield { values: this.#decodedPage(open, page), first, end };
      }
    }
  }

  #openChunk(number: number): OpenChunk {
    if (this.#open?.number === number) return this.#open;
    this.#open = this.#pages.openChunk(number);
    this.#decoded = undefined;
    return this.#open;
  }

  #decodedPage(open: OpenChunk, page: Page): Values {
    if (this.#decoded?.page === page) return this.#decoded.values;
    const { repetition, definition, values } = this.#pages.decoded(open, page);
    if (repetition !== undefined) this.#checkLevels(repetition, page, true);
    if (definition !== undefined) this.#checkLevels(definition, page, false);
    this.#decoded = { page, values };
    return values;
  }

  /** Refuses levels of a page unless all rows have the same width and no nulls. */
  #checkLevels(levels: Uint32Array, { values, firstValue }: Page, isRepetition: boolean): void {
    const { definitionLevel } = this.#column;
    const start = this.#starts[this.#open?.number ?? 0]!;
    for (let at = 0; at < values; at += 1) {
      const value = firstValue + at;
      const wanted = isRepetition ? Number(value % this.#width !== 0) : definitionLevel;
      if (levels[at] === wanted) continue;
      const row = Math.floor((start + value) / this.#width);
      const what = isRepetition
        ? `row ${row} or one before it has not ${this.#width} values`
        : `row ${row} has a value that is missing`;
      const text = `Cannot read ${this.#file.name}, column "${excerpt(this.#column.name)}": ${what}`;
      throw new WinnowError("INVALID_ARGUMENT", `${text}; every row needs as many, all there`);
    }
  }
}
