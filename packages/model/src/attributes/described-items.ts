// Items and their attributes from a file beside a version, whatever its format.

import { WinnowError, excerpt } from "@winnow/core";
import type { AttributeColumn, StringColumn } from "@winnow/core";

/** The ids of items, one for each row of the file. */
export type ItemIds = StringColumn | BigInt64Array<ArrayBuffer>;

/** A file's content. */
export interface DescribedItems {
  readonly ids: ItemIds;
  /** Whether a text may also stand for an integer id, because the format cannot write each integer as one. */
  readonly areIdsUntyped?: boolean;
  /** By row of the file. */
  readonly columns: readonly AttributeColumn[];
}

/** Rows that a file may have for a model of any size; reading so many takes about ten seconds and some hundred MiB. */
const ROWS_MAX = 2 ** 24;
/** Rows for each item of a larger model: catalogues have more items than what a model was trained on. */
const ROWS_PER_ITEM = 64;

/**
 * How many rows of a file are read: few bytes can hold very many rows, and a file of another table (as one of what
 * users have watched) has far more of them than the model has items.
 */
export class RowLimit {
  readonly #file: string;
  readonly #items: number;
  readonly #rowsMax: number;

  /** `items` is the number of items of the model; `leastMax` rows are read for any model. */
  constructor(file: string, items: number, leastMax: number = ROWS_MAX) {
    this.#file = file;
    this.#items = items;
    this.#rowsMax = Math.max(leastMax, ROWS_PER_ITEM * items);
  }

  /** `rows` is how many rows the file has. @throws WinnowError RESOURCE_EXHAUSTED */
  check(rows: number): void {
    if (rows > this.#rowsMax) throw this.#refused(`it has ${rows} rows`);
  }

  /** `rows` is how many rows were read so far. @throws WinnowError RESOURCE_EXHAUSTED */
  checkRead(rows: number): void {
    if (rows > this.#rowsMax) throw this.#refused(`it has more than ${this.#rowsMax} rows`);
  }

  #refused(what: string): WinnowError {
    const text = `${what}, where the model has ${this.#items} items; at most ${this.#rowsMax} rows are read`;
    const remedy = "write one row for each item of the model";
    return new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${this.#file}: ${text}; ${remedy}`);
  }
}

/** Names that the column of ids may have; the first one found is used. */
const ID_NAMES = ["id", "item_id"] as const;
/** Attributes of a version, at most. */
const COLUMNS_MAX = 256;
const NAME_BYTES_MAX = 256;

/** The name of the column of ids. @throws WinnowError INVALID_ARGUMENT */
export function idNameOf(file: string, names: readonly string[]): string {
  const found = ID_NAMES.find((name) => names.includes(name));
  if (found !== undefined) return found;
  const listed = excerpt(names.slice(0, 20).join(", "));
  const text = `it has no "id" (or "item_id") for the ids of items, but ${listed || "nothing"}`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
}

/** Refuses names of columns that filters could not name. @throws WinnowError INVALID_ARGUMENT */
export function checkColumns(file: string, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (name === "") {
      const text = "a column has no name; name it, or leave it out (pandas: index=False)";
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
    }
    const isLong = Buffer.byteLength(name) > NAME_BYTES_MAX;
    if (seen.has(name) || name.startsWith("$") || isLong) {
      const why = seen.has(name) ? "stands twice, or is a struct" : "cannot be an attribute";
      const text = `column "${excerpt(name)}" ${why}; names are unique, without a leading $`;
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
    }
    seen.add(name);
  }
  if (seen.size <= COLUMNS_MAX + 1) return;
  const text = `it has ${seen.size} columns; at most ${COLUMNS_MAX} attributes are served`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${file}: ${text}`);
}
