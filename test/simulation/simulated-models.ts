// The disk all simulated workers share: version directories of one model that appear, vanish, or are
// broken, and what brute force answers for each of them. Every item of every version differs from
// every other's, so an answer that mixes two is seen at once. Values are small whole numbers, so that
// many scores tie.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import {
  ColumnBuilder,
  WinnowError,
  fingerprint,
  indexVocabularies,
  partitionOfInteger,
  plainRowChecks,
  stringTensor,
  tensor,
} from "@winnow/core";
import type {
  AttributeColumn,
  AttributeSpec,
  CandidateTable,
  Fingerprint,
  ModelProgram,
  SignatureProgram,
  TableSpec,
  Tensor,
  WarmUpRequest,
} from "@winnow/core";
import type { ModelVersion, PartitionReader } from "@winnow/model";
import { withColumns } from "../../packages/model/src/attributes/described-reader.ts";
import { withItemUpdates } from "../../packages/model/src/item-updates/updated-version.ts";
import { UPDATE_FILE } from "../../packages/model/src/item-updates/update-file.ts";
import type {
  MoreRows,
  MoreRowsShape,
  TableReading,
} from "../../packages/model/src/model-version.ts";
import { Attributes } from "../../packages/model/src/saved-model/graph/definition/attributes.ts";
import type { GraphValue } from "../../packages/model/src/saved-model/graph/graph-value.ts";
import type { SignatureGraph } from "../../packages/model/src/saved-model/graph/signature-graph.ts";
import { checkVocabularies } from "../../packages/model/src/saved-model/graph/vocabulary-reach.ts";
import type { FileStore } from "../../packages/model/src/storage/file-store.ts";
import type { Region } from "../../packages/model/src/storage/region.ts";
import { readMoreRows } from "../../packages/model/src/saved-model/partitions/more-rows.ts";
import { readTable } from "../../packages/model/src/saved-model/partitions/partition-reading.ts";
import type { TableRegions } from "../../packages/model/src/saved-model/partitions/partition-reading.ts";
import { storedRegionOf } from "../../packages/model/src/saved-model/partitions/stored-region.ts";
import type { StoredRegion } from "../../packages/model/src/saved-model/partitions/stored-region.ts";
import type {
  StoredTable,
  TextVocabulary,
} from "../../packages/model/src/saved-model/partitions/stored-table.ts";
import { parseTextVocabulary } from "../../packages/model/src/saved-model/text-vocabulary.ts";
import { describedFingerprint } from "../../packages/model/src/content-fingerprint.ts";
import { digestOf, fingerprintOf } from "../../packages/model/src/saved-model/version-directory.ts";
import { seededRandom } from "./virtual-time.ts";

/** What is wrong with a version directory. */
export type Flaw =
  /** One byte differs from that of the checksum. */
  | "flipped"
  /** Its files cannot be opened. */
  | "unreadable"
  /** A data file ends early. */
  | "truncated"
  /** A value is not a number. */
  | "notANumber"
  /** The vocabulary lost its last lines. */
  | "cutVocabulary";

/** What is wrong with one worker's own copy of the vocabulary. */
export type CopyFlaw =
  | "cutVocabulary"
  /** Two lines have changed places: as many bytes, lines and keys. */
  | "swappedVocabulary";

/** How large the tables are. */
export interface ModelSize {
  readonly users: number;
  readonly items: number;
  readonly dim: number;
  readonly partitions: number;
}

/** The best items of one user. */
export interface BestItems {
  readonly scores: readonly number[];
  readonly ids: readonly string[];
  readonly rows: readonly number[];
}

/** The name of the one model. */
export const MODEL = "movies";
/** The one label. */
export const LABEL = "stable";
/** Items a signature asks for. */
export const SIGNATURE_K = 5;
const CHUNK_ROWS = 8;

/** The file that holds the users. */
const VOCABULARY: TextVocabulary = {
  file: "users.txt",
  keyDtype: "int64",
  valueDtype: "int64",
  keyIndex: -2,
  valueIndex: -1,
  vocabularySize: -1,
  delimiter: "\t",
  offset: 0,
};
/** Rows before those of the users: the row of unknown users. */
const UNKNOWN_ROWS = 1;

/** Attributes of items; no other content has the same ones for all items. */
const ATTRIBUTES: readonly AttributeSpec[] = [
  { name: "group", type: "string", isList: false },
  { name: "row", type: "integer", isList: false },
];
/** Values of `group`. */
export const GROUPS: readonly string[] = ["red", "green", "blue"];

/** The id of an item; it names the version and the content whose rows these are. */
const itemId = ({ version, revision }: ContentName, row: number): string =>
  `v${version}${revision > 0 ? `.${revision}` : ""} item ${row}`;

/** Items that a content adds behind its own, that it gives other vectors there, and that it removes: so many of each. */
const CHANGES_MAX = 3;
/** Bytes of values in a partition of added items, at most, in rows. */
const ADDED_ROWS_MAX = 4;

/** Contents of odd versions have changes of their items, but for the first content of every second one of these. */
const hasUpdates = ({ version, revision }: ContentName): boolean =>
  version % 4 === 1 || (version % 4 === 3 && revision > 0);

/** A row that answers give, and its item. */
interface OfferedRow {
  readonly row: number;
  readonly id: string;
}

/** A line of the file of item updates. */
interface ItemUpdate {
  readonly id: string;
  readonly vector?: readonly number[];
  readonly removed?: true;
}

/** Some contents differ from the one before in the attributes of their items, and changes to them, alone. */
const rowsOf = ({ version, revision }: ContentName): ContentName => {
  const isDescribedAnew = (version + revision) % 2 === 0 && revision % 2 === 1;
  return { version, revision: isDescribedAnew ? revision - 1 : revision };
};

/** A version directory may have several contents, one after the other. */
export interface ContentName {
  readonly version: number;
  readonly revision: number;
}

/** One content of a version, and its right answers. */
export class VersionContent implements ContentName {
  readonly version: number;
  readonly revision: number;
  readonly size: ModelSize;
  /** The model alone, without changes and attributes of its items. */
  readonly model: ModelProgram;
  readonly updates: readonly ItemUpdate[];
  /** The tensors of its data file: rows of the users, rows of the items, ids of the items. */
  readonly stored: readonly [StoredRegion, StoredRegion, StoredRegion];
  readonly #users: Float32Array;
  /** With the rows that are added to the model's. */
  readonly #items: Float32Array;
  readonly #offered: readonly OfferedRow[];
  readonly #best = new Map<number, BestItems>();
  readonly #copies = new Map<CopyFlaw | undefined, KnownUsers>();
  readonly #programs = new Map<CopyFlaw | undefined, ModelProgram>();

  constructor({ version, revision }: ContentName, size: ModelSize) {
    this.version = version;
    this.revision = revision;
    this.size = size;
    const rows = rowsOf(this);
    const random = seededRandom(version, rows.revision > 0 ? `rows ${rows.revision}` : "rows");
    const values = (rows: number): Float32Array =>
      Float32Array.from({ length: rows * size.dim }, () => Math.floor(random() * 5) - 2);
    this.#users = values(UNKNOWN_ROWS + size.users);
    const items = values(size.items);
    const names = Array.from({ length: size.items }, (_, row) => itemId(rows, row));
    this.stored = [
      storedMatrix("users", this.#users, size.dim),
      storedMatrix("items", items, size.dim),
      stored("ids", stringTensor(names)),
    ];
    this.model = this.#model();
    this.updates = hasUpdates(this) ? this.#drawnUpdates(names) : [];
    const added = this.updates.filter(({ vector }) => vector !== undefined);
    const changed = new Set(this.updates.map(({ id }) => id));
    const all = [...names.filter((id) => !changed.has(id)), ...added.map(({ id }) => id)];
    const rowOf = new Map([...names, ...added.map(({ id }) => id)].map((id, row) => [id, row]));
    this.#offered = all.map((id) => ({ id, row: rowOf.get(id)! }));
    this.#items = Float32Array.from([...items, ...added.flatMap(({ vector = [] }) => vector)]);
  }

  /** As a worker finds it whose copy is sound. */
  get program(): ModelProgram {
    return this.#programIn(undefined);
  }

  #programIn(copyFlaw: CopyFlaw | undefined): ModelProgram {
    const known = this.#programs.get(copyFlaw);
    if (known !== undefined) return known;
    const files = { content: this, flaw: undefined };
    const { program } = openSimulated(() => files, { copyFlaw, misread: () => false });
    this.#programs.set(copyFlaw, program);
    return program;
  }

  /**
   * Some items have another vector, some are removed, and some are new. In some contents these are the items of the
   * content before, with other vectors: an answer from its rows would be found out.
   */
  #drawnUpdates(names: readonly string[]): ItemUpdate[] {
    const { version, revision } = this;
    const random = seededRandom(version, `changed ${revision % 4 === 1 ? revision - 1 : revision}`);
    const valuesRandom = seededRandom(version, `changes ${revision}`);
    const count = (): number => Math.floor(random() * (CHANGES_MAX + 1));
    const vector = (): number[] =>
      Array.from({ length: this.size.dim }, () => Math.floor(valuesRandom() * 5) - 2);
    const known = new Set(
      Array.from({ length: 2 * CHANGES_MAX }, () => names[Math.floor(random() * names.length)]!),
    );
    const [replaced, added] = [count(), count()];
    return [
      ...[...known].map((id, at) =>
        at < replaced ? { id, vector: vector() } : ({ id, removed: true } as const),
      ),
      ...Array.from({ length: added }, (_, at) => ({
        id: itemId(rowsOf(this), names.length + at),
        vector: vector(),
      })),
    ];
  }

  /**
   * Whose rows a worker's copy with this fingerprint finds for a user: those of the user, or of another one
   * if two lines of the copy are swapped. `undefined`: the copy is of another content.
   */
  userIn(print: Fingerprint, user: number): number | undefined {
    if (print === this.program.fingerprint) return user;
    if (print !== this.#programIn("swappedVocabulary").fingerprint) return undefined;
    const lines = Array.from({ length: this.size.users }, (_, line) => line);
    swapAlike(lines, this.size.partitions);
    return lines[user] ?? user;
  }

  /** Every second version has a warm-up request. */
  get warmUp(): readonly WarmUpRequest[] {
    if ((this.version + this.revision) % 2 === 1) return [];
    const users = tensor("int64", [1], BigInt64Array.of(0n));
    return [{ signature: "serving_default", inputs: new Map([["user", users]]) }];
  }

  /** All items for a user, best first; numbers from `size.users` on are unknown users. */
  best(asked: number): BestItems {
    const user = asked < this.size.users ? asked + UNKNOWN_ROWS : 0;
    const known = this.#best.get(user);
    if (known !== undefined) return known;
    const { dim } = this.size;
    const [query] = widenQueries(this.#users.slice(user * dim, (user + 1) * dim), dim);
    const scored = this.#offered
      .map(({ id, row }) => ({ id, row, score: canonicalScore(query!, this.#items, row * dim) }))
      .toSorted((a, b) => b.score - a.score || a.row - b.row);
    const best = {
      scores: scored.map(({ score }) => score),
      ids: scored.map(({ id }) => id),
      rows: scored.map(({ row }) => row),
    };
    this.#best.set(user, best);
    return best;
  }

  /** The group of an item; in another content items have other groups. The last items have none. */
  groupOf(row: number): string | undefined {
    if (row >= this.size.items - 2) return undefined;
    return GROUPS[(row * 7 + this.version + this.revision) % GROUPS.length];
  }

  /** What workers read for some rows: their groups, and which of them have an even number. */
  attributesOf({ firstRow, rows }: { firstRow: number; rows: number }): AttributeColumn[] {
    const builders = ATTRIBUTES.map(() => new ColumnBuilder());
    for (let row = firstRow; row < firstRow + rows; row += 1) {
      builders[0]!.add(this.groupOf(row));
      builders[1]!.add(row);
    }
    return builders.map((builder, at) => builder.finish(ATTRIBUTES[at]!));
  }

  /** What a worker finds of the users in its copy of the version. */
  usersIn(flaw: CopyFlaw | undefined): KnownUsers {
    const known = this.#copies.get(flaw);
    if (known !== undefined) return known;
    const users = readUsers(this, flaw);
    this.#copies.set(flaw, users);
    return users;
  }

  #model(): ModelProgram {
    const { users, items, dim, partitions } = this.size;
    const [userRows, itemRows, itemIds] = this.stored;
    const shape = { dim, partitions };
    const tables: TableSpec[] = [
      {
        ...shape,
        kind: "keyed",
        name: "users",
        rows: UNKNOWN_ROWS + users,
        keys: {
          kind: "vocabulary",
          keyDtype: "int64",
          missing: { kind: "row", row: 0 },
          fixed: { keys: integers([]), rows: [] },
        },
        sources: [userRows.source],
      },
      {
        ...shape,
        kind: "candidate",
        name: "items",
        rows: items,
        idDtype: "string",
        sources: [itemRows.source, itemIds.source],
      },
    ];
    return {
      fingerprint: fingerprint("0".repeat(64)),
      tables,
      vocabularies: [],
      denseModels: [],
      signatures: [signature()],
    };
  }
}

/** A tensor as it lies in a data file. */
function stored(name: string, tensor: Tensor): StoredRegion {
  return storedRegionOf({ kind: "constant", name, tensor }, () => {
    throw new RangeError("it is no bundle");
  });
}

const storedMatrix = (name: string, data: Float32Array, dim: number): StoredRegion =>
  stored(name, { dtype: "float32", shape: [data.length / dim, dim], data });

const integers = (values: readonly number[]): Tensor => ({
  dtype: "int64",
  shape: [values.length],
  data: BigInt64Array.from(values, BigInt),
});

/** The users as a worker finds them, and the fingerprint of the model's files in which it does. */
interface KnownUsers {
  readonly vocabulary: NonNullable<StoredTable["vocabulary"]>;
  readonly fingerprint: Fingerprint;
}

/** Swaps the first two lines of one partition, which no checksum of rows shows. */
function swapAlike(lines: unknown[], partitions: number): void {
  const places = lines.map((_, user) => partitionOfInteger(BigInt(user), partitions));
  const second = places.findIndex((place, user) => places.indexOf(place) < user);
  const first = places.indexOf(places[second]!);
  if (second >= 0) [lines[first], lines[second]] = [lines[second], lines[first]];
}

/** Reads the vocabulary like the model package. @throws WinnowError if that would refuse it */
function readUsers(
  { version, revision, size, model }: VersionContent,
  flaw: CopyFlaw | undefined,
): KnownUsers {
  const lines = Array.from({ length: size.users }, (_, user) => `${user}\n`);
  if (flaw === "swappedVocabulary") swapAlike(lines, size.partitions);
  const kept = flaw === "cutVocabulary" ? lines.slice(0, -2) : lines;
  const content = new TextEncoder().encode(kept.join(""));
  const { keys, values } = parseTextVocabulary(content, VOCABULARY);
  const table = model.tables[0]!;
  if (table.kind !== "keyed") throw new RangeError("the users are looked up");
  const found = Array.from(values.data as BigInt64Array, (line) => Number(line) + UNKNOWN_ROWS);
  const vocabulary = { keys, values: integers(found) };
  checkVocabularies([graphOf()], {
    tables: [tableOf(table, vocabulary)],
    contents: {
      get: (name) => indexVocabularies([{ name, keys, values }])[0]!,
      textOf: () => VOCABULARY,
    },
    isVouchedFor: () => false,
  });
  const { revision: rows } = rowsOf({ version, revision });
  const files = new Map([
    ["saved_model.pb", digestOf(new TextEncoder().encode(`content ${version}.${rows}`))],
    [`assets/${VOCABULARY.file}`, digestOf(content)],
  ]);
  return { vocabulary, fingerprint: fingerprintOf(files) };
}

/** The lookup of users as nodes: row 0 for a user that the file lacks, otherwise the line plus one. */
function graphOf(): SignatureGraph {
  const operation = (op: string, inputs: readonly GraphValue[]): GraphValue => {
    const attributes = new Attributes(op, new Map());
    const producer = { kind: "operation", op, name: op, attributes, inputs, outputs: [] } as const;
    return { dtype: "int64", shape: [-1], producer };
  };
  const number = (value: number): GraphValue => ({
    dtype: "int64",
    shape: [],
    constant: { ...integers([value]), shape: [] },
  });
  const table: GraphValue = {
    dtype: "resource",
    shape: [],
    resource: { kind: "table", name: "users", keyDtype: "int64", valueDtype: "int64" },
  };
  const key: GraphValue = { dtype: "int64", shape: [-1] };
  const found = operation("LookupTableFindV2", [table, key, number(-1)]);
  const rows = operation("AddV2", [found, number(UNKNOWN_ROWS)]);
  const lookup = {
    kind: "lookup",
    name: "lookup",
    table: 0,
    rows,
    inputs: [key],
    outputs: [],
  } as const;
  const signature = { name: "serving_default", methodName: "", inputs: [], outputs: [] };
  return { signature, inputs: [], outputs: [], nodes: [lookup] };
}

function signature(): SignatureProgram {
  const graphTensor = "StatefulPartitionedCall:0";
  const shape = [-1, SIGNATURE_K];
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [{ name: "user", graphTensor: "user:0", value: 0, dtype: "int64", shape: [-1] }],
    outputs: [
      { name: "output_1", graphTensor, value: 2, dtype: "float32", shape },
      { name: "output_2", graphTensor, value: 3, dtype: "string", shape },
    ],
    constants: [],
    steps: [
      { kind: "lookup", table: 0, node: "lookup", keys: 0, output: 1 },
      {
        kind: "topK",
        table: 1,
        node: "TopKV2",
        query: 1,
        k: SIGNATURE_K,
        capped: false,
        scores: 2,
        rows: undefined,
        ids: 3,
      },
    ],
  };
}

/** What the files of a version directory contain. */
export interface VersionFiles {
  readonly content: VersionContent;
  readonly flaw: Flaw | undefined;
}

/** What is wrong with one worker's copy of a version. */
export interface VersionCopy {
  readonly copyFlaw: CopyFlaw | undefined;
  /** What is read now is not what was written. */
  readonly misread: () => boolean;
}

/** Opens a version directory: `files` gives the present content of its files, which may be overwritten while they are open. */
export function openSimulated(files: () => VersionFiles, copy: VersionCopy): ModelVersion {
  const { content } = files();
  const version = new SimulatedVersion(files, copy);
  const partitionBytes = ADDED_ROWS_MAX * content.size.dim * Float32Array.BYTES_PER_ELEMENT;
  const store = storeOf(content.updates);
  return described(withItemUpdates(version, { store, partitionBytes }), content);
}

/** A store of one file, if there are changes of items. */
function storeOf(updates: readonly ItemUpdate[]): FileStore {
  const bytes = Buffer.from(updates.map((update) => `${JSON.stringify(update)}\n`).join(""));
  return {
    join: (_, name) => name,
    exists: (name) => name === UPDATE_FILE && updates.length > 0,
    filesBelow: () => [],
    open: () => ({
      size: bytes.length,
      read: (position, target) => bytes.copy(target, 0, position),
      close: () => undefined,
    }),
  };
}

/** The version with the attributes of its items: those of the file at the time when it was opened. */
function described(version: ModelVersion, content: VersionContent): ModelVersion {
  const { program, warmUp, changes, rowsFingerprint = program.fingerprint } = version;
  const sha256 = `groups ${content.version}.${content.revision}`;
  const file = { name: "items.jsonl", sha256 };
  const tables = program.tables.map((table) =>
    table.kind === "candidate" ? { ...table, attributes: ATTRIBUTES } : table,
  );
  const print = describedFingerprint(program.fingerprint, file, ATTRIBUTES);
  return {
    directory: version.directory,
    program: { ...program, fingerprint: print, tables },
    rowsFingerprint,
    warmUp,
    changes,
    get bytesRead() {
      return version.bytesRead;
    },
    partitionBytes: (table, partition) => version.partitionBytes(table, partition),
    openPartition: (table, partition) => {
      const reader = version.openPartition(table, partition);
      if (tables[table]!.kind !== "candidate") return reader;
      const columns = content.attributesOf(reader);
      return withColumns(reader, [...columns, ...(reader.attributes ?? [])]);
    },
    close: () => version.close(),
  };
}

/** An opened version directory without changes and attributes of its items, with its flaws. */
class SimulatedVersion implements ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  readonly warmUp: readonly WarmUpRequest[];
  bytesRead = 0;
  readonly #files: () => VersionFiles;
  readonly #copy: VersionCopy;
  readonly #users: KnownUsers;
  readonly #tables: readonly TableReading[];

  /** `files` gives the present content of its files, which may be overwritten while they are open. */
  constructor(files: () => VersionFiles, copy: VersionCopy) {
    const { content, flaw } = files();
    if (flaw === "unreadable") throw new WinnowError("PERMISSION_DENIED", "Cannot open the file");
    this.directory = String(content.version);
    this.#users = content.usersIn(flaw === "cutVocabulary" ? flaw : copy.copyFlaw);
    this.program = { ...content.model, fingerprint: this.#users.fingerprint };
    this.warmUp = content.warmUp;
    this.#files = files;
    this.#copy = copy;
    this.#tables = this.#readTables(content);
  }

  partitionBytes(table: number, partition: number): number {
    return this.#tables[table]!.partitionBytes(partition);
  }

  openPartition(table: number, partition: number): PartitionReader {
    const reader = this.#tables[table]!.openPartition(partition);
    return { ...reader, chunks: () => smallChunks(reader) };
  }

  moreRowsShape(): MoreRowsShape {
    return { dim: this.#items.dim, dtype: "float32" };
  }

  moreRows(_: number, more: MoreRows): TableReading {
    const table = { spec: this.#items, derivation: undefined, dtype: "float32" } as const;
    return readMoreRows(table, more, plainRowChecks);
  }

  get #items(): CandidateTable {
    return this.program.tables.find((table) => table.kind === "candidate")!;
  }

  close(): void {}

  /** Keys as they were when the version was opened; rows and ids as they are when they are read. */
  #readTables({ model, stored }: VersionContent): readonly TableReading[] {
    const checks = plainRowChecks;
    const [userRows, itemRows, itemIds] = stored.map((each, at) => ({
      ...each,
      pieces: each.pieces.map((piece) => ({ ...piece, region: this.#regionOf(piece.region, at) })),
    })) as unknown as [StoredRegion, StoredRegion, StoredRegion];
    const regions: readonly TableRegions[] = [
      { rows: userRows, ids: undefined, checks },
      { rows: itemRows, ids: itemIds, checks },
    ];
    return model.tables.map((spec, table) =>
      readTable(tableOf(spec, this.#users.vocabulary), regions[table]!),
    );
  }

  /** Where the tensor was in the data file when the version was opened, as one piece. */
  #regionOf(opened: Region, tensor: number): Region {
    const { size } = opened;
    return {
      ...opened,
      read: (offset, target) => {
        const { content, flaw } = this.#files();
        content.stored[tensor]!.pieces[0]!.region.read(offset, target);
        if (tensor === ITEM_ROWS) spoil(target, { end: offset + target.length === size, flaw });
        const isHead = tensor === ITEM_IDS && offset < content.size.items + CHECKSUM_BYTES;
        if (this.#copy.misread() && !isHead) misread(target, tensor);
      },
    };
  }
}

/** Places of tensors in `VersionContent.stored`. */
const ITEM_ROWS = 1;
const ITEM_IDS = 2;

const tableOf = (spec: TableSpec, vocabulary: StoredTable["vocabulary"]): StoredTable => ({
  spec,
  rows: { kind: "bundle", key: spec.name },
  ids: spec.kind === "candidate" ? { kind: "bundle", key: "ids" } : undefined,
  vocabulary: spec.kind === "keyed" ? vocabulary : undefined,
});

/** The last row of the items, if it is the last of all, is not as it was written. */
function spoil(
  target: Uint8Array,
  { end, flaw }: { readonly end: boolean; readonly flaw: Flaw | undefined },
): void {
  if (!end || flaw === undefined) return;
  if (flaw === "truncated") throw new WinnowError("DATA_LOSS", "The file ends early");
  const at = target.length - 4;
  if (flaw === "notANumber") floatsOf(target).setFloat32(at, Number.NaN, true);
  if (flaw === "flipped") raise(target, at);
}

/** The lengths of strings, here of one byte each, come before the strings. */
const CHECKSUM_BYTES = 4;

/** What a faulty disk reads: another value in the first row, another digit in the last id. */
function misread(target: Uint8Array, tensor: number): void {
  if (tensor === ITEM_IDS) target[target.length - 1]! ^= 1;
  else raise(target, 0);
}

/** One value of an array is larger by one. */
function raise(target: Uint8Array, at: number): void {
  const floats = floatsOf(target);
  floats.setFloat32(at, floats.getFloat32(at, true) + 1, true);
}

const floatsOf = ({ buffer, byteOffset, length }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, length);

/** The rows of a partition in many chunks, like those of a large one. */
function* smallChunks(reader: PartitionReader): ReturnType<PartitionReader["chunks"]> {
  const length = reader.dim * CHUNK_ROWS;
  for (const chunk of reader.chunks()) {
    for (let at = 0; at < chunk.length; at += length) yield chunk.slice(at, at + length);
  }
}
