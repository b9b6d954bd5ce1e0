// A version whose directory changes its items one by one: the same model, with rows that follow those of its item table,
// in partitions of their own, and with rows that no search returns any more. The table's own partitions stay as they
// are, so a worker that holds them keeps them when another change is made.

import {
  PARTITION_BYTES,
  WITHDRAWN,
  WinnowError,
  excerpt,
  partitionCountOf,
  roundedToBfloat16,
  roundedToHalf,
  rowRangeOf,
} from "@winnow/core";
import type {
  AttributeColumn,
  CandidateTable,
  Fingerprint,
  ModelProgram,
  SignatureProgram,
} from "@winnow/core";
import { describedFingerprint } from "../content-fingerprint.ts";
import type {
  BoundFile,
  ItemChanges,
  ModelVersion,
  MoreRows,
  PartitionReader,
  TableReading,
} from "../model-version.ts";
import { withColumns } from "../attributes/described-reader.ts";
import { assertAsListed } from "../saved-model/checksum-manifest.ts";
import { readManifest } from "../saved-model/version-directory.ts";
import type { ReadingOptions } from "../saved-model/version-files.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import type { OpenUpdates } from "./open-updates.ts";
import { UPDATE_FILE, readItemUpdates } from "./update-file.ts";
import type { ItemUpdates, UpdatedItems, UpdatedVectors } from "./update-file.ts";

/** How a version is read whose items may be changed. */
export interface UpdatedReadingOptions extends ReadingOptions {
  /** Changes of versions that are open, which those of the next content of a directory may continue. Default: none. */
  readonly openUpdates?: OpenUpdates | undefined;
  /** Only so many bytes of the file are read, which may have grown since. Default: all. */
  readonly updateBytes?: number | undefined;
}

const ROWS_MAX = 2 ** 31 - 1;
const ROUNDING = {
  float32: (value: number): number => value,
  half: roundedToHalf,
  bfloat16: roundedToBfloat16,
} as const;

/**
 * The version with the changes that its directory brings; unchanged if there are none. Closes the version if they
 * cannot be read. @throws WinnowError as `readItemUpdates`, UNIMPLEMENTED for a model whose items cannot be changed
 */
export function withItemUpdates(
  version: ModelVersion,
  options: UpdatedReadingOptions,
): ModelVersion {
  try {
    const directory = new StoredDirectory(version.directory, options.store);
    if (!directory.has(UPDATE_FILE)) return version;
    return new UpdatedVersion(version, { ...options, directory });
  } catch (error) {
    version.close();
    throw error;
  }
}

/** A table that is searched, as the model has it, and the rows that follow its own. */
interface SearchedTable {
  readonly own: CandidateTable;
  readonly more: TableReading | undefined;
}

class UpdatedVersion implements ModelVersion {
  readonly program: ModelProgram;
  readonly changes: ItemChanges;
  readonly #version: ModelVersion;
  readonly #directory: StoredDirectory;
  readonly #isListed: boolean;
  readonly #updates: ItemUpdates;
  readonly #openUpdates: OpenUpdates | undefined;
  readonly #searched: ReadonlyMap<number, SearchedTable>;

  constructor(
    version: ModelVersion,
    {
      directory,
      partitionBytes = PARTITION_BYTES,
      openUpdates,
      updateBytes: bytesMax,
    }: UpdatedReadingOptions & { readonly directory: StoredDirectory },
  ) {
    this.#version = version;
    this.#directory = directory;
    const { program } = version;
    const { numbers, items } = itemsOf(version);
    this.#openUpdates = openUpdates;
    const before = openUpdates?.of(version.directory);
    this.#updates = readItemUpdates(directory, items, { before, bytesMax });
    const { ids, values, digest, names } = this.#updates;
    const manifest = readManifest(directory);
    if (manifest !== undefined) assertAsListed(manifest, UPDATE_FILE, digest);
    this.#isListed = manifest?.has(UPDATE_FILE) === true;
    const rows = ids.data.length;
    const tables = [...program.tables];
    const searched = new Map<number, SearchedTable>();
    for (const number of numbers) {
      const own = tables[number] as CandidateTable;
      if (own.rows + rows > ROWS_MAX) throw refused(`its table would have ${own.rows + rows} rows`);
      const partitions = rows === 0 ? 0 : partitionCountOf({ rows, dim: own.dim }, partitionBytes);
      const more: MoreRows = { rows, partitions, values, ids, file: UPDATE_FILE };
      tables[number] = updated(own, more);
      searched.set(number, {
        own,
        more: rows === 0 ? undefined : version.moreRows?.(number, more),
      });
    }
    this.#searched = searched;
    const file = { name: UPDATE_FILE, sha256: digest.sha256 };
    const fingerprint = describedFingerprint(program.fingerprint, file, [WITHDRAWN]);
    this.program = { ...program, fingerprint, tables };
    this.changes = { file: UPDATE_FILE, vectors: rows, removed: names.data.length - rows };
    openUpdates?.add(version.directory, { holder: this, updates: this.#updates });
  }

  get rowsFingerprint(): Fingerprint {
    return this.#version.program.fingerprint;
  }

  get directory(): string {
    return this.#version.directory;
  }

  get warmUp(): ModelVersion["warmUp"] {
    return this.#version.warmUp;
  }

  get files(): readonly BoundFile[] {
    const { digest } = this.#updates;
    const { vectors, removed } = this.changes;
    const entries = vectors + removed;
    const own = { name: UPDATE_FILE, ...digest, entries, isListed: this.#isListed };
    return [...(this.#version.files ?? []), own];
  }

  get bytesRead(): number {
    return this.#version.bytesRead + this.#directory.bytesRead;
  }

  /** Includes a byte for each row, which says whether it is withdrawn. */
  partitionBytes(table: number, partition: number): number {
    const searched = this.#searched.get(table);
    if (searched === undefined) return this.#version.partitionBytes(table, partition);
    const { own } = searched;
    const bytes =
      partition < own.partitions
        ? this.#version.partitionBytes(table, partition)
        : moreOf(searched, partition).partitionBytes(partition - own.partitions);
    const { firstRow, endRow } = rowRangeOf(partition, this.program.tables[table]!);
    return bytes + endRow - firstRow;
  }

  openPartition(table: number, partition: number): PartitionReader {
    const searched = this.#searched.get(table);
    const isOwn = searched === undefined || partition < searched.own.partitions;
    if (!isOwn) return this.#addedPartition(table, partition, searched);
    const reader = this.#version.openPartition(table, partition);
    return searched === undefined ? reader : this.#ownPartition(reader);
  }

  /** The model's rows, of which those of changed items are withdrawn. */
  #ownPartition(reader: PartitionReader): PartitionReader {
    const { rows, ids } = reader;
    if (ids === undefined) throw new RangeError("a table of items without ids");
    const { changed } = this.#updates;
    const column = withdrawnColumn(rows, (row) => changed.rowOf(ids, row) >= 0);
    return withColumns(reader, [...(reader.attributes ?? []), column]);
  }

  /** Rows that the file brings. Their checksum is the file's, so they have no share in those of the model's. */
  #addedPartition(table: number, partition: number, searched: SearchedTable): PartitionReader {
    const { partitions, sources } = searched.own;
    const reader = moreOf(searched, partition).openPartition(partition - partitions);
    const { firstRow } = rowRangeOf(partition, this.program.tables[table]!);
    return {
      ...withColumns(reader, [withdrawnColumn(reader.rows, () => false)]),
      firstRow,
      checksumShares: () => sources.map(() => 0),
    };
  }

  close(): void {
    this.#openUpdates?.remove(this.directory, this);
    this.#version.close();
  }
}

function moreOf({ own, more }: SearchedTable, partition: number): TableReading {
  if (more !== undefined) return more;
  const text = `Table "${own.name}" has partitions 0 to ${own.partitions - 1}, not ${partition}`;
  throw new WinnowError("NOT_FOUND", text);
}

/**
 * The tables that are searched, and what the items of all of them are. @throws WinnowError INVALID_ARGUMENT where there is none,
 * UNIMPLEMENTED where they do not have the same items, or none with ids
 */
function itemsOf(version: ModelVersion): {
  readonly numbers: readonly number[];
  readonly items: UpdatedItems;
} {
  const { tables } = version.program;
  const numbers = [...tables.keys()].filter((table) => tables[table]!.kind === "candidate");
  const found = numbers.map((number) => {
    const { name: table, idDtype, sources } = tables[number] as CandidateTable;
    if (idDtype === undefined)
      throw refused("its items have no ids, but the numbers of their rows");
    const { tensor = "", file = "" } = sources[1] ?? {};
    return { table, idDtype, from: `${file}\n${tensor}` };
  });
  const [first] = found;
  if (first === undefined) {
    const text = "no signature of the model searches a table of items";
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot use ${UPDATE_FILE}: ${text}; remove the file`,
    );
  }
  const { table, idDtype, from } = first;
  const other = found.find((each) => each.from !== from);
  if (other !== undefined) throw unlike(table, other.table);
  return { numbers, items: { table, idDtype, vectors: vectorsOf(version, numbers) } };
}

/** What vectors items may have, or why they may have none. */
function vectorsOf(version: ModelVersion, numbers: readonly number[]): UpdatedVectors {
  const { program } = version;
  const user = userOfRows(program, numbers);
  if (user !== undefined) {
    const text = `its signature "${excerpt(user)}" uses the numbers of the rows that it finds`;
    return { obstacle: text };
  }
  const shapes = numbers.map((number) => version.moreRowsShape?.(number));
  const [first] = shapes;
  if (first === undefined) return { obstacle: "its format takes none" };
  const refusing = shapes.find((shape) => shape?.obstacle !== undefined) ?? first;
  if (refusing.obstacle !== undefined) return { obstacle: refusing.obstacle };
  const { dim, dtype } = refusing;
  const isAlike = (shape: typeof first): boolean =>
    shape.obstacle === undefined && shape.dim === dim && shape.dtype === dtype;
  if (shapes.every((shape) => shape !== undefined && isAlike(shape))) {
    return { dim, round: ROUNDING[dtype] };
  }
  return { obstacle: "it stores vectors of several lengths or types" };
}

function unlike(table: string, other: string): WinnowError {
  const names = [table, other].map((name) => `"${excerpt(name)}"`);
  return refused(`it searches tables of different items, ${names.join(" and ")}`);
}

/**
 * The first signature that does something with the numbers of the rows found: those of added rows would lead behind the
 * end of what the model holds for each item.
 */
function userOfRows({ signatures }: ModelProgram, tables: readonly number[]): string | undefined {
  const isUser = ({ steps, outputs }: SignatureProgram): boolean => {
    const used = new Set(outputs.map(({ value }) => value));
    for (const step of steps) {
      if (step.kind === "host") for (const value of step.inputs) used.add(value);
      if (step.kind === "dense") for (const { value } of step.inputs) used.add(value);
      if (step.kind === "lookup") used.add(step.keys);
    }
    return steps.some(
      (step) =>
        step.kind === "topK" &&
        tables.includes(step.table) &&
        step.rows !== undefined &&
        used.has(step.rows),
    );
  };
  return signatures.find(isUser)?.name;
}

function refused(why: string): WinnowError {
  const text = `Cannot use ${UPDATE_FILE} with this model: ${why}; export the model with its new items`;
  return new WinnowError("UNIMPLEMENTED", text);
}

function updated(
  table: CandidateTable,
  { rows: added, partitions }: Pick<MoreRows, "rows" | "partitions">,
): CandidateTable {
  const { rows, partitions: own, masks = [] } = table;
  return {
    ...table,
    rows: rows + added,
    partitions: own + partitions,
    ...(added > 0 && { original: { rows, partitions: own } }),
    masks: [...masks, WITHDRAWN],
  };
}

/** The column of `WITHDRAWN`: code 0 for true, 1 for no value. */
function withdrawnColumn(rows: number, isWithdrawn: (row: number) => boolean): AttributeColumn {
  const codes = new Uint8Array(rows);
  for (let row = 0; row < rows; row += 1) codes[row] = isWithdrawn(row) ? 0 : 1;
  return { spec: WITHDRAWN, values: Float64Array.of(1), codes };
}
