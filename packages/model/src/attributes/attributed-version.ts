// A version whose directory describes its items: the same model, with attributes for the tables that are
// searched and for the items that dense parts rank. The file is part of the version's content, so workers with different files hold different
// contents, and an answer never mixes them.

import { WinnowError } from "@winnow/core";
import type {
  AttributeSpec,
  CandidateTable,
  Fingerprint,
  ModelProgram,
  TableSpec,
} from "@winnow/core";
import { describedFingerprint } from "../content-fingerprint.ts";
import type {
  BoundFile,
  ItemChanges,
  ItemDescription,
  ModelVersion,
  PartitionReader,
} from "../model-version.ts";
import { assertAsListed } from "../saved-model/checksum-manifest.ts";
import { readManifest } from "../saved-model/version-directory.ts";
import type { FileStore } from "../storage/file-store.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import { AttributeFile, attributeFileOf } from "./attribute-file.ts";
import { withColumns } from "./described-reader.ts";
import { hasRankedIds, withRankedItems } from "./ranked-items.ts";

/**
 * The version with the attributes that its directory brings; unchanged if there are none. Closes the version
 * if they cannot be read. @throws WinnowError as `AttributeFile`
 */
export function withAttributes(version: ModelVersion, store?: FileStore): ModelVersion {
  try {
    const directory = new StoredDirectory(version.directory, store);
    const name = attributeFileOf(directory);
    return name === undefined ? version : new AttributedVersion(version, directory, name);
  } catch (error) {
    version.close();
    throw error;
  }
}

class AttributedVersion implements ModelVersion {
  readonly program: ModelProgram;
  readonly #version: ModelVersion;
  readonly #file: AttributeFile;
  readonly #directory: StoredDirectory;
  readonly #isListed: boolean;

  constructor(version: ModelVersion, directory: StoredDirectory, name: string) {
    this.#version = version;
    this.#directory = directory;
    const { program } = version;
    const isSearched = program.tables.some(({ kind }) => kind === "candidate");
    if (!isSearched && !hasRankedIds(program)) {
      const text =
        "no signature of the model searches a table of items, or ranks items and names them";
      throw new WinnowError("INVALID_ARGUMENT", `Cannot use ${name}: ${text}; remove the file`);
    }
    this.#file = new AttributeFile(directory, name, itemsOf(program));
    for (const table of program.tables) {
      if (table.kind === "candidate") this.#file.assertIdsFit(table);
    }
    const { attributes, digest } = this.#file;
    const { sha256 } = digest;
    const manifest = readManifest(directory);
    if (manifest !== undefined) assertAsListed(manifest, name, digest);
    this.#isListed = manifest?.has(name) === true;
    this.program = {
      ...program,
      fingerprint: describedFingerprint(program.fingerprint, { name, sha256 }, attributes),
      tables: program.tables.map((table) => described(table, attributes)),
      ...withRankedItems(program, { file: this.#file, isSearched }),
    };
  }

  get rowsFingerprint(): Fingerprint {
    return this.#version.rowsFingerprint ?? this.#version.program.fingerprint;
  }

  get directory(): string {
    return this.#version.directory;
  }

  get items(): ItemDescription {
    return this.#file.description;
  }

  get changes(): ItemChanges | undefined {
    return this.#version.changes;
  }

  get warmUp(): ModelVersion["warmUp"] {
    return this.#version.warmUp;
  }

  get files(): readonly BoundFile[] {
    const { name, digest } = this.#file;
    const own = { name, ...digest, entries: this.items.items, isListed: this.#isListed };
    return [...(this.#version.files ?? []), own];
  }

  get bytesRead(): number {
    return this.#version.bytesRead + this.#directory.bytesRead;
  }

  /** Includes the partition's part of the attributes, in proportion to its rows. */
  partitionBytes(table: number, partition: number): number {
    const bytes = this.#version.partitionBytes(table, partition);
    const spec = this.program.tables[table];
    if (spec?.kind !== "candidate") return bytes;
    const { items, attributes } = this.items;
    const all = attributes.reduce((sum, column) => sum + column.bytes, 0);
    const perItem = all / Math.max(1, items);
    return bytes + Math.ceil(perItem * Math.ceil(spec.rows / spec.partitions));
  }

  openPartition(table: number, partition: number): PartitionReader {
    const reader = this.#version.openPartition(table, partition);
    const spec = this.program.tables[table];
    if (spec?.kind !== "candidate") return reader;
    const described = this.#file.columnsOf(spec satisfies CandidateTable, reader);
    return withColumns(reader, [...described, ...(reader.attributes ?? [])]);
  }

  close(): void {
    this.#file.close();
    this.#version.close();
  }
}

/** Items that the file may describe: those of all tables that are searched, and those that dense parts rank. */
function itemsOf({ tables, signatures }: ModelProgram): number {
  const searched = tables.map(({ kind, rows }) => (kind === "candidate" ? rows : 0));
  const ranked = signatures.flatMap(({ steps }) =>
    steps.flatMap((step) =>
      step.kind === "dense" ? (step.rankings ?? []).map(({ items }) => items) : [],
    ),
  );
  // Rankings of several signatures are mostly of the same items.
  return (
    searched.reduce((sum, rows) => sum + rows, 0) +
    ranked.reduce((most, items) => Math.max(most, items), 0)
  );
}

function described(table: TableSpec, attributes: readonly AttributeSpec[]): TableSpec {
  return table.kind === "candidate" ? { ...table, attributes } : table;
}
