// Items and their attributes from a file beside a version, whatever its format.

import { WinnowError, excerpt } from "@winnow/core";
import type { AttributeColumn, StringColumn } from "@winnow/core";

/** The ids of items, one for each row of the file. */
export type ItemIds = StringColumn | BigInt64Array<ArrayBuffer>;

/** A file's content. */
export interface DescribedItems {
  readonly ids: ItemIds;
  /** Whether the format has no types, so that a text may also stand for an integer id. */
  readonly areIdsUntyped?: boolean;
  /** By row of the file. */
  readonly columns: readonly AttributeColumn[];
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
    const isLong = Buffer.byteLength(name) > NAME_BYTES_MAX;
    if (seen.has(name) || name === "" || name.startsWith("$") || isLong) {
      const why = seen.has(name) ? "stands twice, or is a struct" : "cannot be an attribute";
      const text = `column "${excerpt(name)}" ${why}; names are unique, not empty, without a leading $`;
      throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}`);
    }
    seen.add(name);
  }
  if (seen.size <= COLUMNS_MAX + 1) return;
  const text = `it has ${seen.size} columns; at most ${COLUMNS_MAX} attributes are served`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${file}: ${text}`);
}
