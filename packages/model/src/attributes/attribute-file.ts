// The file beside a version that describes its items: `assets.extra/items.parquet`, `items.jsonl` or
// `items.csv`. It is read completely when the version is opened, which shows what attributes there are. What
// was read of a large file is kept for the loads that follow, then as long as memory allows, and read again for
// a partition that is loaded later.

import { createHash } from "node:crypto";
import path from "node:path";
import {
  IdIndex,
  NO_ROW,
  StringColumn,
  WinnowError,
  assertFreeMemory,
  columnBytes,
  excerpt,
  systemClock,
  takeRows,
} from "@winnow/core";
import type { AttributeColumn, AttributeSpec, CandidateTable, Tensor, Timer } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";
import type { StoredDirectory } from "../storage/stored-directory.ts";
import type { ItemDescription } from "../model-version.ts";
import type { FileDigest } from "../saved-model/checksum-manifest.ts";
import { RowLimit } from "./described-items.ts";
import type { DescribedItems, ItemIds } from "./described-items.ts";
import { readCsvItems } from "./csv-items.ts";
import { readJsonLines } from "./json-lines.ts";
import { readParquetItems } from "./parquet-items.ts";

const FOLDER = "assets.extra";
const READERS: Readonly<Record<string, (file: RegionFile, limit: RowLimit) => DescribedItems>> = {
  "items.parquet": readParquetItems,
  "items.jsonl": readJsonLines,
  "items.csv": readCsvItems,
};
const FILE_BYTES_MAX = 2 ** 36;
/** Bytes of memory for a byte of a file while it is read: 2.05 for lines of JSON, more where memory is not short. */
const READING_RATIO = 2;
/** What was read of a file of at most this size is kept: reading it again for each load would cost more. */
const KEPT_FILE_BYTES_MAX = 2 ** 23;
/** How long what was read of a larger file is kept after its last use: loads follow an open within seconds. */
const KEPT_MS = 30_000;
const PIECE_BYTES = 2 ** 22;

/** The name of the file within a version directory. @throws WinnowError INVALID_ARGUMENT if there are two of them */
export function attributeFileOf(directory: StoredDirectory): string | undefined {
  const found = Object.keys(READERS).filter((name) => directory.has(`${FOLDER}/${name}`));
  if (found.length > 1) {
    const text = `${FOLDER} holds ${found.join(" and ")}; leave one of them`;
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot open ${excerpt(directory.location)}: ${text}`,
    );
  }
  return found[0] === undefined ? undefined : `${FOLDER}/${found[0]}`;
}

/** The content of the file, and an index of its ids. */
interface ReadItems extends DescribedItems {
  readonly index: IdIndex;
}

type DescribedTable = Pick<CandidateTable, "idDtype" | "name">;

/** Rows of a table that are to be described. */
interface DescribedRows {
  readonly firstRow: number;
  readonly rows: number;
  readonly ids: Tensor | undefined;
}

/** The attributes of a version's items. */
export class AttributeFile {
  /** Relative to the version directory. */
  readonly name: string;
  readonly digest: FileDigest;
  readonly attributes: readonly AttributeSpec[];
  readonly description: ItemDescription;
  readonly #directory: StoredDirectory;
  readonly #limit: RowLimit;
  /**
   * The content of a small file. The content of a large one may be collected when memory is short, because a
   * version stays open for as long as it is held; that which was used last, of all files, is kept by `lastUsed`.
   */
  #read: ReadItems | WeakRef<ReadItems>;

  /**
   * Reads the file, for a model of `modelItems` items.
   * @throws WinnowError INVALID_ARGUMENT, DATA_LOSS, UNIMPLEMENTED, RESOURCE_EXHAUSTED
   */
  constructor(directory: StoredDirectory, name: string, modelItems: number) {
    this.name = name;
    this.#directory = directory;
    this.#limit = new RowLimit(name, modelItems);
    const { items, digest } = this.#readFile();
    this.digest = digest;
    this.#read = this.#keptOf(items, digest);
    this.attributes = items.columns.map(({ spec }) => spec);
    this.description = {
      file: name,
      items: items.ids.length,
      attributes: items.columns.map(describedColumn),
    };
  }

  /** The columns for rows of a table, found by their ids, or by their row numbers if the table has no ids. */
  columnsOf(table: DescribedTable, part: DescribedRows): readonly AttributeColumn[] {
    return this.columnsAt(this.rowsOf(table, part));
  }

  /**
   * The rows of the file that describe rows of a table; `NO_ROW` where none does.
   * @throws WinnowError INVALID_ARGUMENT for ids of another type than the file's
   */
  rowsOf(table: DescribedTable, part: DescribedRows): Uint32Array {
    this.assertIdsFit(table);
    const { areIdsUntyped = false, index } = this.#items();
    const typed = wantedIds(part, table.name);
    const wanted = areIdsUntyped ? asTexts(typed) : typed;
    const rows = new Uint32Array(part.rows).fill(NO_ROW);
    for (let row = 0; row < rows.length; row += 1) {
      index.forEachRow(wanted, row, (found) => {
        rows[row] = found;
      });
    }
    return rows;
  }

  /** @throws WinnowError INVALID_ARGUMENT for a table whose ids are of another type than the file's */
  assertIdsFit({ idDtype, name }: DescribedTable): void {
    const { ids, areIdsUntyped = false } = this.#items();
    const areTexts = ids instanceof StringColumn;
    if (areIdsUntyped || (idDtype === "string") === areTexts) return;
    const text = `its ids are ${areTexts ? "texts" : "integers"}`;
    const table = `those of table "${excerpt(name)}" are ${idDtype ?? "row numbers"}`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot use ${this.name}: ${text}, ${table}`);
  }

  /** The columns for rows of the file. */
  columnsAt(rows: Uint32Array): readonly AttributeColumn[] {
    return this.#items().columns.map((column) => takeRows(column, rows));
  }

  #items(): ReadItems {
    const known = lastUsed.itemsOf(this);
    if (known !== undefined) return known;
    const kept = this.#read instanceof WeakRef ? this.#read.deref() : this.#read;
    if (kept !== undefined) return kept;
    const { items, digest } = this.#readFile();
    if (digest.sha256 !== this.digest.sha256) {
      const text = "it is not what it was when the version was opened";
      throw new WinnowError("DATA_LOSS", `Cannot read ${this.name}: ${text}`);
    }
    this.#read = this.#keptOf(items, digest);
    return items;
  }

  /** Gives the content up. */
  close(): void {
    lastUsed.forget(this);
  }

  #keptOf(items: ReadItems, { bytes }: FileDigest): ReadItems | WeakRef<ReadItems> {
    if (bytes <= KEPT_FILE_BYTES_MAX) return items;
    lastUsed.keep(this, items);
    return new WeakRef(items);
  }

  #readFile(): { readonly items: ReadItems; readonly digest: FileDigest } {
    const file = this.#directory.open(this.name);
    try {
      if (file.size > FILE_BYTES_MAX) {
        const text = `it has ${file.size} bytes, at most ${FILE_BYTES_MAX} are read`;
        throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${this.name}: ${text}`);
      }
      const needed = READING_RATIO * file.size;
      if (file.size > KEPT_FILE_BYTES_MAX) assertFreeMemory(`Reading ${this.name}`, needed);
      // The digest comes last: a file of gigabytes in another format is then refused by its first line.
      const items = READERS[path.basename(this.name)]!(file, this.#limit);
      const digest = digestOf(file);
      return { items: { ...items, index: indexOf(items.ids, this.name) }, digest };
    } finally {
      file.close();
    }
  }
}

/** Keeps the content of one large file, the last one of this thread, for a while: of several they might not fit. */
class LastUsed {
  #kept:
    | { readonly file: AttributeFile; readonly items: ReadItems; readonly end: Timer }
    | undefined;

  /** What is kept of a file, from now on for the whole while. */
  itemsOf(file: AttributeFile): ReadItems | undefined {
    if (this.#kept?.file !== file) return undefined;
    const { items } = this.#kept;
    this.keep(file, items);
    return items;
  }

  keep(file: AttributeFile, items: ReadItems): void {
    this.#drop();
    const end = systemClock.setTimer(KEPT_MS, () => {
      this.#kept = undefined;
    });
    this.#kept = { file, items, end };
  }

  forget(file: AttributeFile): void {
    if (this.#kept?.file === file) this.#drop();
  }

  #drop(): void {
    if (this.#kept !== undefined) systemClock.clearTimer(this.#kept.end);
    this.#kept = undefined;
  }
}

const lastUsed = new LastUsed();

function describedColumn(column: AttributeColumn): ItemDescription["attributes"][number] {
  return { ...column.spec, distinct: column.values.length, bytes: columnBytes(column) };
}

function digestOf(file: RegionFile): FileDigest {
  const hash = createHash("sha256");
  const piece = new Uint8Array(Math.min(PIECE_BYTES, file.size));
  for (let at = 0; at < file.size; at += piece.length) {
    const part = piece.subarray(0, Math.min(piece.length, file.size - at));
    file.read(at, part);
    hash.update(part);
  }
  return { bytes: file.size, sha256: hash.digest("hex") };
}

function tensorOf(ids: ItemIds): Tensor {
  if (ids instanceof StringColumn) return { dtype: "string", shape: [ids.length], data: ids };
  return { dtype: "int64", shape: [ids.length], data: ids };
}

/**
 * Indexes the ids. @throws WinnowError INVALID_ARGUMENT for an id that occurs twice, because it would be
 * unclear which row is meant
 */
function indexOf(ids: ItemIds, file: string): IdIndex {
  const index = IdIndex.of(tensorOf(ids));
  if (index.repeated === undefined) return index;
  const { first, second } = index.repeated;
  const id = ids instanceof StringColumn ? JSON.stringify(ids.textAt(first)) : String(ids[first]);
  const text = `id ${excerpt(id)} stands in items ${first + 1} and ${second + 1}`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${file}: ${text}; leave one of them`);
}

/** The ids of a partition's rows in the type of the file's ids. */
function wantedIds({ firstRow, rows, ids }: DescribedRows, table: string): Tensor {
  if (ids === undefined) {
    const data = BigInt64Array.from({ length: rows }, (_, row) => BigInt(firstRow + row));
    return { dtype: "int64", shape: [rows], data };
  }
  if (ids.dtype === "string" || ids.dtype === "int64") return ids;
  if (ids.dtype !== "int32") throw new RangeError(`ids of table "${table}" are ${ids.dtype}`);
  const data = BigInt64Array.from(ids.data, (id) => BigInt(id));
  return { dtype: "int64", shape: [rows], data };
}

/** Ids as a format without types writes them: integers as their digits. */
function asTexts(ids: Tensor): Tensor {
  if (ids.dtype === "string") return ids;
  const texts = Array.from(ids.data as ArrayLike<bigint>, String);
  return { dtype: "string", shape: ids.shape, data: StringColumn.fromText(texts) };
}
