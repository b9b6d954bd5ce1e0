// The disk all simulated workers share: version directories of one model that appear, vanish, or are
// broken, and what brute force answers for each of them. Every item of every version differs from
// every other's, so an answer that mixes two is seen at once. Values are small whole numbers, so that
// many scores tie.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import {
  StringColumn,
  WinnowError,
  crc32c,
  fingerprint,
  partitionOfRow,
  rowRangeOf,
  tensor,
} from "@winnow/core";
import type { ModelProgram, SignatureProgram, TableSpec, WarmUpRequest } from "@winnow/core";
import type { ModelVersion, PartitionReader } from "@winnow/model";
import { seededRandom } from "./virtual-time.ts";

/** What is wrong with a version directory. */
export type Flaw =
  /** A byte differs from what the checksum was taken of. */
  | "flipped"
  /** Its files cannot be opened. */
  | "unreadable"
  /** A data file ends early. */
  | "truncated"
  /** A value is not a number. */
  | "notANumber";

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
}

/** The name of the one model. */
export const MODEL = "movies";
/** The one label. */
export const LABEL = "stable";
/** Items a signature asks for. */
export const SIGNATURE_K = 5;
const CHUNK_ROWS = 8;

/** The id of an item; it names its version, and which of its contents. */
const itemId = ({ version, revision }: ContentName, row: number): string =>
  `v${version}${revision > 0 ? `.${revision}` : ""} item ${row}`;

/** A version directory may hold one content after the other. */
export interface ContentName {
  readonly version: number;
  readonly revision: number;
}

/** One content of one version, and what is right. */
export class VersionContent implements ContentName {
  readonly version: number;
  readonly revision: number;
  readonly size: ModelSize;
  readonly program: ModelProgram;
  readonly users: Float32Array;
  readonly items: Float32Array;
  readonly #best = new Map<number, BestItems>();

  constructor({ version, revision }: ContentName, size: ModelSize) {
    this.version = version;
    this.revision = revision;
    this.size = size;
    const random = seededRandom(version, revision > 0 ? `rows ${revision}` : "rows");
    const values = (rows: number): Float32Array =>
      Float32Array.from({ length: rows * size.dim }, () => Math.floor(random() * 5) - 2);
    this.users = values(size.users);
    this.items = values(size.items);
    this.program = this.#program();
  }

  /** Every second version brings a request to be replayed before it answers anybody. */
  get warmUp(): readonly WarmUpRequest[] {
    if ((this.version + this.revision) % 2 === 1) return [];
    const users = tensor("int64", [1], BigInt64Array.of(0n));
    return [{ signature: "serving_default", inputs: new Map([["user", users]]) }];
  }

  /** All items of a user, the best first. */
  best(user: number): BestItems {
    const known = this.#best.get(user);
    if (known !== undefined) return known;
    const { dim, items } = this.size;
    const [query] = widenQueries(this.users.slice(user * dim, (user + 1) * dim), dim);
    const scored = Array.from({ length: items }, (_, row) => ({
      row,
      score: canonicalScore(query!, this.items, row * dim),
    })).toSorted((a, b) => b.score - a.score || a.row - b.row);
    const best = {
      scores: scored.map(({ score }) => score),
      ids: scored.map(({ row }) => itemId(this, row)),
    };
    this.#best.set(user, best);
    return best;
  }

  /** Global rows of a partition. */
  rowsOf(table: number, partition: number): readonly number[] {
    const { users, items, partitions } = this.size;
    if (table === 0) {
      return Array.from({ length: users }, (_, row) => row).filter(
        (row) => partitionOfRow(row, partitions) === partition,
      );
    }
    const { firstRow, endRow } = rowRangeOf(partition, { rows: items, partitions });
    return Array.from({ length: endRow - firstRow }, (_, at) => firstRow + at);
  }

  /** Values of these rows. */
  valuesOf(table: number, rows: readonly number[]): Float32Array {
    const { dim } = this.size;
    const source = table === 0 ? this.users : this.items;
    const values = new Float32Array(rows.length * dim);
    for (const [at, row] of rows.entries()) {
      values.set(source.subarray(row * dim, (row + 1) * dim), at * dim);
    }
    return values;
  }

  #program(): ModelProgram {
    const { users, items, dim, partitions } = this.size;
    const sources = (table: number) => {
      const shares = Array.from({ length: partitions }, (_, partition) =>
        shareOf(this.valuesOf(table, this.rowsOf(table, partition)), partition),
      );
      const checksum = shares.reduce((sum, share) => sum ^ share, 0) >>> 0;
      return [{ tensor: `table${table}`, file: "variables.data", checksum }];
    };
    const shape = { dim, partitions };
    const tables: TableSpec[] = [
      {
        ...shape,
        kind: "keyed",
        name: "users",
        rows: users,
        keys: { kind: "row" },
        sources: sources(0),
      },
      {
        ...shape,
        kind: "candidate",
        name: "items",
        rows: items,
        idDtype: "string",
        sources: sources(1),
      },
    ];
    return {
      fingerprint: fingerprint(`content-${this.version}-${this.revision}-`.padEnd(64, "0")),
      tables,
      vocabularies: [],
      denseModels: [],
      signatures: [signature()],
    };
  }
}

/**
 * What a partition adds to the table's checksum. As in a file, where the place of a byte counts, equal
 * changes of two partitions must not cancel out; the checksums of two pieces alone would let them.
 */
function shareOf(values: Float32Array, partition: number): number {
  const own = crc32c(new Uint8Array(values.buffer), partition + 1);
  const mixed = Math.imul(own ^ (own >>> 15), 2 * partition + 0x2545f491);
  return (mixed ^ (mixed >>> 13)) >>> 0;
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

/** What the files of a version directory hold. */
export interface VersionFiles {
  readonly content: VersionContent;
  readonly flaw: Flaw | undefined;
}

/** An opened version directory, with its flaw. */
export class SimulatedVersion implements ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  readonly warmUp: readonly WarmUpRequest[];
  bytesRead = 0;
  readonly #files: () => VersionFiles;
  readonly #misread: () => boolean;

  /** `files` gives what its files hold now: they may be copied over while they are open. */
  constructor(files: () => VersionFiles, misread: () => boolean) {
    const { content, flaw } = files();
    if (flaw === "unreadable") throw new WinnowError("PERMISSION_DENIED", "Cannot open the file");
    this.directory = String(content.version);
    this.program = content.program;
    this.warmUp = content.warmUp;
    this.#files = files;
    this.#misread = misread;
  }

  partitionBytes(table: number, partition: number): number {
    const { content } = this.#files();
    return content.rowsOf(table, partition).length * content.size.dim * 4;
  }

  openPartition(table: number, partition: number): PartitionReader {
    const files = this.#files();
    const { content } = files;
    const rows = content.rowsOf(table, partition);
    const values = content.valuesOf(table, rows);
    // The last partition of the items is the one that is spoiled.
    const isSpoiled = table === 1 && partition === content.size.partitions - 1;
    const flaw = isSpoiled ? files.flaw : undefined;
    if (flaw === "flipped" || (this.#misread() && values.length > 0)) values[0]! += 1;
    const { dim } = content.size;
    const names = rows.map((row) => itemId(content, row));
    const keyed = {
      globalRows: Uint32Array.from(rows),
      keys: undefined,
      keyRows: new Uint32Array(),
    };
    return {
      rows: rows.length,
      dim,
      firstRow: table === 1 ? (rows[0] ?? 0) : 0,
      ids:
        table === 1
          ? { dtype: "string", shape: [names.length], data: StringColumn.fromText(names) }
          : undefined,
      keyed: table === 0 ? keyed : undefined,
      chunks: () => chunksOf(values, dim * CHUNK_ROWS, flaw),
      checksumShares: () => [shareOf(values, partition)],
    };
  }

  close(): void {}
}

function* chunksOf(
  values: Float32Array,
  length: number,
  flaw: Flaw | undefined,
): Generator<Float32Array, void, undefined> {
  for (let at = 0; at < values.length; at += length) {
    if (flaw === "truncated") throw new WinnowError("DATA_LOSS", "The file ends early");
    if (flaw === "notANumber") throw new WinnowError("INVALID_ARGUMENT", "Row 0 is not a number");
    yield values.slice(at, at + length);
  }
}
